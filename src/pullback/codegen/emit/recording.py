"""Kernels that record: what makes the node, computes, and describes what came out.

Programs loop over small operations, which take as long as the questions asked around them. Output
metadata (``autograd/graph/output_metadata.py``) has the answers for a few numbers, so the kernels
of element-wise functions read it first, as ``is_few``.
"""

from __future__ import annotations

import numpy as np

from pullback.codegen.emit.array_calls import array_call, array_of, few_call
from pullback.codegen.emit.model import Emitted, is_tensor, is_tensor_list
from pullback.codegen.emit.run import arity_of, edge_text, guard_of, is_alike, place_of
from pullback.codegen.emit.source import indent, quoted, tuple_text
from pullback.codegen.model import SavedAttribute
from pullback.schema import Argument, OptionalType

__all__ = ["emit_node_maker", "emit_record", "keeps_metadata", "node_lines"]


def emit_node_maker(op: Emitted) -> str:
    """The function that makes the node, for calls that another kernel computes."""
    lines = [f"def {op.name}_node({op.parameters()}):", *node_lines(op), "    return node"]
    return "\n".join(lines) + "\n"


def emit_record(op: Emitted) -> str:
    """The kernel that runs when an input requires grad and grad mode is on."""
    signature = f"def {op.name}_record({op.parameters()}):"
    head = "\n".join([signature, *node_lines(op, recording=True)]) + "\n"
    returns = [ret.type for ret in op.schema.returns]
    if len(returns) != 1:
        made = f"recorded_several(node, {array_call(op)}, {op.differentiable_outputs})"
    elif is_tensor_list(returns[0]):
        made = f"recorded_list(node, {array_call(op)})"
    elif "elementwise" in op.function.tags:
        lines = [*_recorded_inline(op), *_save_result(op), "    return result\n"]
        return head + "\n".join(lines)
    else:
        made = f"recorded(node, {array_call(op, recording=True)})"
    if not op.saved("outputs"):
        return head + f"    return {made}\n"
    if len(returns) == 1 and is_tensor(returns[0]):
        return head + "\n".join([f"    result = {made}", *_save_result(op), "    return result\n"])
    names = op.schema.return_names()
    results = "result" if len(returns) == 1 else ", ".join(names)
    return head + (
        f"    {results} = {made}\n    node.save_outputs({results})\n    return {results}\n"
    )


def keeps_metadata(op: Emitted) -> bool:
    """Whether a few float64 numbers, of one shape if there are two operands, give as many again.

    So it is for NumPy's functions that know this dtype, and ours whose formulas are arithmetic.
    """
    arguments = op.arguments
    if "elementwise" not in op.function.tags or arguments != op.differentiable:
        return False
    if len(arguments) > 2 or any(not is_tensor(a.type) for a in arguments):
        return False
    if any(isinstance(a.type, OptionalType) for a in arguments):
        return False
    module, _, name = op.function.dispatch["CPU"].rpartition(".")
    if module == "numpy":
        loops = getattr(getattr(np, name, None), "types", ())
        return f"{'d' * len(arguments)}->d" in loops
    return module.startswith("operators.") and is_alike(op)


def _recorded_inline(op: Emitted) -> list[str]:
    """What ``recorded`` does, for the common dtype without a call: programs loop over these."""
    if not keeps_metadata(op):
        return _recorded_common(op)
    is_alone = len(op.tensors) == 1
    rest = f"result = recorded(node, {array_call(op, recording=True)})"
    return [
        *_few(op),
        f"        array = {few_call(op)}",
        *map(indent, _AS_ARRAY),
        "        node._output_metadata = metadata",
        *map(indent, _NEW_RESULT),
        "    else:",
        # A few numbers beside others of another shape are no less common.
        *([f"        {rest}"] if is_alone else map(indent, _recorded_common(op))),
    ]


def _recorded_common(op: Emitted) -> list[str]:
    """Lines for any operands, which look at what comes out."""
    look_up = [
        "        try:",
        "            node._output_metadata = FLOAT64_METADATA[array.shape]",
        "        except KeyError:",
        "            node._output_metadata = intern_metadata(array.shape, FLOAT64)",
    ]
    if len(op.tensors) == 1:
        look_up = [
            f"        edge = {op.tensors[0].name}._edge",
            "        if edge is not None and (metadata := edge._output_metadata).is_small_float64:",
            "            node._output_metadata = metadata",
            "        else:",
            *map(indent, look_up),
        ]
    return [
        f"    array = {array_call(op, recording=True)}",
        *_AS_ARRAY,
        "    if array.dtype is FLOAT64:",
        *look_up,
        *map(indent, _NEW_RESULT),
        "    else:",
        "        result = recorded(node, array)",
    ]


_AS_ARRAY = [
    "    if type(array) is not ndarray:  # NumPy returns a number where there are no axes",
    "        array = np_asarray(array)",
]
_NEW_RESULT = [
    "    node._seq = sequence_counter()()",
    "    result = new_tensor(Tensor)",
    "    result._array = array",
    "    result._flags = RECORDED_FLAGS",
    "    result._edge = node",
    "    result._counter = result._meta = None",
]


def _few(op: Emitted) -> list[str]:
    """The condition that the operands are small float64 arrays, two of them of one shape."""
    edges = [f"to_{a.name}" for a in op.tensors]
    if len(edges) == 1:
        (edge,) = edges
        is_few = f"(metadata := {edge}._output_metadata).is_small_float64"
        return [f"    if {edge} is not None and {is_few}:"]
    first, second = edges
    return [
        f"    if {first} is None:",
        f"        is_few = {second} is not None and {_few_beside(second, op.tensors[0])}",
        f"    elif {second} is None:",
        f"        is_few = {_few_beside(first, op.tensors[1])}",
        "    else:",
        f"        is_few = (metadata := {first}._output_metadata) is {second}._output_metadata",
        "        is_few = is_few and metadata.is_small_float64",
        "    if is_few:",
    ]


def _few_beside(edge: str, constant: Argument) -> str:
    """The same question where one operand is a constant, which nobody has described yet."""
    array = array_of(constant)
    is_common = f"type(constant := {array}) is ndarray and constant.dtype is FLOAT64"
    fits = "((constant_shape := constant.shape) == metadata.shape or not constant_shape)"
    return f"(metadata := {edge}._output_metadata).is_small_float64 and {is_common} and {fits}"


def _save_result(op: Emitted) -> list[str]:
    """Lines that keep a new result, of which nobody counts versions yet: its array alone."""
    lines = []
    for attribute in op.saved("outputs"):
        name, source = attribute.name, attribute.source
        if attribute.expr != source:
            lines.append(f"    node.{name} = {attribute.expr.replace(source, 'result', 1)}")
            continue
        save = [f"    node.{name} = result._array"]
        guard = guard_of(op, attribute)
        if guard:
            save = [
                f"    if {guard}:",
                *map(indent, save),
                "    else:",
                f"        node.{name} = None",
            ]
        lines += save
    return lines


def node_lines(op: Emitted, *, recording: bool = False) -> list[str]:
    """Lines that make the node, its edges and what it saves of the inputs.

    `recording` says that they are part of a kernel for arrays that writes to none of them.
    """
    info = op.info
    assert info is not None
    returns = op.schema.returns
    alone = len(op.tensors) == 1
    edges = [_edge(a, op.inplace, alone) for a in op.differentiable]
    # Whether a value is needed is asked of locals, which are read faster than the node.
    is_asked = any(guard_of(op, attribute) for attribute in op.saved("inputs"))
    is_asked = is_asked or (recording and keeps_metadata(op))
    local = [f"to_{a.name} = " if is_asked else "" for a in op.differentiable]
    lines = [f"    node = {info.op}()"]
    if arity_of(op):
        for place, edge in enumerate(edges):
            lines.append(f"    node._edge{place} = {local[place]}{edge}")
    else:
        locals_ = ", ".join(name.removesuffix(" = ") for name in local) + " = " if is_asked else ""
        lines.append(f"    node._edges = {locals_}{_edges_text(edges)}")
    if not recording or len(returns) != 1 or not is_tensor(returns[0].type):
        # Else it is described as soon as it is known.
        lines.append("    node._output_metadata = UNDESCRIBED")
    for attribute in op.saved("inputs"):
        lines += _save_input(op, attribute, recording=recording)
    if is_asked:
        for place, argument in enumerate(op.differentiable):
            asked = f"if {edge_text(op, place)} "
            lines = [line.replace(asked, f"if to_{argument.name} ") for line in lines]
    return lines


def _edge(argument: Argument, written: bool, alone: bool) -> str:
    name = argument.name
    if is_tensor_list(argument.type):
        return f"*[t._edge or edge_of(t) for t in {name}]"
    if written and name == "self":
        return f"edge_of({name})"
    edge = f"edge_of({name})"
    if not alone:
        # Most operands without an edge are constants, of which there is nothing to ask.
        edge = f"(edge_of({name}) if {name}._flags & EDGED else None)"
    optional = f"None if {name} is None else " if isinstance(argument.type, OptionalType) else ""
    return f"{optional}{name}._edge or {edge}"


def _edges_text(edges: list[str]) -> str:
    if len(edges) == 1 and edges[0].startswith("*"):
        return f"tuple({edges[0][1:]})"
    return tuple_text(edges)


def _form_of_input(op: Emitted, attribute: SavedAttribute) -> str:
    """What is kept of an input besides its values; a tensor is slower to ask than its array.

    What requires grad holds no Python number, so that it has an array to ask.
    """
    source, expr = attribute.source, attribute.expr
    bare = expr.replace(f"{source}.", f"{source}._array.", 1)
    names = [a.name for a in op.differentiable]
    if not expr.startswith(f"{source}.") or source not in names or not arity_of(op):
        return expr
    if len(op.tensors) == 1:
        return bare
    return f"{bare} if {edge_text(op, names.index(source))} is not None else {expr}"


def _save_input(op: Emitted, attribute: SavedAttribute, *, recording: bool) -> list[str]:
    name = attribute.name
    if attribute.expr != attribute.source:
        return [f"    node.{name} = {_form_of_input(op, attribute)}"]
    if is_tensor_list(attribute.type):
        return [f"    save_list(node, {quoted(name)}, {name})"]
    if not is_tensor(attribute.type):
        return [f"    node.{name} = {name}"]
    guard = guard_of(op, attribute)
    if op.inplace and name == "self":
        save = [f"    save_before_write(node, {quoted(name)}, self, {edge_text(op, 0)})"]
        return [f"    if {guard}:", indent(save[0])] if guard else save
    version = f"0 if {name}._counter is None else {name}._counter[0]"
    if isinstance(attribute.type, OptionalType):
        version = f"0 if {name} is None or {name}._counter is None else {name}._counter[0]"
    save = [f"    node.{name} = {name}", f"    node.{name}_v = {version}"]
    if recording and place_of(op, attribute) is not None:
        # A result of another node that nobody has looked at: its array is enough.
        is_more = f"{name}._edge is None or {name}._counter is not None or {name}._meta is not None"
        save = [
            f"    if {is_more}:",
            *map(indent, save),
            "    else:",
            f"        node.{name} = {name}._array",
        ]
    if not guard:
        return save
    return [f"    if {guard}:", *map(indent, save)]  # nobody reads the slots of what is not needed
