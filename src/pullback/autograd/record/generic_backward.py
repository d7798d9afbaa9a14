"""Backward formulas of operators of any signature: the methods of their node classes.

The counterpart of the gradients in ``operands.py``. A VJP formula of these operators takes the
namespace, the gradient (``grad_<output>`` of each output where there are several, ``grads`` of
all), and by name what it reads of the node's saved values: tensors and results first, then
options. ``run`` computes on raw arrays, ``backward`` in any namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.autograd.graph.node import FREED, OperatorNode
from pullback.autograd.graph.saved import input_array, output_array
from pullback.autograd.graph.slice_cotangent import SliceCotangent
from pullback.autograd.record.unfused import Function
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.autograd.namespaces import Namespace
    from pullback.autograd.record.operator import OperatorSpec

__all__ = ["backward_function", "release_function", "run_function"]

_ndarray = np.ndarray


def release_function(spec: OperatorSpec) -> Function | None:
    """``release`` of the node class: frees the saved tensors."""
    names = spec.freed
    if not names:
        return None
    if len(names) == 1:
        slot = spec.slot(names[0])
        if slot == "_saved0":

            def release_operand(node: OperatorNode) -> None:
                node._saved0 = FREED

            return release_operand
        if slot == "_result":

            def release_result(node: OperatorNode) -> None:
                node._result = FREED

            return release_result

    def release(node: OperatorNode) -> None:
        for name in names:
            setattr(node, name, FREED)

    return release


def run_function(spec: OperatorSpec) -> Function | None:
    """``run`` of the node class: the formulas on raw arrays; None where ``backward`` serves."""
    if spec.returns != "tensor":
        return None
    if spec.has_lists:
        return _run_list(spec) if len(spec.formulas) == 1 else None
    if not spec.takes_one_tensor:
        return _run_any(spec)
    (vjp,) = spec.formulas
    if spec.returns_part:
        return _run_slice()
    reads = spec.reads(vjp)
    name, result_name = spec.arguments[0].name, spec.outputs[0]
    saves_self, saves_result = bool(spec.saved_tensors), bool(spec.saved_outputs)
    reads_self = saves_self and name in reads
    reads_result = saves_result and result_name in reads
    names = [r for r in reads if r not in (name, result_name)]
    if not spec.freed:
        return _run_options(vjp, names)
    options = _options_reader(names)

    def run(node: OperatorNode, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:
        values = options(node)
        if reads_result:
            result = node._result
            if type(result) is not _ndarray or node._output_metadata.extras is not None:
                result = output_array(node, result_name)
            values = (result, *values)
        if reads_self:
            self = node._saved0
            if (
                type(self) is Tensor
                and (self._counter is None or self._counter[0] == node._version0)
                and (self._meta is None or not self._meta.detached)
            ):
                self = self._array
            elif type(self) is not _ndarray or node._edge0._output_metadata.extras is not None:  # type: ignore[union-attr]
                self = input_array(node, name)
            values = (self, *values)
        gradient = vjp(xp, grad, *values)
        if not keep:
            if saves_self:
                node._saved0 = FREED
            if saves_result:
                node._result = FREED
        return (gradient,)

    return run


def _run_any(spec: OperatorSpec) -> Function:
    """``run`` of an operator of several tensors."""
    formulas = [
        (places, vjp, [_reading(spec, name) for name in names])
        for places, vjp, names, _ in _formulas(spec)
    ]
    count, slots = len(spec.differentiable), [spec.slot(n) for n in spec.freed]

    def run(node: Any, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:
        edges = node._edges
        results: list[Any] = [None] * count
        known: dict[str, Any] = {"grad": grad}
        for places, vjp, readings in formulas:
            if len(places) == 1:
                if edges[places[0]] is None:
                    continue
            else:
                known["grad_input_mask"] = tuple([edges[place] is not None for place in places])
            values = []
            for name, read in readings:
                value = known.get(name)
                if value is None:
                    value = getattr(node, name) if read is None else read(node, xp, name)
                    known[name] = value
                values.append(value)
            found = vjp(xp, *values)
            if len(places) == 1:
                results[places[0]] = found
            else:
                for place, part in zip(places, found, strict=True):
                    results[place] = part
        if not keep:
            for slot in slots:
                setattr(node, slot, FREED)
        return tuple(results)

    return run


def _run_list(spec: OperatorSpec) -> Function:
    """``run`` of an operator whose only differentiable argument is a list."""
    ((_, vjp, names, _),) = _formulas(spec)
    readings = [_reading(spec, name) for name in names if name not in ("grad", "grad_input_mask")]
    has_mask, release = "grad_input_mask" in names, release_function(spec)

    def run(node: Any, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:
        values = [grad]
        for name, read in readings:
            values.append(getattr(node, name) if read is None else read(node, xp, name))
        if has_mask:
            values.append([edge is not None for edge in node._edges])
        results = tuple(vjp(xp, *values))
        if release is not None and not keep:
            release(node)
        return results

    return run


def _reading(spec: OperatorSpec, name: str) -> tuple[str, Function | None]:
    """Returns the function that reads a saved value as an array; None: as it is in the node."""
    if name in spec.saved_outputs:
        return name, _read_result
    if name in spec.saved_tensors:
        is_list = next(a for a in spec.tensors if a.name == name).is_list
        slot = spec.slot(name)
        return name, _read_list if is_list else _tensor_reader(spec, name, slot)
    return name, None


def _read_result(node: Any, xp: Namespace, name: str) -> Any:  # noqa: ARG001 - a reader
    value = node._result
    if type(value) is not _ndarray or node._output_metadata.extras is not None:
        return output_array(node, name)
    return value


def _read_list(node: Any, xp: Namespace, name: str) -> Any:
    return xp.load(node, getattr(node, name), getattr(node, f"{name}_v"))


def _tensor_reader(spec: OperatorSpec, name: str, slot: str) -> Function:
    can_be_bare = name in spec.inputs
    place = spec.inputs.index(name) if can_be_bare else 0
    version = slot.replace("saved", "version")

    def read(node: Any, xp: Namespace, name: str) -> Any:
        value = getattr(node, slot, None)
        if (
            type(value) is Tensor
            and (value._counter is None or value._counter[0] == getattr(node, version))
            and (value._meta is None or not value._meta.detached)
        ):
            return value._array
        if not can_be_bare:
            return xp.load(node, value, getattr(node, version, 0))
        edge = node._edges[place]
        if type(value) is not _ndarray or (
            edge is not None and edge._output_metadata.extras is not None
        ):
            return input_array(node, name)
        return value

    return read


def _run_options(vjp: Function, names: Sequence[str]) -> Function:
    """``run`` of a node that saves no tensor."""
    if not names:

        def run_plain(node: OperatorNode, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:  # noqa: ARG001
            return (vjp(xp, grad),)

        return run_plain
    read: Any = attrgetter(*names)
    if len(names) == 1:

        def run_one(node: OperatorNode, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:  # noqa: ARG001
            return (vjp(xp, grad, read(node)),)

        return run_one

    def run(node: OperatorNode, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:  # noqa: ARG001
        return (vjp(xp, grad, *read(node)),)

    return run


def _options_reader(names: Sequence[str]) -> Callable[[OperatorNode], tuple[Any, ...]]:
    """A function that reads attributes of a node as a tuple."""
    if not names:
        return lambda _: ()
    if len(names) == 1:
        read = attrgetter(names[0])
        return lambda node: (read(node),)
    return attrgetter(*names)


def _run_slice() -> Function:
    """``run`` of a slice: the engine puts its gradient into that of the whole."""

    def run(node: Any, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:  # noqa: ARG001
        return (SliceCotangent(grad, node.self_shape, node.index),)

    return run


def backward_function(spec: OperatorSpec) -> Function:
    """``backward`` of the node class: the formulas in any namespace."""
    load = _loader(spec)
    formulas = _formulas(spec)
    single, several_edges = spec.returns == "tensor", spec.has_lists
    materializes = not single and not spec.takes_undefined
    refused, gradients = spec.refused_edges, spec.gradient_names

    def backward(node: OperatorNode, xp: Namespace, *grads: Any) -> tuple[Any, ...]:
        edges = node._edges
        for grad in grads:
            if grad is not None:
                break
        else:
            if not any(edges[place] is not None for place in refused):
                return (None,) * len(edges)
        if materializes:
            grads = xp.materialize(node, grads)
        known: dict[str, Any] = {"grads": grads, "grad": grads[0]} if grads else {"grads": grads}
        if not single:
            known.update(zip(gradients, grads, strict=False))
        results: list[Any] = [] if several_edges else [None] * len(edges)
        for places, vjp, names, is_list in formulas:
            if several_edges:
                if len(formulas) == 1:
                    known["grad_input_mask"] = [edge is not None for edge in edges]
            elif len(places) > 1:
                known["grad_input_mask"] = tuple([edges[place] is not None for place in places])
            elif edges[places[0]] is None and len(edges) > 1:
                continue
            values = [
                known[name] if name in known else load(node, xp, name, known) for name in names
            ]
            found = vjp(xp, *values)
            if several_edges:
                results += found if is_list else [found]
            elif len(places) == 1:
                results[places[0]] = found
            else:
                for place, part in zip(places, found, strict=True):
                    results[place] = part
        return tuple(results)

    return backward


def _formulas(spec: OperatorSpec) -> list[tuple[list[int], Function, tuple[str, ...], bool]]:
    """Each formula, with the edges that it serves, the names that it reads, and whether the
    argument is a list."""
    found: dict[Function, list[int]] = {}
    for place, vjp in enumerate(spec.formulas):
        if vjp is not None:
            found.setdefault(vjp, []).append(place)
    return [
        (places, vjp, spec.parameters(vjp), spec.differentiable[places[0]].is_list)
        for vjp, places in found.items()
    ]


def _loader(spec: OperatorSpec) -> Function:
    """The function that reads a value for a formula; a saved tensor is loaded once in a call."""
    outputs, inputs = frozenset(spec.saved_outputs), frozenset(spec.inputs)
    tensors = frozenset(spec.saved_tensors)

    def load(node: Any, xp: Namespace, name: str, known: dict[str, Any]) -> Any:
        if name in outputs:
            value = xp.load_result(node, name)
        elif name in tensors:
            held = getattr(node, name, None)
            if name in inputs and type(held) is not Tensor:
                value = xp.load_input(node, name)
            else:
                value = xp.load(node, held, getattr(node, f"{name}_v", 0))
        else:
            value = getattr(node, name)
        known[name] = value
        return value

    return load
