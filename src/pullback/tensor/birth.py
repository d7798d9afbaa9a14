"""Where memory was made, for memory that may have to be made anew.

Inside a mapped function, memory that an operator has made gets a version counter of its own kind,
which all tensors in that memory share. ``promote.py`` tells what that is for.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

__all__ = ["Birth"]


class Birth(list[int]):
    """A version counter of memory that was made inside a mapped function.

    Like that of other transforms, it has the number of the innermost one beside the version.

    Attributes:
        tensors: weak references to the tensors that lie in the memory.
    """

    __slots__ = ("tensors",)

    def __init__(self, place: int, tensor: Any):
        super().__init__((0, place))
        self.tensors = [ref(tensor)]
