"""Forward-mode formulas: one function an operator, from primals and tangents to tangents."""

from __future__ import annotations

import ast

from pullback.codegen.emit.conjugates import cancel_conjugates
from pullback.codegen.emit.model import Emitted, in_namespace, is_tensor, is_tensor_list
from pullback.codegen.emit.source import indent, tuple_text
from pullback.codegen.model import ForwardDerivative
from pullback.schema import Argument, BaseTy, BaseType

__all__ = [
    "emit_jvp",
    "form_of",
    "has_jvp",
    "is_auto_linear",
    "sums_terms",
    "tangent_arguments",
]


_REAL_NUMBERS = {BaseType(BaseTy.float), BaseType(BaseTy.int), BaseType(BaseTy.bool)}
_OF_MATRICES = {"matmul"}  # functions of the last two axes that broadcast those in front


def has_jvp(op: Emitted) -> bool:
    """Whether an operator has forward formulas of its own: variants use those of their entry."""
    return bool(_formulas(op))


def _formulas(op: Emitted) -> tuple[ForwardDerivative, ...]:
    info = op.matched.info["Default"] if op.matched.info else None
    if info is None or (op.inplace and not op.matched.exact):
        return ()
    return info.forward_derivatives


def tangent_arguments(op: Emitted) -> list[Argument]:
    """The arguments that may carry a tangent."""
    return op.differentiable or op.tensors


def sums_terms(op: Emitted) -> bool:
    """Whether the formula leaves out the terms of arguments that have no tangent."""
    return bool(_shortened(op))


def is_auto_linear(op: Emitted) -> bool:
    """Whether a tangent is the operator's own value for the tangents."""
    return any(formula.original_formula == "auto_linear" for formula in _formulas(op))


def form_of(op: Emitted) -> str | None:
    """The treatment of tangents with batch dimensions in front by a formula; None: unsupported.

    An element-wise one broadcasts. One made of function calls alone can run by batching rules; it
    is linear if it reads no primal that may have a tangent, nor the result; one of products of
    matrices broadcasts if all have as many axes. A view's tangent is a view by the same operator.
    """
    formulas, returns = _formulas(op), op.schema.returns
    if len(formulas) != 1 or len(returns) != 1 or not is_tensor(returns[0].type):
        return None
    if op.is_view:
        return "linear" if formulas[0].original_formula == "auto_linear" else None
    if "elementwise" in op.function.tags:
        return "elementwise"
    tree = ast.parse(_plain_primals(op, formulas[0].formula), mode="eval")
    if not _is_of_calls(tree.body):
        return None
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    if called <= _OF_MATRICES:
        return "matrices"
    primals = {"result", *(a.name for a in tangent_arguments(op))}
    return "calls" if read & primals else "linear"


def _is_of_calls(node: ast.expr) -> bool:
    """Whether an expression is a sum of calls of functions, of names, numbers and such calls."""
    if isinstance(node, ast.BinOp):
        return (
            isinstance(node.op, ast.Add | ast.Sub)
            and _is_of_calls(node.left)
            and _is_of_calls(node.right)
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_of_calls(node.operand)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):  # a method
        return False
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return all(isinstance(v, ast.Name | ast.Constant) or _is_of_calls(v) for v in values)


def _shortened(op: Emitted) -> list[str]:
    """Lines for a sum with one tangent in each term, which leave out terms without a tangent.

    The sum may stand under a division or product by something without tangents.
    """
    formulas, tangents = _formulas(op), [f"{a.name}_t" for a in tangent_arguments(op)]
    if len(tangents) < 2 or len(formulas) != 1 or len(formulas[0].var_names) != 1:
        return []
    tree = ast.parse(in_namespace(_plain_primals(op, formulas[0].formula)), mode="eval")
    holder: ast.AST = tree
    field, node = "body", tree.body
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        if _tangents_in(node.right, tangents):
            break
        holder, field, node = node, "left", node.left
    terms: dict[str, list[tuple[bool, ast.expr]]] = {name: [] for name in tangents}
    for is_minus, term in _terms(node):
        read = _tangents_in(term, tangents)
        if len(read) != 1:
            return []
        terms[read.pop()].append((is_minus, term))
    if not all(terms.values()):
        return []
    total, part = (_free_name(name, op) for name in ("total", "term"))
    setattr(holder, field, ast.Name(total))
    first, *others = tangents
    text = ast.unparse(_sum_of(terms[first]))
    lines = [f"{total} = {text if text == first else f'None if {first} is None else {text}'}"]
    for name in others:
        (is_minus, only), *rest = terms[name]
        sign = "-" if is_minus and not rest else ""
        text = ast.unparse(only if sign else _sum_of(terms[name]))
        value = name if text == name else part
        lines.append(f"if {name} is not None:")
        if value != name:
            lines.append(f"    {part} = {text}")
        both = f"{total} {sign or '+'} {value}"
        lines.append(f"    {total} = {sign}{value} if {total} is None else {both}")
    return [*lines, f"return {ast.unparse(tree)}"]


def _free_name(name: str, op: Emitted) -> str:
    """A name that no argument has."""
    while any(argument.name == name for argument in op.arguments):
        name += "_"
    return name


def _sum_of(terms: list[tuple[bool, ast.expr]]) -> ast.expr:
    (is_minus, total), *rest = terms
    total = ast.UnaryOp(ast.USub(), total) if is_minus else total
    for minus, term in rest:
        total = ast.BinOp(total, ast.Sub() if minus else ast.Add(), term)
    return total


def _terms(node: ast.expr, is_minus: bool = False) -> list[tuple[bool, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right_minus = is_minus != isinstance(node.op, ast.Sub)
        return _terms(node.left, is_minus) + _terms(node.right, right_minus)
    return [(is_minus, node)]


def _tangents_in(node: ast.expr, tangents: list[str]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in tangents}


def emit_jvp(op: Emitted) -> str:
    """The function of an operator's tangents; arguments are primals, ``N_t`` their tangents."""
    returns = ["result"] if op.inplace else list(op.schema.return_names())
    tangents = [f"{a.name}_t" for a in tangent_arguments(op)]
    names = [*(a.name for a in op.arguments), *tangents]
    by_output: dict[str, str] = {}
    lines = []
    for formula in _formulas(op):
        expression = _plain_primals(op, formula.formula)
        if formula.original_formula == "auto_element_wise":
            expression = cancel_conjugates(expression, _real_numbers(op))
        expression = in_namespace(expression)
        if len(formula.var_names) == 1:
            by_output[formula.var_names[0]] = expression
            continue
        targets = [f"{name}_tangent" for name in formula.var_names]
        lines.append(f"{', '.join(targets)} = {expression}")
        by_output.update(zip(formula.var_names, targets, strict=True))
    results = [by_output.get(_target(name, returns), "None") for name in returns]
    lines.append(f"return {results[0] if len(results) == 1 else tuple_text(results)}")
    lines = _shortened(op) or lines
    body = "\n".join(lines)
    parameters = _mark_unread([*names, *returns], body)
    return f"def {op.name}_jvp(xp, {', '.join(parameters)}):\n{indent(body)}\n"


def _mark_unread(names: list[str], body: str) -> list[str]:
    """Parameters of a function; those that its body does not read begin with an underscore."""
    read = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    return [n if n in read or f"_{n}" in names else f"_{n}" for n in names]


def _real_numbers(op: Emitted) -> set[str]:
    return {a.name for a in op.arguments if a.type in _REAL_NUMBERS}


def _target(name: str, returns: list[str]) -> str:
    """Tables may call the only output ``result`` whatever its name is."""
    return name if len(returns) > 1 else returns[0]


def _plain_primals(op: Emitted, formula: str) -> str:
    """Primals under the names of the arguments: tangents have a suffix."""
    assert op.matched.info is not None
    dialect = op.matched.info["Default"].dialect
    names = {f"{a.name}_p": a.name for a in op.tensors if not is_tensor_list(a.type)}
    return dialect.substitute(formula, names)
