"""Tensors inside the arguments of a NumPy call: search, conversion, and errors.

NumPy's functions take nested lists and dictionaries, so everything here looks inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.forward.tangents import carries_gradient
from pullback.errors import AutogradError, DerivativeMissingError
from pullback.operators.creation import functions as creation
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import (
    TRACES,
    Tensor,
    constant_tensor,
    fresh,
    holds_number,
    note_read,
)

__all__ = [
    "HOLDERS",
    "NUMERIC",
    "Holder",
    "as_tensor",
    "carries_gradient",
    "common_dtype",
    "entry",
    "given",
    "hold",
    "holds_gradient",
    "kind_of",
    "lost_in_array",
    "outline",
    "plain",
    "raw",
    "refusal",
    "tensors_in",
    "words",
    "wrapped",
]

NUMERIC = "biufc"  # the kinds of dtype that a tensor has


class Holder(NamedTuple):
    """Access to the tensors in objects of a class, such as sparse arrays and splines."""

    tensors: Callable[[Any], Iterable[Tensor]]  # the tensors that an object holds
    plain: Callable[[Any], Any]  # the object with arrays in the place of tensors


HOLDERS: dict[type, Holder] = {}  # by class


def hold(
    kind: type, tensors: Callable[[Any], Iterable[Tensor]], plain: Callable[[Any], Any]
) -> None:
    """Declares that objects of a class hold tensors, see `Holder`."""
    HOLDERS[kind] = Holder(tensors, plain)


def words(text: str) -> list[str]:
    """Splits a text into a list of names."""
    return text.split()


def raw(tensor: Tensor) -> NDArray[Any]:
    """A view of a tensor's memory; the tensor's own array object never leaves it."""
    held = tensor._array
    if isinstance(held, Payload):
        return np.asarray(held).copy()  # compiled code of SciPy refuses read-only arrays
    if TRACES:
        note_read(tensor, "a function of NumPy", shares=True)
    return np.asarray(held).view()


def outline(value: Any) -> Any:
    """An argument with arrays of the same shapes and dtypes, and other values, for its tensors."""
    if isinstance(value, Tensor):
        return np.broadcast_to(np.zeros((), value.dtype), value.shape)
    if type(value) in (list, tuple):
        return type(value)(outline(item) for item in value)
    return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in an argument, however deep."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif type(value) in HOLDERS:
        yield from HOLDERS[type(value)].tensors(value)


def holds_gradient(value: Any) -> bool:
    """Whether any tensor in an argument carries a derivative."""
    return any(map(carries_gradient, tensors_in(value)))


def plain(value: Any) -> Any:
    """An argument with arrays in the place of tensors."""
    if isinstance(value, Tensor):
        return raw(value)
    if type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if type(value) in HOLDERS:
        return HOLDERS[type(value)].plain(value)
    return value


def wrapped(value: Any) -> Any:
    """A result with tensors in the place of arrays of numbers; named tuples keep their type."""
    if isinstance(value, np.ndarray | np.generic):
        return fresh(np.asarray(value)) if value.dtype.kind in NUMERIC else value
    if type(value) in (list, tuple):
        return type(value)(wrapped(item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(wrapped, value))
    return value


def as_tensor(value: Any) -> Tensor:
    """An argument as a tensor around an array; tensors in a list are stacked."""
    if isinstance(value, Tensor):
        return value
    return constant_tensor(value) if type(value) is np.ndarray else creation.asarray(value)


def common_dtype(values: Iterable[Any]) -> np.dtype[Any]:
    """The dtype to which NumPy promotes values; Python's numbers have none of their own."""
    kinds = map(kind_of, values)
    return np.result_type(*(kind(0) if isinstance(kind, type) else kind for kind in kinds))


def kind_of(value: Any) -> Any:
    """The dtype of a value, or the type of a Python number, also of one that is traced."""
    if isinstance(value, Tensor):
        held: Any = value._array
        value = held if holds_number(value) else getattr(held, "number", None)
        if value is None:
            return held.dtype
    kind = value.__class__
    return kind if kind in (int, float, complex) else as_tensor(value).dtype


def entry(value: Any, dtype: np.dtype[Any]) -> Tensor:
    """A value for elements of a dtype; as in NumPy, an integer that does not fit raises."""
    if isinstance(value, list | tuple):
        return creation.asarray(value, dtype=dtype if dtype.kind in "iu" else None)
    if dtype.kind in "iu" and kind_of(value) is int:
        held = value._array if isinstance(value, Tensor) else value
        return constant_tensor(np.asarray(held, dtype))
    return as_tensor(value)


def given(value: Any) -> bool:
    """Whether an argument was given, where NumPy marks its absence by an object of its own."""
    return value is not None and value is not np._NoValue


def refusal(name: str, why: str, way_out: str) -> DerivativeMissingError:
    """The error of a call that would lose a gradient."""
    return DerivativeMissingError(
        f"{name}: {why}, and an argument carries a gradient, which would be lost. {way_out}"
    )


def lost_in_array(name: str) -> AutogradError:
    """The error of a write into an ndarray that would lose a gradient."""
    return AutogradError(
        f"{name} would write a tensor that requires grad into a plain ndarray, which cannot keep "
        f"gradients. Make the array a tensor first:\n"
        f"    array = pb.asarray(array)      # or np.zeros_like(x), np.zeros(n, like=x)\n"
        f"    ... the same write, which now records history\n"
        f"or run the function unchanged under @pb.differentiable or with pb.numpy_mode()."
    )
