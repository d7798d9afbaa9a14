"""``pullback.compat.torch.Tensor``: tensors whose methods and promotion are PyTorch's.

The class is the registered subclass of `pullback.tensor.subclass`: any tensor becomes an instance
in place, results of operators on instances are instances, and gradients that autograd passes to
user code in a pass over instances are instances. Methods are attached by ``methods.py``.

Type promotion differs from NumPy's in three points, which `_link` corrects around the kernels of
element-wise operators: integers beside floating-point numbers do not widen them, a tensor without
axes does not widen one that has axes, and integers become the default dtype where a kernel returns
floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback.compat.torch.dtypes import Size, get_default_dtype, promote_types
from pullback.fx.traced_array import TracedArray
from pullback.tensor.subclass import register_subclass
from pullback.tensor.tensor import (
    TRACES,
    as_operand,
    as_subclass,
    exposes_subclass,
    fresh,
    holds_number,
    note_read,
)
from pullback.tensor.tensor import Tensor as PlainTensor
from pullback.utils import pytree

__all__ = [
    "Count",
    "Tensor",
    "convert",
    "convert_array",
    "convert_tree",
    "converting",
    "result_type",
    "user_code_first",
    "values_of",
]

_PROMOTING = frozenset(
    f"pullback::{name}"
    for name in (
        "_where add addcdiv addcmul atan2 bitwise_and bitwise_or bitwise_xor clamp concatenate "
        "copysign div eq float_power floor_divide fmax fmin fmod ge gt heaviside hypot le lerp "
        "logaddexp logaddexp2 lt maximum minimum mse_loss mul ne nextafter pow remainder stack sub "
        "where xlogy xlog1py hstack vstack dstack column_stack l1_loss smooth_l1_loss huber_loss"
    ).split()
)
_WIDE = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_FLOAT64, _FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}  # the categories of dtypes, in their order
_ndarray = np.ndarray
_GRAD: Any = PlainTensor.grad


class Count(int):
    """``x.size``: the number of elements, which PyTorch's programs call as ``x.size(dim)``."""

    _shape: Size

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the length of one axis."""
        return self._shape if dim is None else self._shape[dim]


class Tensor(PlainTensor):
    """A tensor with PyTorch's methods; made by `tensor`, `zeros` and the like.

    >>> import pullback.compat.torch as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.size(), x.max(dim=1).indices.tolist(), isinstance(x, torch.Tensor)
    (torch.Size([2, 2]), [1, 1], True)
    """

    __slots__ = ()

    def __new__(cls, *data: Any) -> Any:
        """A float32 tensor of some data, or uninitialised memory of a shape."""
        if not data:
            return convert_array(np.empty(0, _FLOAT32))
        if len(data) == 1 and not isinstance(data[0], int):
            if isinstance(data[0], Size):
                return convert_array(np.empty(data[0], _FLOAT32))
            held = data[0]._array if isinstance(data[0], PlainTensor) else data[0]
            return convert_array(np.array(held, _FLOAT32))
        return convert_array(np.empty(data, _FLOAT32))

    @property
    def shape(self) -> Size:
        """The length of each axis."""
        return Size(super().shape)

    @property
    def size(self) -> Any:
        """A function of an axis that returns its length; as a number, the count of elements."""
        shape = Size(super().shape)
        count = Count(shape.numel())
        count._shape = shape
        return count

    @property
    def grad(self) -> Any:
        """The accumulated gradient."""
        found = _GRAD.__get__(self)
        return found if found is None else as_subclass(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        _GRAD.__set__(self, value)

    @grad.deleter
    def grad(self) -> None:
        _GRAD.__set__(self, None)

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Adds gradients to the ``grad`` of leaves; hooks get instances of this class."""
        token = exposes_subclass.set(True)
        try:
            PlainTensor.backward(self, *args, **kwargs)
        finally:
            exposes_subclass.reset(token)

    def __repr__(self) -> str:
        text, kind = PlainTensor.__repr__(self), super().dtype
        said = f"dtype={kind.name}"
        if kind == get_default_dtype():
            text = text.replace(f", {said}", "", 1)
        elif kind in _WIDE and said not in text:
            text = f"{text[:-1]}, {said})"
        is_parameter = self._meta is not None and self._meta.role == "Parameter"
        return f"Parameter containing:\n{text}" if is_parameter else text

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return as_subclass(PlainTensor.__deepcopy__(self, memo))

    def __reduce__(self) -> Any:
        return _restored, PlainTensor.__reduce__(self)


def _restored(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A tensor as it comes out of a pickle."""
    return as_subclass(function(*args))


def convert_array(array: Any) -> Any:
    """A new tensor around an array.

    >>> type(convert_array(np.ones(2))) is Tensor
    True
    """
    return as_subclass(fresh(array))


def values_of(tensor: Any) -> Any:
    """The array of a tensor, for functions of NumPy; in a traced program this is a guard.

    >>> import pullback.compat.torch as torch
    >>> values_of(torch.ones(2))
    array([1., 1.], dtype=float32)
    """
    if TRACES:
        note_read(tensor, "values for NumPy")
    held = tensor._array
    return np.asarray(held) if isinstance(held, TracedArray) else held


def convert(value: Any) -> Any:
    """Makes instances of the tensors that an operator returns, in place.

    >>> import pullback as pb
    >>> type(convert(pb.ones(2))) is Tensor
    True
    """
    if isinstance(value, PlainTensor):
        return as_subclass(value)
    if isinstance(value, tuple | list):
        for item in value:
            convert(item)
    return value


def convert_tree(tree: Any) -> Any:
    """Makes instances of all tensors in a tree of containers, in place."""
    for leaf in pytree.flatten(tree)[0]:
        if isinstance(leaf, PlainTensor):
            as_subclass(leaf)
    return tree


def converting(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose arguments and results that are tensors become instances.

    It is put around user code that transforms call with tensors of their own, and around functions
    that make tensors without operators.
    """

    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        convert_tree((args, kwargs))
        return convert_tree(function(*args, **kwargs))

    return call


def user_code_first(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose first argument is a function of tensors, and whose results are tensors."""

    @wraps(transform)
    def call(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        convert_tree((args, kwargs))
        return convert_tree(transform(converting(func), *args, **kwargs))

    return call


# --- type promotion ------------------------------------------------------------------------------


def result_type(*values: Any) -> np.dtype[Any]:
    """The dtype of an element-wise result, by PyTorch's rules.

    Tensors with axes count before those without, and those before Python's numbers: a later group
    changes the dtype only if it has a higher category (boolean, integer, floating point, complex).

    >>> import pullback.compat.torch as torch
    >>> result_type(torch.ones(2), torch.tensor(1.0, dtype=torch.float64))
    dtype('float32')
    """
    groups: list[np.dtype[Any] | None] = [None, None, None]
    for value in values:
        operand = as_operand(value)
        if holds_number(operand):
            place, kind = 2, _number_dtype(operand._array)
        else:
            place, kind = 0 if operand.ndim else 1, operand.dtype
        known = groups[place]
        groups[place] = kind if known is None else promote_types(known, kind)
    return _combine(groups[0], _combine(groups[1], groups[2]))  # type: ignore[return-value]


def _number_dtype(number: Any) -> np.dtype[Any]:
    if isinstance(number, bool):
        return np.dtype(bool)
    if isinstance(number, int):
        return np.dtype(np.int64)
    default = get_default_dtype()
    return default if isinstance(number, float) else np.promote_types(default, np.complex64)


def _combine(higher: np.dtype[Any] | None, lower: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The dtype of two groups of operands, of which the first comes before the second."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if _RANKS[lower.kind] <= _RANKS[higher.kind]:
        return higher
    if higher.kind == "f":
        return np.promote_types(higher, np.complex64)
    return promote_types(higher, lower)


def _link(operator: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an operator for calls with instances; see the module's docstring."""
    has_dtype = any(argument.name == "dtype" for argument in operator.schema.arguments.flat_all)
    promotes = operator.name() in _PROMOTING
    skipped = 1 if operator.name() in ("pullback::where", "pullback::_where") else 0

    def call(*args: Any, **kwargs: Any) -> Any:
        if promotes:
            args = _promoted(args, skipped)
        result = kernel(*args, **kwargs)
        if type(result) is PlainTensor:
            array = result._array
            kind = array.dtype if type(array) is _ndarray else _dtype_of(result)
            if kind in _WIDE and not has_dtype:
                result = _narrowed(result, args)
            return as_subclass(result)
        return convert(result)

    return call


def _promoted(args: tuple[Any, ...], skipped: int) -> tuple[Any, ...]:
    """The operands of an element-wise operator, converted where NumPy promotes differently."""
    is_list = type(args[0]) is list
    operands = args[0] if is_list else args[skipped:]
    kinds = {
        value._array.dtype if type(value._array) is _ndarray else _dtype_of(value)
        for value in operands
        if isinstance(value, PlainTensor)
    }
    if len(kinds) < 2:
        return args
    tensors = [value for value in operands if isinstance(value, PlainTensor)]
    wanted = result_type(*(t._array if holds_number(t) else t for t in tensors))
    changed = [
        pointwise._astype(value, wanted)
        if isinstance(value, PlainTensor) and not holds_number(value) and value.dtype != wanted
        else value
        for value in operands
    ]
    return (changed, *args[1:]) if is_list else (*args[:skipped], *changed)


def _dtype_of(value: PlainTensor) -> Any:
    """The dtype of an operand; of a number its Python type, which never is a dtype."""
    return type(value._array) if holds_number(value) else value.dtype


def _narrowed(result: PlainTensor, args: tuple[Any, ...]) -> PlainTensor:
    """A result in the default dtype where a kernel made float64 of integers or numbers."""
    if get_default_dtype() == _FLOAT64 or _has_wide(args):
        return result
    return pointwise._astype(result, _WIDE[result.dtype])


def _has_wide(values: Any) -> bool:
    """Whether a float64 or complex128 tensor is among the arguments."""
    for value in values:
        if isinstance(value, PlainTensor):
            if not holds_number(value) and value.dtype in _WIDE:
                return True
        elif isinstance(value, list | tuple) and _has_wide(value):
            return True
    return False


register_subclass(Tensor, _link)
