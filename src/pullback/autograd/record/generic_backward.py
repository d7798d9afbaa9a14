"""Backward formulas of operators of any signature: the methods of their node classes.

The counterpart of the gradients in ``operands.py``. A VJP formula of these operators takes the
namespace, the gradient (``grad_<output>`` of each output where there are several, ``grads`` of
all), and by name what it reads of the node's saved values: tensors and results first, then
options, and at last ``grad_input_mask`` if it serves several edges at once.

``run`` computes on raw arrays, ``backward`` in any namespace. For operators with one result both
are built by the same function and differ in how they read saved tensors; callers of ``backward``
leave out ``keep``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

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
_Options = Callable[[OperatorNode], tuple[Any, ...]]


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
    if spec.returns_part:
        return _run_slice
    return _function_of_one_result(spec, _array_reader)


def backward_function(spec: OperatorSpec) -> Function:
    """``backward`` of the node class: the formulas in any namespace."""
    return _function_of_one_result(spec, _reader) or _general_function(spec)


def _function_of_one_result(spec: OperatorSpec, reader: Function) -> Function | None:
    """``run`` or ``backward`` of an operator with one result."""
    if spec.returns != "tensor":
        return None
    if spec.takes_one_tensor:
        return _function_of_one(spec, reader)
    formulas = _formulas(spec)
    is_whole = len(formulas) == 1 and len(formulas[0].places) == len(spec.differentiable)
    if is_whole and (spec.has_lists or formulas[0].is_joint):
        return _function_of_joint(spec, reader)
    is_general = spec.has_lists or any(formula.is_joint for formula in formulas)
    return None if is_general else _function_of_any(spec, reader)


def _run_slice(node: Any, xp: Namespace, grad: Any, keep: bool) -> tuple[Any, ...]:  # noqa: ARG001
    """``run`` of a slice: the engine puts its gradient into that of the whole."""
    return (SliceCotangent(grad, node.self_shape, node.index),)


# --- what formulas read --------------------------------------------------------------------------


class _Formula(NamedTuple):
    """One formula.

    Attributes:
        places: the edges that it serves.
        grads: the outputs whose gradients it takes; None for a tuple of all.
        loads: the saved tensors that it reads, by their numbers in ``_loaded_names``.
        options: reads what else it takes from a node.
        is_joint: whether it serves several edges at once.
        has_mask: whether it takes which of them lead somewhere.
        is_list: whether the edges are those of a list.
    """

    places: list[int]
    vjp: Function
    grads: list[int | None]
    loads: list[int]
    options: _Options
    is_joint: bool
    has_mask: bool
    is_list: bool


def _formulas(spec: OperatorSpec) -> list[_Formula]:
    """Each formula once."""
    found: dict[Function, list[int]] = {}
    for place, vjp in enumerate(spec.formulas):
        if vjp is not None:
            found.setdefault(vjp, []).append(place)
    gradients = {"grad": 0, "grads": None, **{n: i for i, n in enumerate(spec.gradient_names)}}
    loaded = _loaded_names(spec)
    made = []
    for vjp, places in found.items():
        names = spec.parameters(vjp)
        wanted = [name for name in names if name in gradients]
        loads = [name for name in names if name in loaded]
        mask = [name for name in names if name == "grad_input_mask"]
        options = [n for n in names if n not in (*wanted, *loads, *mask)]
        made.append(
            _Formula(
                places,
                _by_order(vjp, names, [*wanted, *loads, *options, *mask]),
                [gradients[name] for name in wanted],
                [loaded.index(name) for name in loads],
                _options_reader(options),
                len(places) > 1,
                bool(mask),
                spec.differentiable[places[0]].is_list,
            )
        )
    return made


def _by_order(vjp: Function, names: Sequence[str], order: list[str]) -> Function:
    """A formula that takes its values in another order: lists of tensors come among the options."""
    if list(names) == order:
        return vjp
    places = [order.index(name) for name in names]
    return lambda xp, *values: vjp(xp, *[values[place] for place in places])


def _loaded_names(spec: OperatorSpec) -> list[str]:
    """The saved tensors and lists of tensors, which are checked when they are read."""
    return spec.freed


def _options_reader(names: Sequence[str]) -> _Options:
    """A function that reads attributes of a node as a tuple."""
    if not names:
        return lambda _: ()
    if len(names) == 1:
        read = attrgetter(names[0])
        return lambda node: (read(node),)
    return attrgetter(*names)


def _reader(spec: OperatorSpec, name: str) -> Function:
    """The function that reads a saved tensor in any namespace."""
    if name in spec.saved_outputs:
        return lambda node, xp: xp.load_result(node, name)
    can_be_bare, version = name in spec.inputs, f"{name}_v"

    def read(node: Any, xp: Namespace) -> Any:
        held = getattr(node, name, None)
        if can_be_bare and type(held) is not Tensor:
            return xp.load_input(node, name)
        return xp.load(node, held, getattr(node, version, 0))

    return read


def _array_reader(spec: OperatorSpec, name: str) -> Function:
    """The same as an array."""
    if name in spec.saved_outputs and spec.returns == "tensor":

        def read_result(node: Any, xp: Namespace) -> Any:  # noqa: ARG001 - a reader
            value = node._result
            if type(value) is not _ndarray or node._output_metadata.extras is not None:
                return output_array(node, name)
            return value

        return read_result
    slot, can_be_bare = spec.slot(name), name in spec.inputs
    version = slot.replace("saved", "version")
    place = spec.inputs.index(name) if can_be_bare else 0

    def read(node: Any, xp: Namespace) -> Any:
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


# --- operators with one result -------------------------------------------------------------------


def _function_of_one(spec: OperatorSpec, reader: Function) -> Function:
    """An operator of one tensor and options."""
    ((_, vjp, _, loads, options, *_),) = _formulas(spec)
    names, refuses = _loaded_names(spec), bool(spec.refused_edges)
    readers = [reader(spec, names[number]) for number in loads]
    release = release_function(spec)
    if not readers and release is None:
        return _function_of_options(vjp, spec.parameters(vjp)[1:], refuses)

    def compute(node: OperatorNode, xp: Namespace, grad: Any, keep: bool = True) -> tuple[Any, ...]:
        if grad is None and not refuses:
            return (None,)
        gradient = vjp(xp, grad, *[read(node, xp) for read in readers], *options(node))
        if not keep and release is not None:
            release(node)
        return (gradient,)

    return compute


def _function_of_options(vjp: Function, names: Sequence[str], refuses: bool) -> Function:
    """An operator of one tensor whose node saves no tensor."""
    # Calls with a known number of arguments take half the time of others.
    if not names:

        def compute_plainly(
            node: OperatorNode,  # noqa: ARG001 - the form of all
            xp: Namespace,
            grad: Any,
            keep: bool = True,  # noqa: ARG001
        ) -> tuple[Any, ...]:
            return (None,) if grad is None and not refuses else (vjp(xp, grad),)

        return compute_plainly
    read: Any = attrgetter(*names)
    if len(names) == 1:

        def compute_by_option(
            node: OperatorNode,
            xp: Namespace,
            grad: Any,
            keep: bool = True,  # noqa: ARG001
        ) -> tuple[Any, ...]:
            return (None,) if grad is None and not refuses else (vjp(xp, grad, read(node)),)

        return compute_by_option

    def compute(
        node: OperatorNode,
        xp: Namespace,
        grad: Any,
        keep: bool = True,  # noqa: ARG001
    ) -> tuple[Any, ...]:
        return (None,) if grad is None and not refuses else (vjp(xp, grad, *read(node)),)

    return compute


def _function_of_any(spec: OperatorSpec, reader: Function) -> Function:
    """An operator of several tensors with a formula each; each is loaded once in a call."""
    readers = [reader(spec, name) for name in _loaded_names(spec)]
    formulas = {f.places[0]: _evaluator(f, readers) for f in _formulas(spec)}
    evaluators = [formulas.get(place) for place in range(len(spec.differentiable))]
    release, refused, unloaded = release_function(spec), spec.refused_edges, [None] * len(readers)
    if spec.arity == 2 and not refused and None not in evaluators:
        first, second = evaluators

        def compute_two(
            node: OperatorNode, xp: Namespace, grad: Any, keep: bool = True
        ) -> tuple[Any, ...]:
            if grad is None:
                return (None, None)
            loaded: list[Any] = unloaded.copy()
            results = (
                None if node._edge0 is None else first(node, xp, grad, loaded),  # type: ignore[misc]
                None if node._edge1 is None else second(node, xp, grad, loaded),  # type: ignore[misc]
            )
            if not keep and release is not None:
                release(node)
            return results

        return compute_two

    def compute(node: OperatorNode, xp: Namespace, grad: Any, keep: bool = True) -> tuple[Any, ...]:
        edges = node._edges
        if grad is None and not any(edges[place] is not None for place in refused):
            return (None,) * len(edges)
        loaded: list[Any] = unloaded.copy()
        results: list[Any] = []
        for edge, evaluate in zip(edges, evaluators, strict=True):
            is_left_out = edge is None or evaluate is None
            results.append(None if is_left_out else evaluate(node, xp, grad, loaded))  # type: ignore[misc]
        if not keep and release is not None:
            release(node)
        return tuple(results)

    return compute


def _evaluator(formula: _Formula, readers: list[Function]) -> Function:
    """A formula as a function of a node and a list of what has been loaded from it."""
    vjp, loads, options = formula.vjp, formula.loads, formula.options
    if len(loads) == 1:
        (number,) = loads
        read = readers[number]

        def evaluate_one(node: OperatorNode, xp: Namespace, grad: Any, loaded: list[Any]) -> Any:
            value = loaded[number]
            if value is None:
                value = loaded[number] = read(node, xp)
            return vjp(xp, grad, value, *options(node))

        return evaluate_one

    def evaluate(node: OperatorNode, xp: Namespace, grad: Any, loaded: list[Any]) -> Any:
        for number in loads:
            if loaded[number] is None:
                loaded[number] = readers[number](node, xp)
        return vjp(xp, grad, *[loaded[number] for number in loads], *options(node))

    return evaluate


def _function_of_joint(spec: OperatorSpec, reader: Function) -> Function:
    """An operator with one formula for all edges: of several tensors, or of a list."""
    ((_, vjp, _, loads, options, _, has_mask, _),) = _formulas(spec)
    readers = [reader(spec, _loaded_names(spec)[number]) for number in loads]
    release, refused = release_function(spec), spec.refused_edges

    def compute(node: OperatorNode, xp: Namespace, grad: Any, keep: bool = True) -> tuple[Any, ...]:
        edges = node._edges
        if grad is None and not any(edges[place] is not None for place in refused):
            return (None,) * len(edges)
        values = [grad]
        for read in readers:
            values.append(read(node, xp))
        values += options(node)
        if has_mask:
            values.append(tuple([edge is not None for edge in edges]))
        results = vjp(xp, *values)
        if not keep and release is not None:
            release(node)
        return tuple(results)

    return compute


# --- all others ----------------------------------------------------------------------------------


def _general_function(spec: OperatorSpec) -> Function:
    """``backward`` of an operator with several results, or of lists and other tensors."""
    formulas, has_lists = _formulas(spec), spec.has_lists
    readers = [_reader(spec, name) for name in _loaded_names(spec)]
    materializes = spec.returns != "tensor" and not spec.takes_undefined
    refused, unloaded = spec.refused_edges, [None] * len(readers)

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
        loaded: list[Any] = unloaded.copy()
        results: list[Any] = [] if has_lists else [None] * len(edges)
        for places, vjp, wanted, loads, options, is_joint, has_mask, is_list in formulas:
            if not (has_lists or is_joint) and edges[places[0]] is None and len(edges) > 1:
                continue
            values: list[Any] = [grads if n is None else grads[n] for n in wanted]
            for number in loads:
                if loaded[number] is None:
                    loaded[number] = readers[number](node, xp)
                values.append(loaded[number])
            values += options(node)
            if has_mask:
                served = edges if has_lists else [edges[place] for place in places]
                values.append(tuple([edge is not None for edge in served]))
            found = vjp(xp, *values)
            if has_lists:
                results += found if is_list else [found]
            elif not is_joint:
                results[places[0]] = found
            else:
                for place, part in zip(places, found, strict=True):
                    results[place] = part
        return tuple(results)

    return backward
