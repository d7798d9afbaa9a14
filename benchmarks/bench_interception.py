"""Cost of the hooks in SciPy's functions for calls without tensors.

python benchmarks/bench_interception.py

Each call is timed with its hook and without, interleaved, in processor time; the least of several
runs counts. Prints a table in Markdown, as in `docs/interception.md`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats

import pullback  # noqa: F401 - puts in the hooks
from pullback.scipy import hooks

RUNS = 7
WARM_UP = 100  # calls, for CPython's adaptive instructions
SPD = np.array([[2.0, 0.3], [0.3, 1.0]])
V = np.array([0.3, 0.9, 1.4, 2.2, 3.1])
SPARSE = scipy.sparse.csc_array(SPD)
SPLINE = scipy.interpolate.CubicSpline(V, V)
FROZEN = scipy.stats.norm(0.5, 2.0)

CALLS: dict[str, tuple[int, Callable[[], Any]]] = {
    "toeplitz(c)": (4000, lambda: scipy.linalg.toeplitz(V)),
    "cho_factor(a)": (4000, lambda: scipy.linalg.cho_factor(SPD)),
    "block_diag([[1.0, 2.0]], a)": (4000, lambda: scipy.linalg.block_diag([[1.0, 2.0]], SPD)),
    "fft(x)": (4000, lambda: scipy.fft.fft(V)),
    "CubicSpline(x, y)": (400, lambda: scipy.interpolate.CubicSpline(V, V)),
    "spline(t)": (4000, lambda: SPLINE(V)),
    "norm.logpdf(x)": (1500, lambda: scipy.stats.norm.logpdf(V)),
    "norm(mu, s).logpdf(x)": (1500, lambda: FROZEN.logpdf(V)),
    "A @ x": (4000, lambda: SPARSE @ V[:2]),
    "splu(A)": (2000, lambda: scipy.sparse.linalg.splu(SPARSE)),
    "solve_ivp(f, t, y0)": (150, lambda: scipy.integrate.solve_ivp(lambda t, y: -y * t, (0, 1), V)),
}


def seconds(call: Callable[[], Any], count: int) -> float:
    """Processor time of one call."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def hooked(on: bool) -> None:
    """Puts the hooks in, or takes them out."""
    if on:
        for module in MODULES:
            hooks.hook_module(module)
    else:
        hooks.unhook_all()


MODULES = list(hooks.MODULES)


def main() -> int:
    """Prints the table."""
    print("| call without tensors | without hooks, µs | with hooks, µs | difference, ns |")
    print("|---|---|---|---|")
    for name, (count, call) in CALLS.items():
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(RUNS):
            for on in (True, False):
                hooked(on)
                seconds(call, WARM_UP)
                times[on].append(seconds(call, count))
        hooked(True)
        off, on_ = min(times[False]) * 1e6, min(times[True]) * 1e6
        print(f"| `{name}` | {off:.2f} | {on_:.2f} | {1e3 * (on_ - off):.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
