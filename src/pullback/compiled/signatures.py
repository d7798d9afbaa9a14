"""Signatures of calls: what a graph depends on of the arguments that it is traced with.

The arguments of a call are taken apart into leaves. Each leaf has a *kind*, a tuple that begins
with ``"tensor"``, ``"array"`` (both with shape, dtype and strides), ``"number"`` (with its type) or
``"static"`` (a constant of the graph, compared by value). Calls with equal kinds share programs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.views import requires_grad
from pullback.compiled.watch import is_same_constant
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.tensor.tensor import CPU_FLAGS, TENSOR_TYPES, Tensor, wrap
from pullback.utils import pytree

__all__ = [
    "Arguments",
    "Static",
    "constants_of",
    "flat_arguments",
    "inputs_of",
    "is_hashable",
    "kind_of",
    "lift_array",
    "parameter_names",
]

_FLOAT = ("number", float)
_PLAIN_FLAGS = (CPU_FLAGS, CPU_FLAGS | REQUIRES_GRAD)


class Arguments(NamedTuple):
    """The arguments of one call, taken apart."""

    leaves: list[Any]
    spec: pytree.Spec
    kinds: tuple[Any, ...]  # the signature of each leaf
    returns_arrays: bool  # whether results are arrays and numbers, and not tensors


def is_hashable(value: Any) -> bool:
    """Whether a value can be a constant of a graph, which is part of a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def parameter_names(func: Callable[..., Any], spec: pytree.Spec) -> list[str]:
    """A name for each leaf of ``(args, kwargs)``, from the names of the parameters."""
    try:
        names = [p.name for p in inspect.signature(func).parameters.values()]
    except (TypeError, ValueError):
        names = []
    positional, by_name = spec.children
    found: list[str] = []
    for place, child in enumerate(positional.children):
        found += [names[place] if place < len(names) else f"arg{place}"] * child.size
    for step, child in zip(by_name.steps(), by_name.children, strict=True):
        found += [step.strip("[]'\"")] * child.size
    return found


def flat_arguments(args: tuple[Any, ...]) -> Arguments | None:
    """Arguments that are arrays and plain tensors alone, without a walk through containers."""
    kinds: list[Any] = []
    tensors = 0
    for value in args:
        if type(value) is np.ndarray:
            array = value
            kind: Any = ("array", value.shape, value.dtype.char, value.strides)
        elif type(value) is Tensor and value._flags in _PLAIN_FLAGS:
            array = value._array
            if type(array) is not np.ndarray:
                return None
            needs_grad = value._flags != CPU_FLAGS
            kind = ("tensor", array.shape, array.dtype.char, array.strides, needs_grad)
            tensors += 1
        elif type(value) is float:
            kinds.append(_FLOAT)
            continue
        else:
            return None
        if (
            type(array) is not np.ndarray
            or not array.dtype.isnative
            or array.dtype.kind not in "biufc"
        ):
            return None
        kinds.append(kind)
    return Arguments(list(args), _flat_spec(len(args)), tuple(kinds), not tensors and bool(args))


@functools.lru_cache
def _flat_spec(count: int) -> pytree.Spec:
    return pytree.flatten(((None,) * count, {}), none_is_leaf=True)[1]


class Static:
    """An argument that is a constant of the graph; equal by value."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static):
            return NotImplemented
        return is_same_constant(self.value, other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    @staticmethod
    def unwrap(value: Any) -> Any:
        """The argument itself."""
        return value.value if isinstance(value, Static) else value


def lift_array(leaf: Any) -> Any:
    """An array as a tensor, so that what is done with it is recorded."""
    return wrap(leaf) if type(leaf) is np.ndarray else leaf


def kind_of(leaf: Any) -> tuple[Any, ...] | None:
    """The signature of a leaf; None if it has a graph, a tangent or no array."""
    if type(leaf) in TENSOR_TYPES:
        array = leaf._array
        if type(array) is not np.ndarray or leaf._flags & DUAL or not array.dtype.isnative:
            return None
        needs_grad = leaf._flags & (REQUIRES_GRAD | PLAIN_VIEW) and requires_grad(leaf)
        cls = () if type(leaf) is Tensor else (type(leaf),)
        return ("tensor", array.shape, array.dtype.char, array.strides, *cls, bool(needs_grad))
    if type(leaf) is np.ndarray or isinstance(leaf, np.generic):
        if leaf.dtype.kind not in "biufc" or not leaf.dtype.isnative:
            return None
        return ("array", leaf.shape, leaf.dtype.char, leaf.strides)
    if type(leaf) in (int, float, complex):
        return ("number", type(leaf))
    if isinstance(leaf, Tensor | np.ndarray):
        return None
    if type(leaf) is slice:  # which has no hash before Python 3.12
        return ("static", slice, (leaf.start, leaf.stop, leaf.step))
    return ("static", type(leaf), leaf)


def constants_of(given: Arguments) -> list[Any]:
    """The arguments that are constants of a graph."""
    pairs = zip(given.leaves, given.kinds, strict=True)
    return [Static.unwrap(leaf) for leaf, kind in pairs if kind[0] == "static"]


def inputs_of(given: Arguments) -> list[Any]:
    """The inputs of a program: tensors without history, and numbers."""
    made: list[Any] = []
    for leaf, kind in zip(given.leaves, given.kinds, strict=True):
        if kind[0] == "tensor":
            made.append(wrap(leaf._array))
        else:
            made.append(wrap(np.asarray(leaf)) if kind[0] == "array" else leaf)
    return made
