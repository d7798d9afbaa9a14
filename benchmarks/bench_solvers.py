"""Cost of derivatives through SciPy's solvers, in processor time.

    python benchmarks/bench_solvers.py

The gradient of an initial value problem is compared with central differences of SciPy's own
solution, run in turn; the fastest sample of each counts. The gradient of a root is counted in
evaluations of the residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from bench_scipy import Row, fastest
from scipy import integrate, optimize

import pullback as pb

SECONDS = 3.0  # for each row


def central(loss: Callable[[Any], Any], x: Any, step: float = 1e-5) -> Any:
    units = np.eye(x.size)
    return np.array([(loss(x + step * e) - loss(x - step * e)) / (2 * step) for e in units])


def predators(t: Any, state: Any, a: Any, b: Any, c: Any, d: Any) -> Any:  # noqa: ARG001 - SciPy's
    x, y = state
    return [a * x - b * x * y, -c * y + d * x * y]


def predator_row() -> Row:
    """Lotka and Volterra's equations, four parameters, RK45."""
    times, rates = np.linspace(0.0, 10.0, 50), np.array([1.5, 1.0, 3.0, 1.0])

    def states(p: Any) -> Any:
        return integrate.solve_ivp(
            predators, (0.0, 10.0), [10.0, 5.0], t_eval=times, args=tuple(p), rtol=1e-6, atol=1e-9
        ).y

    data = states(rates * 1.02)

    def loss(p: Any) -> Any:
        return ((states(p) - data) ** 2).sum()

    gradient = pb.grad(loss)
    return Row(
        "solve_ivp, 4 parameters", lambda: gradient(rates), lambda: central(loss, rates), 0.65
    )


def chain_row(n: int) -> Row:
    """Coupled decays with one rate for each component."""
    rates = np.linspace(0.5, 1.5, n)

    def change(t: Any, y: Any, p: Any) -> Any:  # noqa: ARG001 - SciPy's signature
        return 0.1 * np.roll(y, 1) - p * y

    def loss(p: Any) -> Any:
        found = integrate.solve_ivp(change, (0.0, 5.0), np.ones(n), args=(p,), rtol=1e-6, atol=1e-9)
        return (found.y[:, -1] ** 2).sum()

    gradient = pb.grad(loss)
    name = f"solve_ivp, {n} parameters"
    return Row(name, lambda: gradient(rates), lambda: central(loss, rates), 0.2)


def evaluations_of_root() -> int:
    """The evaluations of the residual that a gradient takes beside SciPy's own."""
    count = 0

    def residual(y: Any, a: Any) -> Any:
        nonlocal count
        count += isinstance(y, pb.Tensor)
        return y**3 + y - a

    pb.grad(lambda a: optimize.root(residual, np.ones(3), args=(a,)).x.sum())(np.arange(3.0))
    return count


def main() -> None:
    print(f"{'row':<28}{'gradient':>12}{'differences':>14}{'ratio':>8}{'target':>8}")
    for row in (predator_row(), chain_row(30)):
        ours, theirs = fastest(row, SECONDS)
        times = f"{ours * 1e3:>9.2f} ms{theirs * 1e3:>11.2f} ms"
        print(f"{row.name:<28}{times}{ours / theirs:>8.2f}{row.target:>8.2f}")
    print(f"root: {evaluations_of_root()} evaluations of the residual, at most 3")


if __name__ == "__main__":
    main()
