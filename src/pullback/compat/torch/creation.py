"""New tensors, under PyTorch's names and with its default dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import pullback as pb
from pullback.compat.torch.dtypes import device as as_device
from pullback.compat.torch.dtypes import get_default_dtype
from pullback.compat.torch.tensor import convert, convert_array, values_of
from pullback.tensor.tensor import Tensor as PlainTensor

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "bartlett_window",
    "blackman_window",
    "complex",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "logspace",
    "made",
    "ones",
    "ones_like",
    "polar",
    "range",
    "scalar_tensor",
    "shape_of",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]

_IGNORED = ("layout", "pin_memory", "memory_format", "out")  # without a meaning here


def made(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes tensors: checks `device`, and removes options without a meaning."""

    @wraps(function)
    def call(*args: Any, device: Any = None, **options: Any) -> Any:
        place = None if device is None else as_device(device)
        for name in _IGNORED:
            options.pop(name, None)
        result = convert(function(*args, **options))
        return result.to(place) if place == "meta" else result

    return call


def shape_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape that was given in a row, or as one sequence.

    >>> shape_of((2, 3)), shape_of(((2, 3),))
    ((2, 3), (2, 3))
    """
    if len(size) == 1 and not isinstance(size[0], int | np.integer | PlainTensor):
        return tuple(map(int, size[0]))
    return tuple(map(int, size))


def _array_of(data: Any, dtype: Any, copy: bool | None) -> Any:
    """An array of some data; Python's numbers become the default dtype."""
    if isinstance(data, PlainTensor):
        data = values_of(data.detach())
    elif isinstance(data, list | tuple):
        data = _nested(data)
    if dtype is not None:
        return np.array(data, dtype=dtype, copy=copy)
    array = np.array(data, copy=copy)
    if isinstance(data, np.ndarray | np.generic):
        return array
    default = get_default_dtype()
    if array.dtype.kind == "f" or not array.size:
        return array.astype(default)
    if array.dtype.kind == "c":
        return array.astype(np.promote_types(default, np.complex64))
    return array


def _nested(data: Any) -> Any:
    """Nested lists with tensors in them, as nested lists of numbers."""
    if isinstance(data, PlainTensor):
        return values_of(data.detach()).tolist()
    return [_nested(item) for item in data] if isinstance(data, list | tuple) else data


@made
def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """A copy of some data.

    >>> import pullback.compat.torch as torch
    >>> torch.tensor([1.0, 2.0]).dtype, torch.tensor([1, 2]).dtype
    (dtype('float32'), dtype('int64'))
    """
    if isinstance(data, PlainTensor):
        array = data.detach().clone() if dtype is None else pb.astype(data.detach(), dtype)
    else:
        array = pb.tensor(_array_of(data, dtype, True))
    return convert(array).requires_grad_(requires_grad) if requires_grad else array


@made
def as_tensor(data: Any, dtype: Any = None) -> Any:
    """A tensor of some data, which shares memory where it can."""
    if isinstance(data, PlainTensor):
        return data if dtype is None else pb.astype(data, dtype, copy=False)
    return convert_array(_array_of(data, dtype, None).view())


@made
def asarray(
    obj: Any, *, dtype: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of an object; see `as_tensor` and `tensor`."""
    found = as_tensor(obj, dtype)
    found = found.clone() if copy else found
    return found.requires_grad_(True) if requires_grad else found


@made
def from_numpy(array: Any) -> Any:
    """A tensor in the memory of an array."""
    return pb.from_numpy(array)


@made
def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor in the memory of another library's tensor."""
    return pb.from_dlpack(ext_tensor)


@made
def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """A tensor in the memory of a buffer."""
    array = np.frombuffer(buffer, dtype, count, offset)
    return convert_array(array).requires_grad_(requires_grad)


def _filled(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def call(*size: Any, dtype: Any = None, requires_grad: bool = False, **named: Any) -> Any:
        shape = shape_of(size if size else (named.pop("size"),))
        kind = get_default_dtype() if dtype is None else dtype
        return function(shape, kind, requires_grad=requires_grad)

    call.__name__, call.__doc__ = function.__name__, doc
    return made(call)


zeros = _filled(pb.zeros, "Zeros: ``zeros(2, 3)`` or ``zeros((2, 3))``.")
ones = _filled(pb.ones, "Ones: ``ones(2, 3)`` or ``ones((2, 3))``.")
empty = _filled(pb.empty, "Uninitialised memory: ``empty(2, 3)`` or ``empty((2, 3))``.")


@made
def full(size: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """One number everywhere; its type chooses the dtype."""
    if isinstance(fill_value, PlainTensor):
        dtype, fill_value = fill_value.dtype if dtype is None else dtype, fill_value.item()
    kind = _array_of(fill_value, dtype, True).dtype
    return pb.full(tuple(size), fill_value, kind, requires_grad=requires_grad)


@made
def zeros_like(input: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Zeros in the shape and dtype of a tensor."""
    return pb.zeros_like(input, dtype, requires_grad=requires_grad)


@made
def ones_like(input: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Ones in the shape and dtype of a tensor."""
    return pb.ones_like(input, dtype, requires_grad=requires_grad)


@made
def empty_like(input: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Uninitialised memory in the shape and dtype of a tensor."""
    return pb.empty_like(input, dtype, requires_grad=requires_grad)


@made
def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False
) -> Any:
    """One number in the shape and dtype of a tensor."""
    return pb.full_like(input, fill_value, dtype, requires_grad=requires_grad)


@made
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Uninitialised memory of a shape with given strides, in elements."""
    kind = get_default_dtype() if dtype is None else dtype
    return (
        pb.empty(0, kind)
        .new_empty_strided(tuple(size), tuple(stride))
        .requires_grad_(requires_grad)
    )


def _numbers(*values: Any) -> list[Any]:
    return [value.item() if isinstance(value, PlainTensor) else value for value in values]


@made
def arange(*bounds: Any, dtype: Any = None, requires_grad: bool = False, **named: Any) -> Any:
    """Numbers in equal steps, without the end: ``arange(end)``, ``arange(start, end, step)``."""
    given = dict(
        zip(("end",) if len(bounds) == 1 else ("start", "end", "step"), bounds, strict=False)
    )
    given |= named
    start, end, step = _numbers(given.get("start", 0), given["end"], given.get("step", 1))
    if dtype is None and any(isinstance(value, float) for value in (start, end, step)):
        dtype = get_default_dtype()
    return pb.arange(start, end, step, dtype=dtype, requires_grad=requires_grad)


@made
def range(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Numbers in equal steps, with the end."""
    count = int((end - start) / step) + 1
    return pb.astype(
        start + pb.arange(count) * step, get_default_dtype() if dtype is None else dtype
    )


@made
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, requires_grad: bool = False
) -> Any:
    """Numbers in equal distances from `start` to `end`."""
    first, last = _numbers(start, end)
    kind = get_default_dtype() if dtype is None else dtype
    return convert(pb.linspace(first, last, steps, dtype=kind)).requires_grad_(requires_grad)


@made
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None) -> Any:
    """Powers of `base` with exponents in equal distances."""
    first, last = _numbers(start, end)
    kind = get_default_dtype() if dtype is None else dtype
    return pb.astype(pb.logspace(first, last, steps, base=base), kind)


@made
def eye(n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Ones on the diagonal."""
    kind = get_default_dtype() if dtype is None else dtype
    return pb.eye(n, m, dtype=kind, requires_grad=requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, **options: Any) -> Any:
    """A tensor without axes, in the default dtype."""
    return tensor(s, dtype=get_default_dtype() if dtype is None else dtype, **options)


def complex(real: Any, imag: Any) -> Any:
    """Complex numbers of their parts."""
    return pb.complex(real, imag)


def polar(abs: Any, angle: Any) -> Any:
    """Complex numbers of absolute values and angles."""
    return pb.polar(abs, angle)


@made
def tril_indices(row: int, col: int, offset: int = 0) -> Any:
    """Rows and columns of the places below a diagonal, as two rows."""
    return convert_array(np.stack(np.tril_indices(row, offset, col)))


@made
def triu_indices(row: int, col: int, offset: int = 0) -> Any:
    """Rows and columns of the places above a diagonal, as two rows."""
    return convert_array(np.stack(np.triu_indices(row, offset, col)))


def _window(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def call(window_length: int, periodic: bool = True, *options: Any, dtype: Any = None) -> Any:
        kind = get_default_dtype() if dtype is None else dtype
        extra = 1 if periodic and window_length > 1 else 0
        array = function(window_length + extra, *options)[:window_length]
        return convert_array(array.astype(kind))

    call.__name__, call.__doc__ = f"{function.__name__}_window", doc
    return made(call)


bartlett_window = _window(np.bartlett, "The Bartlett window.")
blackman_window = _window(np.blackman, "The Blackman window.")
hamming_window = _window(np.hamming, "The Hamming window.")
hann_window = _window(np.hanning, "The Hann window.")
kaiser_window = _window(lambda n, beta=12.0: np.kaiser(n, beta), "The Kaiser window.")
