"""Seeing every call of an operator, before autograd does: at the key Tracer.

Blocks that watch may nest, and run in several threads: a check of a call may have to see the calls
of its own that it makes. One fallback serves all of them, and finds the block of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

from pullback.dispatch import DispatchKeySet, Library, OpOverload
from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.dispatch.modes import StateGuard

__all__ = ["Handler", "watching"]

# Called with the operator, its arguments, and a function that runs the call unobserved.
Handler = Callable[[OpOverload, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]

_TRACER = KEY_BITS[DispatchKey.Tracer]
_watcher: ContextVar[Callable[..., Any]] = ContextVar("pullback_watcher")
_lock = Lock()
_blocks: list[Library] = []  # the fallback's library, once for each block that is running


@contextmanager
def _fallback() -> Iterator[None]:
    """Has a fallback at Tracer while any block needs it."""
    with _lock:
        library = _blocks[0] if _blocks else Library("_", "IMPL")
        if not _blocks:
            library.fallback(_seen, "Tracer", with_keyset=True)
        _blocks.append(library)
    try:
        yield
    finally:
        with _lock:
            _blocks.pop()
            if not _blocks:
                library._destroy()


def _seen(keyset: DispatchKeySet, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return _watcher.get()(keyset, op, *args, **kwargs)


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

    with _fallback(), StateGuard(include=_TRACER, keep=_TRACER):
        token = _watcher.set(seen)
        try:
            yield
        finally:
            _watcher.reset(token)
