"""Dispatch modes: Python code that sees, and may change, every operator call below autograd.

The names are PyTorch's, ``torch.utils._python_dispatch``. ``docs/tracing.md`` has examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from pullback.dispatch.python_dispatch import ModeStack, active_modes, without_modes
from pullback.errors import DispatchError

__all__ = [
    "TorchDispatchMode",
    "_disable_current_modes",
    "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack",
    "_pop_mode",
    "_pop_mode_temporarily",
    "_push_mode",
]


class TorchDispatchMode:
    """Context manager whose ``__torch_dispatch__`` gets every operator call of this thread.

    A call arrives after autograd has recorded it, and after composite operators have been replaced
    by those that they are made of; the backward pass arrives as the operators of its formulas.
    While the handler runs this mode is off, so that ``func(*args, **kwargs)`` goes on to the mode
    around it, to tensors with a ``__torch_dispatch__`` of their own, or to the kernel.

    >>> import pullback as pb
    >>> class Log(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with Log():
    ...     y = (x * 3).sum()
    pullback.mul.default
    pullback.sum.default
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Returns the result of a call of the operator `func`; subclasses override it.

        Args:
            func: the operator, an ``OpOverload``.
            types: the classes with ``__torch_dispatch__`` among the arguments.
            args: the positional arguments, every default filled in.
            kwargs: the arguments by name.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no __torch_dispatch__(self, func, types, args=(), "
            f"kwargs=None); define it, and return func(*args, **(kwargs or {{}}))"
        )

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not _entered.get():
            raise DispatchError(
                f"{type(self).__name__} is not active: it ends a `with` block that never began"
            )
        _pop_mode()


_entered: ContextVar[tuple[ModeStack, ...]] = ContextVar("pullback_entered_modes", default=())


def _push_mode(mode: Any) -> None:
    """Makes a mode the innermost one of this thread.

    >>> mode = TorchDispatchMode()
    >>> _push_mode(mode)
    >>> _pop_mode() is mode
    True
    """
    stack = ModeStack((*active_modes(), mode))
    stack.__enter__()
    _entered.set((*_entered.get(), stack))


def _pop_mode() -> Any:
    """Ends the innermost mode of this thread, and returns it.

    A `with` block that ends while one that began later is active ends that one, as in PyTorch: no
    mode is left after the last block.

    >>> _push_mode(TorchDispatchMode())
    >>> type(_pop_mode()).__name__
    'TorchDispatchMode'
    """
    *rest, stack = _entered.get()
    mode = active_modes()[-1]
    stack.__exit__()
    _entered.set(tuple(rest))
    return mode


def _get_current_dispatch_mode() -> Any:
    """The innermost active mode of this thread, or None.

    >>> _get_current_dispatch_mode() is None
    True
    """
    modes = active_modes()
    return modes[-1] if modes else None


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """A block in which the innermost mode is not active; its variable is that mode.

    >>> mode = TorchDispatchMode()
    >>> with mode, _pop_mode_temporarily() as found:
    ...     found is mode, _get_current_dispatch_mode_stack()
    (True, [])
    """
    *rest, mode = active_modes()
    with ModeStack(tuple(rest)):
        yield mode


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The active modes of this thread, the innermost last.

    >>> _get_current_dispatch_mode_stack()
    []
    """
    return list(active_modes())


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """A block in which no mode is active; its variable is the list of those that were.

    >>> with TorchDispatchMode(), _disable_current_modes() as found:
    ...     len(found), _get_current_dispatch_mode_stack()
    (1, [])
    """
    modes = list(active_modes())
    with without_modes():
        yield modes
