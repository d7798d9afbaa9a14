"""Kernels of operators of any signature: options, lists, several results, views, writes.

The counterpart of ``operands.py`` for operators that few programs call in tight loops. What a node
saves besides tensors, the generated function ``<operator>_save`` puts into it.
``generic_backward.py`` has the gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pullback.autograd.graph.inplace import check_inplace, write, write_by
from pullback.autograd.graph.node import Edge, OperatorNode
from pullback.autograd.graph.output_metadata import UNDESCRIBED
from pullback.autograd.graph.saved import save_output
from pullback.autograd.record import operands
from pullback.autograd.record.record import (
    EDGED,
    edge_of,
    record_inplace,
    record_view,
    record_views,
    recorded,
    recorded_list,
    recorded_several,
    save_before_write,
    save_list,
)
from pullback.autograd.record.unfused import Function
from pullback.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.autograd.record.operator import OperatorSpec

__all__ = [
    "inplace_kernel",
    "node_maker",
    "plain_inplace_kernel",
    "plain_kernel",
    "record_kernel",
    "save_outputs_function",
    "view_kernel",
]

_Arguments = tuple[Any, ...]
_Named = Mapping[str, Any]


# --- arrays out of arguments ---------------------------------------------------------------------


def _array_call(spec: OperatorSpec) -> Function:
    """The function on arrays, called with an operator's arguments."""
    kernel = _array_kernel(spec)
    tensors = spec.tensors
    if not tensors:
        return kernel
    if spec.has_tensor_first:

        def call_first(self: Tensor, *options: Any, **named: Any) -> Any:
            return kernel(self._array, *options, **named)

        return call_first
    if not spec.has_options:

        def call_all(*args: Tensor) -> Any:
            return kernel(*[tensor._array for tensor in args])

        return call_all

    if len(tensors) == 1 and tensors[0].place == 0 and tensors[0].kind == "list":

        def call_list(tensors: list[Tensor], *options: Any, **named: Any) -> Any:
            return kernel([tensor._array for tensor in tensors], *options, **named)

        return call_list
    places = [argument.place for argument in tensors]

    def call(*args: Any, **named: Any) -> Any:
        values = list(args)
        count = len(values)
        for place in places:
            if place < count and (value := values[place]) is not None:
                values[place] = value._array if type(value) is Tensor else _arrays_of(value)
        return kernel(*values, **named)

    return call


def _array_kernel(spec: OperatorSpec) -> Function:
    """The function on arrays that computes an operator of arrays of any size."""
    return _by_keyword(spec) if spec.keywords else operands.array_function(spec)


def _arrays_of(value: Any) -> Any:
    """The array of a tensor, or those of a list, which may have None in it."""
    if isinstance(value, Tensor):
        return value._array
    return [None if tensor is None else tensor._array for tensor in value]


def _by_keyword(spec: OperatorSpec) -> Function:
    """A function of NumPy, which gets its options by keyword, and axes as it takes them."""
    kernel, names, count = spec.kernel, spec.keywords, len(spec.tensors)

    def call(*args: Any, **named: Any) -> Any:
        named.update(zip(names, args[count:], strict=False))
        axes = named.get("axis")
        if type(axes) is list:  # of an operator's call by its schema: -1 is [-1]
            named["axis"] = axes[0] if len(axes) == 1 else tuple(axes)
        return kernel(*args[:count], **named)

    return call


def _wrapper(spec: OperatorSpec) -> Function:
    """Returns the function that makes tensors of the arrays that a kernel returns."""
    if spec.returns == "tensor":
        return wrap
    if spec.returns == "list":
        return lambda arrays: [wrap(array) for array in arrays]
    return lambda arrays: tuple(map(wrap, arrays)) if spec.returns == "tuple" else arrays


def plain_kernel(spec: OperatorSpec) -> Function:
    """The kernel that computes and records nothing."""
    if spec.takes_two_tensors and spec.returns == "tensor":
        return operands.plain_two(_array_kernel(spec))
    if spec.has_tensor_first and spec.returns == "tensor":
        kernel = _array_kernel(spec)

        def cpu_of_one(self: Tensor, *options: Any, **named: Any) -> Tensor:
            return wrap(kernel(self._array, *options, **named))

        return cpu_of_one
    call, wrapped = _array_call(spec), _wrapper(spec)

    def cpu(*args: Any, **named: Any) -> Any:
        return wrapped(call(*args, **named))

    return cpu


# --- nodes ---------------------------------------------------------------------------------------


def node_maker(
    spec: OperatorSpec,
    cls: type[OperatorNode],
    *,
    keeps_arrays: bool = False,
    is_written: bool = False,
) -> Function:
    """The function that makes a node with its edges and saved inputs, from a call's arguments.

    `keeps_arrays` says that a saved result of another node may be kept as a bare array,
    `is_written` that the first argument is about to be written to.
    """
    plan = [_keeping(spec, name, keeps_arrays) for name in spec.saved_tensors]
    count = max((argument.place for argument in spec.tensors), default=0) + 1
    names, arity, save = spec.operand_names, spec.arity, spec.save
    places = [argument.place for argument in spec.differentiable]
    lists = [argument.place for argument in spec.differentiable if argument.is_list]

    def make(*args: Any, **named: Any) -> OperatorNode:
        given = args if len(args) >= count else _complete(args, named, names)
        node: Any = cls()
        edges: list[Edge] = []
        for place in places:
            value = given[place]
            if value is None:
                edges.append(None)
            elif place in lists:
                edges += [t._edge or edge_of(t) for t in value]
            else:  # most tensors without an edge are constants
                edges.append(value._edge or (edge_of(value) if value._flags & EDGED else None))
        if arity == 1:
            node._edge0 = edges[0]
        elif arity == 2:
            node._edge0, node._edge1 = edges
        else:
            node._edges = tuple(edges)
        node._output_metadata = UNDESCRIBED
        for name, version, place, guard, is_list, can_be_bare in plan:
            value = given[place]
            if guard is not None and edges[guard] is None:
                continue
            if is_list:
                save_list(node, name, value)
            elif is_written and place == 0:
                save_before_write(node, names[0], value, edges[0])
            elif (
                can_be_bare
                and value._edge is not None
                and value._counter is None
                and value._meta is None
            ):
                setattr(node, name, value._array)
            else:
                setattr(node, name, value)
                setattr(node, version, (getattr(value, "_counter", None) or (0,))[0])
        if save is not None:
            save(node, *args, **named)
        return node  # type: ignore[no-any-return]

    return make


def _complete(args: _Arguments, named: _Named, names: Sequence[str]) -> _Arguments:
    """All arguments of a call; None for those that were left out, as only optional ones can be."""
    return (*args, *(named.get(name) for name in names[len(args) :]))


def _keeping(
    spec: OperatorSpec, name: str, keeps_arrays: bool
) -> tuple[str, str, int, int | None, bool, bool]:
    """Describes how a tensor argument is saved.

    That is its slots, its place, the edge without which it is not needed, whether it is a list, and
    whether it may be kept as a bare array.
    """
    argument = next(argument for argument in spec.arguments if argument.name == name)
    slot = spec.slot(name)
    version = slot.replace("saved", "version")
    can_be_bare = keeps_arrays and name in spec.inputs and argument.kind == "tensor"
    if argument.is_list:
        slot, version = name, f"{name}_v"
    return slot, version, argument.place, spec.guard(name), argument.is_list, can_be_bare


def save_outputs_function(spec: OperatorSpec) -> Function | None:
    """``save_outputs`` of the node class: saves what the formulas read of the results."""
    saved = [(name, spec.outputs.index(name), spec.guard(name)) for name in spec.saved_outputs]
    if not saved:
        return None

    def save_outputs(node: OperatorNode, *results: Tensor) -> None:
        for name, place, guard in saved:
            is_needed = guard is None or node._edges[guard] is not None
            setattr(node, name, save_output(results[place], place) if is_needed else None)

    return save_outputs


# --- kernels that record -------------------------------------------------------------------------


def record_kernel(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    """The kernel for arguments of which at least one requires grad."""
    if spec.takes_one_tensor and spec.returns != "list":
        return _record_one(spec, cls)
    if spec.takes_two_tensors and spec.returns == "tensor":
        return operands.record_two(spec, cls)
    call = _array_call(spec)
    make = node_maker(spec, cls, keeps_arrays=True)
    saves_outputs = bool(spec.saved_outputs)
    if spec.returns == "tensor":
        result_guard = spec.guard(spec.saved_outputs[0]) if saves_outputs else None
        if not saves_outputs and not any(argument.is_named for argument in spec.arguments):
            return lambda *args: recorded(make(*args), call(*args))

        def record(*args: Any, **named: Any) -> Any:
            node = make(*args, **named)
            result = recorded(node, call(*args, **named))
            if saves_outputs:
                is_needed = result_guard is None or node._edges[result_guard] is not None
                node._result = result._array if is_needed else None
            return result

        return record
    differentiable = spec.differentiable_outputs

    def record_several(*args: Any, **named: Any) -> Any:
        node: Any = make(*args, **named)
        arrays = call(*args, **named)
        if differentiable is None:
            results: Any = recorded_list(node, arrays)
        else:
            results = recorded_several(node, arrays, differentiable)
        if saves_outputs:
            node.save_outputs(*(results if differentiable is not None else (results,)))
        return results

    return record_several


def _record_one(spec: OperatorSpec, cls: type[OperatorNode]) -> Function:
    """The kernel of an operator of one tensor, its first argument, and options."""
    kernel = _array_kernel(spec)
    save, saves_self, saves_result = spec.save, bool(spec.saved_tensors), bool(spec.saved_outputs)
    is_single = spec.returns == "tensor"
    differentiable: Any = spec.differentiable_outputs

    def make(self: Tensor) -> Any:
        node: Any = cls()
        node._edge0 = self._edge or edge_of(self)
        node._output_metadata = UNDESCRIBED
        if saves_self:
            if self._edge is None or self._counter is not None or self._meta is not None:
                node._saved0 = self
                node._version0 = 0 if self._counter is None else self._counter[0]
            else:
                node._saved0 = self._array
        return node

    def record(self: Tensor, *options: Any, **named: Any) -> Any:
        node = make(self)
        if named:  # passing them on takes as long as all else
            if save is not None:
                save(node, self, *options, **named)
            array = kernel(self._array, *options, **named)
        else:
            if save is not None:
                save(node, self, *options)
            array = kernel(self._array, *options)
        if is_single:
            result = recorded(node, array)
            if saves_result:
                node._result = result._array
            return result
        results = recorded_several(node, array, differentiable)
        if saves_result:
            node.save_outputs(*results)
        return results

    return record


def inplace_kernel(spec: OperatorSpec, name: str, make: Function | None) -> Function:
    """The kernel that writes to its first argument, and records that with `make`, if given."""
    written = _written(spec, name)
    places = [a.place - 1 for a in spec.tensors if not a.is_list and a.place]
    saves_outputs = bool(spec.saved_outputs)

    if make is not None and spec.takes_operands and len(spec.arguments) == 2:
        return _record_inplace_two(spec, spec.node_class(), name, written)

    def inplace(self: Tensor, *args: Any, **named: Any) -> Tensor:
        others = [args[place] for place in places if place < len(args)]
        check_inplace(self, make is not None, *others)
        node: Any = None if make is None else make(self, *args, **named)
        record_inplace(node, self, written(self, *args, **named), name)
        if saves_outputs and node is not None:
            node.save_outputs(self)
        return self

    return inplace


def _record_inplace_two(
    spec: OperatorSpec, cls: type[OperatorNode], name: str, written: Function
) -> Function:
    """The kernel of the in-place variant for two operands, of which one requires grad.

    `written` computes what is written.
    """
    saves_self, saves_other = (place in spec.saved_operands for place in (0, 1))
    self_for_self, self_for_other = spec.needs(0)
    other_for_self, other_for_other = spec.needs(1)
    saves_outputs = spec.saves_result
    first = spec.operand_names[0]

    def record(self: Tensor, other: Tensor) -> Tensor:
        check_inplace(self, True, other)
        node: Any = cls()
        node._edge0 = to_self = edge_of(self)
        node._edge1 = to_other = other._edge or (edge_of(other) if other._flags & EDGED else None)
        node._output_metadata = UNDESCRIBED
        if saves_self and (
            (self_for_self and to_self is not None) or (self_for_other and to_other is not None)
        ):
            save_before_write(node, first, self, to_self)
        if saves_other and (
            (other_for_self and to_self is not None) or (other_for_other and to_other is not None)
        ):
            node._saved1 = other
            node._version1 = 0 if other._counter is None else other._counter[0]
        record_inplace(node, self, written(self, other), name)
        if saves_outputs:
            node.save_outputs(self)
        return self

    return record


def plain_inplace_kernel(spec: OperatorSpec, name: str) -> Function:
    """The kernel that writes and does not count the write."""
    written = _written(spec, name)

    def cpu(self: Tensor, *args: Any, **named: Any) -> Tensor:
        write(self, written(self, *args, **named), name)
        return self

    return cpu


def _written(spec: OperatorSpec, name: str) -> Function:
    """The result of an in-place operator; NumPy's functions write it to its place themselves."""
    if not (spec.is_numpy and spec.is_elementwise) or spec.has_options:
        return _array_call(spec)
    kernel: Any = spec.kernel
    if len(spec.arguments) == 2:

        def call_two(self: Tensor, other: Tensor) -> Any:
            return write_by(kernel, self, name, self._array, other._array)

        return call_two

    def call(self: Tensor, *others: Tensor) -> Any:
        return write_by(kernel, self, name, self._array, *[other._array for other in others])

    return call


def view_kernel(spec: OperatorSpec, make: Function | None, again: Function) -> Function:
    """The kernel that makes a view of its first argument; `again` makes it once more."""
    kernel, several = _array_kernel(spec), spec.returns == "list"
    if spec.takes_one_tensor and make is not None and not several and not spec.saved_tensors:
        return _record_one_view(spec, kernel, again)

    if len(spec.arguments) == 2 and make is None and not several:  # getitem, transpose
        return lambda self, option: record_view(
            None, self, kernel(self._array, option), (again, option)
        )

    def view(self: Tensor, *options: Any, **named: Any) -> Any:
        node = None if make is None else make(self, *options, **named)
        array = kernel(self._array, *options, **named)
        step = (again, *options, *named.values())
        if several:
            return record_views(node, self, array, step)
        return record_view(node, self, array, step)

    return view


def _record_one_view(spec: OperatorSpec, kernel: Function, again: Function) -> Function:
    """The same for a recorded view of one tensor whose node saves no tensor: indexing in loops."""
    cls, save = spec.node_class(), spec.save
    if len(spec.arguments) == 2 and save is not None:  # getitem, reshape, transpose

        def view_by_option(self: Tensor, option: Any) -> Tensor:
            node: Any = cls()
            node._edge0 = self._edge or edge_of(self)
            node._output_metadata = UNDESCRIBED
            save(node, self, option)
            return record_view(node, self, kernel(self._array, option), (again, option))

        return view_by_option

    def view(self: Tensor, *options: Any, **named: Any) -> Tensor:
        node: Any = cls()
        node._edge0 = self._edge or edge_of(self)
        node._output_metadata = UNDESCRIBED
        if save is not None:
            save(node, self, *options, **named)
        array = kernel(self._array, *options, **named)
        return record_view(node, self, array, (again, *options, *named.values()))

    return view
