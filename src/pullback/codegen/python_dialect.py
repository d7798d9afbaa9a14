"""The ``python`` dialect: formulas as Python expressions.

A formula such as ``grad * conj(other)`` is parsed with ``ast``, so names, attributes, calls and
columns are exact. It may read arguments, outputs and gradients, call functions (not keep or define
any), and nothing else. A rewritten formula is printed with ``ast.unparse``.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pullback.codegen.formula import SavedAttribute, Value
from pullback.codegen.load_yaml import nearest
from pullback.codegen.python_save import FORM_FUNCTIONS, save_values
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema

__all__ = ["PYTHON", "Arity", "PythonDialect"]


class Arity(NamedTuple):
    """Number of arguments of a function; ``most`` is None if there is no limit.

    >>> str(Arity(1, 1)), str(Arity(1, 3)), str(Arity(2, None))
    ('1', '1 to 3', 'at least 2')
    """

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


_CONSTANTS = frozenset({"inf", "nan", "pi"})
_WORD_FUNCTIONS: Mapping[str, Arity | None] = {
    "not_implemented": Arity(1, 1),
    "wrap_opt_if": Arity(2, 2),
    **{name: Arity(1, 1) for name in FORM_FUNCTIONS},
}
_ALLOWED_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.BoolOp,
    ast.UnaryOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.keyword,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Starred,
    ast.Tuple,
    ast.List,
    ast.Name,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.Load,
)


@dataclass(frozen=True, slots=True)
class PythonDialect:
    """Formulas as Python expressions.

    With ``functions``, a call of any other function, or with a wrong number of arguments, is an
    error; an arity of None is not checked. Methods are not checked.

    >>> sorted(PYTHON.names("grad * conj(other.shape[0])")), sorted(PYTHON.calls("conj(grad)"))
    (['grad', 'other'], ['conj'])
    """

    functions: Mapping[str, Arity | None] | None = None
    name: str = "python"

    def values(self, func: FunctionSchema) -> tuple[Value, ...]:
        """Return the arguments as they are declared."""
        return tuple(Value(a.name, a.type) for a in func.arguments.flat_non_out)

    def names(self, formula: str) -> frozenset[str]:
        """Return the names that are read; a function's name in a call is not."""
        called = {id(node.func) for node in _nodes(formula) if isinstance(node, ast.Call)}
        return frozenset(
            node.id
            for node in _nodes(formula)
            if isinstance(node, ast.Name) and id(node) not in called
        )

    def calls(self, formula: str) -> frozenset[str]:
        """Return the names of the functions called."""
        return frozenset(
            node.func.id
            for node in _nodes(formula)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        )

    def gradient_uses(self, formula: str) -> tuple[int | None, ...]:
        """Return the index of each ``grads[i]``, and None for each other use of ``grads``."""
        index_of: dict[int, int] = {}
        for node in _nodes(formula):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                index = node.slice.value
                if type(index) is int:
                    index_of[id(node.value)] = index
        return tuple(
            index_of.get(id(node))
            for node in _nodes(formula)
            if isinstance(node, ast.Name) and node.id == "grads"
        )

    def check(self, formula: str, known: Collection[str]) -> None:
        """Refuse what is no plain expression, unknown names, and calls of unknown functions."""
        called: set[int] = set()
        for node in _nodes(formula):
            if not isinstance(node, _ALLOWED_NODES):
                raise _fault(formula, node, f"{type(node).__name__} is not allowed in a formula")
            if isinstance(node, ast.Call):
                called.add(id(node.func))
                self._check_call(formula, node)
            elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                raise _fault(formula, node, f"the attribute {node.attr!r} is private")
            elif (
                isinstance(node, ast.Name)
                and id(node) not in called
                and node.id not in known
                and node.id not in _CONSTANTS
            ):
                hint = nearest(node.id, known)
                raise _fault(
                    formula, node, f"the formula reads {node.id!r}, which names nothing{hint}"
                )

    def _check_call(self, formula: str, call: ast.Call) -> None:
        if isinstance(call.func, ast.Attribute):
            return
        if not isinstance(call.func, ast.Name):
            raise _fault(formula, call, "only a function or a method can be called")
        name = call.func.id
        allowed = {**_WORD_FUNCTIONS, **(self.functions or {})}
        if name not in allowed:
            if self.functions is None:
                return
            hint = nearest(name, allowed)
            raise _fault(formula, call, f"{name!r} is no function that a formula may call{hint}")
        arity = allowed[name]
        spread = any(isinstance(a, ast.Starred) for a in call.args)
        if arity is None or spread or any(k.arg is None for k in call.keywords):
            return
        given = len(call.args) + len(call.keywords)
        if given < arity.least or (arity.most is not None and given > arity.most):
            raise _fault(formula, call, f"{name} takes {arity} argument(s), but {given} are given")

    def save(
        self, formula: str, values: Sequence[Value], var_names: tuple[str, ...]
    ) -> tuple[str, tuple[SavedAttribute, ...]]:
        """Replace what can be evaluated at save time, and save whole values for the rest."""
        del var_names  # only the strides of C++ tensors depend on it
        tree, saved = save_values(deepcopy(_parse(formula)), values)
        return ast.unparse(tree), saved

    def substitute(self, formula: str, replacements: Mapping[str, str]) -> str:
        """Replace names by expressions, all at once."""
        trees = {name: _parse(text).body for name, text in replacements.items()}
        return ast.unparse(_Substitution(trees).visit(deepcopy(_parse(formula))))

    def elementwise(self, formula: str, name: str) -> str:
        """Conjugate around the backward formula, applied to the tangent."""
        replaced = self.substitute(formula, {"grad": f"conj({name}_t)", name: f"{name}_p"})
        return f"conj({replaced})"

    def call(self, func: FunctionSchema, values: Mapping[str, str], *, method: bool) -> str:
        """Write the call with keyword-only arguments as keywords."""
        arguments = func.arguments
        positional = [values.get(a.name, a.name) for a in arguments.flat_positional]
        keywords = [f"{a.name}={values.get(a.name, a.name)}" for a in arguments.flat_kwarg_only]
        target = f"{positional.pop(0)}." if method else ""
        return f"{target}{func.name.name}({', '.join([*positional, *keywords])})"

    def write_in_place(self, formula: str, op: str) -> str:
        """Return the formula itself: the emitted kernel writes into an existing tangent."""
        del op
        return formula


PYTHON = PythonDialect()
"""The dialect without a list of functions."""


class _Substitution(ast.NodeTransformer):
    """Puts expressions in the place of names; the name of a called function stays."""

    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self.trees = trees

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        # ast.unparse stores precedence by node, so a node may not stand in two places.
        return deepcopy(self.trees[node.id]) if node.id in self.trees else node


@lru_cache(maxsize=4096)
def _nodes(formula: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parse(formula)))


@lru_cache(maxsize=4096)
def _parse(formula: str) -> ast.Expression:
    if "#" in formula:
        # A comment would swallow what follows it, because line ends become blanks below.
        raise CodegenError("a formula cannot contain '#'", formula.index("#"))
    indent = len(formula) - len(formula.lstrip())
    if indent == len(formula):
        raise CodegenError("the formula is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return ast.parse(formula.replace("\n", " ").strip(), mode="eval")
    except SyntaxError as error:
        # Python gives no column where the formula ends too early.
        offset = indent + error.offset - 1 if error.offset else len(formula.rstrip())
        raise CodegenError(f"not a Python expression: {error.msg}", offset) from None
    except ValueError as error:
        raise CodegenError(f"not a Python expression: {error}") from None
    except (RecursionError, MemoryError):
        raise CodegenError("the formula is nested too deeply") from None


def _fault(formula: str, node: ast.AST, message: str) -> CodegenError:
    indent = len(formula) - len(formula.lstrip())
    column = getattr(node, "col_offset", 0)
    # ast counts bytes, errors count characters.
    return CodegenError(message, indent + len(formula.lstrip().encode()[:column].decode()))
