"""Writes to views: every row of a matrix is computed from the row before it, in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator


def recurrence(rows: int, columns: int) -> Problem:
    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        (start,) = params
        x = xp.copy(start)
        for i in range(1, rows):
            x = xp.set_row(x, i, xp.tanh(x[i - 1]))
        return xp.sum(x * x)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
        (start,) = params
        x = start.copy()
        for i in range(1, rows):
            np.tanh(x[i - 1], out=x[i])
        g = 2.0 * x
        for i in range(rows - 1, 0, -1):
            g[i - 1] += g[i] * (1 - x[i] * x[i])
            g[i] = 0.0
        return [np.sum(x * x), g]

    def idiom(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        first = params[0][0]
        following = xp.iterates(xp.tanh, first, rows - 1)
        return xp.sum(first * first) + xp.sum(following * following)

    def loops(params: Arrays, consts: Arrays) -> Any:  # noqa: ARG001
        (start,) = params
        x, g = np.empty((rows, columns)), np.zeros((rows, columns))
        total = 0.0
        for j in range(columns):
            x[0, j] = start[0, j]
            for i in range(1, rows):
                x[i, j] = np.tanh(x[i - 1, j])
            slope = 0.0
            for i in range(rows - 1, -1, -1):
                total += x[i, j] * x[i, j]
                slope += 2.0 * x[i, j]
                if i > 0:
                    slope *= 1 - x[i, j] * x[i, j]
            g[0, j] = slope
        return total, g

    start = (generator().normal(size=(rows, columns)),)
    return Problem(fn, start, hand=hand, idiom=idiom, loops=loops)


WORKLOADS = tuple(
    Workload(
        f"inplace_views_{columns}",
        f"x[i] = tanh(x[i-1]), 100 rows of {columns}",
        recurrence,
        {"rows": 100, "columns": columns},
        {"rows": 4, "columns": 3},
        target=Target(0.6, 0.4),
        absent={"autograd": "arrays cannot be written to"},
    )
    for columns in (16, 1024)
)
