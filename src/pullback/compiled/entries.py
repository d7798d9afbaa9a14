"""``Entry``: the programs of one signature of a compiled function, and what is said about them."""

from __future__ import annotations

from typing import NamedTuple

from pullback.compiled.paths import Path
from pullback.compiled.report import describe_program
from pullback.compiled.side_effects import SideEffects
from pullback.compiled.signatures import Arguments
from pullback.tensor.tensor import Tensor

__all__ = ["CacheInfo", "Entry", "as_arrays", "describe_entry"]


class CacheInfo(NamedTuple):
    """Statistics of the cache of programs, as those of ``functools.lru_cache``.

    >>> import pullback as pb
    >>> f = pb.compile(pb.sin, backend="eager")
    >>> f.cache_info().currsize
    0
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Entry:
    """All programs of one signature: one for each path through its branches."""

    __slots__ = ("paths", "reason", "returns_arrays", "stored")

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.stored = 0  # how many traces have stored a tensor outside
        self.reason = ""  # why the function is called instead
        self.returns_arrays = False  # without arguments: it reads arrays, and no tensors

    def prefer(self, path: Path) -> None:
        """Tries a path first from now on; other threads may read the old list meanwhile."""
        if self.paths and self.paths[0] is not path:
            self.paths = [path, *(other for other in self.paths if other is not path)]

    def describe_miss(self) -> str:
        """The difference between the paths: the value at a guard, or a captured tensor."""
        guards = self.paths[0].program.tracer.guards
        return f"{guards[-1].what}{guards[-1].line}" if guards else "the kind of a captured tensor"


def as_arrays(entry: Entry, given: Arguments, python: SideEffects) -> Arguments:
    """The arguments of a function that may have none: its results are arrays if it reads arrays."""
    kinds = {watch.kind for watch in python.watches}
    if any(kind[0] != "static" for kind in given.kinds) or "content" not in kinds:
        return given
    if any(isinstance(watch.owner, Tensor) for watch in python.watches):
        return given
    entry.returns_arrays = True
    return given._replace(returns_arrays=True)


def describe_entry(entry: Entry) -> list[str]:
    """Lines of a report about the programs of a signature."""
    lines = [f"called as it is: {entry.reason}"] if entry.reason else []
    for path in entry.paths:
        lines += describe_program(path.program)
    return lines
