"""In-place methods that no table entry makes: ``x.eq_(y)``, ``x.cumsum_(0)``, ``x.squeeze_()``.

Some compute a function and write its result into the tensor, which is one recorded write: views
follow, versions count, and the gradient of what was overwritten flows through the function, or is
zero for comparisons. Others are second names of methods that tables make, as PyTorch has them:
``multiply_`` is ``mul_``.

The rest change a tensor's own shape or memory: ``squeeze_``, ``transpose_``, ``resize_``. They are
writes: they count as one, are recorded like one, and outside of no_grad mode a leaf that requires
grad refuses them. The memory stays where it is, so other views of it keep their values; a view
whose base has changed its shape can be read, but no longer follow the base's history
(``view.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reductions
from pullback._generated import functions_shape as functions
from pullback._generated import functions_special as special
from pullback._lazy import lazy_module
from pullback.autograd.forward.tangents import set_tangent, tangents_of
from pullback.autograd.graph.accumulate_grad import outdate_metadata
from pullback.autograd.graph.inplace import check_inplace, write_out
from pullback.autograd.graph.views import edge_of, move_retained, requires_grad, view_of
from pullback.dispatch.modes import AutoGradMode, is_grad_enabled
from pullback.errors import InplaceError
from pullback.tensor.memory import check_fits
from pullback.tensor.tensor import NO_COUNTER, Tensor, meta_of, version_of

if TYPE_CHECKING:
    from pullback import meta
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")
    meta = lazy_module("pullback.meta")

__all__ = [
    "as_strided_",
    "clamp_max_",
    "clamp_min_",
    "conj_physical_",
    "cumprod_",
    "cumsum_",
    "float_power_",
    "frac_",
    "i0_",
    "logical_not_",
    "polygamma_",
    "resize_",
    "rsqrt_",
    "set_",
    "squeeze_",
    "swapaxes_",
    "t_",
    "transpose_",
    "tril_",
    "triu_",
    "unsqueeze_",
]

_ALIASES = {
    "absolute_": "abs_",
    "arccos_": "acos_",
    "arccosh_": "acosh_",
    "arcsin_": "asin_",
    "arcsinh_": "asinh_",
    "arctan2_": "atan2_",
    "arctan_": "atan_",
    "arctanh_": "atanh_",
    "clip_": "clamp_",
    "divide_": "div_",
    "fix_": "trunc_",
    "multiply_": "mul_",
    "negative_": "neg_",
    "sgn_": "sign_",
    "subtract_": "sub_",
    "true_divide_": "div_",
}

# PyTorch's names of a comparison, and its function.
_COMPARISONS: dict[tuple[str, ...], Callable[..., Any]] = {
    ("eq_",): pointwise.equal,
    ("ne_", "not_equal_"): pointwise.not_equal,
    ("gt_", "greater_"): pointwise.greater,
    ("ge_", "greater_equal_"): pointwise.greater_equal,
    ("lt_", "less_"): pointwise.less,
    ("le_", "less_equal_"): pointwise.less_equal,
    ("logical_and_",): pointwise.logical_and,
    ("logical_or_",): pointwise.logical_or,
    ("logical_xor_",): pointwise.logical_xor,
}


def _change(self: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
    """Makes a tensor what `step` makes of it: a view of itself.

    In no_grad mode a leaf stays a leaf, and its gradients have the new shape. For any other tensor
    that requires grad the change is recorded even there, because its nodes expect the old shape.
    """
    records = requires_grad(self)
    is_recorded = records and is_grad_enabled()
    check_inplace(self, is_recorded)
    own = view_of(self)
    if records and not is_recorded:
        is_recorded = self._edge is not None if own is None else own.edge is not None
    with AutoGradMode(is_recorded or is_grad_enabled()):
        new = step(self)
    made = view_of(new)
    if own is not None:
        assert made is not None
        own.take_place_of(made)
    elif is_recorded:
        version_of(self)  # before the edge changes: the counter may be read from the old node
        old, self._edge = self._edge, edge_of(new)
        if old is not None:
            move_retained(old, self._edge)
    for level, tangent in tangents_of(new).items():
        set_tangent(self, level, tangent)
    _replace(self, new._array, is_base=own is None)
    return self


def _replace(self: Tensor, array: Any, is_base: bool) -> None:
    outdate_metadata(self, array)  # what requires grad again later may find its accumulator again
    self._array = array
    counter = version_of(self)
    if counter is not NO_COUNTER:
        counter[0] += 1
        undo_log.confirm_write(counter)
        if is_base:
            meta_of(self).reshaped = counter[0]


def squeeze_(self: Tensor, axis: Any = None) -> Tensor:
    """Drops axes of length one, all or those named, of the tensor itself."""
    return _change(self, lambda x: functions.squeeze(x, axis))


def unsqueeze_(self: Tensor, axis: int) -> Tensor:
    """Gives the tensor itself a new axis of length one."""
    return _change(self, lambda x: functions.expand_dims(x, axis))


def transpose_(self: Tensor, axis1: int, axis2: int) -> Tensor:
    """Exchanges two axes of the tensor itself."""
    return _change(self, lambda x: functions.swapaxes(x, axis1, axis2))


def swapaxes_(self: Tensor, axis1: int, axis2: int) -> Tensor:
    """Exchanges two axes of the tensor itself, as ``transpose_`` does."""
    return _change(self, lambda x: functions.swapaxes(x, axis1, axis2))


def as_strided_(self: Tensor, shape: Any, strides: Any, storage_offset: int = 0) -> Tensor:
    """Makes the tensor a view of its own memory, with steps counted in elements."""
    return _change(
        self,
        lambda x: functions.as_strided(x, list(shape), list(strides), storage_offset),
    )


def t_(self: Tensor) -> Tensor:
    """Exchanges the two axes of a matrix itself; a vector stays as it is."""
    if self.ndim > 2:
        raise ValueError(f"t_ is for at most two axes, and the tensor's shape is {self.shape}")
    return _change(self, lambda x: functions.permute_dims(x))


def resize_(self: Tensor, *shape: Any) -> Tensor:
    """Gives the tensor another shape and number of elements; new elements are zero.

    What fits stays in the same memory. A tensor that requires grad refuses, and so does a view.
    """
    lengths = tuple(np.atleast_1d(shape[0] if len(shape) == 1 else shape).tolist())
    if requires_grad(self):
        raise InplaceError(
            "cannot resize variables that require grad: no gradient belongs to elements that come "
            "and go; say reshape(), or detach() first"
        )
    if view_of(self) is not None:
        raise InplaceError("resize_: a view cannot be resized, because its base would not follow")
    if lengths == self.shape:
        return self
    check_inplace(self, False)
    _replace(self, _resized(self._array, lengths), is_base=True)
    return self


def _resized(array: Any, lengths: tuple[int, ...]) -> Any:
    if isinstance(array, meta.MetaArray):
        return meta.MetaArray(lengths, array.dtype)
    held = np.ascontiguousarray(array).reshape(-1)
    size = math.prod(lengths)
    if size > held.size:
        held = np.concatenate([held, np.zeros(size - held.size, held.dtype)])
    return held[:size].reshape(lengths)


def set_(self: Tensor, source: Tensor) -> Tensor:
    """Makes the tensor share the memory of another one, whose dtype must be the same."""
    if not isinstance(source, Tensor) or source.dtype != self.dtype:
        kind = source.dtype if isinstance(source, Tensor) else type(source).__name__
        raise InplaceError(f"set_: the source must be a tensor of dtype {self.dtype}, not {kind}")
    if source.device != self.device:
        raise InplaceError(f"set_: the source must be on {self.device!r}, not {source.device!r}")
    check_inplace(self, False)
    is_leaf = self._edge is None and view_of(self) is None
    if not is_leaf or (is_grad_enabled() and requires_grad(source)):
        raise InplaceError(
            "set_: neither views nor tensors with a history can change memory, and in grad mode "
            "the source may not require grad"
        )
    _replace(self, source._array, is_base=True)
    return self


# --- results of functions -------------------------------------------------------------------------


def _source(self: Tensor) -> Tensor:
    """The input of the function: a copy, if the function may save it for backward."""
    return pointwise.clone(self) if requires_grad(self) else self


def _write(self: Tensor, result: Any, name: str) -> Tensor:
    """Writes the result of a function into the tensor."""
    check_fits(result.shape, self.shape, name)
    return write_out(result, self, name)


def _comparison(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    def write_truth(self: Tensor, other: Any, /) -> Tensor:
        return _write(self, function(self, other), name)

    write_truth.__name__ = name
    write_truth.__qualname__ = f"Tensor.{name}"
    write_truth.__doc__ = (
        f"Writes ``{function.__name__}(self, other)`` into the tensor, in its own dtype; the "
        f"gradient is zero."
    )
    return write_truth


def logical_not_(self: Tensor) -> Tensor:
    """Writes where the elements are zero, in the tensor's own dtype; the gradient is zero."""
    return _write(self, pointwise.logical_not(self), "logical_not_")


def clamp_max_(self: Tensor, max: Any) -> Tensor:
    """Bounds the elements from above; `max` is a number or a tensor."""
    return self.clamp_(max=max)


def clamp_min_(self: Tensor, min: Any) -> Tensor:
    """Bounds the elements from below; `min` is a number or a tensor."""
    return self.clamp_(min=min)


def conj_physical_(self: Tensor) -> Tensor:
    """Writes the complex conjugates of the elements into the tensor."""
    return _write(self, pointwise.conj(_source(self)), "conj_physical_")


def cumprod_(self: Tensor, axis: int) -> Tensor:
    """Writes the cumulative products along an axis into the tensor."""
    return _write(self, reductions.cumprod(_source(self), axis), "cumprod_")


def cumsum_(self: Tensor, axis: int) -> Tensor:
    """Writes the cumulative sums along an axis into the tensor."""
    return _write(self, reductions.cumsum(_source(self), axis), "cumsum_")


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """Raises the elements to a power in double precision, which the tensor must have."""
    result = pointwise.float_power(_source(self), exponent)
    if result.dtype != self.dtype:
        raise InplaceError(
            f"float_power_: the tensor has dtype {self.dtype}, but the operation's result requires "
            f"dtype {result.dtype}; use pow_, or float_power"
        )
    return _write(self, result, "float_power_")


def frac_(self: Tensor) -> Tensor:
    """Writes the fractional parts of the elements, with their signs, into the tensor."""
    return self.sub_(pointwise.trunc(self.detach()))


def i0_(self: Tensor) -> Tensor:
    """Writes the modified Bessel function of order zero into the tensor."""
    return _write(self, special.i0(_source(self)), "i0_")


def polygamma_(self: Tensor, n: int) -> Tensor:
    """Writes the n-th derivative of the digamma function into the tensor."""
    return _write(self, special.polygamma(n, _source(self)), "polygamma_")


def rsqrt_(self: Tensor) -> Tensor:
    """Writes the reciprocals of the square roots of the elements into the tensor."""
    return _write(self, pointwise.reciprocal(pointwise.sqrt(_source(self))), "rsqrt_")


def tril_(self: Tensor, k: int = 0) -> Tensor:
    """Sets the elements above the k-th diagonal to zero."""
    return _write(self, functions.tril(_source(self), k), "tril_")


def triu_(self: Tensor, k: int = 0) -> Tensor:
    """Sets the elements below the k-th diagonal to zero."""
    return _write(self, functions.triu(_source(self), k), "triu_")


for _method in (
    as_strided_,
    clamp_max_,
    clamp_min_,
    conj_physical_,
    cumprod_,
    cumsum_,
    float_power_,
    frac_,
    i0_,
    logical_not_,
    polygamma_,
    resize_,
    rsqrt_,
    set_,
    squeeze_,
    swapaxes_,
    t_,
    transpose_,
    tril_,
    triu_,
    unsqueeze_,
):
    setattr(Tensor, _method.__name__, _method)
setattr(Tensor, "swapdims_", swapaxes_)  # noqa: B010 - PyTorch's second name of a method in the stub
for _names, _function in _COMPARISONS.items():
    for _name in _names:
        setattr(Tensor, _name, _comparison(_name, _function))
for _name, _original in _ALIASES.items():
    setattr(Tensor, _name, getattr(Tensor, _original))
