"""Kernels on tensors: plain ones, those that write or make views, and those that record.

What an operator computes stands in the table as the name of a function on arrays. Everything here
is the code around that one call.
"""

from __future__ import annotations

from pullback.codegen.emit.model import (
    Emitted,
    has_gaps,
    in_namespace,
    is_tensor,
    is_tensor_list,
    is_tensor_value,
)
from pullback.codegen.emit.run import arity_of, edge_text, guard_of, place_of
from pullback.codegen.emit.source import indent, quoted, tuple_text
from pullback.codegen.model import SavedAttribute
from pullback.codegen.python_dialect import PYTHON
from pullback.schema import Argument, OptionalType

__all__ = ["array_function", "emit_composite", "emit_kernels"]


def emit_kernels(op: Emitted) -> str:
    """The kernels of one operator that has a function on arrays."""
    parts = [_plain(op)]
    if op.is_view:
        parts += [_again(op), _view(op, recording=False)]
    elif op.inplace:
        parts.append(_inplace(op, recording=False))
    if op.info is not None:
        parts.append(_node_maker(op))
        if op.is_view:
            parts.append(_view(op, recording=True))
        elif op.inplace:
            parts.append(_inplace(op, recording=True))
        else:
            parts.append(_record(op))
    return "\n\n".join(parts)


def emit_composite(op: Emitted, entry: str, module: str) -> str:
    """The kernel of an ``out=`` or foreach function: it calls the entry's own function."""
    function = f"{module}.{entry}"
    if op.schema.is_out_fn():
        out = op.schema.arguments.out[0].name
        parameters = ", ".join(filter(None, [op.parameters(), "" if op.keyword_only else "*", out]))
        return (
            f"def {op.name}_composite({parameters}):\n"
            f"    return write_out({function}({op.passed()}), {out}, {quoted(op.name)})\n"
        )
    lists = [a.name for a in op.arguments if is_tensor_list(a.type)]
    each = ", ".join(
        ("each_" + a.name if a in op.positional else f"{a.name}=each_{a.name}")
        if a.name in lists
        else (a.name if a in op.positional else f"{a.name}={a.name}")
        for a in op.arguments
    )
    targets = ", ".join(f"each_{name}" for name in lists)
    source = lists[0] if len(lists) == 1 else f"zip({', '.join(lists)}, strict=True)"
    return (
        f"def {op.name}_composite({op.parameters()}):\n"
        f"    return [{function}({each}) for {targets} in {source}]\n"
    )


def array_function(kernel: str) -> str:
    """The expression of a kernel's name in a table, by names that the module looks up once.

    Modules that load some of their names late, as NumPy does, are slow to be asked for any.

    >>> array_function("numpy.sin"), array_function("kernels.shape.reshape")
    ('np_sin', 'shape_kernels.reshape')
    """
    module, _, name = kernel.rpartition(".")
    if module == "numpy":
        return f"np_{name}"
    if module.startswith("kernels.") and module.count(".") == 1:
        return f"{module.removeprefix('kernels.')}_kernels.{name}"
    return kernel.replace("numpy.", "np.", 1) if kernel.startswith("numpy.") else kernel


def _array(argument: Argument) -> str:
    """An argument as the array function gets it."""
    name = argument.name
    if has_gaps(argument.type):
        return f"[None if t is None else t._array for t in {name}]"
    if is_tensor_list(argument.type):
        return f"[t._array for t in {name}]"
    if isinstance(argument.type, OptionalType) and is_tensor(argument.type):
        return f"None if {name} is None else {name}._array"
    return f"{name}._array" if is_tensor(argument.type) else name


def _call(op: Emitted, *, recording: bool = False) -> str:
    """The call of the array function; of a costly one by several threads, on large arrays."""
    kernel = op.function.dispatch["CPU"]
    texts = []
    for argument in op.arguments:
        by_keyword = argument in op.keyword_only or (
            kernel.startswith("numpy.") and not is_tensor_value(argument.type)
        )
        texts.append(f"{argument.name}={_array(argument)}" if by_keyword else _array(argument))
    function, passed = array_function(kernel), ", ".join(texts)
    if "heavy" not in op.function.tags:
        is_numpys = kernel.startswith("numpy.")
        return _arithmetic(op, texts) if is_numpys else f"{function}({passed})"
    # A Python number has no size; what requires grad is an array.
    is_large = f"{passed}.size >= LARGE"
    if not recording:
        is_large = f"type({passed}) is ndarray and {is_large}"
    return f"spread({function}, {passed}) if {is_large} else {function}({passed})"


def _arithmetic(op: Emitted, texts: list[str]) -> str:
    """The call of a NumPy function, with another way for two arrays of unlike or large size."""
    kernel, arrays = op.function.dispatch["CPU"], list(map(_array, op.tensors))
    function, passed = array_function(kernel), ", ".join(texts)
    call = f"{function}({passed})"
    if "elementwise" not in op.function.tags or arrays != texts or len(texts) != 2:
        return call
    a, b = texts  # either may be a Python number; both are read once, which is quicker
    are_arrays = f"type(first_array := {a}) is type(second_array := {b}) is ndarray"
    is_common = "first_array.size == second_array.size <= WIDE"
    have_axes = "first_array.ndim and second_array.ndim"
    both = "first_array, second_array"
    is_other = f"{are_arrays} and not {is_common} and {have_axes}"
    return f"combine({function}, {both}) if {is_other} else {function}({both})"


def _wrapped(op: Emitted, call: str) -> str:
    """The call with its arrays made tensors."""
    returns = [ret.type for ret in op.schema.returns]
    if len(returns) == 1:
        if is_tensor(returns[0]):
            return f"wrap({call})"
        return f"[wrap(array) for array in {call}]" if is_tensor_list(returns[0]) else call
    return f"tuple(map(wrap, {call}))"


def _plain(op: Emitted) -> str:
    """The kernel for CPU: arrays out of tensors, the function, tensors around arrays."""
    head = f"def {op.name}_cpu({op.parameters()}):\n"
    if op.inplace:
        return head + f"    write(self, {_written(op)}, {quoted(op.name)})\n    return self\n"
    return head + f"    return {_wrapped(op, _call(op))}\n"


def _node_maker(op: Emitted) -> str:
    """The function that makes the node, for calls that another kernel computes."""
    lines = [f"def {op.name}_node({op.parameters()}):", *_node(op), "    return node"]
    return "\n".join(lines) + "\n"


def _record(op: Emitted) -> str:
    """The kernel that runs when an input requires grad and grad mode is on."""
    signature = f"def {op.name}_record({op.parameters()}):"
    head = "\n".join([signature, *_node(op, recording=True)]) + "\n"
    returns = [ret.type for ret in op.schema.returns]
    if len(returns) != 1:
        made = f"recorded_several(node, {_call(op)}, {op.differentiable_outputs})"
    elif is_tensor_list(returns[0]):
        made = f"recorded_list(node, {_call(op)})"
    elif "elementwise" in op.function.tags:
        lines = [*_recorded_inline(op), *_save_result(op), "    return result\n"]
        return head + "\n".join(lines)
    else:
        made = f"recorded(node, {_call(op, recording=True)})"
    if not op.saved("outputs"):
        return head + f"    return {made}\n"
    if len(returns) == 1 and is_tensor(returns[0]):
        return head + "\n".join([f"    result = {made}", *_save_result(op), "    return result\n"])
    names = op.schema.return_names()
    results = "result" if len(returns) == 1 else ", ".join(names)
    return head + (
        f"    {results} = {made}\n    node.save_outputs({results})\n    return {results}\n"
    )


def _recorded_inline(op: Emitted) -> list[str]:
    """What ``recorded`` does, for the common dtype without a call: programs loop over these."""
    return [
        f"    array = {_call(op, recording=True)}",
        "    if type(array) is not ndarray:  # NumPy returns a number where there are no axes",
        "        array = np_asarray(array)",
        "    if array.dtype is FLOAT64:",
        "        node._seq = get_following()()",
        *_form_of_result(op),
        "        result = new_tensor(Tensor)",
        "        result._array = array",
        "        result._flags = RECORDED_FLAGS",
        "        result._edge = node",
        "        result._counter = result._meta = None",
        "    else:",
        "        result = recorded(node, array)",
    ]


def _form_of_result(op: Emitted) -> list[str]:
    """Lines that note the form of an element-wise result: the very tuple that other nodes have.

    Of a function of one tensor it mostly is that of the node behind, which is known sooner.
    """
    look_up = [
        "        try:",
        "            node._form = FORMS[array.shape]",
        "        except KeyError:",
        "            node._form = form_of(array.shape, FLOAT64)",
    ]
    if len(op.tensors) != 1:
        return look_up
    is_same = "edge is not None and (form := edge._form)[1] is FLOAT64 and form[2] is None"
    return [
        f"        edge = {op.tensors[0].name}._edge",
        f"        if {is_same}:",
        "            node._form = form",
        "        else:",
        *map(indent, look_up),
    ]


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


def _inplace(op: Emitted, *, recording: bool) -> str:
    """The kernel that writes, counts the write, and records it."""
    others = "".join(f", {a.name}" for a in op.tensors if is_tensor(a.type) and a.name != "self")
    if not recording:
        return (
            f"def {op.name}_inplace({op.parameters()}):\n"
            f"    check_inplace(self, False{others})\n"
            f"    return record_inplace(None, self, {_written(op)}, {quoted(op.name)})\n"
        )
    lines = [
        f"def {op.name}_record({op.parameters()}):",
        f"    check_inplace(self, True{others})",
        *_node(op),
        f"    record_inplace(node, self, {_written(op)}, {quoted(op.name)})",
        *(["    node.save_outputs(self)"] if op.saved("outputs") else []),
        "    return self",
    ]
    return "\n".join(lines) + "\n"


def _written(op: Emitted) -> str:
    """The result of an in-place operator; NumPy's functions write it in its place themselves."""
    kernel = op.function.dispatch["CPU"]
    if not kernel.startswith("numpy.") or "elementwise" not in op.function.tags:
        return _call(op)
    if any(not is_tensor(a.type) or isinstance(a.type, OptionalType) for a in op.arguments):
        return _call(op)
    operands = ", ".join(_array(a) for a in op.arguments)
    return f"write_by({array_function(kernel)}, self, {quoted(op.name)}, {operands})"


def _view(op: Emitted, *, recording: bool) -> str:
    """The kernel that notes the base of a view, and records it."""
    step = tuple_text([f"{op.name}_again", *(a.name for a in op.arguments[1:])])
    make = "record_views" if is_tensor_list(op.schema.returns[0].type) else "record_view"
    suffix = "record" if recording else "view"
    lines = [f"def {op.name}_{suffix}({op.parameters()}):"]
    if recording:
        lines += _node(op)
    node = "node" if recording else "None"
    lines.append(f"    return {make}({node}, self, {_call(op)}, {step})")
    return "\n".join(lines) + "\n"


def _again(op: Emitted) -> str:
    """The function that makes a view again from its base."""
    names = ["base", *(a.name for a in op.arguments[1:])]
    again = op.passed().replace("self", "base", 1)
    made = f"xp.{op.name}({again})"
    if is_tensor_list(op.schema.returns[0].type):
        names.append("number")
        made = _one_view(op, again)
    return f"def {op.name}_again(xp, {', '.join(names)}):\n    return {made}\n"


def _one_view(op: Emitted, again: str) -> str:
    """The expression that makes one view of a list again."""
    if op.function.part is None:
        return f"xp.{op.name}({again})[number]"
    return in_namespace(PYTHON.substitute(op.function.part, {"self": "base"}))


def _node(op: Emitted, *, recording: bool = False) -> list[str]:
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
    local = [f"to_{a.name} = " if is_asked else "" for a in op.differentiable]
    lines = [f"    node = {info.op}()"]
    if arity_of(op):
        for place, edge in enumerate(edges):
            lines.append(f"    node._edge{place} = {local[place]}{edge}")
    else:
        locals_ = ", ".join(name.removesuffix(" = ") for name in local) + " = " if is_asked else ""
        lines.append(f"    node._edges = {locals_}{_edges_text(edges)}")
    if not recording or len(returns) != 1 or not is_tensor(returns[0].type):
        lines.append("    node._form = UNDESCRIBED")  # else it is described as soon as it is known
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
