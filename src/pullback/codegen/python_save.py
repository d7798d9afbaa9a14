"""Rules of the ``python`` dialect for the values that a formula saves.

With N for the name of an argument or output, in the order they are tried:

==================  ==============  =========================================  ==================
written             field           evaluated at save time                     for
==================  ==============  =========================================  ==================
``N.shape``         ``N_shape``     the same                                   tensors
``N.dtype``         ``N_dtype``     the same                                   tensors
``N.ndim``          ``N_ndim``      the same                                   tensors
``N.size``          ``N_size``      the same                                   tensors
``len(N)``          ``N_len``       the same                                   tensors, tensor lists
``shapes(N)``       ``N_shapes``    ``[t.shape for t in N]``                   tensor lists
``dtypes(N)``       ``N_dtypes``    ``[t.dtype for t in N]``                   tensor lists
``zeros_like(N)``   both            ``N.shape`` and ``N.dtype``; the formula   tensors
                                    gets ``zeros(N_shape, N_dtype)``
``N``               ``N``           the same                                   whatever remains
==================  ==============  =========================================  ==================

The strides and single sizes of PyTorch's table are missing: a shape is a tuple and costs nothing
to keep whole. An optional tensor gives an optional field, None where the tensor is. Numbers, texts
and other plain arguments are always saved whole.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from pullback.codegen.formula import SavedAttribute, Value
from pullback.errors import CodegenError
from pullback.schema import BaseTy, BaseType, ListType, OptionalType, Type

__all__ = ["FORM_FUNCTIONS", "save_values"]

_INT = BaseType(BaseTy.int)
_DTYPE = BaseType(BaseTy.dtype)
_TENSOR = BaseType(BaseTy.Tensor)
_TENSORS = ListType(_TENSOR, None)

_ATTRIBUTES: dict[str, Type] = {
    "shape": ListType(_INT, None),
    "dtype": _DTYPE,
    "ndim": _INT,
    "size": _INT,
}
_OF_LIST: dict[str, tuple[str, Type]] = {
    "shapes": ("[t.shape for t in {}]", ListType(ListType(_INT, None), None)),
    "dtypes": ("[t.dtype for t in {}]", ListType(_DTYPE, None)),
}
FORM_FUNCTIONS = frozenset({"len", "zeros_like", *_OF_LIST})
"""The functions that save something other than their argument."""


def save_values(
    tree: ast.Expression, values: Sequence[Value]
) -> tuple[ast.Expression, tuple[SavedAttribute, ...]]:
    """Make a formula read fields, and return these; the tree is changed."""
    saved: list[SavedAttribute] = []
    taken = {value.name for value in values}
    for value in values:
        rewriter = _Rewriter(value)
        tree = rewriter.visit(tree)
        for attribute in rewriter.saved.values():
            if attribute.name != value.name and attribute.name in taken:
                raise CodegenError(
                    f"{attribute.expr} would be saved as {attribute.name!r}, which is the name of "
                    "an argument or output; rename that"
                )
            saved.append(attribute)
    return tree, tuple(saved)


@dataclass
class _Rewriter(ast.NodeTransformer):
    """Rewrites the uses of one value."""

    value: Value
    saved: dict[str, SavedAttribute] = field(default_factory=dict)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if self._is_value(node.value) and node.attr in _ATTRIBUTES and self._is_tensor():
            return self._attribute(node.attr)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name in FORM_FUNCTIONS and len(node.args) == 1 and self._is_value(node.args[0]):
            form = self._form(name)
            if form is not None:
                return form
        if not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.value.name:
            self._save(node.id, self.value.type, node.id)
        return node

    def _form(self, function: str) -> ast.expr | None:
        name, type_ = self.value.name, self.value.type
        if function == "zeros_like" and type_ == _TENSOR:
            shape, dtype = self._attribute("shape"), self._attribute("dtype")
            return ast.Call(ast.Name("zeros", ast.Load()), [shape, dtype], [])
        if function == "len" and (type_ in (_TENSOR, _TENSORS)):
            return self._save(f"{name}_len", _INT, f"len({name})")
        if function in _OF_LIST and type_ == _TENSORS:
            expr, saved_type = _OF_LIST[function]
            return self._save(f"{name}_{function}", saved_type, expr.format(name))
        return None

    def _attribute(self, attribute: str) -> ast.expr:
        name = self.value.name
        expr, type_ = f"{name}.{attribute}", _ATTRIBUTES[attribute]
        if isinstance(self.value.type, OptionalType):
            expr, type_ = f"None if {name} is None else {expr}", OptionalType(type_)
        return self._save(f"{name}_{attribute}", type_, expr)

    def _save(self, field_name: str, type_: Type, expr: str) -> ast.expr:
        self.saved[field_name] = SavedAttribute(field_name, type_, expr, self.value.name)
        return ast.Name(field_name, ast.Load())

    def _is_value(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.value.name

    def _is_tensor(self) -> bool:
        return self.value.type in (_TENSOR, OptionalType(_TENSOR))
