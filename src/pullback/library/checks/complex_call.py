"""Whether an operator is meant for complex numbers, of which a call with real ones says nothing.

Formulas of ``define_op`` follow the conventions of the built-in tables, which hold for complex
numbers. A Python function is meant for them if its code mentions them; if it only happens to run, a
gradient that is wrong for complex numbers is reported as a remark, and is no failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from pullback.dispatch import DispatchKey
from pullback.library.checks.case import Case
from pullback.library.checks.outcome import run_both_ways
from pullback.library.rules import rules_of

__all__ = ["is_meant_for_complex", "may_be_complex"]

_IN_FORMULAS = {"conj", "conjugate"}
_ANYWHERE = {
    "complex64",
    "complex128",
    "complexfloating",
    "iscomplexobj",
    "iscomplex",
    "is_complex",
}


def may_be_complex(case: Case) -> bool:
    """Whether complex numbers are another case: real numbers were given, and came out."""
    if any(p.tensor.dtype.kind == "c" for p in case.places()):
        return False
    if not any(p.tensor.dtype.kind == "f" for p in case.places()):
        return False
    # One that makes complex numbers of real ones conjugates for the sake of its output.
    return all(out.dtype.kind != "c" for out in run_both_ways(case.detached()).outputs)


def is_meant_for_complex(case: Case) -> bool:
    """Whether formulas or code of the operator show that it serves complex numbers."""
    if case.name.partition("::")[2].startswith("_"):
        return False  # private: its callers refuse what it is not made for
    rules, kernels = rules_of(case.operator), case.operator.entry.kernels
    if rules is None:
        recording = kernels.get(DispatchKey.Autograd) or []
        return any(kernel.linker is not None for kernel in recording[-1:])  # of ``define_op``
    formulas = [rules.backward, rules.named_backward, rules.jvp]
    others = [rules.setup_context, rules.save, rules.vmap, *(k[-1].fn for k in kernels.values())]
    return any(_words(fn) & (_IN_FORMULAS | _ANYWHERE) for fn in formulas) or any(
        _words(fn) & _ANYWHERE for fn in others
    )


def _words(fn: Any) -> set[str]:
    """The names in a function's code, in functions inside of it, and in those that it encloses."""
    return {
        word
        for code in _codes(fn, enclosed=2)
        for word in (*code.co_names, *(c for c in code.co_consts if isinstance(c, str)))
    }


def _codes(fn: Any, enclosed: int) -> Iterator[CodeType]:
    code = getattr(fn, "__code__", None)
    pending = [code] if isinstance(code, CodeType) else []
    while pending:
        code = pending.pop()
        yield code
        pending += [const for const in code.co_consts if isinstance(const, CodeType)]
    for cell in getattr(fn, "__closure__", None) or ():
        if enclosed and _holds_function(cell):
            yield from _codes(cell.cell_contents, enclosed - 1)


def _holds_function(cell: Any) -> bool:
    """Whether a variable of an enclosing function is a function; it may not be assigned yet."""
    try:
        return isinstance(cell.cell_contents, FunctionType)
    except ValueError:
        return False
