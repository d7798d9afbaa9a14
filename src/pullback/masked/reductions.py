"""Functions of tensors that skip masked elements, under the names of ``torch.masked``.

A mask is true where an element counts. Masked elements are replaced, before anything is computed,
by a value that does not change the result, so that neither values nor gradients depend on them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback._generated import functions_linalg as linalg
from pullback._generated import functions_nn_layers as layers
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated.functions_indexing import take_along_axis
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_shape import broadcast_to
from pullback._generated.functions_sorting import sort
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "as_mask",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_Dims = int | tuple[int, ...] | None


def as_mask(mask: Any, shape: tuple[int, ...]) -> Tensor:
    """A mask as a tensor of truth values of a shape, broadcast where it has another one.

    >>> as_mask([True, False], (3, 2)).shape
    (3, 2)
    """
    if mask is None:
        return asarray(np.ones(shape, bool))
    found = asarray(mask)
    if found.dtype != bool:
        raise TypeError(f"mask: truth values are expected, not {found.dtype}")
    if found.shape == shape:
        return found
    try:
        return broadcast_to(found, shape)
    except ValueError:
        raise ValueError(
            f"mask: the shape {found.shape} does not fit data of shape {shape}"
        ) from None


def _filled(input: Any, dtype: Any, mask: Any, fill: Any) -> Tensor:
    """The input with a value at masked places: a number, or "low" and "high" for the extremes."""
    x = asarray(input) if dtype is None else asarray(input).astype(dtype)
    if fill in ("low", "high"):
        sign = -1 if fill == "low" else 1
        is_float = x.dtype.kind == "f"
        limits = np.finfo(x.dtype) if is_float else np.iinfo(x.dtype)
        fill = sign * math.inf if is_float else int(limits.min if sign < 0 else limits.max)
    return x if mask is None else where(as_mask(mask, x.shape), x, fill)


def _count(input: Any, mask: Any, dim: _Dims, keepdim: bool) -> Any:
    return reduction.sum(as_mask(mask, tuple(input.shape)), dim, keepdims=keepdim)


def sum(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The sum of the elements under a mask.

    Args:
        input: the tensor.
        dim: the axes, all by default.
        keepdim: whether they are kept with length 1.
        dtype: of the result.
        mask: true where an element counts; all do by default.

    >>> import pullback as pb
    >>> pb.masked.sum(pb.tensor([1.0, 2.0, 4.0]), mask=[True, False, True]).item()
    5.0
    """
    return reduction.sum(_filled(input, dtype, mask, 0), dim, keepdims=keepdim)


def prod(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The product of the elements under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.prod(pb.tensor([3.0, 0.0, 4.0]), mask=[True, False, True]).item()
    12.0
    """
    return reduction.prod(_filled(input, dtype, mask, 1), dim, keepdims=keepdim)


def amax(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The largest element under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.amax(pb.tensor([1.0, 9.0, 4.0]), mask=[True, False, True]).item()
    4.0
    """
    return reduction.max(_filled(input, dtype, mask, "low"), dim, keepdims=keepdim)


def amin(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The smallest element under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.amin(pb.tensor([1.0, 9.0, 4.0]), mask=[True, False, True]).item()
    1.0
    """
    return reduction.min(_filled(input, dtype, mask, "high"), dim, keepdims=keepdim)


def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The place of the largest element under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.argmax(pb.tensor([1.0, 9.0, 4.0]), 0, mask=[True, False, True])
    tensor(2)
    """
    return reduction.argmax(_filled(input, dtype, mask, "low"), dim, keepdims=keepdim)


def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The place of the smallest element under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.argmin(pb.tensor([1.0, 9.0, 4.0]), 0, mask=[True, False, True])
    tensor(0)
    """
    return reduction.argmin(_filled(input, dtype, mask, "high"), dim, keepdims=keepdim)


def all(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Whether all elements under a mask are true; the arguments are those of `sum`."""
    return reduction.all(_filled(input, dtype, mask, 1), dim, keepdims=keepdim)


def any(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Whether an element under a mask is true; the arguments are those of `sum`."""
    return reduction.any(_filled(input, dtype, mask, 0), dim, keepdims=keepdim)


def _divide(total: Any, count: Any) -> Tensor:
    """A quotient that is NaN, without a warning or a NaN gradient, where the divisor is not > 0."""
    is_safe = count > 0
    return where(is_safe, total / where(is_safe, count, 1), math.nan)


def mean(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The mean of the elements under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.mean(pb.tensor([1.0, 2.0, 4.0]), mask=[True, False, True]).item()
    2.5
    """
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return _divide(total, _count(input, mask, dim, keepdim).astype(total.dtype))


def var(
    input: Any,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The variance of the elements under a mask.

    Args:
        input: the tensor.
        dim: the axes, all by default.
        unbiased: False divides by the number of elements, not by one less.
        correction: subtracted from that number, instead of `unbiased`.
        keepdim: whether the axes are kept with length 1.
        dtype: of the result.
        mask: true where an element counts; all do by default.

    >>> import pullback as pb
    >>> pb.masked.var(pb.tensor([1.0, 2.0, 4.0]), mask=[True, False, True]).item()
    4.5
    """
    if correction is not None and unbiased is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    center = mean(input, dim, keepdim=True, dtype=dtype, mask=mask)
    x = _filled(input, dtype, mask, 0) - center
    x = x if mask is None else where(as_mask(mask, x.shape), x, 0)
    total = reduction.sum(x * x, dim, keepdims=keepdim)
    return _divide(total, _count(input, mask, dim, keepdim).astype(total.dtype) - correction)


def std(
    input: Any,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The standard deviation of the elements under a mask; the arguments are those of `var`.

    >>> import pullback as pb
    >>> pb.masked.std(pb.tensor([1.0, 9.0, 3.0]), 0, mask=[True, False, True], unbiased=False)
    tensor(1.)
    """
    options: dict[str, Any] = {"keepdim": keepdim, "dtype": dtype, "mask": mask}
    found = var(input, dim, unbiased, correction=correction, **options)
    is_positive = found > 0  # the root has no derivative at 0
    return where(is_positive, pointwise.sqrt(where(is_positive, found, 1)), found)


def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The norm of the elements under a mask.

    Args:
        input: the tensor.
        ord: the order of the norm.
        dim: the axes, all by default.
        keepdim: whether they are kept with length 1.
        dtype: of the result.
        mask: true where an element counts; all do by default.

    >>> import pullback as pb
    >>> pb.masked.norm(pb.tensor([3.0, 1.0, 4.0]), 2.0, mask=[True, False, True]).item()
    5.0
    """
    order = 2.0 if ord is None else ord
    x = _filled(input, dtype, mask, math.inf if order == -math.inf else 0)
    return linalg.linalg_vector_norm(x, ord=order, axis=dim, keepdims=keepdim)


def _known(found: Any, mask: Any, dim: int) -> Any:
    """A result with NaN along rows without any element."""
    if mask is None:
        return found
    has_any = reduction.any(as_mask(mask, found.shape), dim, keepdims=True)
    return where(has_any, found, math.nan)


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The softmax of the elements under a mask, and 0 elsewhere.

    >>> import pullback as pb
    >>> pb.masked.softmax(pb.tensor([1.0, 9.0, 1.0]), 0, mask=[True, False, True]).tolist()
    [0.5, 0.0, 0.5]
    """
    found = layers._safe_softmax(_filled(input, dtype, mask, "low"), dim)
    return _known(found, mask, dim)  # type: ignore[no-any-return]


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of `softmax`, -inf at masked places.

    >>> import pullback as pb
    >>> pb.masked.log_softmax(pb.tensor([1.0, 9.0, 4.0]), 0, mask=[True, False, True])
    tensor([-3.04858735,        -inf, -0.04858735])
    """
    total = logsumexp(input, dim, keepdim=True, dtype=dtype, mask=mask)
    finite = where(pointwise.isfinite(total), total, 0)
    return _known(_filled(input, dtype, mask, "low") - finite, mask, dim)  # type: ignore[no-any-return]


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The softmax of the negative elements under a mask, and 0 elsewhere.

    >>> import pullback as pb
    >>> pb.masked.softmin(pb.tensor([1.0, 9.0, 4.0]), 0, mask=[True, False, True])
    tensor([0.95257413, 0.        , 0.04742587])
    """
    return softmax(-asarray(input), dim, dtype=dtype, mask=mask)


def logsumexp(
    input: Any, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The logarithm of the sum of exponentials under a mask; the arguments are those of `sum`.

    >>> import pullback as pb
    >>> pb.masked.logsumexp(pb.tensor([0.0, 9.0, 0.0]), 0, mask=[True, False, True])
    tensor(0.69314718)
    """
    x = _filled(input, dtype, mask, "low")
    has_any = _count(input, mask, dim, True) > 0
    # Rows without elements are computed with zeros: their own result has no derivative.
    found = reduction.logsumexp(where(has_any, x, 0), dim, keepdims=True)
    found = where(has_any, found, -math.inf)
    return found if keepdim else reduction.sum(found, dim)


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """log(exp(input) + exp(other)), where a masked element counts as -inf.

    >>> import pullback as pb
    >>> x, mask = pb.tensor([0.0, 9.0]), [True, False]
    >>> pb.masked.logaddexp(x, x, input_mask=mask, other_mask=mask)
    tensor([0.69314718,       -inf])
    """
    a, b = (_filled(x, dtype, m, "low") for x, m in ((input, input_mask), (other, other_mask)))
    is_known = pointwise.isfinite(a) | pointwise.isfinite(b)
    found = pointwise.logaddexp(where(is_known, a, 0), where(is_known, b, 0))
    return where(is_known, found, -math.inf)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The running sum of the elements under a mask.

    >>> import pullback as pb
    >>> pb.masked.cumsum(pb.tensor([1.0, 9.0, 4.0]), 0, mask=[True, False, True])
    tensor([1., 1., 5.])
    """
    return reduction.cumsum(_filled(input, dtype, mask, 0), dim)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The running product of the elements under a mask.

    >>> import pullback as pb
    >>> pb.masked.cumprod(pb.tensor([1.0, 9.0, 4.0]), 0, mask=[True, False, True])
    tensor([1., 1., 4.])
    """
    return reduction.cumprod(_filled(input, dtype, mask, 1), dim)


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The median of the elements under a mask, of an even number the lower one.

    >>> import pullback as pb
    >>> pb.masked.median(pb.tensor([5.0, 9.0, 1.0, 3.0]), mask=[True, False, True, True]).item()
    3.0
    """
    count = _count(input, mask, dim, True)
    ordered = sort(_filled(input, dtype, mask, "high"), dim)
    places = pointwise.maximum(count - 1, 0) // 2
    found = where(count > 0, take_along_axis(ordered, places, dim), math.nan)
    return found if keepdim else reduction.sum(found, dim)


def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The elements under a mask divided by their norm, and 0 elsewhere.

    >>> import pullback as pb
    >>> pb.masked.normalize(pb.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=[True, False, True])
    tensor([0.6, 0. , 0.8])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, dtype, mask, 0) / pointwise.maximum(length, eps)
