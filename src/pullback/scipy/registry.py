"""Derivative rules of SciPy's functions, by qualified name: how they are declared and applied.

A rule is declared in the module of ``pullback.scipy.rules`` that is named after SciPy's subpackage,
in one of these kinds:

- `rule`: a function of some of SciPy's arguments, written with operators on tensors; that of a
  method (``"scipy.stats.rv_continuous.logpdf"``) has the instance first, and holds for subclasses;
- `class_rule`: a subclass of SciPy's class, which an instance made from tensors belongs to;
- `recorded`: SciPy's own code runs on the tensors, and its operations are recorded;
- `linear`: a function that is linear in one argument, given by its transpose;
- `attached`: a solution whose derivatives come from its residual (implicit function theorem);
- `constant`: a function whose result has no derivative (ranks, labels, counts);
- `refused`: a function that raises, with the reason, if a tensor carries a gradient.

`call` applies them. It is reached with at least one tensor among the arguments. If none of them
carries a gradient, SciPy's function runs on the arrays and its result is returned unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import CO_VARKEYWORDS
from typing import Any, TypeVar

from pullback.errors import AutogradError, DerivativeMissingError
from pullback.fx.refusals import current_tracer, refusal
from pullback.fx.user_code import user_line
from pullback.interop.arguments import HOLDERS, Holder, plain, tensors_in
from pullback.interop.mode import numpy_mode
from pullback.interop.replaced import keeps_constants
from pullback.scipy import defaults
from pullback.scipy.batches import call_on_values
from pullback.scipy.captures import captures_gradient, is_callback
from pullback.scipy.messages import (
    lost_arguments,
    lost_in_callback,
    option_without_rule,
    refuse,
)
from pullback.scipy.signatures import (
    arguments_with_gradient,
    carries,
    defaults_of,
    given_arguments,
    has_positional,
    is_default,
    with_keywords,
)
from pullback.scipy.traced import record_call
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = [
    "CLASSES",
    "RULES",
    "Rule",
    "apply_rule",
    "call",
    "class_rule",
    "constant",
    "find_class",
    "find_rule",
    "join_class",
    "option_without_rule",
    "recorded",
    "refused",
    "rule",
]

RULES: dict[str, Rule] = {}
CLASSES: dict[str, type] = {}  # class rules, by the name of SciPy's class

_recording: ContextVar[bool] = ContextVar("recording", default=False)
_KINDS_WITH_DERIVATIVE = ("attached", "linear", "recorded", "rule")
# Functions whose steps depend on what a function of the program returns: no graph has them.
_CHOOSE_POINTS = (
    "scipy.integrate.dblquad",
    "scipy.integrate.nquad",
    "scipy.integrate.odeint",
    "scipy.integrate.quad",
    "scipy.integrate.solve_",
    "scipy.integrate.tplquad",
    "scipy.optimize.",
)
# Arguments that change how SciPy computes, and not what: a rule need not take them.
_WITHOUT_EFFECT = frozenset(
    {"blocksize", "check_finite", "lwork", "traceA", "use_umfpack", "workers"}
)
_Function = Callable[..., Any]
_Declared = TypeVar("_Declared", bound=_Function)
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class Rule:
    """Derivative rule of one SciPy function."""

    name: str  # "scipy.linalg.cho_solve"
    kind: str  # "rule", "linear", "attached", "recorded", "constant" or "refused"
    apply: _Function  # takes the arguments of SciPy's function, tensors among them
    tensors: frozenset[str]  # names of the arguments that may carry a gradient
    reason: str = ""  # why it is constant or refused


def rule(name: str, *, tensors: str, kind: str = "rule") -> Callable[[_Declared], _Declared]:
    """Declares the decorated function as the rule of the SciPy function `name`.

    It gets the arguments that it names, by SciPy's names and with SciPy's defaults, or all of them
    if it has ``**options``. Where it or SciPy's function has ``*args``, it gets the call as it is.
    An argument that it does not name raises by name unless it has its default, or only says how
    SciPy computes. SciPy never overwrites arguments here. `tensors` lists the arguments that
    may carry a gradient; a gradient in another argument raises by name.
    Arguments may be arrays and tensors mixed.
    """

    def declare(apply: _Declared) -> _Declared:
        _add(Rule(name, kind, apply, frozenset(tensors.split())))
        return apply

    return declare


def class_rule(name: str, *, tensors: str) -> Callable[[_Class], _Class]:
    """Declares the decorated subclass of the SciPy class `name` as its rule.

    ``scipy.interpolate.CubicSpline(x, y)`` with a tensor that carries a gradient gives an instance
    of it. Its ``__init__`` names the arguments that it reads, as a `rule` does; `tensors` lists
    those that may carry a gradient. Methods that it does not define run SciPy's code only where a
    rule says so.
    """

    def declare(kind: _Class) -> _Class:
        _add(Rule(name, "rule", kind, frozenset(tensors.split())))
        CLASSES[name] = kind
        HOLDERS.setdefault(kind, Holder(_tensors_of, _unchanged))
        return kind

    return declare


def _tensors_of(instance: Any) -> Iterator[Tensor]:
    return tensors_in(list(vars(instance).values()))


def _unchanged(instance: Any) -> Any:
    return instance


def recorded(name: str, *, tensors: str = "") -> None:
    """Declares that SciPy's own code consists of operations that tensors record.

    The code runs in `numpy_mode`. `tensors` lists the arguments that may carry a gradient; by
    default every argument may.
    """

    def apply(*args: Any, **kwargs: Any) -> Any:
        return _record(name, _original(name), args, kwargs)

    _add(Rule(name, "recorded", apply, frozenset(tensors.split())))


def _record(name: str, original: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    token = _recording.set(True)
    kept = keeps_constants.set(current_tracer() is not None)
    try:
        with numpy_mode():
            return original(*args, **kwargs)
    except AutogradError as error:
        why = "its code takes a number or an array out of a tensor"
        if not any(map(levels_of, tensors_in([args, kwargs]))):
            raise refuse(name, original, args, kwargs, why) from error
        if arguments_with_gradient(original, args, kwargs):
            why = f"inside vmap {why}, whose value differs between the samples"
            way_out = "Call it in a loop over the samples, outside of vmap."
            raise refuse(name, original, args, kwargs, why, way_out) from error
    finally:
        _recording.reset(token)
        keeps_constants.reset(kept)
    return call_on_values(name, original, args, kwargs)


def constant(name: str, reason: str) -> None:
    """Declares that the result of a SciPy function has no derivative: it runs on the values."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return call_on_values(name, _original(name), args, kwargs)

    _add(Rule(name, "constant", apply, frozenset(), reason))


def refused(name: str, reason: str) -> None:
    """Declares that a SciPy function raises if an argument carries a gradient."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        raise refuse(name, _original(name), args, kwargs, reason)

    _add(Rule(name, "refused", apply, frozenset(), reason))


def _add(new: Rule) -> None:
    if new.name in RULES:
        raise ValueError(f"{new.name} has a rule already ({RULES[new.name].kind})")
    RULES[new.name] = new


def find_rule(name: str) -> Rule | None:
    """Returns the rule of a SciPy function; loads the rules of its subpackage at the first call."""
    _load(name.split(".")[1])
    return RULES.get(name)


def find_class(name: str) -> type | None:
    """Returns the class rule of a SciPy class."""
    find_rule(name)
    return CLASSES.get(name)


@cache
def join_class(kind: type, rule_class: type) -> type:
    """The class of an instance of `kind` that was given tensors: the user's subclasses stay."""
    if issubclass(rule_class, kind):
        return rule_class
    joined = type(kind.__name__, (kind, rule_class), {"__module__": kind.__module__})
    HOLDERS[joined] = HOLDERS[rule_class]
    return joined


@cache
def _load(subpackage: str) -> None:
    for part in (subpackage, f"{subpackage}_frozen"):
        module = f"pullback.scipy.rules.{part}"
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    _declare_defaults(subpackage)


def _declare_defaults(subpackage: str) -> None:
    """Declares what `defaults` has for functions without a rule of their own."""

    def names(table: dict[str, str]) -> list[str]:
        return [
            f"scipy.{space}.{name}"
            for space, text in table.items()
            if space.split(".")[0] == subpackage
            for name in text.split()
        ]

    for name in names(defaults.RECORDED):
        if name not in RULES:
            recorded(name)
    for table, declare in ((defaults.CONSTANT, constant), (defaults.REFUSED, refused)):
        for reason, spaces in table.items():
            for name in names(spaces):
                if name not in RULES:
                    declare(name, reason)


def call(
    name: str,
    original: _Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    further_names: Sequence[str] = (),
    *,
    by_scipy: bool = False,
) -> Any:
    """Calls a SciPy function that has tensors among its arguments.

    `further_names` are others under which its rule may be declared: of methods, the names in the
    base classes. `by_scipy` says that SciPy's code calls it: inside of a recorded function, it is
    recorded as well if it has no rule.
    """
    is_lost = any(map(carries, (*args, *kwargs.values())))
    callbacks = [value for value in (*args, *kwargs.values()) if is_callback(value)]
    if callbacks and name.startswith(_CHOOSE_POINTS) and current_tracer() is not None:
        raise refusal(
            f"{name} calls a function at points that it chooses by values{user_line()}; call it "
            f"outside, or compile that function"
        )
    found = next(filter(None, map(find_rule, (name, *further_names))), None)
    if found is None and _computes_on_tensors():
        return original(*args, **kwargs)
    if by_scipy and _recording.get() and (found is None or any(k[0] == "_" for k in kwargs)):
        return original(*args, **kwargs)  # private arguments are not for rules
    if found is None or found.kind not in _KINDS_WITH_DERIVATIVE:
        return _call_without_derivative(name, original, args, kwargs, found, is_lost=is_lost)
    if not is_lost:
        tensors = list(tensors_in([args, kwargs]))
        is_constant = tensors and not any(map(levels_of, tensors))
        if is_constant and not any(map(captures_gradient, callbacks)):
            if current_tracer() is not None:
                with suppress(DerivativeMissingError):  # an option that no rule has
                    return _apply_in_trace(found, name, original, args, kwargs)
            return original(*plain(args), **plain(kwargs))
    return _apply(found, name, original, args, kwargs, is_lost=is_lost)


def _apply_in_trace(
    found: Rule, name: str, original: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call without gradients as a part of the graph: SciPy's, or by its rule."""
    if found.kind != "recorded":
        made = record_call(name, original, args, kwargs)
        if made is not NotImplemented:
            return made
    return _apply(found, name, original, args, kwargs, is_lost=False)


def _apply(
    found: Rule,
    name: str,
    original: _Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    is_lost: bool,
) -> Any:
    """Applies a rule to the arguments of a call."""
    is_recorded = found.kind == "recorded"
    if is_recorded or has_positional(original) or has_positional(found.apply):
        if is_lost and (found.tensors or not is_recorded):
            _require_differentiable(found, name, arguments_with_gradient(original, args, kwargs))
        if is_recorded:
            return _record(name, original, args, kwargs)
        return found.apply(*args, **kwargs)
    given = given_arguments(original, args, kwargs)
    if is_lost:
        _require_differentiable(found, name, [k for k, value in given.items() if carries(value)])
    return apply_rule(found.apply, name, original, given)


def apply_rule(
    rule_function: _Function, name: str, original: _Function, given: dict[str, Any]
) -> Any:
    """Calls the function of a rule with the arguments that it names."""
    taken, defaults = _taken_arguments(rule_function, original)
    found = dict(defaults)
    instance = []
    for option, value in with_keywords(original, given).items():
        if option == "self":
            instance.append(value)
        elif _is_overwriting(option):
            continue
        elif taken is None or option in taken:
            found[option] = value
        elif not (option in _WITHOUT_EFFECT or is_default(original, option, value)):
            raise option_without_rule(name, option, value)
    return rule_function(*instance, **found)


@cache
def _taken_arguments(
    rule_function: _Function, original: _Function
) -> tuple[frozenset[str] | None, dict[str, Any]]:
    """The arguments that the function of a rule names (None: all), with SciPy's defaults."""
    code = rule_function.__code__
    usual = defaults_of(original)
    kept = {key: value for key, value in usual.items() if not _is_overwriting(key)}
    if code.co_flags & CO_VARKEYWORDS:
        return None, kept
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return frozenset(names), {key: kept[key] for key in names if key in kept}


def _is_overwriting(option: str) -> bool:
    return option.startswith("overwrite_")


def _call_without_derivative(
    name: str,
    original: _Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    found: Rule | None,
    *,
    is_lost: bool,
) -> Any:
    why = found.reason if found is not None else "it has no derivative here"
    if not is_lost or (found is not None and found.kind == "constant"):
        made = record_call(name, original, args, kwargs)
        if made is not NotImplemented:
            return made
        try:
            return call_on_values(name, original, args, kwargs)
        except Exception as error:
            if not _is_about_gradients(error):
                raise
            raise lost_in_callback(name, why) from error
    raise refuse(name, original, args, kwargs, why)


def _is_about_gradients(error: BaseException | None) -> bool:
    """Whether a function that SciPy called back has lost a gradient."""
    while error is not None:
        if isinstance(error, AutogradError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _computes_on_tensors() -> bool:
    """Whether SciPy itself computes in the Array API namespace of its arguments."""
    module = sys.modules.get("scipy._lib._array_api")
    return bool(getattr(module, "SCIPY_ARRAY_API", False))


def _require_differentiable(found: Rule, name: str, carrying: list[str]) -> None:
    if not found.tensors.issuperset(carrying):
        why = f"it has a derivative by {', '.join(sorted(found.tensors))} only"
        raise lost_arguments(name, carrying, why, "Detach the others.")


def _original(name: str) -> _Function:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
