"""Generated source of an operator: its formulas as functions, and a row with the rest.

``autograd/record/operator.py`` makes kernels and node classes of the rows.
"""

from __future__ import annotations

import ast
import re
import textwrap

from pullback.codegen.emit.array_calls import array_function
from pullback.codegen.emit.forward import form_of, tangent_arguments
from pullback.codegen.emit.functions import public_name
from pullback.codegen.emit.model import (
    Emitted,
    default_of,
    has_gaps,
    in_namespace,
    is_tensor,
    is_tensor_list,
    is_tensor_value,
)
from pullback.codegen.emit.source import WIDTH, indent, quoted, tuple_text
from pullback.codegen.emit.traits import has_operands, traits_of
from pullback.codegen.model import Derivative, SavedAttribute
from pullback.codegen.native import META_RULES
from pullback.codegen.python_dialect import PYTHON
from pullback.schema import Argument, OptionalType, SchemaKind

__all__ = ["emit_again", "emit_row", "emit_save", "emit_vjps", "has_save", "row_text"]

_REFUSAL = re.compile(r"not_implemented\('(.*)'\)")
# Tags that name the class of a batching rule.
_BATCHING = {
    "elementwise": "elementwise",
    "reduction": "reduction",
    "nondeterministic_seeded": "random",
}


# --- formulas ------------------------------------------------------------------------------------


def emit_vjps(op: Emitted) -> list[str]:
    """The backward formulas, a function each."""
    return [_vjp(op, d) for d in op.derivatives if not _REFUSAL.fullmatch(d.formula)]


def _vjp_name(op: Emitted, derivative: Derivative) -> str:
    return f"{op.name}_vjp_{'_'.join(derivative.var_names)}"


def _vjp(op: Emitted, derivative: Derivative) -> str:
    formula = in_namespace(derivative.formula)
    read = {n.id for n in ast.walk(ast.parse(formula, mode="eval")) if isinstance(n, ast.Name)}
    if has_operands(op):
        values = [a.name for a in op.arguments] + list(_outputs(op))
        parameters = ["grad", *(name if name in read else f"_{name}" for name in values)]
    else:
        saved = op.saved("inputs") + op.saved("outputs")
        tensors = [s for s in saved if is_tensor(s.type) and s.expr == s.source]
        others = [s for s in saved if s not in tensors]
        inputs = {s.name for s in op.saved("inputs")}
        tensors.sort(key=lambda s: s.name not in inputs)
        single = len(op.schema.returns) == 1 and is_tensor(op.schema.returns[0].type)
        parameters = ["grad"] if single else [n for n in _gradients(op) if n in read]
        parameters += [s.name for s in (*tensors, *others) if s.name in read]
        parameters += ["grad_input_mask"] if "grad_input_mask" in read else []
    order = [a.name for a in op.differentiable if a.name in derivative.var_names]
    lines = [f"return {formula}"]
    if order != list(derivative.var_names):
        names = ", ".join(derivative.var_names)
        lines = [f"{names} = {formula}", f"return {', '.join(order)}"]
    head = f"def {_vjp_name(op, derivative)}(xp, {', '.join(parameters)}):\n"
    return head + indent("\n".join(lines)) + "\n"


def _outputs(op: Emitted) -> list[str]:
    return ["result"] if op.inplace else list(op.schema.return_names())


def _gradients(op: Emitted) -> list[str]:
    """The names that a formula may have for gradients."""
    return ["grads", "grad", *(f"grad_{name}" for name in _outputs(op))]


def _own_saves(op: Emitted) -> list[SavedAttribute]:
    """The saved values besides tensors and lists of them."""
    saved = op.saved("inputs")
    return [s for s in saved if s.expr != s.source or not is_tensor_value(s.type)]


def has_save(op: Emitted) -> bool:
    """Whether a node saves anything but tensors."""
    return bool(_own_saves(op))


def emit_save(op: Emitted) -> str:
    """The function that saves what is no tensor: options, shapes."""
    lines = [f"node.{s.name} = {_saved_value(op, s)}" for s in _own_saves(op)]
    texts = [a.name + default_of(a) for a in op.positional]
    if op.keyword_only:
        texts += ["*", *(a.name + default_of(a) for a in op.keyword_only)]
    head = f"def {op.name}_save(node, {', '.join(texts)}):\n"
    return head + indent("\n".join(lines)) + "\n"


def _saved_value(op: Emitted, attribute: SavedAttribute) -> str:
    """The saved attribute of an input; reading it from an array is faster than from a tensor."""
    source, expr = attribute.source, attribute.expr
    is_alone = len(op.tensors) == 1 and is_tensor(op.tensors[0].type)
    if is_alone and op.differentiable == op.tensors and expr.startswith(f"{source}."):
        return expr.replace(f"{source}.", f"{source}._array.", 1)
    return expr


# --- rows ----------------------------------------------------------------------------------------


def row_text(head: str, items: list[str]) -> str:
    """A call with as many items a line as fit."""
    line = f"{head}({', '.join(items)})"
    if len(line) <= WIDTH:
        return line + "\n"
    # Spaces inside an item are no place to break.
    joined = ", ".join(item.replace(" ", "\0") for item in items)
    wrapped = textwrap.wrap(joined, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    body = "".join(f"    {line}\n" for line in wrapped).replace("\0", " ")
    return f"{head}(\n{body})\n"


def emit_row(
    family: str, op: Emitted, owner: Emitted, jvp: Emitted | None, inplace: Emitted | None
) -> str:
    """The row of an operator; `owner` has the node, `jvp` the JVP rule, `inplace` is a variant."""
    kernel = op.function.dispatch["CPU"]
    items = [f"operators.{op.name}", f"functions_{family}.{public_name(op)}"]
    items += [array_function(kernel), quoted(_arguments(op))]
    options = [a.name for a in op.positional if not is_tensor_value(a.type)]
    if kernel.startswith("numpy.") and options:
        items.append(f"keywords={quoted(' '.join(options))}")
    traits = traits_of(op)
    if traits:
        items.append(f"traits={quoted(' '.join(traits))}")
    items += _result_items(op)
    if op.info is not None:
        items += _node_items(op, owner)
    if jvp is not None:
        items += _jvp_items(op, jvp)
    items += _rule_items(op)
    if op.is_view and is_tensor_list(op.schema.returns[0].type):
        items.append(f"again={op.name}_again")
    if inplace is not None:
        function = f"functions_{family}.{public_name(inplace)}"
        items.append(f"inplace=(operators.{inplace.name}, {function})")
    return row_text("operator", items)


def _arguments(op: Emitted) -> str:
    words = [_word(argument) for argument in op.positional]
    if op.keyword_only:
        words += ["*", *map(_word, op.keyword_only)]
    return " ".join(words)


def _word(argument: Argument) -> str:
    name, kind = argument.name, argument.type
    if not is_tensor_value(kind):
        return f"({name})"
    if is_tensor_list(kind):
        return f"{name}[?]" if has_gaps(kind) else f"{name}[]"
    return f"{name}?" if isinstance(kind, OptionalType) else name


def _result_items(op: Emitted) -> list[str]:
    outputs, returns = _outputs(op), op.schema.returns
    items = [f"outputs={quoted(' '.join(outputs))}"] if outputs != ["result"] else []
    if len(returns) != 1:
        items.append('returns="tuple"')
        if op.info is not None:
            items.append(f"differentiable_outputs={op.differentiable_outputs}")
    elif is_tensor_list(returns[0].type):
        items += ['returns="list"', "differentiable_outputs=None"]
    elif not is_tensor(returns[0].type):
        items.append('returns="value"')
    return items


def _node_items(op: Emitted, owner: Emitted) -> list[str]:
    assert op.info is not None
    items = [f"node={quoted(str(op.info.op))}"]
    if op.differentiable != op.tensors:
        items.append(f"differentiable={quoted(' '.join(a.name for a in op.differentiable))}")
    saved = owner.saved("inputs") + owner.saved("outputs")
    if saved:
        items.append(f"saves={quoted(' '.join(s.name for s in saved))}")
    if has_save(owner):
        items.append(f"save={owner.name}_save")
    by_name = {name: d for d in owner.derivatives for name in d.var_names}
    vjps = [_vjp_item(owner, by_name.get(a.name)) for a in op.differentiable]
    return [*items, f"vjps={tuple_text(vjps)}"]


def _vjp_item(owner: Emitted, derivative: Derivative | None) -> str:
    if derivative is None:
        return "None"
    refusal = _REFUSAL.fullmatch(derivative.formula)
    return quoted(refusal[1]) if refusal else _vjp_name(owner, derivative)


def _jvp_items(op: Emitted, jvp: Emitted) -> list[str]:
    items = [f"jvp={jvp.name}_jvp"]
    tangents = tuple(jvp.arguments.index(a) for a in tangent_arguments(jvp))
    places = tuple(op.arguments.index(a) for a in op.differentiable)
    if tangents != places:
        items.append(f"tangents={tangents}")
    form = form_of(jvp)
    if form != ("elementwise" if "elementwise" in op.function.tags else None):
        items.append(f"form={_text_or_none(form)}")
    return items


def _text_or_none(text: str | None) -> str:
    return "None" if text is None else quoted(text)


def _rule_items(op: Emitted) -> list[str]:
    """The rules of shapes and batches, where they are not those of element-wise operators."""
    default = "elementwise" if "elementwise" in op.function.tags else None
    items = []
    if op.schema.kind() is SchemaKind.functional:
        kind = next((_BATCHING[tag] for tag in op.function.tags if tag in _BATCHING), None)
        if kind != default:
            items.append(f"batching={_text_or_none(kind)}")
    meta = op.function.dispatch.get("Meta")
    if meta != default:
        is_rule = meta is None or meta in META_RULES
        items.append(f"meta={_text_or_none(meta) if is_rule else array_function(str(meta))}")
    return items


def emit_again(op: Emitted) -> str:
    """The function that makes one view of a list once more from the base."""
    names = ["base", *(a.name for a in op.arguments[1:]), "number"]
    if op.function.part is None:
        again = op.passed().replace("self", "base", 1)
        made = f"xp.{op.name}({again})[number]"
    else:
        made = in_namespace(PYTHON.substitute(op.function.part, {"self": "base"}))
    return f"def {op.name}_again(xp, {', '.join(names)}):\n    return {made}\n"
