"""``__array_ufunc__`` and ``__array_function__``: NumPy functions called with tensors.

A ufunc without options is one lookup and one call (the fast path). All other functions are looked
up by the NumPy function, which is linked to ours at its first call. A result never loses history: a
function without a derivative raises, with its name, if an argument carries a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._lazy import lazy_module
from pullback.dispatch.modes import get_state
from pullback.errors import DerivativeMissingError
from pullback.interop.adapt import into, parameters_of
from pullback.interop.arguments import (
    carries_gradient,
    holds_gradient,
    lost_in_array,
    outline,
    plain,
    refusal,
    wrapped,
)
from pullback.interop.scipy_special import find_function
from pullback.interop.ufuncs import UFUNCS, UNARY, call_with_options, ufunc_name, without_derivative
from pullback.kernels.error_context import ERRORS, named_error
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.interop import table, ufunc_methods
else:
    table = lazy_module("pullback.interop.table")
    ufunc_methods = lazy_module("pullback.interop.ufunc_methods")

__all__ = ["HANDLERS", "attach_protocols", "handler", "name_of"]

HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {}
_OURS = (Tensor, np.ndarray, np.generic)
_SPACES = {"numpy": "", "numpy.linalg": "linalg.", "numpy.fft": "fft."}


def __array_ufunc__(  # noqa: N807 - NumPy's name
    self: Tensor,
    ufunc: np.ufunc,
    method: str,
    *inputs: Any,
    **options: Any,
) -> Any:
    if not options and method == "__call__":
        try:
            kernel = UNARY[ufunc][get_state()][self._flags]  # self is the only input
        except KeyError:
            if ufunc in UFUNCS:
                return UFUNCS[ufunc](*inputs)
        else:
            try:
                return kernel(self)
            except ERRORS as error:
                raise named_error(error, UFUNCS[ufunc].__name__, self) from None
    function = UFUNCS.get(ufunc) or find_function(ufunc)
    if method == "__call__" and not options and function is not None:
        return function(*inputs)
    if any(_is_foreign(value) for value in (*inputs, *options.get("out", ()))):
        return NotImplemented
    targets = [out for out in options.get("out", ()) if isinstance(out, np.ndarray)]
    if targets and any(carries_gradient(i) for i in inputs if isinstance(i, Tensor)):
        raise lost_in_array(_as_written(ufunc, inputs, targets))
    if function is None:
        return without_derivative(ufunc, method, inputs, options)
    if method == "__call__":
        return call_with_options(ufunc, inputs, options)
    if "out" in options and method != "outer":
        (options["out"],) = options["out"]
    return ufunc_methods.METHODS[method](ufunc, *inputs, **options)


def _is_foreign(value: Any) -> bool:
    """Returns whether a value implements ``__array_ufunc__`` itself and takes precedence."""
    if isinstance(value, _OURS) or not hasattr(type(value), "__array_ufunc__"):
        return False
    return type(value).__array_ufunc__ is not None


def _as_written(ufunc: np.ufunc, inputs: tuple[Any, ...], targets: list[Any]) -> str:
    """The call as the user probably wrote it: ``array += tensor`` is a call with ``out=``."""
    name = ufunc_name(ufunc)
    in_place = len(inputs) == 2 and inputs[0] is targets[0]
    return f"an in-place operator ({name} with out=)" if in_place else f"{name}(out=...)"


def __array_function__(  # noqa: N807 - NumPy's name
    self: Tensor,  # noqa: ARG001 - a method
    func: Callable[..., Any],
    types: Collection[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if len(types) > 1 and not all(issubclass(kind, _OURS) for kind in types):
        return NotImplemented
    return handler(func)(*args, **kwargs)


def handler(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that implements a NumPy function on tensors."""
    found = HANDLERS.get(func)
    if found is None:
        found = HANDLERS[func] = _link(func)
    return found


def name_of(func: Callable[..., Any]) -> str:
    """The name in our tables: ``sum``, ``linalg.solve``; with its module if it is none of them."""
    module = func.__module__
    space = _SPACES.get(module)
    return f"{module}.{func.__name__}" if space is None else space + func.__name__


def _link(func: Callable[..., Any]) -> Callable[..., Any]:
    """Finds the function that implements a NumPy function on tensors."""
    name = name_of(func)
    ours = table.differentiable(name, func)
    if name not in table.VALUES:
        return _on_values(func, name, loses_nothing=False) if ours is None else ours
    if name in table.OUTLINES and ours is None:
        return lambda *args, **kwargs: func(*outline(args), **kwargs)
    values = _on_values(func, name, loses_nothing=True)
    return values if ours is None else _either(ours, values)


def _either(ours: Callable[..., Any], values: Callable[..., Any]) -> Callable[..., Any]:
    """Our function, and for arguments that it lacks NumPy's on the values."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except DerivativeMissingError:
            return values(*args, **kwargs)

    return call


def _on_values(func: Callable[..., Any], name: str, *, loses_nothing: bool) -> Callable[..., Any]:
    """Returns NumPy's function on the values of tensors; it raises if a gradient would be lost."""
    names = _positional(func)
    place = names.index("out") if "out" in names else None

    def call(*args: Any, **kwargs: Any) -> Any:
        if not loses_nothing and holds_gradient([args, kwargs]):
            way_out = table.REFUSED.get(name, "Call it on x.detach() if no gradient is wanted.")
            raise refusal(_full(func), "it has no derivative here", way_out)
        out = kwargs.pop("out", None)
        if place is not None and len(args) > place:
            out, args = args[place], (*args[:place], None, *args[place + 1 :])
        result = func(*plain(list(args)), **plain(kwargs))
        return into(out, wrapped(result), _full(func))

    return call


def _positional(func: Callable[..., Any]) -> list[str]:
    """The names of the arguments that may be positional; none if NumPy has no signature."""
    try:
        return [p.name for p in parameters_of(func) if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):
        return []


def _full(func: Callable[..., Any]) -> str:
    return f"{func.__module__}.{func.__name__}"


def attach_protocols() -> None:
    """Gives tensors NumPy's protocols."""
    for method in (__array_ufunc__, __array_function__):
        setattr(Tensor, method.__name__, method)
