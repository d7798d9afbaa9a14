"""Calls of SciPy's functions, classes and methods with tensors, as the hooks hand them on."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from pullback._cpython import get_frame
from pullback.fx.refusals import current_tracer
from pullback.interop.arguments import (
    HOLDERS,
    carries_gradient,
    holds_gradient,
    plain,
    tensors_in,
)
from pullback.scipy import registry
from pullback.scipy.signatures import given_arguments, has_positional
from pullback.tensor.batched import levels_of

if TYPE_CHECKING:
    from pullback.scipy.hooks import Hook

__all__ = ["call_hooked", "carries_gradient"]


def call_hooked(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that has tensors among its arguments."""
    caller = get_frame(3)  # 1 is Hook.call, 2 the hooked function
    by_scipy = str(caller.f_globals.get("__name__")).startswith("scipy.")
    names = hook.names
    if hook.owner is not None:
        if hook.function.__name__ == "__init__":
            return _initialize(hook, args, kwargs, by_scipy=by_scipy)
        kind: Any = type(args[0])
        if kind in HOLDERS and getattr(kind, hook.function.__name__) is not hook.function:
            return hook.kept(*args, **kwargs)  # a class rule calls SciPy's method
        names = _method_names(hook, args)
    return registry.call(names[0], hook.kept, args, kwargs, names[1:], by_scipy=by_scipy)


def _method_names(hook: Hook, args: tuple[Any, ...]) -> list[str]:
    """The names under which a rule may be declared, the most special one first."""
    package = hook.names[0].split(".")
    method, space = package[-1], ".".join(package[:-2])
    instance = args[0] if args else None
    kind = instance if isinstance(instance, type) else type(instance)
    if hook.owner is not None and not issubclass(kind, hook.owner):
        return hook.names  # a static method
    names = [f"{space}.{base.__name__}.{method}" for base in kind.__mro__]
    name = getattr(instance, "name", None)
    if space == "scipy.stats" and isinstance(name, str):  # a distribution
        names.insert(0, f"{space}.{name}.{method}")
    return [*names, *hook.names]


def _initialize(
    hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], *, by_scipy: bool
) -> Any:
    """``SciPyClass(tensor)``: the new instance becomes one of the class rule's subclass."""
    instance, *given = args
    is_lost = holds_gradient([given, kwargs])
    is_mapped = any(map(levels_of, tensors_in([given, kwargs])))
    if not (is_lost or is_mapped or current_tracer() is not None):
        return hook.kept(instance, *plain(given), **plain(kwargs))
    kind: Any = type(instance)
    space = hook.names[0].rsplit(".", 2)[0]
    for base in kind.__mro__:
        found: Any = registry.find_class(f"{space}.{base.__name__}")
        if found is None:
            continue
        if issubclass(kind, found):
            return hook.kept(*args, **kwargs)  # the rule calls SciPy's __init__
        instance.__class__ = registry.join_class(kind, found)
        if has_positional(hook.kept) or has_positional(found.__init__):
            return found.__init__(*args, **kwargs)
        named = given_arguments(hook.kept, args, kwargs)
        return registry.apply_rule(found.__init__, f"{space}.{base.__name__}", hook.kept, named)
    if not is_lost:  # inside vmap, or while a program is traced
        return hook.kept(instance, *plain(given), **plain(kwargs))
    public = vars(sys.modules[space])
    nearest: Any = next((k for k in kind.__mro__ if public.get(k.__name__) is k), kind)
    name = f"{space}.{nearest.__name__}"
    original = partial(hook.kept, instance)  # of which only a part may exist
    return registry.call(name, original, tuple(given), kwargs, by_scipy=by_scipy)
