"""Hooks in SciPy's functions: the code of a function is replaced in place, and looks for tensors.

The function object stays what it was, so that names imported earlier, pickles and signatures stay
valid. Calls whose arguments all have types in `PLAIN` go straight to the kept code; all others are
looked through here, and reach `pullback.scipy.calls` if a tensor is found, which is imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._cpython import intercept
from pullback._lazy import lazy_module
from pullback.autograd.graph.conversion import COMPILED_HINTS
from pullback.interop.arguments import HOLDERS
from pullback.scipy.captures import captures_gradient, is_callback
from pullback.scipy.defaults import COMPILED, REFUSED
from pullback.scipy.modules import Target, targets
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.scipy import calls, factorization
else:
    calls = lazy_module("pullback.scipy.calls")
    factorization = lazy_module("pullback.scipy.factorization")

__all__ = [
    "HOOKS",
    "MODULES",
    "PLAIN",
    "Hook",
    "hook_module",
    "unhook_all",
]

# Types whose values neither are nor contain tensors; types of NumPy and SciPy are added when they
# are first met.
PLAIN: set[type] = {
    bool,
    bytes,
    complex,
    float,
    int,
    np.bool_,
    np.complex128,
    np.dtype,
    np.float32,
    np.float64,
    np.int64,
    np.ndarray,
    np.random.Generator,
    NoneType,
    range,
    slice,
    str,
    type,
    BuiltinFunctionType,
}
HOOKS: dict[FunctionType, Hook] = {}
MODULES: list[ModuleType] = []  # those that have hooks

# Functions that return compiled objects, which take arrays only: a proxy takes tensors, too.
_RETURN_FACTORS = ("scipy.sparse.linalg.spilu", "scipy.sparse.linalg.splu")
_PACKAGES_WITHOUT_TENSORS = ("builtins", "numpy", "scipy")
_CONTAINERS = (list, tuple, dict)

for _reason, _spaces in REFUSED.items():
    _names = COMPILED.intersection(" ".join(_spaces.values()).split())
    COMPILED_HINTS.update(dict.fromkeys(_names, f"It has no derivative: {_reason}. "))


class Hook:
    """The hook of one function."""

    __slots__ = ("code", "function", "had_wrapped", "kept", "names", "owner")

    def __init__(self, target: Target):
        function = self.function = target.function
        self.names = [target.name]
        self.owner = target.owner
        self.code = function.__code__
        self.kept = _copied(function)
        self.had_wrapped = hasattr(function, "__wrapped__")
        if not self.had_wrapped:
            function.__wrapped__ = self.kept  # for inspect.signature
        holders = HOLDERS if target.has_self else None
        if target.name in _RETURN_FACTORS:
            self.kept = _returning_proxy(self.kept)
        intercept(function, self.look, self.kept, PLAIN, holders)

    def undo(self) -> None:
        """Gives the function its own code back."""
        self.function.__code__ = self.code
        if not self.had_wrapped:
            del self.function.__wrapped__

    def look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """The function to call for arguments that are not all plain: there may be a tensor."""
        if _holds_tensor((*args, *kwargs.values()) if kwargs else args):
            return self.call
        return self.kept

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the rule, or SciPy's function on values, or raises."""
        return calls.call_hooked(self, args, kwargs)


def _copied(function: FunctionType) -> FunctionType:
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    for name in ("__annotations__", "__doc__", "__kwdefaults__", "__module__", "__qualname__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)  # __wrapped__ among them
    return copy


def _returning_proxy(kept: FunctionType) -> Any:
    @wraps(kept)
    def call(*args: Any, **kwargs: Any) -> Any:
        return factorization.Factorization(kept(*args, **kwargs))

    return call


# --- search --------------------------------------------------------------------------------------


def _holds_tensor(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            continue
        if kind is tuple or kind is list:  # the most frequent: -0.4 µs
            if not PLAIN.issuperset(map(type, value)) and _holds_tensor(value):
                return True
            continue
        if issubclass(kind, Tensor) or kind in HOLDERS:
            return True
        if issubclass(kind, _CONTAINERS):
            # not value.values(): a dok_array is a dict, and this may be the call of its __init__
            inside: Any = dict.values(value) if issubclass(kind, dict) else value
            if not PLAIN.issuperset(map(type, inside)) and _holds_tensor(inside):
                return True
        elif is_callback(value):
            if captures_gradient(value):
                return True
        elif kind.__module__.partition(".")[0] in _PACKAGES_WITHOUT_TENSORS:
            PLAIN.add(kind)
    return False


# --- installation --------------------------------------------------------------------------------


def hook_module(module: ModuleType) -> None:
    """Puts hooks into the functions and methods of a module of SciPy, once."""
    MODULES.append(module)
    for target in targets(module):
        known = HOOKS.get(target.function)
        if known is None:
            HOOKS[target.function] = Hook(target)
        elif target.name not in known.names:
            known.names.append(target.name)


def unhook_all() -> None:
    """Removes all hooks."""
    MODULES.clear()
    while HOOKS:
        HOOKS.popitem()[1].undo()
