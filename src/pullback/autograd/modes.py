"""Grad modes: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``.

Each works as a context manager and as a decorator of functions and generators; the state belongs to
the thread. Every entry makes a guard of its own, so one object may be entered many times. Leaving
puts the mode back to what it was on entry, whatever was set in between.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, Self

from pullback.dispatch.keys import AUTOGRAD_BITS, REQUIRES_GRAD
from pullback.dispatch.modes import (
    INFERENCE,
    State,
    get_state,
    is_grad_enabled,
    set_state,
    state_of,
)
from pullback.errors import AutogradTypeError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.tensor import TRACKED

__all__ = [
    "GradSwitch",
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode.

    >>> is_inference_mode_enabled()
    False
    """
    return bool(get_state().modes & INFERENCE)


class GradSwitch:
    """Sets the grad mode, and optionally the inference mode, of the thread; restores both."""

    def __init__(self, grad: bool, inference: bool | None = None):
        self._grad = grad
        self._inference = inference
        self._before = get_state()

    def __enter__(self) -> None:
        self._before = before = get_state()
        try:
            set_state(_in_mode(before, self._grad, self._inference))
        except BaseException:
            set_state(before)
            raise

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        before = self._before
        try:
            inference = None if self._inference is None else bool(before.modes & INFERENCE)
            after = _in_mode(get_state(), bool(before.keep & REQUIRES_GRAD), inference)
        except BaseException:  # an interrupt
            set_state(before)
            raise
        set_state(after)


def _in_mode(state: State, grad: bool, inference: bool | None) -> State:
    """A state in a grad mode; an inference mode of None stays as it is."""
    include, keep, modes = state.include, state.keep & ~REQUIRES_GRAD, state.modes
    keep |= REQUIRES_GRAD if grad else 0
    if inference:
        include, keep, modes = include & ~TRACKED, keep & ~AUTOGRAD_BITS, modes | INFERENCE
    elif inference is False:
        include, keep, modes = include | TRACKED, keep | AUTOGRAD_BITS, modes & ~INFERENCE
    return state_of(include, keep, modes)


class _Mode:
    """A mode that can be entered, and put around functions."""

    def __init__(self) -> None:
        # Each guard with the tuple of those before it: pushed and popped without a call, after
        # which an interrupt could come.
        self._entered: tuple[Any, ...] = ()

    def _guard(self) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        guard = self._guard()
        guard.__enter__()
        self._entered = (guard, self._entered)
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        guard, self._entered = self._entered
        guard.__exit__(*exception)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run in this mode at every call."""
        if inspect.isclass(function):
            warnings.warn(
                f"Decorating the class {function.__name__} puts the mode around its construction "
                f"only; decorate __init__ or the methods instead.",
                FutureWarning,
                stacklevel=2,
            )
            return _around_class(self._guard, function)
        if inspect.isgeneratorfunction(function):
            return _around_generator(self._guard, function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._guard():
                return function(*args, **kwargs)

        return run


def _around_class(guard: Callable[[], Any], cls: type) -> Callable[..., Any]:
    @functools.wraps(cls, updated=())
    def construct(*args: Any, **kwargs: Any) -> Any:
        with guard():
            return cls(*args, **kwargs)

    return construct


def _around_generator(
    guard: Callable[[], Any], function: Callable[..., Generator[Any, Any, Any]]
) -> Callable[..., Generator[Any, Any, Any]]:
    """The mode holds while the body runs, and not between yields."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        try:
            with guard():
                value = next(generator)
            while True:
                try:
                    sent = yield value
                except GeneratorExit:
                    with guard():
                        generator.close()
                    raise
                except BaseException as error:
                    with guard():
                        value = generator.throw(error)
                else:
                    with guard():
                        value = generator.send(sent)
        except StopIteration as stop:
            return stop.value

    return run


class no_grad(_Mode):  # noqa: N801 - PyTorch's name
    """Records nothing.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """A mode, or with a function (``@no_grad``) that function in the mode."""
        made = super().__new__(cls)
        if function is None:
            return made
        _Mode.__init__(made)
        return made(function)

    def _guard(self) -> Any:
        return GradSwitch(grad=False)


class enable_grad(no_grad):  # noqa: N801 - PyTorch's name
    """Records again, inside ``no_grad``.

    >>> with no_grad(), enable_grad():
    ...     is_grad_enabled()
    True
    """

    def _guard(self) -> Any:
        return GradSwitch(grad=True)


class set_grad_enabled(_Mode):  # noqa: N801 - PyTorch's name
    """Turns recording on or off: at once, or for a block, or for a function.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        super().__init__()
        if not isinstance(mode, bool):
            raise AutogradTypeError(f"set_grad_enabled takes a bool, not {type(mode).__name__}")
        self.mode = mode
        super().__enter__()

    def __enter__(self) -> Self:
        return self  # entered when it was made

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function in this mode; the effect of making the object is undone."""
        self.__exit__(None, None, None)
        return super().__call__(function)

    def _guard(self) -> Any:
        return GradSwitch(grad=self.mode)


class inference_mode(_Mode):  # noqa: N801 - PyTorch's name
    """Disables all tracking: no history, no versions, no views.

    What is made inside is an *inference tensor*: it may be read later, but not be part of a graph.
    ``inference_mode(False)`` records inside such a block, and inside ``no_grad``.

    >>> import pullback as pb
    >>> with inference_mode():
    ...     x = pb.tensor([1.0, 2.0]) * 2
    >>> x.is_inference()
    True
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """A mode, or with a function (``@inference_mode``) that function in the mode."""
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True):
        super().__init__()
        self.mode = mode

    def _guard(self) -> Any:
        return GradSwitch(grad=not self.mode, inference=self.mode)


_multithreading: ContextVar[bool] = ContextVar("pullback_multithreading", default=True)


def is_multithreading_enabled() -> bool:
    """Whether a backward pass may use several threads; here it never does.

    >>> is_multithreading_enabled()
    True
    """
    return _multithreading.get()


class set_multithreading_enabled:  # noqa: N801 - PyTorch's name
    """Allows or forbids several threads in a backward pass, at once or for a block.

    >>> with set_multithreading_enabled(False):
    ...     is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool):
        self._before = _multithreading.get()
        try:
            _multithreading.set(mode)
        except BaseException:
            _multithreading.set(self._before)
            raise

    def __enter__(self) -> None:
        pass  # in force since it was made

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        _multithreading.set(self._before)
