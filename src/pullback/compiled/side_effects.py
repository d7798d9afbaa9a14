"""Side effects of Python in a trace: what the function has changed outside, found and undone.

A graph repeats what operators do, and nothing else. The places that the function may read are known
before it is traced (``watch.py``), and are looked up again afterwards:

- A counter or a list that has changed is seen by the next call, which traces again.
- A tensor of the trace that was stored outside, and elements of an iterator that may be taken, need
  the function itself.

Where the function itself is called after a trace, all of this is undone first, so that it happens
once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pullback.compiled.reach import Reached, find_watches, has_traced_number
from pullback.compiled.watch import (
    EMPTY,
    OF_TENSOR,
    Watch,
    find_change,
    owners_of_arrays,
    read_class,
    restore_buffer,
)
from pullback.errors import TraceError
from pullback.fx.picked import root_of
from pullback.fx.traced_array import TracedArray
from pullback.fx.traced_number import TracedNumber
from pullback.tensor.memory import owner_of

if TYPE_CHECKING:
    from pullback.compiled.hidden_inputs import Substitution

__all__ = ["CachedError", "SideEffects", "StoredError", "restore"]


class StoredError(TraceError):
    """A tensor of the trace was stored outside, perhaps once, as in a cache of the function's.

    Attributes:
        most: how often the function is called as it is, to fill the cache, and is traced again.
    """

    most = 1


class CachedError(StoredError):
    """A function with ``lru_cache`` has computed something in the trace: one of its entries."""

    most = 8


class SideEffects:
    """The places outside that a function may read, before and after a trace.

    Attributes:
        watches: the places and their values before; after a trace also those that it has made.
        generators: generators of random numbers that it may draw from.
        loose: the ids of arrays that it reaches not by such places alone.
        names: the names in the code of all functions that it may call.
    """

    def __init__(self, function: Callable[..., Any], constants: Iterable[Any]):
        self._function = function
        self._constants = list(constants)
        reached = find_watches(function, self._constants)
        self._before, self.generators, self._iterators = reached[:3]
        self._caches = [watch for watch in self._before if watch.kind == "cache"]
        self.loose, self.names = reached.loose, reached.names
        self._is_whole = reached.is_whole
        self.watches = list(self._before)

    @property
    def outside(self) -> set[int]:
        """The ids of objects from outside that the function may return."""
        found = {id(value) for value in self._constants}
        return found.union(*((id(w.owner), id(w.value)) for w in self._before))

    def copy_large(self, substituted: Container[int]) -> None:
        """Copies the large arrays that NumPy may read, to compare their elements.

        Not those that tensors hold or stand for, whose ids are given: a trace refuses to hand them
        to NumPy. What lies in read-only memory, such as a mapped file, cannot change.
        """
        found = []
        for watch in self._before:
            if watch.kind == "content" and watch.value is None:
                array = watch.owner
                is_hidden = watch.name == OF_TENSOR or id(array) in substituted
                if is_hidden or _is_read_only(root_of(array)):
                    continue
                watch = watch._replace(value=array.copy("K"))
            found.append(watch)
        self._before, self.watches = found, list(found)

    @property
    def compared(self) -> list[NDArray[Any]]:
        """The arrays whose elements can be compared, because NumPy may read them."""
        contents = [watch for watch in self._before if watch.kind == "content"]
        return [watch.owner for watch in contents if watch.name != OF_TENSOR]

    def require_seen(self) -> None:
        """Refuses a function that may read what cannot be compared in each call.

        It may take elements of an iterator from outside, or reads too many places.
        """
        if not self._is_whole:
            raise TraceError(
                "it reaches too many objects from outside to compare them in each call; pass what "
                "it reads as arguments"
            )
        if self._iterators:
            raise TraceError(
                f"it may take elements of a {type(self._iterators[0]).__name__} from outside; "
                f"pass them as arguments"
            )

    def require_nothing_stored(self, substitution: Substitution, results: list[Any]) -> None:
        """Refuses a tensor of the trace, or an array among its results, that is stored outside.

        Places that the trace has made are added to the watches, as places that were not there.
        """
        if find_change(self._caches) is not None:
            raise CachedError("a function with lru_cache keeps what it has computed in the trace")
        reached = self._find()
        if substitution.restore_arrays(reached.watches):
            reached = self._find()
        after = reached.watches
        for watch in after:
            is_made = issubclass(type(watch.value), TracedArray | TracedNumber)
            if is_made or watch.owner in substitution:
                place = next((other for other in after if other.value is watch.owner), watch)
                raise StoredError(
                    f"it stores a tensor or number that it has computed outside of itself, as "
                    f"{place}; return it instead"
                )
        returned = {id(owner_of(x)) for x in results if isinstance(x, np.ndarray)}
        returned -= self.outside | owners_of_arrays(self._before)
        stored = [w for w in after if returned and id(owner_of(w.value)) in returned]
        if stored:
            raise StoredError(
                f"it stores an array that it returns outside of itself, as {stored[0]}"
            )
        if reached.iterators:
            raise StoredError("it stores an iterator outside of itself; return a list instead")
        if reached.numbers:
            raise StoredError(
                "it stores a number that it has computed, or an argument, in a container outside "
                "of itself; return it instead"
            )
        self.watches += _made(after, self._before)

    def find_written(self, written: set[int]) -> list[Watch]:
        """The arrays from outside that NumPy itself has written to: no graph repeats that.

        Args:
            written: the ids of roots that the graph writes to.
        """
        contents = [watch for watch in self._before if watch.kind == "content"]
        others = [watch for watch in contents if id(root_of(watch.owner)) not in written]
        return [watch for watch in others if watch.has_changed()]

    def _find(self) -> Reached:
        """Finds what the function reaches after a trace, without remains of the trace in caches.

        A function with ``lru_cache`` that the trace has called may keep tensors of the trace, and
        forgets all. Keys that are traced numbers become numbers: ``hash`` has made them guards.
        """
        for watch in self._caches:
            if watch.has_changed():
                watch.owner.cache_clear()
        reached = find_watches(self._function, self._constants)
        while reached.keyed:
            for container in reached.keyed:
                _use_plain_keys(container)
            reached = find_watches(self._function, self._constants)
        return reached

    def undo(self) -> None:
        """Gives all places the objects that they had before."""
        found = [*_made(self._find().watches, self._before), *self._before]
        found.sort(key=lambda watch: watch.kind == "keys")  # when all items are there
        for watch in found:
            if watch.kind != "layout" and watch.has_changed():
                restore(watch)


def _is_read_only(memory: Any) -> bool:
    """Whether memory that no array owns is read-only."""
    try:
        return not isinstance(memory, np.ndarray) and memoryview(memory).readonly
    except TypeError:  # no buffer
        return False


def _made(after: list[Watch], before: list[Watch]) -> list[Watch]:
    """Attributes that are new, as watches of places that do not exist."""
    known = {watch.place for watch in before}
    new = [w for w in after if w.kind in ("item", "class", "slot") and w.place not in known]
    return [watch._replace(value=EMPTY) for watch in new]


def restore(watch: Watch) -> None:
    """Gives a place its object again."""
    kind, owner, name, value = watch
    if kind == "cell":
        if value is EMPTY:
            del owner.cell_contents
        else:
            owner.cell_contents = value
    elif kind == "item":
        if value is EMPTY:
            owner.pop(name, None)
        elif dict.__contains__(owner, name):
            dict.__setitem__(owner, name, value)  # runs no method of a class of the user
        else:
            owner[name] = value
    elif kind == "element":
        list.__setitem__(owner, name, value)
    elif kind == "length":
        del owner[value:]
        owner.extend([None] * (value - len(owner)))
    elif kind == "keys":
        kept = {key: owner[key] for key in value}
        owner.clear()
        owner.update(kept)
    elif kind == "items":
        _refill(owner, value)
    elif kind == "objects":
        for place, item in zip(np.ndindex(owner.shape), value, strict=True):
            owner[place] = item
    elif kind == "buffer":
        restore_buffer(owner, value)
    elif kind == "context":
        owner.set(None if value is EMPTY else value)
    elif kind in ("mapping", "referent", "cache"):
        return  # restored where the object itself is held, or forgotten
    elif kind == "slot":
        held = read_class(type(owner), name)
        held.__delete__(owner) if value is EMPTY else held.__set__(owner, value)
    elif kind == "content":
        owner[...] = value
    elif value is EMPTY:  # an attribute of a class, or of a thread's values
        delattr(owner, name)
    else:  # that, or the class, code or defaults of an object
        setattr(owner, name, value)


def _use_plain_keys(container: Any) -> None:
    """Gives a dict or set plain numbers as keys in the place of traced ones."""
    if isinstance(container, dict):
        items = [(_plain(key), value) for key, value in container.items()]
        container.clear()
        container.update(items)
    else:
        keys = list(map(_plain, container))
        container.clear()
        container.update(keys)


def _plain(key: Any) -> Any:
    if isinstance(key, TracedNumber):
        return key.value
    return tuple(map(_plain, key)) if has_traced_number(key) else key


def _refill(owner: Any, items: tuple[Any, ...]) -> None:
    """Gives a long list, a deque or a set its items again."""
    owner.clear()
    if isinstance(owner, list | deque):
        owner.extend(items)
    else:
        owner.update(items)
