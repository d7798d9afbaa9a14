"""Node classes: the slots for saved values, and the formulas as one method."""

from __future__ import annotations

import ast

from pullback.codegen.emit.model import Emitted, in_namespace, is_tensor, is_tensor_list
from pullback.codegen.emit.run import (
    arity_of,
    edge_text,
    edges_text,
    emit_run,
    guard_of,
    is_alike,
    is_exact,
    is_product,
    makes_new,
    only_sums,
    place_of,
)
from pullback.codegen.emit.source import docstring, indent, quoted, tuple_text, wrapped_call
from pullback.codegen.model import Derivative, SavedAttribute

__all__ = ["emit_node"]

_BASES = ("ManyEdges", "OneEdge", "TwoEdges")


def emit_node(op: Emitted) -> str:
    """The class of an operator's backward node."""
    info = op.info
    assert info is not None
    saved = op.saved("inputs") + op.saved("outputs")
    tensors = [s.name for s in saved if is_tensor(s.type) or is_tensor_list(s.type)]
    versions = [f"{s.name}_v" for s in op.saved("inputs") if s.name in tensors]
    results = [s.name for s in op.saved("outputs") if s.name in tensors and _is_plain(op)]
    slots = sorted([*(s.name for s in saved), *versions])
    if _returns_list(op):
        slots.append("_outputs")  # as many as the list has tensors
    formulas = [f"{', '.join(d.var_names)}: {d.original_formula}" for d in op.derivatives]
    text = f"class {info.op}({_base(op)}):\n"
    text += indent(docstring(str(op.schema), formulas)) + "\n\n"
    text += indent(wrapped_call("__slots__ = (", [quoted(s) for s in slots], _end(slots), 4)) + "\n"
    if saved:
        names = [quoted(s.name) for s in saved]
        text += indent(wrapped_call("_saves = (", names, _end(names), 4)) + "\n"
    if tensors:
        names = [quoted(name) for name in tensors]
        text += indent(wrapped_call("_saves_tensors = (", names, _end(names), 4)) + "\n"
    if results:
        names = [quoted(name) for name in results]
        text += indent(wrapped_call("_saves_results = (", names, _end(names), 4)) + "\n"
    if any(place_of(op, attribute) is not None for attribute in saved):
        names = [quoted(a.name) for a in op.differentiable]
        text += indent(wrapped_call("_inputs = (", names, _end(names), 4)) + "\n"
    if len(op.schema.returns) != 1:
        text += f"    _outputs = {len(op.schema.returns)}\n"
    if not _is_plain(op):
        text += "    _is_single = False\n"
    runs = emit_run(op, saved, tensors)
    if runs and is_exact(op):
        text += "    _is_exact = True\n"
    if runs and is_alike(op):
        text += "    _is_alike = True\n"
    if runs and makes_new(op):
        text += "    _makes_new = True\n"
    if runs and only_sums(op):
        text += "    _only_sums = True\n"
    if (
        op.inplace
        and arity_of(op)
        and any(
            d.var_names == ("self",) and d.formula == "zeros_like(grad)" for d in op.derivatives
        )
    ):
        text += "    _erases = True\n"
    text += "\n" + indent(_backward(op, saved))
    if runs:
        text += "\n" + indent(runs)
    if tensors:
        freed = " = ".join(f"node.{name}" for name in tensors)
        text += f"\n    def release(node):\n        {freed} = FREED\n"
    if op.saved("outputs"):
        text += "\n" + indent(_save_outputs(op))
    return text


def _base(op: Emitted) -> str:
    """The base class of a node: by its number of edges, or that of basic indexing."""
    if any(d.formula.startswith("getitem_backward(grad,") for d in op.derivatives):
        return "SliceNode"
    return _BASES[arity_of(op)]


def _save_outputs(op: Emitted) -> str:
    """The method that keeps what the formulas read of the results."""
    names = op.schema.return_names()
    lines = [f"def save_outputs(node, {', '.join(names)}):"]
    for attribute in op.saved("outputs"):
        source = attribute.source
        if attribute.expr != source:
            lines.append(f"    node.{attribute.name} = {attribute.expr}")
        else:
            number = f", {names.index(source)}" if len(names) > 1 else ""
            guard = guard_of(op, attribute)
            only = f" if {guard} else None" if guard else ""
            lines.append(f"    node.{attribute.name} = save_output({source}{number}){only}")
    return "\n".join(lines) + "\n"


def _is_plain(op: Emitted) -> bool:
    """Whether an operator has one result, a tensor."""
    return len(op.schema.returns) == 1 and is_tensor(op.schema.returns[0].type)


def _end(items: list[str]) -> str:
    return ",)" if len(items) == 1 else ")"


def _returns_list(op: Emitted) -> bool:
    return len(op.schema.returns) == 1 and is_tensor_list(op.schema.returns[0].type)


def _backward(op: Emitted, saved: list[SavedAttribute]) -> str:
    single = len(op.schema.returns) == 1 and not _returns_list(op)
    lines = ["def backward(node, xp, grad):" if single else "def backward(node, xp, *grads):"]
    nothing = "grad is None" if single else "all(grad is None for grad in grads)"
    refused = _refused(op)
    if len(refused) < len(op.differentiable):
        nothing += "".join(f" and {edge_text(op, number)} is None" for number in refused)
        none = tuple_text(["None"] * arity_of(op)) if arity_of(op) else "(None,) * len(node._edges)"
        lines += [f"    if {nothing}:", f"        return {none}"]
    if not single:
        lines += _unpack_grads(op)
    if is_product(op):  # of a value with itself: both gradients are one
        (own,) = [attribute for attribute in saved if attribute.name == "self"]
        lines += [
            "    if node._edge0 is node._edge1 is not None and node.self is node.other:",
            f"        self = {_loaded(op, own)}",
            "        both = grad * xp.conj(self)",
            "        return (both, both)",
        ]
    for attribute in saved:
        guard = guard_of(op, attribute) if is_tensor(attribute.type) else None
        only = f" if {guard} else None" if guard else ""
        lines.append(f"    {attribute.name} = {_loaded(op, attribute)}{only}")
    lines += _results(op)
    return "\n".join(lines) + "\n"


def _loaded(op: Emitted, attribute: SavedAttribute) -> str:
    """The expression that reads a saved value."""
    name = attribute.name
    if not is_tensor(attribute.type) and not is_tensor_list(attribute.type):
        return f"node.{name}"
    if attribute in op.saved("outputs"):
        return f"xp.load_result(node, {quoted(name)})"
    load = f"xp.load(node, node.{name}, node.{name}_v)"
    if place_of(op, attribute) is None:
        return load
    bare = f"xp.load_input(node, {quoted(name)})"
    return f"({load} if type(node.{name}) is Tensor else {bare})"


def _refused(op: Emitted) -> list[int]:
    """The places of the arguments that refuse gradients, also one that did not arrive."""
    names = {n for d in op.derivatives if "not_implemented" in d.formula for n in d.var_names}
    return [number for number, a in enumerate(op.differentiable) if a.name in names]


def _unpack_grads(op: Emitted) -> list[str]:
    """Names for the gradients of several outputs.

    One that did not arrive is zero, or None where the tag ``undefined_grads`` asks for it.
    """
    lines = []
    if "undefined_grads" not in op.function.tags:
        lines.append("    grads = xp.materialize(node, grads)")
    names = set().union(*(_names(d) for d in op.derivatives))
    if "grad" in names:
        lines.append("    grad = grads[0]")
    for number, name in enumerate(op.schema.return_names()):
        if f"grad_{name}" in names:
            lines.append(f"    grad_{name} = grads[{number}]")
    return lines


def _names(derivative: Derivative) -> set[str]:
    tree = ast.parse(derivative.formula, mode="eval")
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _results(op: Emitted) -> list[str]:
    """The formulas, each computed only where its gradient is needed."""
    differentiable = op.differentiable
    if len(differentiable) == 1 and is_tensor_list(differentiable[0].type):
        formula = in_namespace(op.derivatives[0].formula)
        mask = "    grad_input_mask = [edge is not None for edge in node._edges]"
        uses_mask = "grad_input_mask" in formula
        return [*([mask] if uses_mask else []), f"    return tuple({formula})"]
    if any(is_tensor_list(a.type) for a in differentiable):
        return _results_with_lists(op)
    names = [a.name for a in differentiable]
    if len(names) == 1:
        return [f"    return ({in_namespace(op.derivatives[0].formula)},)"]
    lines = [f"    {', '.join(f'to_{name}' for name in names)} = {edges_text(op)}"]
    results = dict.fromkeys(names, "None")
    for derivative in op.derivatives:
        formula = in_namespace(derivative.formula)
        if len(derivative.var_names) == 1:
            (name,) = derivative.var_names
            results[name] = f"{_parenthesized(formula)} if to_{name} is not None else None"
            continue
        mask = tuple_text([f"to_{name} is not None" for name in derivative.var_names])
        targets = ", ".join(f"grad_of_{name}" for name in derivative.var_names)
        if "grad_input_mask" in formula:
            lines.append(f"    grad_input_mask = {mask}")
        lines.append(f"    {targets} = {formula}")
        results.update({name: f"grad_of_{name}" for name in derivative.var_names})
    items = [results[name] for name in names]
    return [*lines, indent(wrapped_call("return (", items, ")" if len(items) > 1 else ",)", 8))]


def _results_with_lists(op: Emitted) -> list[str]:
    lines = ["    results = []"]
    by_name = {name: d for d in op.derivatives for name in d.var_names}
    for argument in op.differentiable:
        derivative = by_name[argument.name]
        if len(derivative.var_names) != 1:
            raise NotImplementedError(f"{op.name}: a joint formula with a list of tensors")
        formula = in_namespace(derivative.formula)
        method = "extend" if is_tensor_list(argument.type) else "append"
        lines.append(f"    results.{method}({formula})")
    return [*lines, "    return tuple(results)"]


def _parenthesized(formula: str) -> str:
    return f"({formula})" if " if " in formula else formula
