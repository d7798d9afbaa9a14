"""Namespaces: what a derivative formula runs on. There are three.

A generated formula reads ``xp.conj(other)``; `xp` is a namespace. Each has every operator under its
name, and what a backward pass needs besides.

- ``arrays``: raw arrays; nothing is recorded. The fast one.
- ``tensors``: tensors that record, for gradients that are differentiated again.
- ``DualArrays`` (``forward/dual_array.py``): arrays with tangents, for gradients in forward mode
  that are not differentiated again: Hessian products and ``jvp`` of ``grad``.

Operators stand in a namespace when their table is loaded, which the first formula that reads one
brings about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.node import Node, output_of
from pullback.autograd.graph.pre_reduced_cotangent import PreReducedCotangent, reduced_shape
from pullback.autograd.graph.saved import (
    load_array,
    load_output_array,
    load_output_tensor,
    load_tensor,
    saved_input,
    saved_output,
)
from pullback.dispatch.modes import INFERENCE, TRACE, TRANSFORM, get_state, is_grad_enabled
from pullback.dispatch.table import ENTRIES
from pullback.errors import AutogradError, InferenceError
from pullback.kernels.broadcasting import (
    axes_to,
    product_to,
    reduced_axes,
    sum_all,
    sum_first,
    sum_last,
    twice_product,
)
from pullback.tensor.memory import check_writable, empty_in_layout
from pullback.tensor.meta import Meta
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import (
    NO_COUNTER,
    Tensor,
    fresh,
    tag_level,
    version_of,
    zeros_beside,
)

__all__ = [
    "Namespace",
    "arrays",
    "load_missing",
    "owned_copy",
    "real_arrays",
    "tensors",
]


_reduce: Callable[..., Any] = np.add.reduce
_SMALL = 16_384  # elements; below it, filling an array beats making a view with broadcast_to


class Namespace:
    """Functions by name; missing ones are loaded at their first use.

    Attributes:
        wrapper: the class of values that are no arrays, and have one in ``_array``.
        is_batched: whether that may have batch axes in front, which values do not have.
    """

    wrapper: type[Any] | None = None
    is_batched = False

    def __init__(self, name: str, load: Callable[..., Any], load_output: Callable[..., Any]):
        self.name = name
        self.load = load
        self.load_output = load_output

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # special attributes that Python reads
            raise AttributeError(name)
        for load in _loaders:
            load(name)
            if name in vars(self):
                return vars(self)[name]
        raise AutogradError(f"a formula calls {name!r}, which the namespace {self.name} lacks")

    def __repr__(self) -> str:
        return f"<namespace of {self.name}>"

    def load_input(self, node: Node, name: str) -> Any:
        """A saved input in any form, checked; None where none was needed."""
        return self.load(node, *saved_input(node, name))

    def load_result(self, node: Node, name: str) -> Any:
        """A saved result in any form, checked; None where none was needed."""
        return self.load_output(node, saved_output(node, name))

    @staticmethod
    def shapes(values: list[Any]) -> list[tuple[int, ...]]:
        """The shape of each value of a list."""
        return [value.shape for value in values]

    @staticmethod
    def dtypes(values: list[Any]) -> list[Any]:
        """The dtype of each value of a list."""
        return [value.dtype for value in values]

    def sum_to(self, grad: Any, shape: tuple[int, ...], blame: Callable[[], str]) -> Any:
        """Undoes broadcasting: sums a gradient to the shape of what it is the gradient of."""
        axes = axes_to(grad.shape, shape)
        if axes is None:
            raise _shape_error(grad.shape, shape, blame)
        if axes:
            grad = self.sum(grad, list(axes), True)
        return self.reshape(grad, list(shape)) if grad.shape != shape else grad

    def expand_reduced(self, grad: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
        """Repeats the gradient of a reduction over the axes that were reduced."""
        if axis is not None and not keepdims and shape:
            grad = self.reshape(grad, _with_ones(shape, reduced_axes(shape, axis)))
        return self.expand(grad, shape)

    def match_dtype(self, grad: Any, dtype: np.dtype[Any] | None, narrows: bool, blame: Any) -> Any:
        """Gives a gradient the dtype of what it is the gradient of."""
        if dtype is None:  # a leaf whose grad_dtype is None accepts any dtype
            return grad
        if grad.dtype.kind == "c" and dtype.kind != "c":
            if not narrows:
                raise AutogradError(
                    f"{blame()} - got a gradient of dtype {grad.dtype} for an input of dtype "
                    f"{dtype}; return its real part"
                )
            grad = self.real(grad)
        return grad if grad.dtype == dtype else self.astype(grad, dtype)


class _Arrays(Namespace):
    """Formulas on raw arrays: nothing is recorded."""

    @staticmethod
    def conj(x: Any) -> Any:
        """The complex conjugate; what is real is returned as it is."""
        if type(x) is np.ndarray and x.dtype.kind != "c":
            return x
        return np.conjugate(x) if getattr(x, "dtype", None) is not None else x.conjugate()

    def accumulate(self, meta: Meta, leaf: Tensor, grad: NDArray[Any], is_owned: bool) -> None:
        """Adds to a leaf's gradient in place; the first one is copied if held elsewhere."""
        held = meta.grad
        if held is None:
            array = leaf._array
            if not (
                is_owned
                and type(grad) is np.ndarray
                and grad.base is None
                # What owns its memory is dense, so a single axis can lie in it in one way only.
                and (grad.ndim == 1 or (grad.strides == array.strides and grad.flags.forc))
            ):
                grad = owned_copy(grad, array)
            meta.grad = fresh(grad)
            return
        if isinstance(held._array, Payload):
            tensors.accumulate(meta, leaf, fresh(grad), is_owned)
            return
        counter = version_of(held)
        if counter is NO_COUNTER and not get_state().modes & INFERENCE:
            raise InferenceError(
                "accumulation: Inplace update to inference tensor outside InferenceMode: the grad "
                "of this leaf was made in inference mode. Set it to None first."
            )
        check_writable(held._array, "accumulation")
        if counter is not NO_COUNTER:
            counter[0] += 1  # before the write: an interrupt could come after it
        np.add(held._array, grad, out=held._array, casting="unsafe")

    def expand(self, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """A value repeated to a larger shape; small ones are copied, which beats making a view."""
        if not value.shape:  # one number everywhere: NumPy's own way takes twenty times as long
            return np.ndarray(shape, value.dtype, value, 0, (0,) * len(shape))
        result = np.empty(shape, value.dtype)
        if result.size > _SMALL:
            return np.broadcast_to(value, shape)
        result[...] = value
        return result

    def materialize(self, node: Node, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients of all outputs of a node; those that did not arrive are zero."""
        return [
            np.zeros(*output_of(node, number)) if grad is None else grad
            for number, grad in enumerate(grads)
        ]

    def in_layout(self, grad: NDArray[Any], layout: tuple[int, ...]) -> NDArray[Any]:
        """A copy whose memory runs through the axes in a given order."""
        copy = empty_in_layout(grad.shape, grad.dtype, layout)
        np.copyto(copy, grad)
        return copy

    def sum_to(self, grad: Any, shape: tuple[int, ...], blame: Callable[[], str]) -> Any:
        """Undoes broadcasting, in one step where the number of axes is the same."""
        if not shape:
            return sum_all(grad)
        axes = axes_to(grad.shape, shape)
        if axes is None:
            raise _shape_error(grad.shape, shape, blame)
        if axes == (0,) and grad.shape[1:] == shape:
            return sum_first(grad)
        if axes == (grad.ndim - 1,):
            grad = sum_last(grad)
        elif axes:
            grad = _reduce(grad, axes if len(axes) > 1 else axes[0], None, None, True)
        return grad if grad.ndim == len(shape) else grad.reshape(shape)

    def product_to(self, grad: Any, factor: Any, target: Any) -> Any:
        """The product, summed to the shape of a node where that is done best without making it."""
        if not target._is_single:
            return grad * factor
        shape = target._output_metadata.shape
        sums = reduced_shape(target, grad, factor)
        product = product_to(grad, factor, sums or shape)
        return PreReducedCotangent(product, shape) if sums and product.shape == sums else product

    def first_factor_to(self, grad: Any, shape: tuple[int, ...], other: Any, target: Any) -> Any:
        """``matmul_to_first``, of a gradient that is summed first where a node sums its rows."""
        sums = reduced_shape(target, grad, other)
        if sums is None or sums != (*shape[:-2], 1, *shape[-1:]) or 1 in (len(shape), other.ndim):
            return self.matmul_to_first(grad, shape, other)
        total = self.matmul_to_first(_reduce(grad, -2, None, None, True), sums, other)
        return PreReducedCotangent(self.sum_to(total, sums, str), shape)

    def second_factor_to(self, grad: Any, self_: Any, shape: tuple[int, ...], target: Any) -> Any:
        """``matmul_to_second``, of a gradient that is summed first where a node sums columns."""
        sums = reduced_shape(target, grad, self_)
        if sums is None or sums != (*shape[:-1], 1) or 1 in (len(shape), self_.ndim):
            return self.matmul_to_second(grad, self_, shape)
        total = self.matmul_to_second(sum_last(grad), self_, sums)
        return PreReducedCotangent(self.sum_to(total, sums, str), shape)

    twice_product = staticmethod(twice_product)

    def seed(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The gradient that a pass starts from; for a number, a number, which costs least."""
        return np.ones(shape, dtype) if shape else dtype.type(1)

    def from_tensor(self, tensor: Tensor) -> NDArray[Any]:
        """Converts a tensor to a value of this namespace."""
        return tensor._array  # type: ignore[no-any-return]

    def to_tensor(self, value: Any) -> Tensor | None:
        """A value of this namespace as a tensor, for hooks and results."""
        return None if value is None else fresh(value)


class _RealArrays(_Arrays):
    """As `_Arrays`, for formulas whose values are known to be real: their conjugate is themselves.

    Saves a look at the dtype for each ``conj`` in a formula (chain_small -5 %).
    """

    def __init__(self) -> None:
        super().__init__("real arrays", load_array, load_output_array)
        self.conj = _identity  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        value = getattr(arrays, name)
        setattr(self, name, value)
        return value


def _identity(x: Any) -> Any:
    return x


class _Tensors(Namespace):
    """Formulas on tensors: what they compute can be differentiated again."""

    wrapper = Tensor

    def accumulate(self, meta: Meta, leaf: Tensor, grad: Tensor, is_owned: bool) -> None:
        """Adds to a leaf's gradient out of place: the old one may be part of a graph."""
        held = meta.grad
        if not is_grad_enabled():  # it cannot be, and tangents end here
            parts = (leaf, grad) if held is None else (leaf, grad, held)
            if not any(isinstance(part._array, Payload) for part in parts):
                arrays.accumulate(meta, leaf, grad._array, is_owned)
                return
            if held is not None and get_state().modes & TRACE:  # as outside of a trace
                self.add_(held, grad)
                return
        meta.grad = self.clone(grad) if held is None else self.add(held, grad)

    def expand(self, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A value repeated to a larger shape."""
        return self.broadcast_to(value, list(shape))  # type: ignore[no-any-return]

    def materialize(self, node: Node, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients of all outputs of a node; those that did not arrive are zero."""
        known = next((grad for grad in grads if grad is not None), None)
        return [
            zeros_beside(known, *output_of(node, number)) if grad is None else grad
            for number, grad in enumerate(grads)
        ]

    def in_layout(self, grad: Tensor, layout: tuple[int, ...]) -> Tensor:
        """A copy whose memory runs through the axes in a given order."""
        held = grad._array
        if isinstance(held, Payload):
            return self.copy_(fresh(held.maker(layout)()), grad)  # type: ignore[no-any-return]
        empty = empty_in_layout(grad.shape, grad.dtype, layout)
        return self.copy_(fresh(empty), grad)  # type: ignore[no-any-return]

    def seed(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """The gradient that a pass starts from."""
        return fresh(np.ones(shape, dtype))

    def from_tensor(self, tensor: Tensor) -> Tensor:
        """Converts a tensor to a value of this namespace."""
        return tensor

    def to_tensor(self, value: Any) -> Tensor | None:
        """A value of this namespace as a tensor, for hooks and results."""
        if value is not None and get_state().modes & TRANSFORM:
            return tag_level(value)
        return value  # type: ignore[no-any-return]


def _with_ones(shape: tuple[int, ...], reduced: set[int]) -> list[int]:
    return [1 if axis in reduced else n for axis, n in enumerate(shape)]


def _shape_error(
    given: tuple[int, ...], shape: tuple[int, ...], blame: Callable[[], str]
) -> AutogradError:
    return AutogradError(
        f"{blame()} - got {list(given)} but expected shape compatible with {list(shape)}"
    )


def owned_copy(grad: NDArray[Any], leaf: NDArray[Any]) -> NDArray[Any]:
    """A copy in the memory layout of a dense leaf, else C-contiguous."""
    if leaf.flags.c_contiguous:
        return np.array(grad, order="C")
    dense = leaf.flags.forc or (
        leaf.size and leaf.nbytes == sum((n - 1) * abs(s) for n, s in _axes(leaf)) + leaf.itemsize
    )
    if not dense:
        return np.array(grad, order="C")
    copy = np.empty_like(leaf, dtype=grad.dtype)
    np.copyto(copy, grad)
    return copy


def _axes(array: NDArray[Any]) -> list[tuple[int, int]]:
    return list(zip(array.shape, array.strides, strict=True))


def _load_operator(name: str) -> None:
    entry = ENTRIES.get(f"pullback::{name}")
    if entry is not None:
        entry.load()


_loaders: list[Callable[[str], None]] = [_load_operator]


def load_missing(load: Callable[[str], None]) -> None:
    """Registers ``load(name)``, which is called to define a missing name."""
    _loaders.append(load)


arrays = _Arrays("arrays", load_array, load_output_array)
real_arrays = _RealArrays()
tensors = _Tensors("tensors", load_tensor, load_output_tensor)
