"""Kernels on tensors: plain ones, those that write or make views, and those that record.

What an operator computes stands in the table as the name of a function on arrays. Everything here
is the code around that one call.
"""

from __future__ import annotations

from pullback.codegen.emit.array_calls import array_call, array_function, array_of
from pullback.codegen.emit.model import Emitted, in_namespace, is_tensor, is_tensor_list
from pullback.codegen.emit.recording import emit_node_maker, emit_record, node_lines
from pullback.codegen.emit.source import quoted, tuple_text
from pullback.codegen.python_dialect import PYTHON
from pullback.schema import OptionalType

__all__ = ["emit_composite", "emit_kernels"]


def emit_kernels(op: Emitted) -> str:
    """The kernels of one operator that has a function on arrays."""
    parts = [_plain(op)]
    if op.is_view:
        parts += [_again(op), _view(op, recording=False)]
    elif op.inplace:
        parts.append(_inplace(op, recording=False))
    if op.info is not None:
        parts.append(emit_node_maker(op))
        if op.is_view:
            parts.append(_view(op, recording=True))
        elif op.inplace:
            parts.append(_inplace(op, recording=True))
        else:
            parts.append(emit_record(op))
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
    return head + f"    return {_wrapped(op, array_call(op))}\n"


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
        *node_lines(op),
        f"    record_inplace(node, self, {_written(op)}, {quoted(op.name)})",
        *(["    node.save_outputs(self)"] if op.saved("outputs") else []),
        "    return self",
    ]
    return "\n".join(lines) + "\n"


def _written(op: Emitted) -> str:
    """The result of an in-place operator; NumPy's functions write it in its place themselves."""
    kernel = op.function.dispatch["CPU"]
    if not kernel.startswith("numpy.") or "elementwise" not in op.function.tags:
        return array_call(op)
    if any(not is_tensor(a.type) or isinstance(a.type, OptionalType) for a in op.arguments):
        return array_call(op)
    operands = ", ".join(array_of(a) for a in op.arguments)
    return f"write_by({array_function(kernel)}, self, {quoted(op.name)}, {operands})"


def _view(op: Emitted, *, recording: bool) -> str:
    """The kernel that notes the base of a view, and records it."""
    step = tuple_text([f"{op.name}_again", *(a.name for a in op.arguments[1:])])
    make = "record_views" if is_tensor_list(op.schema.returns[0].type) else "record_view"
    suffix = "record" if recording else "view"
    lines = [f"def {op.name}_{suffix}({op.parameters()}):"]
    if recording:
        lines += node_lines(op)
    node = "node" if recording else "None"
    lines.append(f"    return {make}({node}, self, {array_call(op)}, {step})")
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
