"""The garbage collector of Python, while graphs are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_off"]


@contextmanager
def collector_off() -> Iterator[None]:
    """A block, or decorated function, in which the collector is off.

    A graph is many small objects that refer to each other: to look for garbage among them takes
    half of the time of a trace.

    >>> with collector_off():
    ...     gc.isenabled()
    False
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
