"""Kernels and backward formulas of operators whose arguments are one to four tensors.

Most operators are of this kind, and programs loop over them on small arrays, so each number of
operands has functions of its own: a loop over the operands takes 1.13 of their time. ``generic.py``
serves all other operators.

A VJP formula of these operators takes the namespace, the gradient, all operands and the result;
a parameter that begins with an underscore is not read and gets None. Saved operands are in the
slots ``_saved0`` to ``_saved3`` with their versions in ``_version0`` to ``_version3``, the saved
result in ``_result``.

Every function that is built here gets a code object of its own (`named_copy`): its name shows the
operator in stack traces, and CPython's inline caches see the node class of one operator only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.autograd.graph.node import FREED, OperatorNode, sequence_counter
from pullback.autograd.graph.output_metadata import (
    FLOAT64,
    FLOAT64_METADATA,
    intern_metadata,
)
from pullback.autograd.graph.saved import input_array, output_array
from pullback.autograd.namespaces import real_arrays
from pullback.autograd.record.record import (
    EDGED,
    RECORDED_FLAGS,
    edge_of,
    recorded,
)
from pullback.autograd.record.unfused import Function
from pullback.kernels.broadcasting import MAX_DIRECT_SIZE, broadcast_ufunc, squeeze_singleton
from pullback.kernels.threads import MIN_THREADED_HEAVY_SIZE, spread
from pullback.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pullback.autograd.namespaces import Namespace
    from pullback.autograd.record.operator import OperatorSpec

    _Array = NDArray[Any]
    _Gradients = tuple[_Array | None, ...]

__all__ = [
    "array_function",
    "backward_function",
    "plain_kernel",
    "plain_two",
    "record_kernel",
    "record_two",
    "run_function",
]

_ndarray = np.ndarray
_asarray = np.asarray
_new = object.__new__


# --- kernels that do not record ------------------------------------------------------------------


def _shared_kernel(kernel: Any) -> Function:
    """A costly function of one array, computed by several threads where the array is large."""

    def call(array: _Array) -> _Array:
        # A Python number has no size.
        if type(array) is _ndarray and array.size >= MIN_THREADED_HEAVY_SIZE:
            return spread(kernel, array)
        return kernel(array)  # type: ignore[no-any-return]

    return call


def _combining(ufunc: Any) -> Function:
    """NumPy's function of two arrays, called in another way where sizes differ or are large."""

    def call(a: _Array, b: _Array) -> _Array:
        if (
            type(a) is type(b) is _ndarray
            and not a.size == b.size <= MAX_DIRECT_SIZE
            and a.ndim
            and b.ndim
        ):
            return broadcast_ufunc(ufunc, a, b)  # type: ignore[no-any-return]
        return ufunc(a, b)  # type: ignore[no-any-return]

    return call


def array_function(spec: OperatorSpec) -> Function:
    """The function on arrays that computes an operator of any size of operands."""
    if spec.is_heavy:
        return _shared_kernel(spec.kernel)
    if spec.is_elementwise and spec.is_numpy and len(spec.arguments) == 2:
        return _combining(spec.kernel)
    return spec.kernel


def plain_kernel(spec: OperatorSpec) -> Function:
    """The kernel that computes and records nothing."""
    compute = array_function(spec)
    kernels = (_plain_of_one, plain_two, _plain_of_three, _plain_of_four)
    return kernels[len(spec.arguments) - 1](compute)


def _plain_of_one(compute: Function) -> Function:
    def cpu(self: Tensor) -> Tensor:
        return wrap(compute(self._array))

    return cpu


def plain_two(compute: Function) -> Function:
    """The kernel of an operator of two tensors that computes and records nothing."""

    def cpu(self: Tensor, other: Tensor) -> Tensor:
        return wrap(compute(self._array, other._array))

    return cpu


def _plain_of_three(compute: Function) -> Function:
    def cpu(self: Tensor, other: Tensor, third: Tensor) -> Tensor:
        return wrap(compute(self._array, other._array, third._array))

    return cpu


def _plain_of_four(compute: Function) -> Function:
    def cpu(self: Tensor, other: Tensor, third: Tensor, fourth: Tensor) -> Tensor:
        return wrap(compute(self._array, other._array, third._array, fourth._array))

    return cpu


# --- kernels that record -------------------------------------------------------------------------


def record_kernel(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    """The kernel for operands of which at least one requires grad."""
    kernels = (_record_one, record_two, _record_three, _record_four)
    return kernels[len(spec.arguments) - 1](spec, cls)


def _record_one(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    kernel, compute = spec.kernel, array_function(spec)
    saves_self, saves_result = 0 in spec.saved_operands, spec.saves_result
    keeps_metadata = spec.keeps_metadata

    def record(self: Tensor) -> Tensor:
        node: Any = cls()
        node._edge0 = edge = self._edge or edge_of(self)
        if saves_self:
            # Of a result of another node that has no view, tangent or counter yet, its array.
            if self._edge is None or self._counter is not None or self._meta is not None:
                node._saved0 = self
                node._version0 = 0 if self._counter is None else self._counter[0]
            else:
                node._saved0 = self._array
        is_few = (
            keeps_metadata
            and edge is not None
            and (metadata := edge._output_metadata).is_small_float64
        )
        array = (kernel if is_few else compute)(self._array)
        if type(array) is not _ndarray:  # NumPy returns a number where there are no axes
            array = _asarray(array)
        if is_few or array.dtype is FLOAT64:
            if is_few:
                node._output_metadata = metadata
            else:
                try:
                    node._output_metadata = FLOAT64_METADATA[array.shape]
                except KeyError:
                    node._output_metadata = intern_metadata(array.shape, FLOAT64)
            node._seq = sequence_counter()()
            result = _new(Tensor)
            result._array = array
            result._flags = RECORDED_FLAGS
            result._edge = node
            result._counter = result._meta = None
        else:
            result = recorded(node, array)
        if saves_result:
            node._result = result._array
        return result

    return record


def record_two(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    """The kernel of an operator of two tensors, which may save more than them."""
    kernel, compute = spec.kernel, array_function(spec)
    saves_self, saves_other = (place in spec.saved_operands for place in (0, 1))
    self_for_self, self_for_other = spec.needs(0)
    other_for_self, other_for_other = spec.needs(1)
    saves_result, save = spec.saves_result, spec.save
    result_for_self, result_for_other = spec.needs_result()
    keeps_metadata = spec.keeps_metadata

    def record(self: Tensor, other: Tensor) -> Tensor:
        node: Any = cls()
        node._edge0 = to_self = self._edge or (edge_of(self) if self._flags & EDGED else None)
        node._edge1 = to_other = other._edge or (edge_of(other) if other._flags & EDGED else None)
        if saves_self and (
            (self_for_self and to_self is not None) or (self_for_other and to_other is not None)
        ):
            if self._edge is None or self._counter is not None or self._meta is not None:
                node._saved0 = self
                node._version0 = 0 if self._counter is None else self._counter[0]
            else:
                node._saved0 = self._array
        if saves_other and (
            (other_for_self and to_self is not None) or (other_for_other and to_other is not None)
        ):
            if other._edge is None or other._counter is not None or other._meta is not None:
                node._saved1 = other
                node._version1 = 0 if other._counter is None else other._counter[0]
            else:
                node._saved1 = other._array
        if save is not None:
            save(node, self, other)
        is_few = False
        if not keeps_metadata:
            pass
        elif to_self is None:
            is_few = (
                to_other is not None
                and (metadata := to_other._output_metadata).is_small_float64
                and type(constant := self._array) is _ndarray
                and constant.dtype is FLOAT64
                and ((shape := constant.shape) == metadata.shape or not shape)
            )
        elif to_other is None:
            is_few = (
                (metadata := to_self._output_metadata).is_small_float64
                and type(constant := other._array) is _ndarray
                and constant.dtype is FLOAT64
                and ((shape := constant.shape) == metadata.shape or not shape)
            )
        else:
            is_few = (
                metadata := to_self._output_metadata
            ) is to_other._output_metadata and metadata.is_small_float64
        array = (kernel if is_few else compute)(self._array, other._array)
        if type(array) is not _ndarray:
            array = _asarray(array)
        if is_few or array.dtype is FLOAT64:
            if is_few:
                node._output_metadata = metadata
            else:
                try:
                    node._output_metadata = FLOAT64_METADATA[array.shape]
                except KeyError:
                    node._output_metadata = intern_metadata(array.shape, FLOAT64)
            node._seq = sequence_counter()()
            result = _new(Tensor)
            result._array = array
            result._flags = RECORDED_FLAGS
            result._edge = node
            result._counter = result._meta = None
        else:
            result = recorded(node, array)
        if saves_result:
            is_needed = (result_for_self and to_self is not None) or (
                result_for_other and to_other is not None
            )
            node._result = result._array if is_needed else None
        return result

    return record


def _record_three(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    compute = array_function(spec)
    saves_first, saves_second, saves_third = (place in spec.saved_operands for place in range(3))
    guards = [spec.guard(name) for name in (*spec.operand_names, spec.result_name)]
    first_guard, second_guard, third_guard, result_guard = guards
    saves_result = spec.saves_result

    def record(self: Tensor, other: Tensor, third: Tensor) -> Tensor:
        node: Any = cls()
        node._edges = edges = (
            self._edge or (edge_of(self) if self._flags & EDGED else None),
            other._edge or (edge_of(other) if other._flags & EDGED else None),
            third._edge or (edge_of(third) if third._flags & EDGED else None),
        )
        if saves_first and (first_guard is None or edges[first_guard] is not None):
            node._saved0 = self
            node._version0 = 0 if self._counter is None else self._counter[0]
        if saves_second and (second_guard is None or edges[second_guard] is not None):
            node._saved1 = other
            node._version1 = 0 if other._counter is None else other._counter[0]
        if saves_third and (third_guard is None or edges[third_guard] is not None):
            node._saved2 = third
            node._version2 = 0 if third._counter is None else third._counter[0]
        result = recorded(node, compute(self._array, other._array, third._array))
        if saves_result:
            is_needed = result_guard is None or edges[result_guard] is not None
            node._result = result._array if is_needed else None
        return result

    return record


def _record_four(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    compute = array_function(spec)
    saved = [place in spec.saved_operands for place in range(4)]
    saves_first, saves_second, saves_third, saves_fourth = saved
    guards = [spec.guard(name) for name in (*spec.operand_names, spec.result_name)]
    first_guard, second_guard, third_guard, fourth_guard, result_guard = guards
    saves_result = spec.saves_result

    def record(self: Tensor, other: Tensor, third: Tensor, fourth: Tensor) -> Tensor:
        node: Any = cls()
        node._edges = edges = (
            self._edge or (edge_of(self) if self._flags & EDGED else None),
            other._edge or (edge_of(other) if other._flags & EDGED else None),
            third._edge or (edge_of(third) if third._flags & EDGED else None),
            fourth._edge or (edge_of(fourth) if fourth._flags & EDGED else None),
        )
        if saves_first and (first_guard is None or edges[first_guard] is not None):
            node._saved0 = self
            node._version0 = 0 if self._counter is None else self._counter[0]
        if saves_second and (second_guard is None or edges[second_guard] is not None):
            node._saved1 = other
            node._version1 = 0 if other._counter is None else other._counter[0]
        if saves_third and (third_guard is None or edges[third_guard] is not None):
            node._saved2 = third
            node._version2 = 0 if third._counter is None else third._counter[0]
        if saves_fourth and (fourth_guard is None or edges[fourth_guard] is not None):
            node._saved3 = fourth
            node._version3 = 0 if fourth._counter is None else fourth._counter[0]
        array = compute(self._array, other._array, third._array, fourth._array)
        result = recorded(node, array)
        if saves_result:
            is_needed = result_guard is None or edges[result_guard] is not None
            node._result = result._array if is_needed else None
        return result

    return record


# --- run: gradients of arrays --------------------------------------------------------------------


def run_function(spec: OperatorSpec) -> Function:
    """``run`` of the node class: the formulas on raw arrays, with saved values read in line."""
    functions = (_run_one, _run_two, _run_three, _run_four)
    return functions[len(spec.arguments) - 1](spec)


def _run_one(spec: OperatorSpec) -> Function:
    (vjp,), (vjp_of_few,) = spec.formulas, spec.formulas_of_few
    saves_self, saves_result = 0 in spec.saved_operands, spec.saves_result
    name, result_name, is_alike = spec.operand_names[0], spec.result_name, spec.is_alike

    def run(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:
        self = result = None
        if saves_self:
            self = node._saved0
            if (
                type(self) is Tensor
                and (self._counter is None or self._counter[0] == node._version0)
                and (self._meta is None or not self._meta.detached)
            ):
                self = self._array
            elif type(self) is not _ndarray or node._edge0._output_metadata.extras is not None:  # type: ignore[union-attr]
                self = input_array(node, name)
        if saves_result:
            result = node._result
            if type(result) is not _ndarray or node._output_metadata.extras is not None:
                result = output_array(node, result_name)
        metadata = node._output_metadata
        if is_alike and metadata.is_small_float64 and metadata.shape:
            gradient = vjp_of_few(real_arrays, grad, self, result)
        elif is_alike and metadata.dtype is FLOAT64:
            gradient = vjp(real_arrays, grad, self, result)
        else:
            gradient = vjp(xp, grad, self, result)
        if not keep:
            if saves_self:
                node._saved0 = FREED
            if saves_result:
                node._result = FREED
        return (gradient,)

    return run


def _run_two(spec: OperatorSpec) -> Function:
    vjp_self, vjp_other = spec.formulas
    few_self, few_other = spec.formulas_of_few
    saves_self, saves_other = (place in spec.saved_operands for place in (0, 1))
    self_for_self, self_for_other = spec.needs(0)
    other_for_self, other_for_other = spec.needs(1)
    saves_result, result_name = spec.saves_result, spec.result_name
    result_for_self, result_for_other = spec.needs_result()
    name, other_name = spec.operand_names
    is_alike = spec.is_alike

    def run(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:
        to_self, to_other = node._edge0, node._edge1
        self: Any = None
        other: Any = None
        result: Any = None
        if (self_for_self and to_self is not None) or (self_for_other and to_other is not None):
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
                self = input_array(node, name)
            # A single element is combined with an array sooner without its axes.
            if (
                is_alike
                and to_self is not None
                and to_self._output_metadata is not node._output_metadata
            ):
                self = squeeze_singleton(self, grad.ndim)
        if (other_for_self and to_self is not None) or (other_for_other and to_other is not None):
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
                other = input_array(node, other_name)
            if (
                is_alike
                and to_other is not None
                and to_other._output_metadata is not node._output_metadata
            ):
                other = squeeze_singleton(other, grad.ndim)
        if saves_result and (
            (result_for_self and to_self is not None) or (result_for_other and to_other is not None)
        ):
            result = node._result
            if type(result) is not _ndarray or node._output_metadata.extras is not None:
                result = output_array(node, result_name)
        of_self, of_other, metadata = vjp_self, vjp_other, node._output_metadata
        if is_alike and metadata.dtype is FLOAT64:
            xp = real_arrays
            if metadata.is_small_float64 and metadata.shape:
                of_self, of_other = few_self, few_other
        gradients = (
            None if to_self is None else of_self(xp, grad, self, other, result),
            None if to_other is None else of_other(xp, grad, self, other, result),
        )
        if not keep:
            if saves_self:
                node._saved0 = FREED
            if saves_other:
                node._saved1 = FREED
            if saves_result:
                node._result = FREED
        return gradients

    return run


def _load_operand(node: OperatorNode, xp: Namespace, saved: Any, version: int) -> Any:
    """A saved operand on the namespace; a tensor without a counter was never written to."""
    if type(saved) is Tensor and saved._counter is None and saved._meta is None:
        return saved._array
    return xp.load(node, saved, version)


def _run_three(spec: OperatorSpec) -> Function:
    vjp_first, vjp_second, vjp_third = spec.formulas
    saves_first, saves_second, saves_third = (place in spec.saved_operands for place in range(3))
    guards = [spec.guard(name) for name in (*spec.operand_names, spec.result_name)]
    first_guard, second_guard, third_guard, result_guard = guards
    saves_result, result_name = spec.saves_result, spec.result_name

    def run(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:
        edges = node._edges
        first: Any = None
        second: Any = None
        third: Any = None
        result: Any = None
        if saves_first and (first_guard is None or edges[first_guard] is not None):
            first = _load_operand(node, xp, node._saved0, node._version0)
        if saves_second and (second_guard is None or edges[second_guard] is not None):
            second = _load_operand(node, xp, node._saved1, node._version1)
        if saves_third and (third_guard is None or edges[third_guard] is not None):
            third = _load_operand(node, xp, node._saved2, node._version2)
        if saves_result and (result_guard is None or edges[result_guard] is not None):
            result = node._result
            if type(result) is not _ndarray or node._output_metadata.extras is not None:
                result = output_array(node, result_name)
        to_0, to_1, to_2 = edges
        gradients = (
            None if to_0 is None else vjp_first(xp, grad, first, second, third, result),
            None if to_1 is None else vjp_second(xp, grad, first, second, third, result),
            None if to_2 is None else vjp_third(xp, grad, first, second, third, result),
        )
        if not keep:
            if saves_first:
                node._saved0 = FREED
            if saves_second:
                node._saved1 = FREED
            if saves_third:
                node._saved2 = FREED
            if saves_result:
                node._result = FREED
        return gradients

    return run


def _run_four(spec: OperatorSpec) -> Function:
    vjp_first, vjp_second, vjp_third, vjp_fourth = spec.formulas
    saved = [place in spec.saved_operands for place in range(4)]
    saves_first, saves_second, saves_third, saves_fourth = saved
    guards = [spec.guard(name) for name in (*spec.operand_names, spec.result_name)]
    first_guard, second_guard, third_guard, fourth_guard, result_guard = guards
    saves_result, result_name = spec.saves_result, spec.result_name

    def run(node: OperatorNode, xp: Namespace, grad: _Array, keep: bool) -> _Gradients:
        edges = node._edges
        first: Any = None
        second: Any = None
        third: Any = None
        fourth: Any = None
        result: Any = None
        if saves_first and (first_guard is None or edges[first_guard] is not None):
            first = _load_operand(node, xp, node._saved0, node._version0)
        if saves_second and (second_guard is None or edges[second_guard] is not None):
            second = _load_operand(node, xp, node._saved1, node._version1)
        if saves_third and (third_guard is None or edges[third_guard] is not None):
            third = _load_operand(node, xp, node._saved2, node._version2)
        if saves_fourth and (fourth_guard is None or edges[fourth_guard] is not None):
            fourth = _load_operand(node, xp, node._saved3, node._version3)
        if saves_result and (result_guard is None or edges[result_guard] is not None):
            result = node._result
            if type(result) is not _ndarray or node._output_metadata.extras is not None:
                result = output_array(node, result_name)
        values = (first, second, third, fourth, result)
        to_0, to_1, to_2, to_3 = edges
        gradients = (
            None if to_0 is None else vjp_first(xp, grad, *values),
            None if to_1 is None else vjp_second(xp, grad, *values),
            None if to_2 is None else vjp_third(xp, grad, *values),
            None if to_3 is None else vjp_fourth(xp, grad, *values),
        )
        if not keep:
            node.release()
        return gradients

    return run


# --- backward: gradients in any namespace --------------------------------------------------------


def backward_function(spec: OperatorSpec) -> Function:
    """``backward`` of the node class: the formulas in any namespace."""
    functions = (_backward_one, _backward_two, _backward_many, _backward_many)
    return functions[len(spec.arguments) - 1](spec)


def _backward_one(spec: OperatorSpec) -> Function:
    (vjp,) = spec.formulas
    saves_self, saves_result = 0 in spec.saved_operands, spec.saves_result
    name, result_name = spec.operand_names[0], spec.result_name
    refuses = bool(spec.refused_edges)

    def backward(node: OperatorNode, xp: Namespace, grad: Any) -> _Gradients:
        if grad is None and not (refuses and node._edge0 is not None):
            return (None,)
        self = result = None
        if saves_self:
            if type(node._saved0) is Tensor:
                self = xp.load(node, node._saved0, node._version0)
            else:
                self = xp.load_input(node, name)
        if saves_result:
            result = xp.load_result(node, result_name)
        return (vjp(xp, grad, self, result),)

    return backward


def _backward_two(spec: OperatorSpec) -> Function:
    vjp_self, vjp_other = spec.formulas
    self_for_self, self_for_other = spec.needs(0)
    other_for_self, other_for_other = spec.needs(1)
    result_for_self, result_for_other = spec.needs_result()
    name, other_name = spec.operand_names
    result_name, refused = spec.result_name, spec.refused_edges

    def backward(node: OperatorNode, xp: Namespace, grad: Any) -> _Gradients:
        to_self, to_other = node._edge0, node._edge1
        if grad is None and not any(node._edges[place] is not None for place in refused):
            return (None, None)
        self = other = result = None
        if (self_for_self and to_self is not None) or (self_for_other and to_other is not None):
            if type(node._saved0) is Tensor:
                self = xp.load(node, node._saved0, node._version0)
            else:
                self = xp.load_input(node, name)
        if (other_for_self and to_self is not None) or (other_for_other and to_other is not None):
            if type(node._saved1) is Tensor:
                other = xp.load(node, node._saved1, node._version1)
            else:
                other = xp.load_input(node, other_name)
        if (result_for_self and to_self is not None) or (result_for_other and to_other is not None):
            result = xp.load_result(node, result_name)
        return (
            None if to_self is None else vjp_self(xp, grad, self, other, result),
            None if to_other is None else vjp_other(xp, grad, self, other, result),
        )

    return backward


def _backward_many(spec: OperatorSpec) -> Function:
    formulas, refused = spec.formulas, spec.refused_edges
    needs = tuple(map(spec.needs, range(len(spec.arguments))))
    needs_result, names, result_name = spec.needs_result(), spec.operand_names, spec.result_name

    def backward(node: OperatorNode, xp: Namespace, grad: Any) -> _Gradients:
        if grad is None and not any(node._edges[place] is not None for place in refused):
            return (None,) * len(formulas)
        live = [edge is not None for edge in node._edges]
        values = [
            xp.load_input(node, name) if _is_needed(live, need) else None
            for name, need in zip(names, needs, strict=True)
        ]
        values.append(xp.load_result(node, result_name) if _is_needed(live, needs_result) else None)
        return tuple(
            vjp(xp, grad, *values) if is_live else None
            for vjp, is_live in zip(formulas, live, strict=True)
        )

    return backward


def _is_needed(live: list[bool], needs: tuple[bool, ...]) -> bool:
    """Whether a formula that reads a value is among those that run."""
    return any(a and b for a, b in zip(live, needs, strict=True))
