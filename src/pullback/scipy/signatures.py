"""Arguments of SciPy's functions by name, as SciPy's own signatures say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from pullback.interop.arguments import HOLDERS, holds_gradient

__all__ = [
    "arguments_with_gradient",
    "carries",
    "defaults_of",
    "given_arguments",
    "has_positional",
    "is_default",
    "with_keywords",
]

_Function = Callable[..., Any]


class _Parameters(NamedTuple):
    """The signature of a function, with what is read of it at every call."""

    signature: inspect.Signature
    defaults: dict[str, Any]  # without ``object()``, by which SciPy sees that none was given
    has_positional: bool  # whether there is ``*args``
    keywords: str  # the name of ``**kwargs``; empty if there is none


@lru_cache(maxsize=1024)  # 20 µs a call without the cache
def _parameters(function: _Function) -> _Parameters:
    signature = inspect.signature(function)
    listed = signature.parameters.values()
    usual = {p.name: p.default for p in listed if p.default is not p.empty}
    defaults = {name: value for name, value in usual.items() if type(value) is not object}
    has_positional = any(p.kind is p.VAR_POSITIONAL for p in listed)
    keywords = next((p.name for p in listed if p.kind is p.VAR_KEYWORD), "")
    return _Parameters(signature, defaults, has_positional, keywords)


def given_arguments(
    function: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name; raises TypeError if it does not fit the signature."""
    return _parameters(function).signature.bind(*args, **kwargs).arguments


def with_keywords(function: _Function, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call with those of ``**kwargs`` among them."""
    keywords = _parameters(function).keywords
    if keywords not in given:
        return given
    return {**{key: given[key] for key in given if key != keywords}, **given[keywords]}


def defaults_of(function: _Function) -> dict[str, Any]:
    """The defaults of a function's arguments."""
    return _parameters(function).defaults


def has_positional(function: _Function) -> bool:
    """Whether a function takes ``*args``."""
    return _parameters(function).has_positional


def is_default(function: _Function, name: str, value: Any) -> bool:
    """Whether the value of an argument is the one that SciPy takes if none is given."""
    defaults = _parameters(function).defaults
    if name not in defaults:
        return False
    usual = defaults[name]
    return usual is value or (type(usual) is type(value) and usual == value)


def carries(value: Any) -> bool:
    """Whether an argument is or contains a tensor that carries a gradient, or may hold one."""
    return type(value) in HOLDERS or holds_gradient(value)


def arguments_with_gradient(
    function: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """The names of the arguments in which a tensor carries a gradient."""
    try:
        bound = given_arguments(function, args, kwargs)
    except (TypeError, ValueError):  # by place where the call does not fit the signature
        bound = {**{f"argument {place}": value for place, value in enumerate(args)}, **kwargs}
    return [name for name, value in bound.items() if carries(value)]
