"""Arrays in shared memory, which processes see at once.

A block of ``multiprocessing.shared_memory`` lives as long as an array in it does, and its name as
long as the process that made it. Forked processes inherit the memory; others attach to it by name,
when an array is sent to them through ``multiprocessing``.
"""

from __future__ import annotations

import os
import weakref
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SharedPart", "attach", "find_part", "share"]


class SharedPart(NamedTuple):
    """An array as a part of a shared block."""

    name: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


class _Block:
    """The owner of shared memory, the base of all arrays in it."""

    def __init__(self, memory: SharedMemory, is_owner: bool):
        self._memory = memory  # unmapped when no array is left
        self.name = memory.name
        whole: Any = np.frombuffer(memory.buf, np.uint8)  # type: ignore[arg-type]
        self.__array_interface__ = {**whole.__array_interface__, "data": (_address(whole), False)}
        if is_owner:
            weakref.finalize(self, _unlink, memory, os.getpid())


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _unlink(memory: SharedMemory, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked copy
        memory.unlink()


def _block_of(array: Any) -> Any:
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, _Block) else None


def share(array: NDArray[Any]) -> NDArray[Any]:
    """The same values in shared memory; the array itself if it is there.

    >>> import numpy as np
    >>> share(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    if _block_of(array) is not None:
        return array
    block = _Block(SharedMemory(create=True, size=max(1, array.nbytes)), is_owner=True)
    strides = np.empty(array.shape, array.dtype).strides
    made = _view(block, SharedPart(block.name, 0, array.shape, strides, array.dtype.str))
    made[...] = array
    return made


def _view(block: _Block, part: SharedPart) -> NDArray[Any]:
    flat = np.asarray(block)
    return np.ndarray(part.shape, part.dtype, flat, part.offset, part.strides)


def find_part(array: NDArray[Any]) -> SharedPart | None:
    """The place of an array in shared memory, or None.

    >>> import numpy as np
    >>> find_part(np.zeros(2)) is None, find_part(share(np.zeros(2))).shape
    (True, (2,))
    """
    block = _block_of(array)
    if block is None:
        return None
    offset = _address(array) - _address(np.asarray(block))
    return SharedPart(block.name, offset, array.shape, array.strides, array.dtype.str)


_attached: weakref.WeakValueDictionary[str, _Block] = weakref.WeakValueDictionary()


def attach(part: SharedPart) -> NDArray[Any]:
    """The array at a place in shared memory.

    >>> import numpy as np
    >>> array = share(np.array([1.0, 2.0]))
    >>> other = attach(find_part(array))
    >>> other[0] = 5.0
    >>> array
    array([5., 2.])
    """
    block = _attached.get(part.name)
    if block is None:
        block = _attached[part.name] = _Block(SharedMemory(part.name), is_owner=False)
    return _view(block, part)
