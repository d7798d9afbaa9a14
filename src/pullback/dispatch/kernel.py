"""Kernel: a registered function and its calling convention.

``table.py`` orders kernels by precedence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pullback.dispatch.keys import DispatchKey, DispatchKeySet

__all__ = ["Kernel", "fallthrough_kernel"]


class Kernel:
    """Registered function with its location and calling convention.

    Args:
        fn: the function.
        key: where it is registered.
        location: ``file:line`` of the registration; the function's own where it is empty.
        debug: printed in tables instead of the location.
        with_keyset: whether its first argument is the call's key set.
        with_operator: whether its next argument is the operator, as of fallbacks for all operators.
        fallthrough: whether calls skip this key and go on to the kernel below.
        linker: makes the callable for an operator and a call's flags, when that depends on them.
        goes_on_with: the keys with which such a kernel then goes on to the one below it.
        refusal: why it raises instead, for an operator and a call's flags; empty if it does not.

    >>> import pullback as pb
    >>> table = pb.ops.pullback.sin.default.dispatch_table()
    >>> table[pb.DispatchKey.CPU].kernel.key.name
    'CPU'
    """

    __slots__ = (
        "fn",
        "key",
        "location",
        "debug",
        "with_keyset",
        "with_operator",
        "fallthrough",
        "linker",
        "goes_on_with",
        "refusal",
    )

    # Written out, because importing ``dataclasses`` and running it takes longer than the rest.
    def __init__(
        self,
        fn: Callable[..., Any],
        key: DispatchKey,
        location: str = "",
        debug: str = "",
        with_keyset: bool = False,
        with_operator: bool = False,
        fallthrough: bool = False,
        linker: Callable[[Any, int], Callable[..., Any]] | None = None,
        goes_on_with: int = 0,
        refusal: Callable[[Any, int], str] | None = None,
    ):
        self.fn = fn
        self.key = key
        self.location = location
        self.debug = debug
        self.with_keyset = with_keyset
        self.with_operator = with_operator
        self.fallthrough = fallthrough
        self.linker = linker
        self.goes_on_with = goes_on_with
        self.refusal = refusal

    def __str__(self) -> str:
        prefix = "fallthrough " if self.fallthrough else ""
        return prefix + (self.debug or f"registered at {self.place}")

    @property
    def place(self) -> str:
        """``file:line`` of the registration, or of the function."""
        code = getattr(self.fn, "__code__", None)
        if self.location or code is None:
            return self.location
        return f"{code.co_filename}:{code.co_firstlineno}"

    def link(self, operator: Any, flags: int) -> Callable[..., Any]:
        """A callable that takes exactly the operator's arguments."""
        if self.linker is not None:
            return self.linker(operator, flags)
        leading: list[Any] = []
        if self.with_keyset:
            leading.append(DispatchKeySet.from_bits(flags))
        if self.with_operator:
            leading.append(operator)
        return partial(self.fn, *leading) if leading else self.fn


def fallthrough_kernel(*_: Any, **__: Any) -> Any:
    """Registered in place of a kernel: calls skip the key, as if the tensors did not have it.

    >>> from pullback.dispatch import Library
    >>> with Library("falls", "DEF") as lib:
    ...     _ = lib.define("f(Tensor x) -> Tensor")
    ...     _ = lib.impl("f", fallthrough_kernel, "AutogradCPU")
    ...     lib.is_registered("f", "AutogradCPU")
    True
    """
    raise NotImplementedError("fallthrough_kernel marks a key to be skipped; it is never called")
