"""Functions that make tensors from data or from nothing, as the Array API and NumPy name them.

All take `device`, which is ``"cpu"`` or ``"meta"``, where a tensor has a shape and a dtype but no
data, and most `requires_grad`, which makes a leaf.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback._generated import functions_creation as functions
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shape_functions
from pullback.dispatch.modes import NUMPY as NUMPY_MODE
from pullback.dispatch.modes import TRACE, get_state
from pullback.kernels.platform import NUMPY
from pullback.operators.creation.devices import check_device, maker_like, maker_on, tensor_on
from pullback.tensor.tensor import TRACES, Tensor, adopt, fresh, has_values, note_literal, numeric

__all__ = [
    "Shape",
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "identity",
    "ones",
    "ones_like",
    "tensor",
    "tri",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        made.requires_grad = True
    return made


# --- from data -----------------------------------------------------------------------------------


def tensor(
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor with a copy of the data; never connected to a graph.

    >>> import pullback as pb
    >>> pb.tensor([1, 2], dtype=float, requires_grad=True).is_leaf
    True
    """
    if isinstance(data, Tensor) and (data.requires_grad or not get_state().modes & NUMPY_MODE):
        warnings.warn(
            "tensor() of a tensor copies its values and drops its history; say "
            "x.detach().clone() if that is meant, or x.clone() to keep the history",
            UserWarning,
            stacklevel=2,
        )
        if not has_values(data):
            check_device(device, data.device)
            kind = data.dtype if dtype is None else np.dtype(dtype)
            return _finished(pointwise._astype(data.detach(), kind), requires_grad)
        data = data._array
    elif isinstance(data, list | tuple):
        data = _numbers(data)
    elif isinstance(data, Tensor) and get_state().modes & TRACE:
        copy = data.detach().clone()
        return _finished(copy if dtype is None else copy.astype(dtype), requires_grad)
    elif TRACES and _is_traced_number(data, dtype):
        made = data.__pullback_tensor__()
        return _finished(made if dtype is None else made.astype(dtype), requires_grad)
    if TRACES and isinstance(data, np.ndarray) and get_state().modes & TRACE:
        # Copied whenever the graph runs, so that it is the array's value at that time.
        made = tensor_on(device, numeric(data))
        return _finished(made if dtype is None else made.astype(dtype), requires_grad)
    array = numeric(data, dtype, copy=True)
    if TRACES:
        note_literal(array, data)
    return _finished(tensor_on(device, array), requires_grad)


def _numbers(data: Any) -> Any:
    """Nested lists with the values of tensors in place of tensors."""
    if isinstance(data, Tensor):
        return data._array
    return [_numbers(item) for item in data] if isinstance(data, list | tuple) else data


def asarray(
    obj: Any, *, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor of the data, sharing memory where possible; a tensor comes back as it is.

    A list may hold tensors, and is stacked; gradients pass to them.

    >>> import pullback as pb
    >>> x = pb.tensor(2.0, requires_grad=True)
    >>> pb.asarray([x, x * x]).sum().backward()
    >>> x.grad.item()
    5.0
    """
    check_device(device)
    if isinstance(obj, list | tuple) and _holds_tensors(obj, dtype):
        if copy is False:
            raise ValueError("asarray: tensors in a list cannot be joined without a copy")
        obj, copy = _stacked(obj), None
    if TRACES and _is_traced_number(obj, dtype):
        obj = obj.__pullback_tensor__()
    if not isinstance(obj, Tensor):
        made = numeric(obj, dtype, copy)
        if device == "meta":
            return tensor_on(device, made)
        if TRACES:
            note_literal(made, obj)
        is_new = copy or isinstance(obj, list | tuple | Number | np.generic)
        return fresh(made) if is_new else adopt(made)
    check_device(device, obj.device)
    if dtype is not None and obj.dtype != dtype:
        if copy is False:
            raise ValueError(f"asarray: {obj.dtype} cannot become {np.dtype(dtype)} without a copy")
        return pointwise._astype(obj, np.dtype(dtype))
    return pointwise.clone(obj) if copy else obj


def _holds_tensors(data: Any, dtype: DTypeLike | None) -> bool:
    if isinstance(data, list | tuple):
        return any(_holds_tensors(item, dtype) for item in data)
    if isinstance(data, Tensor) or not TRACES:
        return isinstance(data, Tensor)
    kind = np.dtype(dtype)
    is_narrow = kind.kind in "iu" and kind != np.int64  # a number may not fit, which raises
    return _is_traced_number(data, dtype if is_narrow else None)


def _is_traced_number(data: Any, dtype: DTypeLike | None) -> bool:
    """Whether this is a number of a program that is traced, and can be a tensor of a dtype."""
    if not hasattr(data, "__pullback_tensor__"):
        return False
    return dtype is None or (np.dtype(dtype).kind in "fc" and not isinstance(data, complex))


def _stacked(data: Any) -> Tensor:
    """Nested lists as one tensor."""
    if not isinstance(data, list | tuple):
        return asarray(data)
    return shape_functions.stack([_stacked(item) for item in data])


def array(
    obj: Any, dtype: DTypeLike | None = None, *, copy: bool | None = True, ndmin: int = 0
) -> Tensor:
    """A tensor of the data, by default a copy; gradients pass to tensors in it.

    >>> import pullback as pb
    >>> pb.array([1.0, 2.0], ndmin=2).shape
    (1, 2)
    """
    made = asarray(obj, dtype=dtype, copy=copy)
    missing = ndmin - made.ndim
    return shape_functions.reshape(made, (1,) * missing + made.shape) if missing > 0 else made


def copy(x: Any, /) -> Tensor:
    """A copy that passes gradients on.

    >>> import pullback as pb
    >>> pb.copy([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    return pointwise.clone(asarray(x))


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the array's memory.

    >>> import numpy as np, pullback as pb
    >>> array = np.zeros(2)
    >>> pb.from_numpy(array).fill_(3.0).tolist(), array.tolist()
    ([3.0, 3.0], [3.0, 3.0])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy takes an array, not {type(array).__name__}")
    return adopt(numeric(array))


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's array.

    >>> import numpy as np, pullback as pb
    >>> pb.from_dlpack(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    check_device(device, "cpu")
    if NUMPY < (2, 1):  # which takes no options, and never copies
        array = np.from_dlpack(x)
        return adopt(array.copy() if copy else array)
    return adopt(np.from_dlpack(x, copy=copy))


# --- of one value --------------------------------------------------------------------------------


def zeros(
    shape: Shape,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros.

    >>> import pullback as pb
    >>> pb.zeros((1, 2)).tolist()
    [[0.0, 0.0]]
    """
    return _finished(maker_on(device, "zeros")(shape, dtype), requires_grad)


def ones(
    shape: Shape,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones.

    >>> import pullback as pb
    >>> pb.ones(2, dtype=int).tolist()
    [1, 1]
    """
    return _finished(maker_on(device, "ones")(shape, dtype), requires_grad)


def empty(
    shape: Shape,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose elements have whatever values its memory holds.

    >>> import pullback as pb
    >>> pb.empty((2, 3)).shape
    (2, 3)
    """
    return _finished(maker_on(device, "empty")(shape, dtype), requires_grad)


def full(
    shape: Shape,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """One number everywhere; gradients pass to it if it is a tensor.

    >>> import pullback as pb
    >>> pb.full(2, 7.0).tolist()
    [7.0, 7.0]
    """
    if isinstance(fill_value, Tensor):
        lengths = tuple(np.atleast_1d(shape).tolist())
        spread = shape_functions.broadcast_to(asarray(fill_value, dtype=dtype), lengths)
        check_device(device, fill_value.device)
        return _finished(shape_functions.reshape(spread, lengths, copy=True), requires_grad)
    return _finished(maker_on(device, "full")(shape, fill_value, dtype), requires_grad)


def zeros_like(
    x: Any,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of the shape and dtype of a tensor, without its history.

    >>> import pullback as pb
    >>> pb.zeros_like([1, 2]).tolist()
    [0, 0]
    """
    return _finished(maker_like(x, device, "zeros")(dtype), requires_grad)


def ones_like(
    x: Any,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of the shape and dtype of a tensor, without its history.

    >>> import pullback as pb
    >>> pb.ones_like([5.0]).tolist()
    [1.0]
    """
    return _finished(maker_like(x, device, "ones")(dtype), requires_grad)


def empty_like(
    x: Any,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uninitialised memory of the shape and dtype of a tensor.

    >>> import pullback as pb
    >>> pb.empty_like([[1.0], [2.0]]).shape
    (2, 1)
    """
    return _finished(maker_like(x, device, "empty")(dtype), requires_grad)


def full_like(
    x: Any,
    /,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """One number in the shape and dtype of a tensor; gradients pass to it if it is a tensor.

    >>> import pullback as pb
    >>> pb.full_like([0.0, 0.0], 3).tolist()
    [3.0, 3.0]
    """
    like = asarray(x)
    dtype = like.dtype if dtype is None else dtype
    device = like.device if device is None else device
    return full(like.shape, fill_value, dtype, device=device, requires_grad=requires_grad)


# --- matrices and ranges -------------------------------------------------------------------------


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on a diagonal.

    >>> import pullback as pb
    >>> pb.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _finished(maker_on(device, "eye")(n_rows, n_cols, k, dtype), requires_grad)


def identity(n: int, dtype: DTypeLike | None = None) -> Tensor:
    """The square matrix with ones on the main diagonal.

    >>> import pullback as pb
    >>> pb.identity(1).tolist()
    [[1.0]]
    """
    return functions._eye(n, None, 0, dtype)


def tri(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike | None = None
) -> Tensor:
    """A matrix with ones on and below a diagonal.

    >>> import pullback as pb
    >>> pb.tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return functions._tri(n_rows, n_cols, k, dtype)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from `start` up to, but without, `stop`; from 0 if only one number is given.

    Gradients pass to `start` and `step` where these are tensors.

    >>> import pullback as pb
    >>> pb.arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    ends = (start, stop, step)
    first, last, by = (n.item() if isinstance(n, Tensor) else n for n in ends)
    made = maker_on(device, "arange")(first, last, by, dtype)
    if device != "meta" and any(isinstance(n, Tensor) and n.dtype.kind in "fc" for n in ends):
        steps = pointwise.multiply(np.arange(made.size, dtype=made.dtype), step)
        made = pointwise._astype(pointwise.add(0 if stop is None else start, steps), made.dtype)
    return _finished(made, requires_grad)
