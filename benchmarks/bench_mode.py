"""`numpy_mode`, measured: entering, operations inside, loops of writes, memory, the first gradient.

    python benchmarks/bench_mode.py

Processor time, the best of several repeats, interleaved. Prints a line for each figure beside its
target; with PyTorch installed, the heat equation beside it too.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np

import pullback as pb

try:
    import torch
except ImportError:
    torch = None

WIDTH, STEPS = 64, 400


def best(*functions: Callable[[], Any], number: int = 2000, repeats: int = 7) -> list[float]:
    """The least processor time of a call, in microseconds, of each function; interleaved."""
    least = [float("inf")] * len(functions)
    for _ in range(repeats):
        for place, function in enumerate(functions):
            start = time.process_time()
            for _ in range(number):
                function()
            least[place] = min(least[place], (time.process_time() - start) / number * 1e6)
    return least


def report(name: str, value: float, unit: str, target: str) -> None:
    print(f"{name:58} {value:8.2f} {unit:6} {target}")


def entering() -> None:
    @pb.differentiable
    def nothing() -> None:
        pass

    def block() -> None:
        with pb.numpy_mode():
            pass

    for name, value in zip(
        ("with numpy_mode()", "@differentiable"), best(block, nothing), strict=True
    ):
        report(f"enter and leave: {name}", value, "us", "(at most 5)")


def operations() -> None:
    x = pb.tensor(np.arange(3.0) + 1, requires_grad=True)
    target, value = pb.zeros(3), pb.tensor(2.0)

    def write() -> None:
        target[1] = value

    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any], float]] = {
        "x * x": (lambda: x * x, lambda: x * x, 1.15),
        "np.sin(x)": (lambda: np.sin(x), lambda: np.sin(x), 1.15),
        "np.sum(x)": (lambda: np.sum(x), lambda: np.sum(x), 1.15),
        "x[0]": (lambda: x[0], lambda: x[0], 1.15),
        "y[1] = value": (write, write, 1.4),
        "np.zeros(3), beside pb.zeros(3)": (lambda: pb.zeros(3), lambda: np.zeros(3), 1.4),
    }
    for name, (outside, inside, target_ratio) in pairs.items():
        ratios = []
        for _ in range(5):
            (before,) = best(outside, repeats=3)
            with pb.numpy_mode():
                (within,) = best(inside, repeats=3)
            ratios.append(within / before)
        report(f"inside / outside: {name}", min(ratios), "x", f"(at most {target_ratio})")


def _loop(x: Any, p: Any, n: int) -> Any:
    for i in range(n - 1):
        x[i + 1] = x[i] * p
    return x[n - 1]


def _time(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def loop() -> None:
    p = pb.tensor(0.999, requires_grad=True)

    def outside(n: int) -> Any:
        x = pb.zeros(n)
        x[0] = 1.0
        return _loop(x, p, n)

    def inside(n: int) -> Any:
        with pb.numpy_mode():
            x = np.zeros(n)
            x[0] = 1.0
            return _loop(x, p, n)

    for n in (1000, 20_000, 100_000):
        pairs = [(_time(lambda: outside(n)), _time(lambda: inside(n))) for _ in range(5)]  # noqa: B023
        ratio = min(b for _, b in pairs) / min(a for a, _ in pairs)
        report(f"x[i+1] = x[i] * p, {n} steps: inside / outside", ratio, "x", "(at most 1.3)")


def _heat(u: Any, rate: Any) -> Any:
    for _ in range(STEPS):
        u[1:-1] += rate * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u * u).sum()


def heat() -> None:
    start = np.sin(np.linspace(0.0, 3.0, WIDTH))

    def ours() -> Any:
        return pb.grad(lambda rate: _heat(np.array(start), rate))(0.1)

    def theirs() -> Any:
        rate = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
        u = torch.tensor(start)
        _heat(u, rate).backward()
        return float(rate.grad)

    times = best(ours, number=1, repeats=7)
    report(f"heat equation {WIDTH} x {STEPS} in place", times[0] / 1000, "ms", "")
    if torch is not None:
        assert abs(ours() - theirs()) < 1e-9
        (other,) = best(theirs, number=1, repeats=7)
        report("heat equation beside PyTorch, in place too", times[0] / other, "x", "(at most 1.0)")


def memory() -> None:
    size, steps = 50_000, 40

    def program(x: Any, zeros: Any) -> Any:
        y, kept = zeros(size), []
        y += x
        for k in range(steps):
            y *= 0.99
            y[1:-1] += 0.1
            kept.append(np.sin(y * (1.0 + k)).sum())
        return sum(kept)

    def peak(run: Callable[[], Any]) -> int:
        run()
        tracemalloc.start()
        run()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    x = pb.tensor(0.5, requires_grad=True)

    def inside() -> Any:
        with pb.numpy_mode():
            return program(x, np.zeros)

    ratio = peak(inside) / peak(lambda: program(x, pb.zeros))
    report("memory peak of a program that overwrites", ratio, "x", "(at most 1.2)")


def first_gradient() -> None:
    program = """
import time, numpy as np, pullback as pb
start = time.perf_counter()
pb.grad(lambda x: (np.sin(x) * x).sum(), mode={mode})(np.ones(3))
print(time.perf_counter() - start)
"""
    for mode in (False, True):
        times = [
            float(
                subprocess.run(
                    [sys.executable, "-c", program.format(mode=mode)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(5)
        ]
        report(f"first pb.grad in a fresh process, mode={mode}", min(times) * 1e3, "ms", "")


if __name__ == "__main__":
    for part in (entering, operations, loop, heat, memory, first_gradient):
        part()
