"""What a workload is: mathematics written once, for every peer.

A workload's function gets a namespace ``xp`` of array functions (`benchmarks/peers/namespaces.py`),
the values to differentiate by, and constants. It is all that a peer runs; how gradients are asked
for is the peer's affair (`benchmarks/peers/base.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = tuple[Array, ...]

Task = Literal[
    "grad",
    "train",
    "rows",
    "row_loop",
    "jvp",
    "jacobian",
    "hessian",
    "hvp",
    "functional_hvp",
    "jvp_grad",
    "double_backward",
]
"""What is asked of a peer.

- ``grad``: the value of the function, and its gradient by every parameter.
- ``train``: the same, and a step of gradient descent; the value and the new parameters.
- ``rows``: the function has several outputs, each with an independent row for each observation.
  All of them, and for each the gradient of its sum by every parameter.
- ``row_loop``: the same, observation by observation.
- ``jvp``: the value, and its tangent along the last constant.
- ``jacobian``, ``hessian``: the whole matrix, by the only parameter.
- ``hvp``: the Hessian times the last constant, in the quickest way that the peer offers.
- ``functional_hvp``: the value and the same product, by the function that is called ``hvp``.
- ``jvp_grad``: the same product, by ``jvp`` of ``grad``.
- ``double_backward``: the same product, by a backward pass through a backward pass.
"""

LEARNING_RATE = 0.01  # of the task `train`


@dataclass(frozen=True)
class Problem:
    """A workload at one size, with its data."""

    fn: Callable[[Any, Any, Any], Any]  # (xp, params, consts)
    params: Arrays
    consts: Arrays = ()
    hand: Callable[[Arrays, Arrays], list[Array]] | None = None  # derived by hand, in NumPy
    idiom: Callable[[Any, Any, Any], Any] | None = None  # `fn` as users of JAX would write it
    loops: Callable[[Arrays, Arrays], Any] | None = None  # by hand, as loops that numba compiles
    operations: int | None = None  # of the forward pass, where a cost per operation is of interest


@dataclass(frozen=True)
class Target:
    """The time or size that Pullback may need, relative to a peer: `must`, and what it aims at."""

    must: float
    aim: float


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    build: Callable[..., Problem]
    size: Mapping[str, Any]
    small: Mapping[str, Any]  # for tests: finished in milliseconds
    task: Task = "grad"
    target: Target | None = None  # relative to torch
    is_small: bool = False  # overhead counts: the target relative to HIPS autograd holds too
    quick: bool = True  # part of --quick
    saved: Target | None = None  # bytes saved for backward are compared too
    absent: Mapping[str, str] = field(default_factory=dict)  # peer -> why it does not take part
    allowance: float = 1.10  # the time relative to another revision that still passes

    def problem(self, *, small: bool = False) -> Problem:
        return self.build(**(self.small if small else self.size))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
