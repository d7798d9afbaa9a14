"""NumPy's creation functions, making tensors: for ``like=``, for ``*_like``, and for `numpy_mode`.

Each has NumPy's signature. Arguments may hold tensors, to which gradients pass.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_creation as generated
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shape
from pullback.errors import AutogradValueError
from pullback.interop.adapt import typed
from pullback.interop.arguments import as_tensor, plain, raw, tensors_in
from pullback.kernels.shape_spec import view_memory
from pullback.operators.creation import functions as creation
from pullback.operators.creation import functions_ranges as ranges
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["arange", "array", "asarray", "asarray_chkfinite", "ascontiguousarray", "copy", "eye"]
__all__ += ["empty", "empty_like", "fromfunction", "fromiter", "full", "full_like", "geomspace"]
__all__ += ["linspace", "logspace", "ones", "ones_like", "require", "tri", "zeros", "zeros_like"]
__all__ += ["asfortranarray", "copied", "identity", "isscalar", "vander"]


# The other spelling of `copy` that NumPy takes; SciPy passes it on.
_COPY_MODES: dict[str, bool | None] = {"ALWAYS": True, "IF_NEEDED": None, "NEVER": False}


def _copy_option(copy: Any) -> Any:
    return _COPY_MODES[copy.name] if isinstance(copy, np._CopyMode) else copy


def isscalar(element: Any) -> bool:
    """``numpy.isscalar``: tensors without axes are NumPy's scalars."""
    return not element.ndim if isinstance(element, Tensor) else np.isscalar(element)


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
) -> Tensor:
    """``numpy.array``."""
    del subok, ndmax
    return _in_order(creation.array(object, dtype, copy=_copy_option(copy), ndmin=ndmin), order)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None
) -> Tensor:
    """``numpy.asarray`` and ``numpy.asanyarray``."""
    made = creation.asarray(a, dtype=dtype, device=device, copy=_copy_option(copy))
    return _in_order(made, order)


def _in_order(made: Tensor, order: Any) -> Tensor:
    """A tensor in the memory order that the caller names, if any."""
    if made.ndim < 2 or order in (None, "K", "A"):
        return made
    return asfortranarray(made) if order == "F" else shape.ascontiguousarray(made)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """``numpy.asarray_chkfinite``."""
    made = asarray(a, dtype, order)
    if made.dtype.kind in "fc" and not np.isfinite(raw(made)).all():
        raise ValueError("array must not contain infs or NaNs")
    return made


def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """``numpy.ascontiguousarray``."""
    made = shape.ascontiguousarray(asarray(a, dtype))
    return made if made.ndim else shape.reshape(made, 1)


def asfortranarray(a: Any, dtype: Any = None) -> Tensor:
    """``numpy.asfortranarray``: the first axis runs fastest in memory."""
    made = asarray(a, dtype)
    if made.ndim < 2 or raw(made).flags.f_contiguous:
        return made if made.ndim else shape.reshape(made, 1)
    return shape.permute_dims(shape.ascontiguousarray(shape.permute_dims(made)))


def require(a: Any, dtype: Any = None, requirements: Any = None) -> Tensor:
    """``numpy.require``; only the memory order can be required, a tensor always owns memory."""
    wanted = {str(item).upper()[:1] for item in requirements or ()}
    made = asarray(a, dtype)
    if "F" in wanted:
        return asfortranarray(made)
    return shape.ascontiguousarray(made) if "C" in wanted else made


def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    """``numpy.copy``."""
    del subok
    return creation.copy(_in_order(as_tensor(a), order))


def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    """``numpy.zeros``."""
    del order
    return creation.zeros(_lengths(shape), dtype, device=device)


def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    """``numpy.ones``."""
    del order
    return creation.ones(_lengths(shape), dtype, device=device)


def empty(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    """``numpy.empty``."""
    del order
    return creation.empty(_lengths(shape), dtype, device=device)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None
) -> Tensor:
    """``numpy.full``; gradients pass to the value, and to each element of it."""
    del order
    value = creation.asarray(fill_value, dtype=dtype)
    return creation.full(_lengths(shape), value, device=device)


def _lengths(lengths: Any) -> tuple[int, ...]:
    listed = (
        lengths if isinstance(lengths, list | tuple) else np.atleast_1d(plain(lengths)).tolist()
    )
    return tuple(map(operator.index, listed))


def _laid_out(make: Callable[[Any], Tensor], lengths: Any, pattern: Tensor, order: str) -> Tensor:
    """A new tensor with its axes in the order in memory that NumPy chooses beside `pattern`.

    A write through ``ravel()`` reaches the tensor only where that is a view.
    """
    held: Any = pattern._array
    if order == "C" or pattern.ndim < 2 or not hasattr(held, "strides"):
        return make(lengths)
    lengths = _lengths(lengths)
    strides = np.empty_like(view_memory(held), bool, order, shape=lengths).strides  # type: ignore[call-overload]
    axes = sorted(range(len(lengths)), key=lambda axis: -strides[axis])
    if axes == sorted(axes):
        return make(lengths)
    made = make([lengths[axis] for axis in axes])
    places = np.argsort(axes).tolist()
    memory: Any = made._array
    if type(memory) is np.ndarray:
        return fresh(memory.transpose(places))
    return shape.permute_dims(made, places)


def _like(made: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``zeros_like`` from ``zeros``, and so on."""

    def call(
        a: Any,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        *,
        device: Any = None,
    ) -> Tensor:
        del subok
        pattern = as_tensor(a)
        kind = pattern.dtype if dtype is None else dtype
        lengths = pattern.shape if shape is None else shape
        return _laid_out(lambda n: made(n, kind, device=device), lengths, pattern, order)

    return call


zeros_like, ones_like = _like(zeros), _like(ones)


def empty_like(prototype: Any, *args: Any, **kwargs: Any) -> Tensor:
    """``numpy.empty_like``."""
    return _like(empty)(prototype, *args, **kwargs)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """``numpy.full_like``; gradients pass to the value."""
    del subok
    pattern = as_tensor(a)
    kind = pattern.dtype if dtype is None else dtype
    lengths = pattern.shape if shape is None else shape
    if as_tensor(fill_value).ndim:
        return full(lengths, fill_value, kind, device=device)
    return _laid_out(lambda n: full(n, fill_value, kind, device=device), lengths, pattern, order)


def eye(
    N: int,  # noqa: N803 - NumPy's name
    M: int | None = None,  # noqa: N803 - NumPy's name
    k: int = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: Any = None,
) -> Tensor:
    """``numpy.eye``."""
    del order
    return creation.eye(N, M, k, dtype, device=device)


def identity(n: int, dtype: Any = None) -> Tensor:
    """``numpy.identity``."""
    return creation.identity(n, dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Tensor:  # noqa: N803
    """``numpy.tri``."""
    return creation.tri(N, M, k, dtype)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """``numpy.vander``, which computes in float64, or int64, at least."""
    powers = typed(x, np.promote_types(as_tensor(x).dtype, int))
    return generated.vander(powers, N, increasing)


def arange(
    start_or_stop: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """``numpy.arange``; gradients pass to the start and the step."""
    return creation.arange(start_or_stop, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """``numpy.linspace``."""
    del device
    num = operator.index(num)
    made = ranges.linspace(start, stop, num, endpoint, dtype=dtype, axis=axis)
    if not retstep:
        return made
    parts = num - 1 if endpoint else num
    return made, pointwise.subtract(stop, start) / (parts if parts > 0 else np.nan)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """``numpy.logspace``."""
    return ranges.logspace(start, stop, num, endpoint, base=base, dtype=dtype, axis=axis)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """``numpy.geomspace``."""
    return ranges.geomspace(start, stop, num, endpoint, dtype=dtype, axis=axis)


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Tensor:
    """``numpy.fromiter``; gradients pass to tensors that come."""
    taken = list(iter)
    if count >= 0 and len(taken) < count:
        raise ValueError(
            f"iterator too short: Expected {count} but iterator had only {len(taken)} items."
        )
    taken = taken[:count] if count >= 0 else taken
    return creation.asarray(taken, dtype=dtype) if taken else fresh(np.empty(0, dtype))


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """``numpy.fromfunction``."""
    grid = fresh(np.indices(_lengths(shape), dtype=dtype))
    return function(*(grid[i] for i in range(grid.shape[0])), **kwargs)


def copied(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that reads an array from a file or a buffer, giving a tensor of it."""

    def call(*args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("like", None)
        if next(tensors_in([args, kwargs]), None) is not None:
            raise AutogradValueError(f"numpy.{function.__name__} takes no tensors")
        return fresh(np.array(function(*args, **kwargs)))

    return call
