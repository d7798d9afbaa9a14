"""Traits of an operator that follow from its schema and formulas, for its row.

``autograd/record/operator.py`` reads them. The engine reads some of them from the node class
(`exact`, `alike`, `new`, `sums`), so that it need not look at gradients that cannot need it.
"""

from __future__ import annotations

import ast

import numpy as np

from pullback.codegen.emit.forward import sums_terms
from pullback.codegen.emit.model import Emitted, is_tensor, is_tensor_list
from pullback.schema import OptionalType

__all__ = ["has_operands", "traits_of"]

_MOST_OPERANDS = 4  # of the operators that ``autograd/record/operands.py`` serves
_MOST_SLOTS = 2  # the classes of nodes with edges in slots
_KEEP_DTYPE = {"conj", "cos", "cosh", "exp", "sin", "sinh"}
_PRODUCTS = {"matmul_to_first", "matmul_to_second"}
_PART = "getitem_backward(grad,"


def has_operands(op: Emitted) -> bool:
    """Whether all arguments are tensors with a formula each, which reads only them and the result.

    Then formulas take all of them by position.
    """
    arguments = op.arguments
    if not arguments or len(arguments) > _MOST_OPERANDS or op.is_view or not _is_single(op):
        return False
    if any(not is_tensor(a.type) or isinstance(a.type, OptionalType) for a in arguments):
        return False
    if op.info is None or arguments != op.differentiable:
        return op.info is None
    if [sorted(d.var_names) for d in op.derivatives] != [[n] for n in sorted(_names(op))]:
        return False
    if any(s.expr != s.source for s in op.saved("inputs") + op.saved("outputs")):
        return False
    return not any("grad_input_mask" in d.formula or "grads" in d.formula for d in op.derivatives)


def _names(op: Emitted) -> list[str]:
    return [argument.name for argument in op.arguments]


def _is_single(op: Emitted) -> bool:
    return len(op.schema.returns) == 1 and is_tensor(op.schema.returns[0].type)


def traits_of(op: Emitted) -> list[str]:
    """The traits of an operator, in the order of a row."""
    kernel = op.function.dispatch["CPU"]
    has = {
        "elementwise": "elementwise" in op.function.tags,
        "operands": has_operands(op),
        "numpy": kernel.startswith("numpy."),
        "heavy": "heavy" in op.function.tags,
        "view": op.is_view,
        "written": op.inplace,
        "undefined": "undefined_grads" in op.function.tags,
        "sums_terms": sums_terms(op),
    }
    if op.info is not None:
        runs = _is_single(op) and not any(is_tensor_list(a.type) for a in op.differentiable)
        has |= {
            "keeps": has_operands(op) and _keeps_metadata(op),
            "exact": runs and _is_exact(op),
            "alike": runs and _is_alike(op),
            "numbers": has_operands(op) and runs and _is_alike(op) and _has_numbers(op),
            "new": runs and _makes_new(op),
            "sums": runs and _only_sums(op),
            "erases": _erases(op),
            "part": any(d.formula.startswith(_PART) for d in op.derivatives),
        }
    return [trait for trait, is_there in has.items() if is_there]


def _slots(op: Emitted) -> int:
    """The number of slots for edges of a node; 0 if they are in a tuple."""
    differentiable = op.differentiable
    has_list = any(is_tensor_list(a.type) for a in differentiable)
    return 0 if has_list or len(differentiable) > _MOST_SLOTS else len(differentiable)


def _erases(op: Emitted) -> bool:
    """Whether a write leaves nothing of the old value, whose gradient then is zero."""
    formulas = {d.var_names: d.formula for d in op.derivatives}
    return op.inplace and bool(_slots(op)) and formulas.get(("self",)) == "zeros_like(grad)"


def _keeps_metadata(op: Emitted) -> bool:
    """Whether a few float64 numbers, of one shape if there are two operands, give as many again.

    So it is for NumPy's functions that know this dtype, and ours whose formulas are arithmetic.
    """
    if "elementwise" not in op.function.tags or len(op.arguments) > _MOST_SLOTS:
        return False
    module, _, name = op.function.dispatch["CPU"].rpartition(".")
    if module == "numpy":
        loops = getattr(getattr(np, name, None), "types", ())
        return f"{'d' * len(op.arguments)}->d" in loops
    return module.startswith("operators.") and _is_alike(op)


def _makes_new(op: Emitted) -> bool:
    """Whether all formulas end in arithmetic or a product, so that they return a new array."""
    return all(len(d.var_names) == 1 and _is_new(d.formula) for d in op.derivatives)


def _is_new(formula: str) -> bool:
    body = ast.parse(formula, mode="eval").body
    if isinstance(body, ast.Call):
        return ast.unparse(body.func) in _PRODUCTS
    return isinstance(body, ast.BinOp | ast.UnaryOp)


def _only_sums(op: Emitted) -> bool:
    """Whether gradients are the one that came in, or its negative, before they are summed."""
    formulas = {derivative.formula for derivative in op.derivatives}
    return _slots(op) == _MOST_SLOTS and _is_alike(op) and formulas <= {"grad", "-grad"}


def _is_exact(op: Emitted) -> bool:
    """Whether the gradient has the shape and dtype of the one that came in.

    So it is for element-wise functions of one tensor whose formula is arithmetic.
    """
    return _is_alike(op) and len(op.tensors) == 1


def _is_alike(op: Emitted) -> bool:
    """Whether gradients have the shape and dtype of the result before they are summed to an edge.

    So it is for element-wise functions whose formulas are arithmetic.
    """
    if "elementwise" not in op.function.tags or any(len(d.var_names) > 1 for d in op.derivatives):
        return False
    if any("dtype" in str(argument.type) for argument in op.arguments):
        return False  # a cast: the gradient that came in has the other dtype
    return all(_is_arithmetic(derivative.formula) for derivative in op.derivatives)


def _has_numbers(op: Emitted) -> bool:
    """Whether numbers in the formulas are operands of sums, products and quotients.

    Then arrays can stand for them. In a power they select another algorithm.
    """
    nodes = [n for d in op.derivatives for n in ast.walk(ast.parse(d.formula, mode="eval"))]
    has_power = any(isinstance(node, ast.Pow) for node in nodes)
    return not has_power and any(isinstance(node, ast.Constant) for node in nodes)


def _is_arithmetic(formula: str) -> bool:
    """Whether a formula keeps the dtype of its operands."""
    for node in ast.walk(ast.parse(formula, mode="eval")):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _KEEP_DTYPE:
                return False
        elif isinstance(node, ast.Constant):
            if type(node.value) not in (int, float):
                return False
        elif isinstance(node, ast.Attribute | ast.Subscript | ast.IfExp | ast.Compare):
            return False
    return True
