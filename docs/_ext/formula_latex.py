"""Derivative formulas of the tables, typeset: Python expressions as LaTeX.

What has no usual notation, such as a helper function with options, is typeset as a function with
its name in upright letters.
"""

from __future__ import annotations

import ast

NAMED = {
    **{name: rf"\{name}" for name in ("sin", "cos", "tan", "exp", "log", "sinh", "cosh", "tanh")},
    "asin": r"\arcsin",
    "acos": r"\arccos",
    "atan": r"\arctan",
    "pi": r"\pi",
    "digamma": r"\psi",
}
BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: r"\,", ast.MatMult: r"\,", ast.BitAnd: r"\wedge "}
COMPARE = {
    ast.Lt: "<",
    ast.LtE: r"\le",
    ast.Gt: ">",
    ast.GtE: r"\ge",
    ast.Eq: "=",
    ast.NotEq: r"\ne",
    ast.Is: r"\equiv",
    ast.IsNot: r"\not\equiv",
}
PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.MatMult: 2, ast.Div: 4, ast.Pow: 3}


def latex_of(formula: str) -> str | None:
    """The LaTeX of a formula, or None if it is no expression."""
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except SyntaxError:
        return None
    return _latex(tree.body)


def _latex(node: ast.expr) -> str:
    method = globals().get(f"_{type(node).__name__.lower()}")
    return str(method(node)) if method is not None else _code(node)


def _code(node: ast.AST) -> str:
    return _upright(ast.unparse(node))


def _upright(text: str) -> str:
    for symbol in "\\{}_#$%&~^":
        text = text.replace(symbol, {"\\": r"\backslash "}.get(symbol, f"\\{symbol}"))
    return rf"\mathtt{{{text}}}"


def _name(node: ast.Name) -> str:
    name = node.id
    if name == "grad":
        return r"\bar{y}"
    if name.startswith("grad_"):
        return rf"\bar{{{_symbol(name[5:])}}}"
    if name in ("result", "grads"):
        return "y" if name == "result" else r"\bar{y}"
    if name.endswith("_t"):
        return rf"\dot{{{_symbol(name[:-2])}}}"
    return _symbol(name.removesuffix("_p"))


def _symbol(name: str) -> str:
    if name == "self":
        return "x"
    if name == "result":
        return "y"
    if name in NAMED:
        return NAMED[name]
    return name if len(name) == 1 else rf"\mathit{{{name.replace('_', chr(92) + '_')}}}"


def _constant(node: ast.Constant) -> str:
    if isinstance(node.value, bool | str) or node.value is None:
        return _upright(repr(node.value))
    return repr(node.value)


def _level(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp):
        return PRECEDENCE.get(type(node.op), 0)
    return 1 if isinstance(node, ast.UnaryOp) else 9


def _within(node: ast.expr, level: int) -> str:
    text = _latex(node)
    return rf"\left({text}\right)" if _level(node) < level else text


def _binop(node: ast.BinOp) -> str:
    level = PRECEDENCE.get(type(node.op), 0)
    if isinstance(node.op, ast.Div):
        return rf"\frac{{{_latex(node.left)}}}{{{_latex(node.right)}}}"
    if isinstance(node.op, ast.Pow):
        return rf"{_within(node.left, 5)}^{{{_latex(node.right)}}}"
    if type(node.op) not in BINARY:
        return _code(node)
    right = _within(node.right, level + isinstance(node.op, ast.Sub))
    sign = BINARY[type(node.op)]
    if isinstance(node.op, ast.Mult) and right[:1].isdigit():
        sign = r"\cdot "
    return f"{_within(node.left, level)} {sign} {right}"


def _unaryop(node: ast.UnaryOp) -> str:
    if isinstance(node.op, ast.USub):
        return f"-{_within(node.operand, 2)}"
    return rf"\lnot {_within(node.operand, 2)}" if isinstance(node.op, ast.Invert) else _code(node)


def _compare(node: ast.Compare) -> str:
    text = _within(node.left, 1)
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if type(operator) not in COMPARE:
            return _code(node)
        text += f" {COMPARE[type(operator)]} {_within(right, 1)}"
    return text


def _ifexp(node: ast.IfExp) -> str:
    return _cases(node.body, node.test, node.orelse)


def _cases(value: ast.expr, test: ast.expr, other: ast.expr) -> str:
    return (
        rf"\begin{{cases}} {_latex(value)} & \text{{if }} {_latex(test)} \\ "
        rf"{_latex(other)} & \text{{otherwise}} \end{{cases}}"
    )


def _call(node: ast.Call) -> str:
    if not isinstance(node.func, ast.Name) or node.keywords:
        return _function(node)
    name, args = node.func.id, node.args
    if name == "conj" and len(args) == 1:
        return rf"{_within(args[0], 9)}^{{*}}"
    if name == "sqrt" and len(args) == 1:
        return rf"\sqrt{{{_latex(args[0])}}}"
    if name == "abs" and len(args) == 1:
        return rf"\left|{_latex(args[0])}\right|"
    if name in ("pow", "power") and len(args) == 2:
        return rf"{_within(args[0], 5)}^{{{_latex(args[1])}}}"
    if name == "where" and len(args) == 3:
        return _cases(args[1], args[0], args[2])
    return _function(node)


def _function(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        name = NAMED.get(node.func.id) or rf"\operatorname{{{_escaped(node.func.id)}}}"
    elif isinstance(node.func, ast.Attribute):
        name = rf"{_within(node.func.value, 5)}.\operatorname{{{_escaped(node.func.attr)}}}"
    else:
        return _code(node)
    args = [_latex(arg) for arg in node.args]
    args += [rf"\mathit{{{_escaped(k.arg or '')}}}\!=\!{_latex(k.value)}" for k in node.keywords]
    return rf"{name}\left({', '.join(args)}\right)"


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")
