"""Complex conjugates of expressions with as few calls of ``conj`` as arithmetic allows.

The word ``auto_element_wise`` conjugates around a backward formula and within it. Conjugation
undoes itself and distributes over arithmetic, exactly but for the signs of zeros, so most of these
calls cancel. Called where forward formulas are emitted: what the tables are read into keeps every
formula as the word defines it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TypeGuard

__all__ = ["cancel_conjugates"]

_REAL = {"abs", "real_part"}  # functions whose results are real
# Functions whose results are elements of the arguments in these places, or real multiples of them.
_CHOOSING = {
    "where": (1, 2),
    "_pass_above": (0,),
    "_pass_between": (0,),
    "_pass_leaky": (0,),
    "_pass_outside": (0,),
}


def cancel_conjugates(formula: str, real: Collection[str] = ()) -> str:
    """A formula ``conj(...)`` without the calls of ``conj`` that undo each other.

    ``real`` names the arguments that are real numbers.

    >>> cancel_conjugates("conj(conj(self_t) * conj(result + 1) / 3)")
    'self_t * (result + 1) / 3'
    >>> cancel_conjugates("conj(conj(self_t) * scale * curve(self))", {"scale"})
    'self_t * scale * conj(curve(self))'
    """
    body = ast.parse(formula, mode="eval").body
    return ast.unparse(_conjugate(body.args[0], real)) if _is_conj(body) else formula


def _conjugate(node: ast.expr, real: Collection[str]) -> ast.expr:
    """The conjugate of an expression: of its parts, where that takes fewer calls than around it."""
    around = ast.Call(ast.Name("conj", ast.Load()), [node], [])
    within = _of_parts(node, real)
    return around if within is None or _calls(within) >= _calls(around) else within


def _of_parts(node: ast.expr, real: Collection[str]) -> ast.expr | None:
    """The conjugate by the conjugates of an expression's parts; None where it has no such parts."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as operator, right):
            return ast.BinOp(_conjugate(left, real), operator, _conjugate(right, real))
        case ast.UnaryOp(ast.USub() as operator, operand):
            return ast.UnaryOp(operator, _conjugate(operand, real))
        case ast.Call(ast.Name("conj"), [argument], []):
            return argument
        case ast.Call(ast.Name(name), arguments, []) if name in _CHOOSING:
            places = _CHOOSING[name]
            parts = [_conjugate(a, real) if n in places else a for n, a in enumerate(arguments)]
            return ast.Call(node.func, parts, [])
        case ast.Call(ast.Name(name)) if name in _REAL:
            return node
        case ast.Constant(int() | float()):
            return node
        case ast.Name(name) if name in real:
            return node
    return None


def _is_conj(node: ast.AST) -> TypeGuard[ast.Call]:
    match node:
        case ast.Call(ast.Name("conj"), [_], []):
            return True
    return False


def _calls(node: ast.expr) -> int:
    return sum(map(_is_conj, ast.walk(node)))
