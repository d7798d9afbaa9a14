"""Calls from outside: an operator of the user's own, and NumPy's functions on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Workload, generator

CALLS = 10


def custom(n: int, name: str) -> Problem:
    """The user's operator is tanh, with its gradient, by the peer's way to define operators."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        (x,) = params
        operator = getattr(xp, name)
        for _ in range(CALLS):
            x = operator(x)
        return xp.sum(x)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
        (x,) = params
        saved = []
        for _ in range(CALLS):
            x = np.tanh(x)
            saved.append(x)
        g = np.ones_like(x)
        for t in reversed(saved):
            g = g * (1 - t * t)
        return [np.sum(x), g]

    return Problem(fn, (generator().normal(size=n),), hand=hand)


def numpy_function(n: int) -> Problem:
    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        (x,) = params
        for _ in range(CALLS):
            x = xp.numpy_sin(x)
        return xp.sum(x)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
        (x,) = params
        saved = []
        for _ in range(CALLS):
            saved.append(x)
            x = np.sin(x)
        g = np.ones_like(x)
        for t in reversed(saved):
            g = g * np.cos(t)
        return [np.sum(x), g]

    return Problem(fn, (generator().normal(size=n),), hand=hand)


WORKLOADS = (
    Workload(
        "custom_op_call",
        "10 calls of an operator of the user's own, its rules on tensors where the peer has any",
        custom,
        {"n": 8, "name": "custom_tanh"},
        {"n": 3, "name": "custom_tanh"},
        is_small=True,
    ),
    Workload(
        "formula_op_call",
        "the same, with its rules on arrays where the peer can do that (define_op)",
        custom,
        {"n": 8, "name": "formula_tanh"},
        {"n": 3, "name": "formula_tanh"},
        is_small=True,
    ),
    Workload(
        "numpy_call",
        "10 calls of np.sin (or the peer's own) on 8 elements",
        numpy_function,
        {"n": 8},
        {"n": 3},
        is_small=True,
    ),
)
