"""Forward formulas: what they may read, and the two words that write them.

Called by ``derive`` once the backward formulas of the entry are known, because
``auto_element_wise`` is made from the backward formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pullback.codegen.formula import Dialect
from pullback.codegen.load_yaml import Item
from pullback.codegen.model import Derivative, DifferentiableInput, ForwardDerivative
from pullback.codegen.native import NativeFunction, is_foreach_func
from pullback.errors import CodegenError
from pullback.schema import BaseTy, BaseType, ListType, SchemaKind, Type

__all__ = ["ForwardEntry", "forward_derivatives"]

_TENSORS = ListType(BaseType(BaseTy.Tensor), None)


@dataclass(frozen=True, slots=True)
class ForwardEntry:
    """A forward formula as the table has it, with the outputs it is for."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    item: Item


def forward_derivatives(
    entries: Sequence[ForwardEntry],
    function: NativeFunction,
    dialect: Dialect,
    derivatives: Sequence[Derivative],
    arguments: Sequence[DifferentiableInput],
) -> tuple[ForwardDerivative, ...]:
    """Make the forward derivatives of an entry; ``arguments`` are those with a formula."""
    made: list[ForwardDerivative] = []
    for entry in entries:
        word = entry.item.text()
        with entry.item.locating():
            if word in ("auto_element_wise", "auto_linear"):
                if len(entries) > 1 or len(entry.names) > 1:
                    raise CodegenError(f"{word!r} works only for a single output")
                formula, tangents = (
                    _elementwise(function, dialect, derivatives, arguments)
                    if word == "auto_element_wise"
                    else _linear(function, dialect, arguments)
                )
            else:
                formula = word
                dialect.check(formula, _known(function))
                tangents = _required(formula, "_t", function, dialect, arguments)
            primals = _required(formula, "_p", function, dialect, arguments)
        made.append(ForwardDerivative(formula, word, entry.names, entry.types, tangents, primals))
    return tuple(made)


def _known(function: NativeFunction) -> set[str]:
    """Collect the names that a forward formula of the function may read."""
    func = function.func
    known = {"result", *func.return_names()} | {ret.name for ret in func.returns if ret.name}
    for argument in func.arguments.flat_non_out:
        known.add(argument.name)
        if argument.type.is_tensor_like():
            known |= {f"{argument.name}_p", f"{argument.name}_t"}
    if func.kind() is SchemaKind.inplace:
        known |= {"original_self_p", "original_self_t"}
    if is_foreach_func(function):
        known.add("i")
    return known


def _required(
    formula: str,
    suffix: str,
    function: NativeFunction,
    dialect: Dialect,
    arguments: Sequence[DifferentiableInput],
) -> tuple[str, ...]:
    """Find the arguments whose primal or tangent a formula reads.

    A function of a tensor list gets primals and tangents under the plain name and sorts out by
    itself what is there, so nothing is required of it.
    """
    names = dialect.names(formula)
    found: list[str] = []
    for argument in arguments:
        if argument.type == _TENSORS and not is_foreach_func(function):
            continue
        if argument.name in names:
            raise CodegenError(
                f"{argument.name!r} is ambiguous in a forward formula: write {argument.name}_p "
                f"for its value or {argument.name}_t for its tangent"
            )
        if argument.name + suffix in names:
            found.append(argument.name)
    return tuple(found)


def _elementwise(
    function: NativeFunction,
    dialect: Dialect,
    derivatives: Sequence[Derivative],
    arguments: Sequence[DifferentiableInput],
) -> tuple[str, tuple[str, ...]]:
    """Reuse the backward formula: for a diagonal Jacobian both products are the same."""
    func = function.func
    if func.kind() is SchemaKind.inplace:
        raise CodegenError(f"'auto_element_wise' cannot be used for {func.name}: it is in-place")
    if len(arguments) != 1 or len(derivatives) != 1:
        raise CodegenError(
            "'auto_element_wise' needs exactly one differentiable argument with a backward formula"
            f"; {func.name} has {len(arguments)}"
        )
    formula = dialect.elementwise(derivatives[0].original_formula, arguments[0].name)
    return formula, tuple(value.name for value in dialect.values(func))


def _linear(
    function: NativeFunction, dialect: Dialect, arguments: Sequence[DifferentiableInput]
) -> tuple[str, tuple[str, ...]]:
    """Call the function on tangents: the derivative of a linear function is the function."""
    if not arguments:
        raise CodegenError(
            f"'auto_linear' needs a differentiable argument, and {function.func.name} has none"
        )
    tangents = {argument.name: f"{argument.name}_t" for argument in arguments}
    method = "function" not in function.variants
    return dialect.call(function.func, tangents, method=method), tuple(tangents)
