"""One call to be checked: an operator and its arguments, copied afresh for every use.

Copies keep what a check could depend on: which tensors share memory, strides, which of them
require grad. So a check may write to what it gets, and the caller's tensors stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.views import requires_grad
from pullback.dispatch import OpOverload
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import OpCheckError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "Case",
    "CheckFailedError",
    "Place",
    "Skipped",
    "copy_tensor",
    "named_tensors",
    "with_tensors",
]

_Change = Callable[[str, Tensor], Tensor]


class CheckFailedError(OpCheckError):
    """A check found a fault: `why`, and how to `fix` it."""

    def __init__(self, why: str, fix: str):
        super().__init__(f"{why} Fix: {fix}" if fix else why)
        self.why = why
        self.fix = fix


class Skipped(Exception):  # noqa: N818 - no error: a check that does not apply
    """A check does not apply to a call, and why."""


@dataclass(frozen=True)
class Place:
    """A tensor among the arguments, and what it is called: ``x``, or ``xs[1]`` in a list."""

    name: str
    tensor: Tensor


class Case:
    """A call of an operator, as often as it is needed."""

    def __init__(
        self,
        operator: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        rtol: float | None = None,
        atol: float | None = None,
    ):
        self.operator = operator
        self.schema = operator.schema
        self.positional = [a.name for a in self.schema.arguments.flat_positional]
        self.written = {a.name for a in self.schema.arguments.flat_all if a.is_write}
        self.args, self.kwargs = operator.bind(args, kwargs)
        self.rtol, self.atol = rtol, atol
        self.first_outcome: Any = None  # of the operator's first call, kept by test_repeated_calls

    @property
    def name(self) -> str:
        """The operator's qualified name."""
        return self.operator.name()

    def places(self) -> list[Place]:
        """The tensors among the arguments as they were given, in order."""
        return list(named_tensors(self, self.args, self.kwargs))

    def fresh(self) -> tuple[list[Any], dict[str, Any]]:
        """Copies of the arguments."""
        copies: dict[int, Any] = {}
        return with_tensors(self, self.args, self.kwargs, lambda _, t: copy_tensor(t, copies))

    def changed(self, change: _Change) -> Case:
        """The same call with other tensors: `change` gets the name and a tensor of each place."""
        args, kwargs = with_tensors(self, self.args, self.kwargs, change)
        other = object.__new__(Case)
        other.operator, other.schema = self.operator, self.schema
        other.positional, other.written = self.positional, self.written
        other.args, other.kwargs = args, kwargs
        other.rtol, other.atol = self.rtol, self.atol
        other.first_outcome = None
        return other

    def detached(self) -> Case:
        """The same call with tensors that do not require grad."""
        return self.changed(lambda _, tensor: wrap(tensor._array))

    def needs_grad(self) -> list[str]:
        """The names of the tensors that require grad."""
        return [place.name for place in self.places() if requires_grad(place.tensor)]

    def has_payloads(self) -> bool:
        """Whether some argument has no data of its own to compare."""
        return any(isinstance(place.tensor._array, Payload) for place in self.places())


def named_tensors(case: Case, args: list[Any], kwargs: dict[str, Any]) -> Iterator[Place]:
    """The tensors among bound arguments, with their names."""
    for name, value in [*zip(case.positional, args, strict=True), *kwargs.items()]:
        if isinstance(value, Tensor):
            yield Place(name, value)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                if isinstance(item, Tensor):
                    yield Place(f"{name}[{index}]", item)


def with_tensors(
    case: Case, args: list[Any], kwargs: dict[str, Any], change: _Change
) -> tuple[list[Any], dict[str, Any]]:
    """Bound arguments with every tensor replaced."""

    def replaced(name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            return change(name, value)
        if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
            return [
                change(f"{name}[{index}]", item) if isinstance(item, Tensor) else item
                for index, item in enumerate(value)
            ]
        return value

    made = [replaced(name, value) for name, value in zip(case.positional, args, strict=True)]
    return made, {name: replaced(name, value) for name, value in kwargs.items()}


def copy_tensor(tensor: Tensor, copies: dict[int, Any]) -> Tensor:
    """A copy with the same strides, in a copy of the same memory; `copies` holds those made."""
    made = copies.get(id(tensor))
    if made is None:
        array = tensor._array
        made = wrap(array.copy() if isinstance(array, Payload) else _copied_array(array, copies))
        made._flags |= REQUIRES_GRAD if requires_grad(tensor) else 0
        copies[id(tensor)] = made
    return made


def _copied_array(array: NDArray[Any], copies: dict[int, Any]) -> NDArray[Any]:
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner.base is not None or not owner.flags.forc or owner.dtype.hasobject:
        return array.copy(order="K")
    memory = copies.get(id(owner))
    if memory is None:
        memory = copies[id(owner)] = owner.copy(order="K")
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    if array is owner or not array.size:
        return memory if array is owner else array.copy()
    flat = memory.reshape(-1, order="A").view(np.uint8)
    return np.ndarray(array.shape, array.dtype, flat.data, offset, array.strides)
