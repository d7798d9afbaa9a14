"""The undo log of a version counter: old content of memory that in-place writes replace.

NumPy programs write over values that nodes have saved. In `numpy_mode` nothing is copied when a
value is saved; each write appends the old content of the written part to the log of the memory's
version counter. A saved value whose version is gone is rebuilt: a scratch copy of the memory is
rewound, entry by entry, to the saved version. A backward pass loads ever older versions, so the
scratch copy is kept between loads, and all rewinding of one pass is a single sweep.

- *Versions.* Entry ``i`` undoes the write after version ``first + i``. An entry is appended before
  the write (`log_write`) and confirmed when the version is counted (`confirm_write`). A write that
  is not logged, after the mode or in another thread, leaves ``end`` behind the counter; then
  nothing can be rebuilt, and loading raises.
- *Addresses.* Parts are placed in the scratch copy by their address in the memory, so that views
  and batched arrays are alike. Memory that was replaced (vmap gives it a batch dimension) has other
  addresses, and loading raises.
- *Clock.* Tangents are tensors with version counters and logs of their own. A global clock relates
  them: version `v` of a tensor ended at the time of its entry, and its tangents then are rewound to
  that time. A tangent that was made later did not exist.
- *Traces.* Writes of a program that is being traced are logged as others, with the place in the
  graph before each write. The payload that is rebuilt is a copy made there (`Payload.rebuilt`).
- *Memory.* A part that was logged since the last save of the memory is *covered*: no saved value
  has its present content, so a write over it needs no entry. Kernels that save call `uncover`. If a
  value was saved without that call, loading it raises.

The log lives in the version counter, as long as a tensor or a node holds that. Counters are lists
of the version, the number of a transform level, and aliases; the level is a `LoggedLevel` if the
counter has a log.
"""

from __future__ import annotations

from array import array as compact_array
from bisect import bisect_left
from itertools import count
from threading import RLock
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import MAPPING, NUMPY, get_state
from pullback.tensor.batched import BatchedArray
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor, version_of

__all__ = [
    "LoggedLevel",
    "UndoLog",
    "clock",
    "collapse_writes",
    "confirm_write",
    "find_log",
    "keep_history",
    "log_item",
    "log_of",
    "log_write",
    "mark_made",
    "physical",
    "uncover",
]

_ndarray = np.ndarray
_LARGE_BYTES = 1024  # smaller parts are logged without a look for what covers them
clock = count(1).__next__  # C code: no thread switch inside
_REWINDING = RLock()  # held while a scratch copy is rewound


class LoggedLevel(int):
    """The level number in a version counter that has a log."""

    log: UndoLog


class _Covered:
    """An entry without content: the entry of version `since` has what it would undo."""

    __slots__ = ("since",)

    def __init__(self, since: int):
        self.since = since


class UndoLog:
    """Entries in parallel lists, without a tuple for each: those burden the garbage collector.

    A part is an array, an index of `whole`, or a list of arrays where one version had several
    writes.
    """

    __slots__ = (
        "_covering",
        "_position",
        "_scratch",
        "clocks",
        "end",
        "first",
        "made",
        "olds",
        "parts",
        "places",
        "tangents",
        "whole",
    )

    def __init__(self, version: int):
        self.made = 0  # the time when a tangent was made by a write
        # Of a tangent: the edge of its base before each write, by level and version. The level
        # removes them at its end, as it does from all that has tangents.
        self.tangents: dict[Any, dict[int, Any]] = {}
        self.whole: NDArray[Any] | None = None
        self.restart(version)

    def restart(self, version: int) -> None:
        """Forgets all entries: a write was not logged."""
        self.first = self.end = version
        self.parts: list[Any] = []
        self.olds: list[Any] = []
        self.clocks = compact_array("q")
        self.places: dict[int, Any] = {}  # in a trace: where the write after a version begins
        self._covering: dict[Any, int] | None = None
        self._scratch: tuple[Any, ...] | None = None
        self._position = 0  # how many entries the scratch copy has not undone yet

    # --- writing ---

    def append(self, version: int, array: NDArray[Any]) -> None:
        """Logs a write to an array, before it happens."""
        if version != self.end:
            self.restart(version)
        if len(self.clocks) != version - self.first:
            if len(self.clocks) == len(self.parts) == version - self.first + 1:
                self._add_to_last(array)
                return
            self.restart(version)  # an interrupt came in the middle of an entry
        if array.nbytes > _LARGE_BYTES and not get_state().modes & MAPPING:
            covering = self._covering
            if covering is None:
                covering = self._covering = {}
            key = (array.__array_interface__["data"][0], array.shape, array.strides)
            since = covering.get(key)
            if since is not None:
                self._put(_Covered(since), None)
                return
            covering[key] = version
        self._put(array, array.copy("K"))

    def append_item(self, version: int, whole: NDArray[Any], index: Any, part: Any) -> None:
        """Logs a write to ``part = whole[index]``; small ones without an array for the part."""
        clocks = self.clocks
        if version == self.end and len(clocks) == version - self.first:
            if self.whole is None:
                self.whole = whole
            if self.whole is whole and part.nbytes <= _LARGE_BYTES:
                clocks.append(clock())
                self.olds.append(part.copy())
                self.parts.append(index)
                return
        self.append(version, part)

    def _put(self, part: Any, old: Any) -> None:
        self.clocks.append(clock())  # the first and the last: an interrupt between them is found
        self.olds.append(old)
        self.parts.append(part)

    def _add_to_last(self, array: NDArray[Any]) -> None:
        """Logs a further part of a write that is checked twice, or of one after a failed write."""
        part, old = self.parts[-1], self.olds[-1]
        if part is array:
            return
        if type(part) is not list:
            part, old = [part], [old]
        self.olds[-1] = [*old, array.copy("K")]
        self.parts[-1] = [*part, array]
        self._covering = None

    def collapse(self, version: int) -> None:
        """Makes all entries from a version on one: its write was made of several."""
        place = version - self.first
        if len(self.parts) > place + 1:
            parts, olds = _listed(self.parts[place:]), _listed(self.olds[place:])
            del self.parts[place:], self.olds[place:], self.clocks[place + 1 :]
            self.parts.append(parts)
            self.olds.append(olds)
            self._covering = None
        for later in [number for number in self.places if number > version]:
            del self.places[later]
        self.end = version + 1

    def uncover(self) -> None:
        """A value of the memory is saved: the next write needs an entry."""
        self._covering = None

    # --- reading ---

    def time_of(self, version: int) -> int:
        """The time when a version ended, by the clock."""
        return self.clocks[version - self.first]

    def version_at(self, time: int) -> int:
        """The version that the memory had at a time."""
        return self.first + bisect_left(self.clocks, time)

    def rebuild(self, version: int, array: NDArray[Any]) -> NDArray[Any] | None:
        """The content that an array had at a version; None if the log does not have it."""
        if version < self.first or not len(self.parts) == len(self.olds) == len(self.clocks):
            return None
        with _REWINDING:
            return self._rewind(version, array)

    def _rewind(self, version: int, array: NDArray[Any]) -> NDArray[Any] | None:
        root = array
        while isinstance(root.base, _ndarray):
            root = root.base
        scratch = self._scratch
        if scratch is None or scratch[0] is not root or scratch[1] != self.end:
            scratch = None
        place = version - self.first
        if scratch is None or self._position < place:
            low, high = byte_bounds(root)
            memory = np.empty(high - low, np.uint8)
            _placed(root, memory, low)[...] = root
            position = len(self.parts)
            self._position, self._scratch = position, (root, self.end, memory, low)
            scratch = self._scratch
        memory, low = scratch[2:]
        try:
            while self._position > place:
                self._undo(self._position - 1, version, memory, low)
                self._position -= 1
            return _placed(array, memory, low).copy("K")
        except (LookupError, TypeError, ValueError):  # other memory, or a value that was covered
            self._scratch = None
            return None

    def _undo(self, place: int, version: int, memory: NDArray[Any], low: int) -> None:
        part, old = self.parts[place], self.olds[place]
        if type(part) is not list:
            self._undo_part(part, old, version, memory, low)
            return
        for one, content in zip(reversed(part), reversed(old), strict=True):
            self._undo_part(one, content, version, memory, low)

    def _undo_part(self, part: Any, old: Any, version: int, memory: NDArray[Any], low: int) -> None:
        if type(part) is _ndarray:
            _placed(part, memory, low)[...] = old
        elif type(part) is tuple:
            assert self.whole is not None
            _placed(self.whole, memory, low)[part] = old
        elif part.since < version:  # covered
            raise LookupError("a value that was saved without `uncover`")


def _listed(values: list[Any]) -> list[Any]:
    """A list of entries as one entry."""
    found: list[Any] = []
    for value in values:
        found += value if type(value) is list else [value]
    return found


def _placed(array: NDArray[Any], memory: NDArray[Any], low: int) -> NDArray[Any]:
    """The array at the same place of a copy of its memory; raises if it lies elsewhere."""
    offset = array.__array_interface__["data"][0] - low
    if offset < 0:
        raise ValueError("memory was replaced")
    return _ndarray(array.shape, array.dtype, memory, offset, array.strides)


# --- version counters ----------------------------------------------------------------------------


def find_log(counter: list[Any] | None) -> UndoLog | None:
    """The log of a version counter, if it has one."""
    if counter is not None and len(counter) > 1:
        level = counter[1]
        if type(level) is LoggedLevel:
            return level.log
    return None


def log_of(counter: list[Any]) -> UndoLog:
    """The log of a version counter, begun if it has none."""
    found = find_log(counter)
    if found is None:
        level = LoggedLevel(counter[1] if len(counter) > 1 else 0)
        found = level.log = UndoLog(counter[0])
        if len(counter) > 1:
            counter[1] = level
        else:
            counter.append(level)
    return found


def physical(held: Any) -> Any:
    """The array of a tensor, with batch dimensions; None of payloads without memory."""
    if type(held) is BatchedArray:
        held = held.array
    return held if type(held) is _ndarray else getattr(held, "memory", None)


def log_write(tensor: Tensor) -> None:
    """Logs the content of a tensor before an in-place write."""
    counter = tensor._counter or version_of(tensor)
    held = tensor._array
    array = physical(held)
    if type(counter) is list and array is not None:
        log = log_of(counter)
        log.append(counter[0], array)
        if array is not held:
            inner: Any = held.array if type(held) is BatchedArray else held
            if inner is not array:
                log.places.setdefault(counter[0], inner.place())


def log_item(counter: list[Any], whole: NDArray[Any], index: Any, part: Any) -> UndoLog:
    """Logs a write to ``part = whole[index]``, and returns the log."""
    level = counter[1] if len(counter) > 1 else None
    log = level.log if type(level) is LoggedLevel else log_of(counter)
    version, clocks = counter[0], log.clocks
    if (
        not part.ndim
        and log.whole is whole
        and version == log.end
        and len(clocks) == version - log.first
    ):  # fast path of ``append_item``: a single element
        clocks.append(clock())
        log.olds.append(part[()])  # 40 ns, a copy 130
        log.parts.append(index)
    else:
        log.append_item(version, whole, index, part)
    return log


def confirm_write(counter: list[Any]) -> None:
    """Confirms the logged write that has just been counted."""
    log = find_log(counter)
    if log is not None and get_state().modes & NUMPY:
        version = counter[0]
        if log.end == version - 1 and len(log.parts) == version - log.first:
            log.end = version


def collapse_writes(counter: list[Any], before: int) -> None:
    """Counts several logged writes, since version `before`, as one."""
    log = find_log(counter)
    is_logged = log is not None and log.end in (before, counter[0]) and log.first <= before
    counter[0] = before + 1
    if is_logged and len(log.parts) > before - log.first and get_state().modes & NUMPY:  # type: ignore[union-attr]
        log.collapse(before)  # type: ignore[union-attr]


def keep_history(level: Any, tangent: Tensor) -> None:
    """Keeps the edge of a tangent's base, which an in-place write is about to replace."""
    if not get_state().modes & NUMPY:
        return
    meta: Any = tangent._meta
    base = meta.base if type(meta) is View else tangent
    counter = version_of(tangent)
    if base._edge is not None and type(counter) is list:
        log = log_of(counter)
        if level not in log.tangents:
            log.tangents[level] = {}
            level.saved.append(log)
        log.tangents[level][counter[0]] = base._edge


def mark_made(tangent: Tensor) -> None:
    """Records the time at which an in-place write has given a tensor its first tangent."""
    counter = version_of(tangent)
    if get_state().modes & NUMPY and type(counter) is list:
        log_of(counter).made = clock()


def uncover(tensor: Tensor) -> None:
    """Has the next write logged, because a value of the memory is saved, with its tangents."""
    log = find_log(tensor._counter)
    if log is not None:
        log.uncover()
    meta: Any = tensor._meta
    if tensor._flags & DUAL and meta.lazy_array is None:
        for tangent in (meta.tangents or {}).values():
            uncover(tangent)
