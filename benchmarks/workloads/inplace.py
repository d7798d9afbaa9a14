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

    return Problem(fn, (generator().normal(size=(rows, columns)),), hand=hand)


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
