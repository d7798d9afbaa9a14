"""The same operations at growing sizes: where overhead ends and arithmetic begins.

Not part of the table of workloads; ``benchmarks/run.py --scaling`` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Workload, generator
from benchmarks.workloads.elementwise import chain

__all__ = ["FAMILIES", "SCALED", "scaled_name"]


def chain_of(n: int) -> Problem:
    return chain(n, repeats=2)


def matmul(n: int) -> Problem:
    """The sum of squares of a product of two square matrices with `n` elements each."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        product = params[0] @ consts[0]
        return xp.sum(product * product)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:
        product = params[0] @ consts[0]
        return [np.sum(product * product), 2.0 * product @ consts[0].T]

    rng, side = generator(), max(1, isqrt(n))
    return Problem(fn, (rng.normal(size=(side, side)),), (rng.normal(size=(side, side)),), hand)


def reduction(n: int) -> Problem:
    """The sum of squared deviations from the mean."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001 - every workload has them
        (x,) = params
        deviations = x - xp.mean(x)
        return xp.sum(deviations * deviations)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
        (x,) = params
        deviations = x - np.mean(x)
        return [np.sum(deviations * deviations), 2.0 * (deviations - np.mean(deviations))]

    return Problem(fn, (generator().normal(size=n),), hand=hand)


_SIZES = tuple(10**k for k in range(1, 8))
FAMILIES: dict[str, tuple[Callable[[int], Problem], tuple[int, ...]]] = {
    "chain": (chain_of, _SIZES),
    "matmul": (matmul, _SIZES),
    "reduction": (reduction, _SIZES),
}


def scaled_name(family: str, n: int) -> str:
    return f"{family}_n{n}"


SCALED: dict[str, Workload] = {
    scaled_name(family, n): Workload(
        scaled_name(family, n), f"{family}, {n:,} elements", build, {"n": n}, {"n": 5}
    )
    for family, (build, sizes) in FAMILIES.items()
    for n in sizes
}
