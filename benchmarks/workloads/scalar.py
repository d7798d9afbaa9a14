"""Programs on single numbers: indexing, and arithmetic on what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator


def rosenbrock(n: int) -> Problem:
    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        (x,) = params
        total = 0.0
        for i in range(n - 1):
            total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    def hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
        (x,) = params
        total, g = np.zeros(()), np.zeros_like(x)
        for i in range(n - 1):
            step, rest = x[i + 1] - x[i] ** 2, 1.0 - x[i]
            total = total + 100.0 * step**2 + rest**2
            g[i + 1] += 200.0 * step
            g[i] -= 400.0 * step * x[i] + 2.0 * rest
        return [total, g]

    def idiom(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        (x,) = params
        return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def loops(params: Arrays, consts: Arrays) -> Any:  # noqa: ARG001
        (x,) = params
        total, g = 0.0, np.zeros(n)
        for i in range(n - 1):
            step, rest = x[i + 1] - x[i] ** 2, 1.0 - x[i]
            total += 100.0 * step**2 + rest**2
            g[i + 1] += 200.0 * step
            g[i] -= 400.0 * step * x[i] + 2.0 * rest
        return total, g

    return Problem(fn, (generator().normal(size=n),), hand=hand, idiom=idiom, loops=loops)


WORKLOADS = (
    Workload(
        "scalar_loop",
        "Rosenbrock's function of 50 numbers taken by indexing",
        rosenbrock,
        {"n": 50},
        {"n": 4},
        target=Target(0.6, 0.45),
        is_small=True,
    ),
)
