"""Graphs of many operations: time, and memory for each operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator


def deep(operations: int) -> Problem:
    """Half of the operations save their result, half a constant."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        (x,) = params
        (a,) = consts
        for _ in range(operations // 2):
            x = xp.tanh(x) * a
        return xp.sum(x)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:
        (x,) = params
        (a,) = consts
        saved = []
        for _ in range(operations // 2):
            x = np.tanh(x)
            saved.append(x)
            x = x * a
        g = np.ones_like(x)
        while saved:
            t = saved.pop()
            g = g * a * (1 - t * t)
        return [np.sum(x), g]

    x = generator().normal(size=8)
    return Problem(fn, (x,), (np.full(8, 1.0001),), hand, operations=operations)


UNROLLED = "the chain would be unrolled: compilation does not end"
SLOW = dict.fromkeys(("autograd", "mygrad"), "a minute for each run; see the shorter chain")
WORKLOADS = tuple(
    Workload(
        f"deep_graph_1e{exponent}",
        f"a chain of {10**exponent:,} operations on 8 elements",
        deep,
        {"operations": 10**exponent},
        {"operations": 10},
        target=Target(0.5, 0.3) if exponent == 6 else None,
        quick=exponent < 6,
        absent={"torch.compile": UNROLLED, "jax.jit": UNROLLED} | (SLOW if exponent > 5 else {}),
    )
    for exponent in (5, 6)
)
