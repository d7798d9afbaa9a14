"""Dispatch modes: Python code that sees, and may change, every operator call below autograd.

The names are PyTorch's, ``torch.utils._python_dispatch``. ``docs/tracing.md`` has examples.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from pullback.dispatch.python_dispatch import ModeStack, active_modes, without_modes
from pullback.errors import DispatchError

__all__ = ["TorchDispatchMode", "_disable_current_modes", "_get_current_dispatch_mode_stack"]


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
        stack = ModeStack((*active_modes(), self))
        stack.__enter__()
        self.__dict__.setdefault("_stacks", []).append(stack)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stacks = self.__dict__.get("_stacks")
        if not stacks:
            raise DispatchError(
                f"{type(self).__name__} is not active: it ends a `with` block that never began"
            )
        stacks.pop().__exit__()


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The active modes of this thread, the innermost last.

    >>> _get_current_dispatch_mode_stack()
    []
    """
    return list(active_modes())


def _disable_current_modes() -> ModeStack:
    """A block in which no mode is active.

    >>> with TorchDispatchMode(), _disable_current_modes():
    ...     _get_current_dispatch_mode_stack()
    []
    """
    return without_modes()
