"""Fake kernels: the shape and dtype of a result, from tensors without data.

A fake kernel is the kernel at the key Meta. Its tensors have no elements, so a size that depends on
values is unknown: ``new_dynamic_size`` raises an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pullback.errors import DataDependentError, KernelNotFoundError, OperatorDefinitionError
from pullback.schema import FunctionSchema

__all__ = ["FakeContext", "automatic_fake", "fake_kernel", "get_ctx", "missing_fake"]

_current: ContextVar[FakeContext | None] = ContextVar("pullback_fake_context", default=None)


class FakeContext:
    """Context of a running fake kernel."""

    def __init__(self, name: str):
        self._name = name

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """A size that depends on the data. Tensors without data have none, so this raises."""
        if min < 0:
            raise OperatorDefinitionError(
                f"new_dynamic_size: expected min to be at least 0, but got {min}"
            )
        bound = "" if max is None else f" at most {max}"
        raise DataDependentError(
            f"{self._name}: its output has a data-dependent size of at least {min}{bound}, which "
            f"is unknown for tensors without data (device 'meta'). Call the operator with real "
            f"tensors."
        )


def get_ctx() -> FakeContext | None:
    """The context of the fake kernel that is running; None outside of one.

    >>> get_ctx() is None
    True
    """
    return _current.get()


def fake_kernel(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wraps `fn` as the kernel at Meta, with a ``FakeContext`` while it runs."""
    context = FakeContext(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        before = _current.get()
        try:
            _current.set(context)
            return fn(*args, **kwargs)
        finally:
            _current.set(before)

    return run


def automatic_fake(schema: FunctionSchema, tags: tuple[str, ...]) -> Callable[..., Any] | None:
    """The fake kernel that follows from a schema: of an operator that only writes."""
    if "inplace" in tags:
        return lambda *args, **_: args[0]
    if "out" in tags:
        written = [argument.name for argument in schema.arguments.flat_all if argument.is_write]
        if len(written) == 1:
            return lambda *_, **kwargs: kwargs[written[0]]
        return lambda *_, **kwargs: tuple(kwargs[name] for name in written)
    if schema.is_mutable and not schema.returns:
        return lambda *_, **__: None
    return None


def missing_fake(name: str) -> Callable[..., Any]:
    """The kernel at Meta until a fake kernel is registered; it raises."""

    def run(*_: Any, **__: Any) -> Any:
        raise KernelNotFoundError(
            f"{name}: There was no fake impl registered, so the operator cannot run on tensors "
            f"without data. Register one with register_fake(fn): it takes the operator's "
            f"arguments and returns empty tensors of the right shape and dtype."
        )

    return run
