"""Signatures of calls: what a graph depends on of the arguments that it is traced with.

The arguments of a call are taken apart into leaves. Each leaf has a *kind*, a tuple that begins
with ``"tensor"``, ``"array"`` (both with shape, dtype and strides), ``"number"`` (with its type) or
``"static"`` (a constant of the graph, compared by value). Calls with equal kinds share programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.views import requires_grad
from pullback.compiled.watch import is_same_constant
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.fx.user_code import parameter_names
from pullback.tensor.tensor import TENSOR_TYPES, Tensor, wrap
from pullback.utils import pytree

__all__ = [
    "Arguments",
    "Static",
    "constants_of",
    "flatten_call",
    "inputs_of",
    "is_hashable",
    "leaf_names",
    "lift_array",
]

_FLAT = frozenset([np.ndarray, Tensor, float])  # types of arguments that are leaves


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


def leaf_names(func: Callable[..., Any], spec: pytree.Spec) -> list[str]:
    """A name for each leaf of ``(args, kwargs)``, from the names of the parameters."""
    positional, by_name = spec.children
    names = parameter_names(func, len(positional.children))
    names += [step.strip("[]'\"") for step in by_name.steps()]
    children = (*positional.children, *by_name.children)
    return [name for name, child in zip(names, children, strict=True) for _ in range(child.size)]


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


def _kind_of(leaf: Any) -> tuple[Any, ...] | None:
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


def flatten_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], static: frozenset[int]
) -> Arguments | None:
    """The arguments of a call, taken apart; None where one has no signature.

    `static` has the positions of arguments that are constants.
    """
    if not kwargs and not static and _FLAT.issuperset(map(type, args)):
        leaves, spec = list(args), _flat_spec(len(args))  # without a walk through containers
    else:
        count = len(args)
        given = [Static(a) if n in static or n - count in static else a for n, a in enumerate(args)]
        leaves, spec = pytree.flatten((tuple(given), kwargs))
    kinds = tuple([_kind_of(leaf) for leaf in leaves])
    if None in kinds:
        return None
    tags = [kind[0] for kind in kinds if kind]
    is_plain = "tensor" not in tags and ("array" in tags or "number" in tags)
    return Arguments(leaves, spec, kinds, is_plain)


@functools.lru_cache
def _flat_spec(count: int) -> pytree.Spec:
    return pytree.flatten(((None,) * count, {}), none_is_leaf=True)[1]


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
