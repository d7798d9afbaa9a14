"""Prints whether five calls of SciPy give gradients, by how their names were got and where.

Run by `test_interception.py` in a process of its own: names must be imported before Pullback.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.sparse.linalg
import scipy.stats
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import cho_factor
from scipy.sparse.linalg import splu
from scipy.stats import norm

BEFORE = types.SimpleNamespace(
    cho_factor=cho_factor, CubicSpline=CubicSpline, norm=norm, splu=splu, solve_ivp=solve_ivp
)
STORED = dict(vars(BEFORE))

import pullback as pb  # noqa: E402 - after the imports from SciPy

SOURCE = """
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import cho_factor
from scipy.sparse.linalg import splu
from scipy.stats import norm
"""
MATRIX = np.array([[2.0, 0.3], [0.3, 1.0]])
POINTS = np.array([0.0, 1.0, 2.0, 3.0])


def installed_package() -> Any:
    """A package under ``site-packages`` that imports the names."""
    folder = Path(tempfile.mkdtemp()) / "site-packages"
    folder.mkdir()
    (folder / "users_package.py").write_text(SOURCE, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return importlib.import_module("users_package")


def after() -> Any:
    """Names that are imported after Pullback."""
    found: dict[str, Any] = {}
    exec(SOURCE, found)
    return types.SimpleNamespace(**found)


NAMES: dict[str, Any] = {
    "module attribute": types.SimpleNamespace(
        cho_factor=scipy.linalg.cho_factor,
        CubicSpline=scipy.interpolate.CubicSpline,
        norm=scipy.stats.norm,
        splu=scipy.sparse.linalg.splu,
        solve_ivp=scipy.integrate.solve_ivp,
    ),
    "imported before": BEFORE,
    "imported after": after(),
    "stored in a dict": types.SimpleNamespace(**STORED),
    "installed package": installed_package(),
}
THINGS: dict[str, Callable[[Any, Any], Any]] = {
    "cho_factor": lambda names, x: names.cho_factor(MATRIX * x)[0][0, 0],
    "CubicSpline(x, y)(t)": lambda names, x: names.CubicSpline(POINTS, POINTS**2 * x)(1.5),
    "norm(mu, s).logpdf": lambda names, x: names.norm(x, 2.0).logpdf(0.3),
    "splu(A).solve": lambda names, x: names.splu(scipy.sparse.csc_array(MATRIX)).solve(
        np.ones(2) * x
    )[0],
    "solve_ivp": lambda names, x: names.solve_ivp(
        lambda t, y: -x * y, (0, 1), [1.0], rtol=1e-8, atol=1e-8
    ).y[0, -1],
}


def is_right(thing: Callable[[Any, Any], Any], names: Any) -> bool:
    """Whether the derivative by x is that of central differences."""
    x = pb.tensor(1.3, requires_grad=True)
    (slope,) = pb.autograd.grad(thing(names, x), x)
    step = 1e-5
    expected = (thing(names, 1.3 + step) - thing(names, 1.3 - step)) / (2 * step)
    return bool(np.isclose(slope.item(), expected, 1e-4, 1e-6))


def run(place: str, thing: Callable[[Any, Any], Any], names: Any) -> bool:
    """Runs a call in the mode, outside, or in a second thread."""
    found: list[bool] = []

    def work() -> None:
        with pb.numpy_mode() if place == "mode" else nullcontext():
            found.append(is_right(thing, names))

    if place == "thread":
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    return found == [True]


if __name__ == "__main__":
    for title, thing in THINGS.items():
        for how, names in NAMES.items():
            for place in ("outside", "mode", "thread"):
                print(f"{title} | {how} | {place} | {run(place, thing, names)}")
