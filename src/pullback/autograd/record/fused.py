"""Hand-written forms of few operators, which programs call most; at most 16 operators.

They compute what the generic functions of ``operands.py`` and ``generic.py`` compute from the
formulas of the table, without the calls in between, and for large arrays sum early: a product whose
gradient is summed to the shape of an operand is not made at full size. Beside each stands a
workload of ``benchmarks/run.py`` that it serves, and what that takes without the fused form:
``benchmarks/ablation.py`` measures it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.autograd.graph.node import FREED, OperatorNode
from pullback.autograd.graph.output_metadata import FLOAT64
from pullback.autograd.graph.saved import input_array, output_array
from pullback.autograd.record.record import edge_of, recorded
from pullback.autograd.record.unfused import Function
from pullback.kernels.broadcasting import MIN_FUSED_SIZE, squeeze_singleton
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pullback.autograd.record.operator import OperatorSpec

    _Array = NDArray[Any]
    _Gradients = tuple[Any, ...]

from pullback.autograd.namespaces import Namespace

__all__ = ["FUSED", "Fused"]

_ndarray = np.ndarray
# Beside small arrays NumPy reads them in two thirds of the time of Python numbers.
_ONE, _TWO = np.array(1.0), np.array(2.0)


class Fused(NamedTuple):
    """The hand-written functions of an operator; None where the generic one serves.

    Attributes:
        run: of the node class.
        backward: makes that of the node class from the generic one.
        record: makes the recording kernel from the row and the node class.
    """

    run: Function | None = None
    backward: Function | None = None
    record: Callable[[OperatorSpec, type[OperatorNode]], Function] | None = None


# --- add: chain_small 1.02; sub: scalar_loop 1.01 ------------------------------------------------


def _run_add(node: OperatorNode, _xp: Any, grad: _Array, _keep: bool) -> _Gradients:
    return (
        grad if node._edge0 is not None else None,
        grad if node._edge1 is not None else None,
    )


def _run_sub(node: OperatorNode, _xp: Any, grad: _Array, _keep: bool) -> _Gradients:
    return (
        grad if node._edge0 is not None else None,
        -grad if node._edge1 is not None else None,
    )


# --- mul: gmm_d10_k25 1.22 ------------------------------------------------------------------------


def _run_mul(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:
    to_self, to_other = node._edge0, node._edge1
    metadata = node._output_metadata
    is_small = metadata.is_small_float64 or grad.size < MIN_FUSED_SIZE
    of_self: Any = None
    of_other: Any = None
    if to_other is not None:
        # Nodes share metadata only if neither has a version counter. A single element is combined
        # with an array sooner without its axes.
        differs = to_self is not None and to_self._output_metadata is not metadata
        self = node._saved0
        if (
            type(self) is Tensor
            and (self._counter is None or self._counter[0] == node._version0)
            and (self._meta is None or not self._meta.detached)
        ):
            self = self._array
        elif type(self) is not _ndarray or (
            differs and to_self._output_metadata.extras is not None  # type: ignore[union-attr]
        ):
            self = input_array(node, "self")
        if differs:
            self = squeeze_singleton(self, grad.ndim)
        if to_self is to_other and node._saved0 is node._saved1:
            return _run_square(node, xp, grad, keep, self, is_small)
        if metadata.dtype is not FLOAT64:
            self = self.conjugate()
        of_other = grad * self if is_small else xp.product_to(grad, self, to_other)
    if to_self is not None:
        differs = to_other is not None and to_other._output_metadata is not metadata
        other = node._saved1
        if (
            type(other) is Tensor
            and (other._counter is None or other._counter[0] == node._version1)
            and (other._meta is None or not other._meta.detached)
        ):
            other = other._array
        elif type(other) is not _ndarray or (
            differs and to_other._output_metadata.extras is not None  # type: ignore[union-attr]
        ):
            other = input_array(node, "other")
        if differs:
            other = squeeze_singleton(other, grad.ndim)
        if metadata.dtype is not FLOAT64:
            other = other.conjugate()
        of_self = grad * other if is_small else xp.product_to(grad, other, to_self)
    if not keep:
        node._saved0 = node._saved1 = FREED
    return (of_self, of_other)


def _run_square(
    node: OperatorNode, xp: Namespace, grad: _Array, keep: bool, factor: _Array, is_small: bool
) -> _Gradients:
    """A value multiplied by itself: its two gradients are one, doubled."""
    if node._output_metadata.dtype is not FLOAT64:
        factor = factor.conjugate()
    if is_small:
        both = grad * factor
        both += both
    else:
        both = xp.twice_product(grad, factor)
    if not keep:
        node._saved0 = node._saved1 = FREED
    return (both,)


def _make_backward_mul(generic: Function) -> Function:
    """``backward`` of a product, which computes the gradient of a square once for both edges."""

    def backward(node: OperatorNode, xp: Namespace, grad: Any) -> _Gradients:
        edge = node._edge0
        if grad is None or edge is None or edge is not node._edge1:
            return generic(node, xp, grad)  # type: ignore[no-any-return]
        if node._saved0 is not node._saved1:
            return generic(node, xp, grad)  # type: ignore[no-any-return]
        if type(node._saved0) is Tensor:
            factor = xp.load(node, node._saved0, node._version0)
        else:
            factor = xp.load_input(node, "self")
        both = grad * xp.conj(factor)
        return (both, both)

    return backward


# --- neg: chain_small 1.02; exp: chain_small 1.03 ------------------------------------------------


def _run_neg(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:  # noqa: ARG001
    return (-grad,)


def _run_exp(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:  # noqa: ARG001
    result = node._result
    metadata = node._output_metadata
    if type(result) is not _ndarray or metadata.extras is not None:
        result = output_array(node, "result")
    gradient = grad * result if metadata.dtype is FLOAT64 else grad * result.conjugate()
    if not keep:
        node._result = FREED
    return (gradient,)


# --- square: scalar_loop 1.03 ---------------------------------------------------------------------


def _run_square_of(node: OperatorNode, xp: Any, grad: _Array, keep: bool) -> _Gradients:  # noqa: ARG001
    self = node._saved0
    metadata = node._output_metadata
    if (
        type(self) is Tensor
        and (self._counter is None or self._counter[0] == node._version0)
        and (self._meta is None or not self._meta.detached)
    ):
        self = self._array
    elif type(self) is not _ndarray or node._edge0._output_metadata.extras is not None:  # type: ignore[union-attr]
        self = input_array(node, "self")
    if metadata.is_small_float64 and metadata.shape:
        gradient = _TWO * grad * self
    elif metadata.dtype is FLOAT64:
        gradient = 2 * grad * self
    else:
        gradient = 2 * grad * self.conjugate()
    if not keep:
        node._saved0 = FREED
    return (gradient,)


# --- tanh: chain_small 1.02 -----------------------------------------------------------------------


def _run_tanh(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:  # noqa: ARG001
    result = node._result
    metadata = node._output_metadata
    if type(result) is not _ndarray or metadata.extras is not None:
        result = output_array(node, "result")
    if metadata.is_small_float64 and metadata.shape:
        gradient = grad * (_ONE - result * result)
    elif metadata.dtype is FLOAT64:
        gradient = grad * (1 - result * result)
    else:
        gradient = grad * (1 - result * result).conjugate()
    if not keep:
        node._result = FREED
    return (gradient,)


# --- matmul: gmm_d64_k5 1.32 ----------------------------------------------------------------------


def _run_matmul(node: Any, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:
    to_self, to_other = node._edge0, node._edge1
    is_small = node._output_metadata.is_small_float64 or grad.size < MIN_FUSED_SIZE
    of_self: Any = None
    of_other: Any = None
    if to_other is not None:
        self = node._saved0
        if (
            type(self) is Tensor
            and (self._counter is None or self._counter[0] == node._version0)
            and (self._meta is None or not self._meta.detached)
        ):
            self = self._array
        elif type(self) is not _ndarray or (
            to_self is not None and to_self._output_metadata.extras is not None
        ):
            self = input_array(node, "self")
        if is_small:
            of_other = xp.matmul_to_second(grad, self, node.other_shape)
        else:
            of_other = xp.second_factor_to(grad, self, node.other_shape, to_other)
    if to_self is not None:
        other = node._saved1
        if (
            type(other) is Tensor
            and (other._counter is None or other._counter[0] == node._version1)
            and (other._meta is None or not other._meta.detached)
        ):
            other = other._array
        elif type(other) is not _ndarray or (
            to_other is not None and to_other._output_metadata.extras is not None
        ):
            other = input_array(node, "other")
        if is_small:
            of_self = xp.matmul_to_first(grad, node.self_shape, other)
        else:
            of_self = xp.first_factor_to(grad, node.self_shape, other, to_self)
    if not keep:
        node._saved0 = node._saved1 = FREED
    return (of_self, of_other)


# --- sum: tiny 1.05 -------------------------------------------------------------------------------


def _make_record_sum(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    kernel = spec.kernel

    def record(
        self: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: Any = None
    ) -> Tensor:
        node: Any = cls()
        node._edge0 = self._edge or edge_of(self)
        array = self._array
        node.self_shape = array.shape
        node.axis = axis
        node.keepdims = keepdims
        return recorded(node, kernel(array, axis, keepdims, dtype=dtype))

    return record


def _run_sum(node: Any, xp: Namespace, grad: _Array, _keep: bool) -> _Gradients:
    return (xp.expand_reduced(grad, node.self_shape, node.axis, node.keepdims),)


FUSED: dict[str, Fused] = {
    "pullback::add": Fused(run=_run_add),
    "pullback::exp": Fused(run=_run_exp),
    "pullback::matmul": Fused(run=_run_matmul),
    "pullback::mul": Fused(run=_run_mul, backward=_make_backward_mul),
    "pullback::neg": Fused(run=_run_neg),
    "pullback::square": Fused(run=_run_square_of),
    "pullback::sub": Fused(run=_run_sub),
    "pullback::sum": Fused(run=_run_sum, record=_make_record_sum),
    "pullback::tanh": Fused(run=_run_tanh),
}
"""By the name of the operator."""
