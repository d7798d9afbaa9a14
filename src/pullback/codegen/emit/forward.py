"""Forward-mode formulas: one function an operator, from primals and tangents to tangents."""

from __future__ import annotations

from pullback.codegen.emit.model import Emitted, in_namespace, is_tensor_list
from pullback.codegen.emit.source import docstring, indent, tuple_text
from pullback.codegen.model import ForwardDerivative
from pullback.schema import Argument

__all__ = ["emit_jvp", "has_jvp", "tangent_arguments"]


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


def emit_jvp(op: Emitted) -> str:
    """The function of an operator's tangents; arguments are primals, ``N_t`` their tangents."""
    returns = ["result"] if op.inplace else list(op.schema.return_names())
    tangents = [f"{a.name}_t" for a in tangent_arguments(op)]
    names = [*(a.name for a in op.arguments), *tangents]
    texts = [f"{', '.join(f.var_names)}: {f.original_formula}" for f in _formulas(op)]
    by_output: dict[str, str] = {}
    lines = []
    for formula in _formulas(op):
        expression = in_namespace(_plain_primals(op, formula.formula))
        if len(formula.var_names) == 1:
            by_output[formula.var_names[0]] = expression
            continue
        targets = [f"{name}_tangent" for name in formula.var_names]
        lines.append(f"{', '.join(targets)} = {expression}")
        by_output.update(zip(formula.var_names, targets, strict=True))
    results = [by_output.get(_target(name, returns), "None") for name in returns]
    lines.append(f"return {results[0] if len(results) == 1 else tuple_text(results)}")
    head = f"def {op.name}_jvp(xp, {', '.join([*names, *returns])}):\n"
    return head + indent(docstring(str(op.schema), texts)) + "\n" + indent("\n".join(lines)) + "\n"


def _target(name: str, returns: list[str]) -> str:
    """Tables may call the only output ``result`` whatever its name is."""
    return name if len(returns) > 1 else returns[0]


def _plain_primals(op: Emitted, formula: str) -> str:
    """Primals under the names of the arguments: tangents are told apart by their suffix."""
    assert op.matched.info is not None
    dialect = op.matched.info["Default"].dialect
    names = {f"{a.name}_p": a.name for a in op.tensors if not is_tensor_list(a.type)}
    return dialect.substitute(formula, names)
