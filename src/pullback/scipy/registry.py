"""Derivative rules of SciPy's functions, by qualified name: how they are declared and applied.

A rule is declared in the module of ``pullback.scipy.rules`` that is named after SciPy's subpackage,
in one of five kinds:

- `rule`: a function with SciPy's signature, written with operators on tensors;
- `linear`: a function that is linear in one argument, given by its transpose;
- `attached`: a solution whose derivatives come from its residual (implicit function theorem);
- `constant`: a function whose result has no derivative (ranks, labels, counts);
- `refused`: a function that raises, with the reason, if a tensor carries a gradient.

`call` applies them. It is reached with at least one tensor among the arguments. If none of them
carries a gradient, SciPy's function runs on the arrays and its result is returned unchanged.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from pullback.errors import DerivativeMissingError
from pullback.interop.arguments import holds_gradient, plain, refusal, tensors_in

__all__ = [
    "RULES",
    "SUBPACKAGES",
    "PublicNamespace",
    "Rule",
    "call",
    "constant",
    "find_rule",
    "option_without_rule",
    "refused",
    "rule",
]

SUBPACKAGES = (
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)
RULES: dict[str, Rule] = {}

_Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """Derivative rule of one SciPy function."""

    name: str  # "scipy.linalg.cho_solve"
    kind: str  # "rule", "linear", "attached", "constant" or "refused"
    apply: _Function  # takes the arguments of SciPy's function, tensors among them
    tensors: frozenset[str]  # names of the arguments that may carry a gradient
    reason: str = ""  # why it is constant or refused


def rule(name: str, *, tensors: str, kind: str = "rule") -> Callable[[_Function], _Function]:
    """Declares the decorated function as the rule of the SciPy function `name`.

    The function has SciPy's signature. `tensors` lists the arguments that may carry a gradient; a
    gradient in another argument raises by name. Arguments may be arrays and tensors mixed.
    """

    def declare(apply: _Function) -> _Function:
        _add(Rule(name, kind, apply, frozenset(tensors.split())))
        return apply

    return declare


def constant(name: str, reason: str) -> None:
    """Declares that the result of a SciPy function has no derivative: it runs on the values."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return _original(name)(*plain(args), **plain(kwargs))

    _add(Rule(name, "constant", apply, frozenset(), reason))


def refused(name: str, reason: str) -> None:
    """Declares that a SciPy function raises if an argument carries a gradient."""

    def apply(*_args: Any, **_kwargs: Any) -> Any:
        raise refusal(name, reason, "Call it on x.detach() if no gradient is wanted.")

    _add(Rule(name, "refused", apply, frozenset(), reason))


def _add(new: Rule) -> None:
    if new.name in RULES:
        raise ValueError(f"{new.name} has a rule already ({RULES[new.name].kind})")
    RULES[new.name] = new


def option_without_rule(name: str, option: str, value: Any) -> DerivativeMissingError:
    """The error of a rule that does not support the value of an option."""
    return refusal(
        name, f"it has no derivative here with {option}={value!r}", "Choose another option."
    )


def find_rule(name: str) -> Rule | None:
    """Returns the rule of a SciPy function; loads the rules of its subpackage at the first call."""
    _load(name.split(".")[1])
    return RULES.get(name)


@cache
def _load(subpackage: str) -> None:
    module = f"pullback.scipy.rules.{subpackage}"
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise


def call(name: str, original: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a SciPy function that has tensors among its arguments."""
    if not holds_gradient([args, kwargs]):
        return original(*plain(args), **plain(kwargs))
    found = find_rule(name)
    if found is None:
        raise refusal(
            name,
            "it has no derivative here",
            "Call it on x.detach() if no gradient is wanted, or write a rule with "
            "pb.library.custom_op.",
        )
    if found.kind not in ("constant", "refused"):
        _require_differentiable(found, original, args, kwargs)
    return found.apply(*args, **kwargs)


def _require_differentiable(
    found: Rule, original: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    bound = inspect.signature(original).bind(*args, **kwargs).arguments
    for argument, value in bound.items():
        if argument not in found.tensors and holds_gradient(value):
            raise refusal(
                found.name,
                f"it has no derivative by its argument {argument!r}",
                f"It has one by: {', '.join(sorted(found.tensors))}.",
            )


def _original(name: str) -> _Function:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)  # type: ignore[no-any-return]


class PublicNamespace(types.ModuleType):
    """The public names of a SciPy subpackage; functions given a tensor run the derivative rules."""

    def __getattr__(self, name: str) -> Any:
        theirs = getattr(import_module(self.__name__), name)
        if not isinstance(theirs, types.FunctionType):
            return theirs

        def run(*args: Any, **kwargs: Any) -> Any:
            if next(tensors_in([args, kwargs]), None) is None:
                return theirs(*args, **kwargs)
            return call(f"{self.__name__}.{name}", theirs, args, kwargs)

        run.__name__, run.__doc__, run.__wrapped__ = name, theirs.__doc__, theirs  # type: ignore[attr-defined]
        setattr(self, name, run)
        return run

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))
