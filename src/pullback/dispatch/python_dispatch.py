"""Calls that Python code intercepts below autograd: dispatch modes, and classes of tensors.

A call whose flags have ``INTERCEPT`` runs the kernel made here when it reaches the key Python. The
innermost active mode gets it, with that mode off while its handler runs; without a mode, the
classes of its tensors that have ``__torch_dispatch__``. Calls without the bit are linked as if this
module did not exist, so that neither costs anything where it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

from pullback.dispatch.keys import AUTOGRAD_BITS, INTERCEPT, KEY_BITS, DispatchKey
from pullback.dispatch.modes import DISPATCH_MODE, StateGuard
from pullback.errors import AutogradError
from pullback.interrupts import uninterrupted_entry

__all__ = [
    "Mode",
    "ModeStack",
    "active_modes",
    "link_intercepted",
    "list_places",
    "with_lists",
    "without_modes",
]

_PYTHON = KEY_BITS[DispatchKey.Python]
_TRACKING = AUTOGRAD_BITS | KEY_BITS[DispatchKey.ADInplaceOrView]
_INTERCEPTED = _PYTHON | INTERCEPT


class Mode(Protocol):
    """Interface of what intercepts calls.

    One that has a method ``intercept(operator, args, kwargs)`` gets calls without wrapper tensors
    through it, with itself on and the state as it is: the tracer.
    """

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Returns the result of a call."""


_modes: ContextVar[tuple[Mode, ...]] = ContextVar("pullback_dispatch_modes", default=())
active_modes = _modes.get


class ModeStack:
    """Makes `modes` the active ones of this thread between enter and exit.

    With `below_autograd`, calls inside are neither recorded nor tracked: what handlers run under.
    `begin` are further modes of the thread's state.
    """

    __slots__ = ("_before", "_begin", "_below", "_guard", "_stack")

    def __init__(self, modes: tuple[Mode, ...], *, below_autograd: bool = False, begin: int = 0):
        self._stack = modes
        self._below = _TRACKING if below_autograd else 0
        self._begin = begin

    def __enter__(self) -> None:
        if self._stack:
            begin = DISPATCH_MODE | self._begin
            self._guard = StateGuard(
                include=_INTERCEPTED, keep=_PYTHON, drop=self._below, begin=begin
            )
        else:
            self._guard = StateGuard(uninclude=_INTERCEPTED, drop=self._below, end=DISPATCH_MODE)
        before = self._before = _modes.get()
        try:
            _modes.set(self._stack)
            self._guard.__enter__()
        except BaseException:
            _modes.set(before)
            raise

    @uninterrupted_entry
    def __exit__(self, *_: object) -> None:
        try:
            self._guard.__exit__(None, None, None)
        finally:
            _modes.set(self._before)


def without_modes() -> ModeStack:
    """A block in which no mode is active."""
    return ModeStack(())


def link_intercepted(operator: Any) -> Callable[..., Any]:
    """The kernel of an operator's intercepted calls."""
    lists = list_places(operator)
    returns = _tensor_count(operator)

    def call(*args: Any, **kwargs: Any) -> Any:
        modes = _modes.get()
        if lists:
            args = with_lists(args, lists)
        classes = _classes((*args, *kwargs.values()))
        if modes and not classes and hasattr(modes[-1], "intercept"):
            return modes[-1].intercept(operator, args, kwargs)  # a tracer, which sets the state
        if modes:
            with ModeStack(modes[:-1], below_autograd=True):
                result = modes[-1].__torch_dispatch__(operator, classes, args, kwargs)
            if result is not NotImplemented:
                return result if returns is None else _checked(operator, returns, result)
        if classes:
            _refuse_vmap(operator, (*args, *kwargs.values()))
        for cls in classes:
            with StateGuard(drop=_TRACKING):
                result = cls.__torch_dispatch__(  # type: ignore[attr-defined]
                    operator, classes, args, kwargs
                )
            if result is not NotImplemented:
                return result if returns is None else _checked(operator, returns, result)
        if not modes and not classes:
            raise _escaped((*args, *kwargs.values()), operator)
        raise TypeError(_refusal(operator, classes or tuple(type(mode) for mode in modes[-1:])))

    return call


def _tensor_count(operator: Any) -> int | None:
    """The number of tensors that an operator returns, if it returns tensors alone; else None."""
    returns = operator.schema.returns
    if not returns or any(value.type.is_list_like() for value in returns):
        return None
    return len(returns) if all(value.type.is_tensor_like() for value in returns) else None


def _checked(operator: Any, count: int, result: Any) -> Any:
    """The result of a handler, which has to be what the operator returns: tensors, or None."""
    given = [result] if count == 1 else result
    fits = count == 1 or (isinstance(result, tuple | list) and len(result) == count)
    wrong = [v for v in given if not (v is None or hasattr(v, "_array"))] if fits else [result]
    if wrong:
        wanted = "a tensor" if count == 1 else f"a tuple of {count} tensors"
        raise TypeError(
            f"{operator}: __torch_dispatch__ returned {type(wrong[0]).__name__}, and the operator "
            f"returns {wanted}. Return func(*args, **kwargs), or wrap values by pb.tensor(value)."
        )
    return result


def list_places(operator: Any) -> list[int]:
    """The places of the positional arguments that are lists of any length by a schema."""
    places = []
    for place, argument in enumerate(operator.schema.arguments.flat_positional):
        kind = argument.type.is_list_like()
        if kind is not None and kind.size is None:  # a binder repeats one value for the others
            places.append(place)
    return places


def with_lists(args: tuple[Any, ...], places: list[int]) -> tuple[Any, ...]:
    """Arguments as the schema has them: public functions pass one number for a list of one."""
    given = list(args)
    for place in places:
        if place < len(given) and isinstance(given[place], int):
            given[place] = [given[place]]
    return tuple(given)


def _escaped(values: tuple[Any, ...], operator: Any) -> Exception:
    """The error for a traced tensor after its trace; its payload has the words."""
    for value in values:
        if isinstance(value, list | tuple):
            return _escaped(tuple(value), operator)
        if getattr(value, "_flags", 0) & INTERCEPT:
            error: Exception = value._array.refusal(str(operator))
            return error
    return TypeError(_refusal(operator, ()))


def _refuse_vmap(operator: Any, values: tuple[Any, ...]) -> None:
    """Raises where a user class meets vmap, whose levels it would have to wrap."""
    batched = any(hasattr(getattr(v, "_array", None), "levels") for v in values)
    if batched or operator.name().endswith("_level"):
        raise AutogradError(
            f"{operator}: vmap does not take tensors of classes with __torch_dispatch__; map over "
            f"what they wrap, and wrap the result"
        )


def _refusal(operator: Any, classes: tuple[type, ...]) -> str:
    names = ", ".join(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)
    return (
        f"Multiple dispatch failed for {operator!r}: every __torch_dispatch__ returned "
        f"NotImplemented ({names}). Return func(*args, **kwargs) for operators that need no "
        f"special treatment."
    )


def _classes(values: tuple[Any, ...]) -> tuple[type, ...]:
    """The classes with ``__torch_dispatch__`` among arguments, each before its base classes."""
    found: list[type] = []
    for value in _intercepting(values):
        cls = type(value)
        if cls not in found:
            place = next((i for i, known in enumerate(found) if issubclass(cls, known)), len(found))
            found.insert(place, cls)
    return tuple(found)


def _intercepting(values: tuple[Any, ...] | list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _intercepting(value)
        elif getattr(value, "_flags", 0) & INTERCEPT and hasattr(value, "__torch_dispatch__"):
            yield value
