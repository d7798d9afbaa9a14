"""Seeing every call of an operator, before autograd does: at the key Tracer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback.dispatch import DispatchKeySet, IncludeDispatchKeyGuard, Library, OpOverload
from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.dispatch.modes import StateGuard

__all__ = ["Handler", "watching"]

# Gets the operator, its arguments, and a function that runs the call as if nobody watched.
Handler = Callable[[OpOverload, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]

_TRACER = KEY_BITS[DispatchKey.Tracer]


@contextmanager
def watching(handler: Handler, *, inside: bool = False) -> Iterator[None]:
    """A block in which calls of operators go through `handler`, which returns their results.

    With `inside`, also the calls that a composite operator or a kernel makes in its turn.
    """

    running: list[tuple[int, ...]] = []

    def seen(keyset: DispatchKeySet, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
        below = DispatchKeySet.from_bits(int(keyset) & ~_TRACER)
        call = (id(op), *map(id, args))

        def unseen() -> Any:
            with StateGuard(drop=_TRACER):
                return op.redispatch(below, *args, **kwargs)

        def run() -> Any:
            if not inside:
                return unseen()
            running.append(call)
            try:
                return op.redispatch(below, *args, **kwargs)
            finally:
                running.pop()

        if not inside:
            with StateGuard(drop=_TRACER):  # the handler's own calls are not seen
                return handler(op, args, kwargs, run)
        # A call with a view that has to be refreshed starts again from the top.
        return unseen() if running and running[-1] == call else handler(op, args, kwargs, run)

    with Library("_", "IMPL") as library:
        library.fallback(seen, "Tracer", with_keyset=True)
        with IncludeDispatchKeyGuard("Tracer"):
            yield
