"""Captured arrays as inputs of a graph: while a function is traced, places outside hold tensors.

A graph reads captured arrays from their own memory in each run. What NumPy or Python make of the
same elements while the function is traced is a constant of the graph, or has chosen the path.
Therefore places that hold plain arrays hold tensors of the same memory during a trace
(``Substitution``): what reads these is recorded, is a guard, or is refused, and no comparison of
elements is needed. All other captured arrays are compared element by element.

In functions of tensors, captured arrays are arrays, and what NumPy computes of them is one. They
are compared, but for large ones: tensors stand for these, too, unless the function returns what it
computes of them alone, or writes to it.

Arrays of integers and truth values, and those that the function computes constants of, are
compared, so that the constants stay constants, until they change (``ChangedArrays``).
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock, active_count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.compiled.array_classes import FUNCTIONS_OF_CLASSES
from pullback.compiled.random_state import DrawnNumbersError
from pullback.compiled.reach import IDENTITY
from pullback.compiled.recorded import Gradients
from pullback.compiled.side_effects import SideEffects, restore
from pullback.compiled.watch import EMPTY, OF_TENSOR, SETTABLE, Watch
from pullback.dispatch.table import ENTRIES
from pullback.errors import TraceError
from pullback.fx.dependencies import is_of_arrays
from pullback.fx.loop_call import LoopCall
from pullback.fx.node import Node, nodes_in
from pullback.fx.picked import root_of
from pullback.fx.snapshots import LARGE_ARRAY_BYTES
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer
from pullback.interrupts import run_to_end, uninterrupted_entry
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import ContentVersion, Tensor, wrap

__all__ = [
    "CHANGED",
    "FLOATS",
    "NO_ARRAYS",
    "Attempt",
    "ChangedArrays",
    "HiddenInput",
    "Substitution",
    "substitution_lock",
]

FLOATS, CHANGED, NO_ARRAYS = range(3)
"""The arrays that are inputs: those of floating-point numbers, too; those that have changed, and
large ones; none."""
_LARGE = 1 << 17  # bytes; to compare them takes some 5 us, in functions of arrays
_MOST_CHANGED = 256  # places
_CLONE = ENTRIES["pullback::clone"].operator


_LONGEST_WAIT = 1.0  # seconds; a call that waits longer runs the function itself
_locks = [RLock()]
_replaced: list[Watch] = []  # places that hold tensors now


@contextmanager
def substitution_lock() -> Iterator[bool]:
    """A block for one thread at a time: another trace must not find tensors of a substitution.

    The wait is bounded, because a function may wait for a thread that calls a compiled function;
    the value of the block is whether it is alone.
    """
    lock = _locks[-1]
    is_alone = lock.acquire(timeout=_LONGEST_WAIT)
    try:
        yield is_alone
    finally:
        if is_alone:
            lock.release()


def _forget_traces() -> None:
    """Ends the substitutions of the threads that a forked process does not have."""
    _locks.append(RLock())
    while _replaced:
        restore(_replaced.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_traces)


class Attempt(NamedTuple):
    """The way in which a function is traced.

    Attributes:
        level: which captured arrays are inputs.
        is_general: whether loops are one node each, and indices are inputs.
        repeats: how often it was traced in this way before.
    """

    level: int = FLOATS
    is_general: bool = True
    repeats: int = 0

    def after_error(self, error: BaseException, tracer: Tracer, has_inputs: bool) -> Attempt | None:
        """The attempt after one that has failed; None after the last.

        Args:
            error: what it has raised.
            tracer: of the trace.
            has_inputs: whether captured arrays were inputs, or are now.
        """
        if not isinstance(error, Exception):
            return None
        if isinstance(error, DrawnNumbersError) and active_count() > 1 and self.repeats < 3:
            return self._replace(repeats=self.repeats + 1)  # another thread may have drawn them
        if has_inputs and self.level < NO_ARRAYS:
            return self._replace(level=self.level + 1)
        if tracer.has_loops or (tracer.has_indices and isinstance(error, TraceError)):
            return Attempt(is_general=False)
        return None


class HiddenInput(NamedTuple):
    """A place whose array is an input of a graph, and the tensor that stands for it."""

    watch: Watch
    tensor: Tensor
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]

    def read(self) -> bool:
        """Gives the tensor the array that the place has now; returns whether it is of its kind."""
        array = self.watch.now()
        if type(array) is not np.ndarray:
            return False
        self.tensor._array = array
        return (array.shape, array.dtype, array.strides) == self[2:]


class ChangedArrays:
    """Places of arrays that have changed between calls: their elements, or the whole array."""

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Watch, bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __contains__(self, watch: Watch) -> bool:
        return watch.place in self._found

    def is_replaced(self, watch: Watch) -> bool:
        """Whether the place has had another array of the same kind."""
        return watch.place in self._found and self._found[watch.place][1]

    def note(self, watches: Iterable[Watch]) -> None:
        """Notes the arrays among places that have changed."""
        watches = list(watches)
        changed = {id(w.owner) for w in watches if w.kind == "content" and w.has_changed()}
        for watch in watches:
            if not _is_open(watch) or len(self._found) >= _MOST_CHANGED:
                continue
            now = watch.now()
            if now is not watch.value and _are_alike(now, watch.value):
                self._found[watch.place] = watch, True
            elif any(id(array) in changed for array in _arrays_in(watch.value)):
                self._found.setdefault(watch.place, (watch, False))

    def note_written(self, watches: Iterable[Watch], written: set[int]) -> None:
        """Notes arrays that a graph writes to; `written` are the ids of their roots."""
        for watch in filter(_is_open, watches):
            if any(id(root_of(array)) in written for array in _arrays_in(watch.value)):
                self._found.setdefault(watch.place, (watch, False))


class _Replacing:
    """A block in which places hold other objects, given with the watches of the places."""

    def __init__(self, pairs: list[tuple[Watch, Any]]):
        self._pairs = pairs
        self._outer = len(_replaced)

    def __enter__(self) -> None:
        try:
            for watch, new in self._pairs:
                _replaced.append(watch)
                restore(watch._replace(value=new))
                if watch.now() is not new:
                    raise TraceError(f"{watch} does not hold what it is set to")
        except BaseException:
            run_to_end(self._restore)
            raise

    @uninterrupted_entry
    def __exit__(self, *_: object) -> None:
        run_to_end(self._restore)

    def _restore(self) -> None:
        for watch, new in self._pairs:
            if watch.now() is new:
                restore(watch)
        del _replaced[self._outer :]


class Substitution:
    """Tensors in the place of captured arrays, in one trace.

    Args:
        python: the places outside that the function may read.
        changed: places of arrays that have changed.
        level: which arrays are inputs.
        has_arrays: whether the function is one of arrays, and not of tensors.

    Attributes:
        level: the same; functions of tensors have no inputs of floating-point numbers alone.
        inputs: the places whose array may be replaced between runs of the graph.
    """

    def __init__(
        self, python: SideEffects, changed: ChangedArrays, level: int, *, has_arrays: bool
    ) -> None:
        watches, loose = python.watches, python.loose
        self._has_arrays = has_arrays
        self.level = level = level if has_arrays else max(level, CHANGED)
        is_compared = IDENTITY in python.names  # arrays that are replaced could become one
        self._tensors: dict[int, tuple[Any, Tensor]] = {}
        self._new: list[tuple[Watch, Any]] = []
        self.inputs: list[HiddenInput] = []
        places = list(filter(_is_open, watches)) if level < NO_ARRAYS else []
        for watch in places:
            for array in _arrays_in(watch.value):
                is_chosen = array.nbytes > (_LARGE if has_arrays else LARGE_ARRAY_BYTES)
                if has_arrays and not is_chosen:
                    is_chosen = watch in changed or (level == FLOATS and array.dtype.kind in "fc")
                if is_chosen and id(array) not in loose and id(array) not in self._tensors:
                    self._tensors[id(array)] = array, self._tensor_of(array)
        self._ids = {id(tensor) for _, tensor in self._tensors.values()}
        names = [watch for watch in watches if _is_builtin(watch)]
        self._new += [(watch, FUNCTIONS_OF_CLASSES[watch.name]) for watch in names]
        if not self._tensors:
            return
        counts: dict[int, int] = {}
        for watch in places:
            new = self._with_tensors(watch.value)
            if new is not watch.value and not _is_inherited(watch):
                self._new.append((watch, new))
                for array in _arrays_in(watch.value):
                    counts[id(array)] = counts.get(id(array), 0) + 1
        for watch, new in self._new if has_arrays else ():
            array = watch.value
            if not is_compared and changed.is_replaced(watch) and counts.get(id(array)) == 1:
                kind = array.shape, array.dtype, array.strides
                self.inputs.append(HiddenInput(watch, new, *kind))

    def __bool__(self) -> bool:
        return bool(self._tensors)

    def __contains__(self, value: object) -> bool:
        return id(value) in self._ids

    def _tensor_of(self, array: NDArray[Any]) -> Tensor:
        tensor = wrap(array)
        if not self._has_arrays:  # a backward pass takes the array, as without compilation
            tensor._counter = ContentVersion(array)
        return tensor

    @property
    def arrays(self) -> Container[int]:
        """The ids of the arrays that tensors stand for."""
        return self._tensors.keys()

    @property
    def tensors(self) -> list[Watch]:
        """The tensors as places that hold their arrays."""
        return [Watch("slot", t, "_array", array) for array, t in self._tensors.values()]

    def _with_tensors(self, value: Any) -> Any:
        """An array's tensor, or a tuple with tensors for its arrays; else the value itself."""
        if type(value) is np.ndarray:
            return self._tensors[id(value)][1] if id(value) in self._tensors else value
        if issubclass(type(value), tuple):
            items = list(map(self._with_tensors, value))
            if any(x is not y for x, y in zip(items, value, strict=True)):
                return tuple.__new__(type(value), items)
        return value

    def active(self, tracer: Tracer) -> _Replacing:
        """A block in which the places hold tensors."""
        tracer.stand_ins = {id(tensor): tensor for _, tensor in self._tensors.values()}
        return _Replacing(self._new)

    def restore_arrays(self, watches: Iterable[Watch]) -> bool:
        """Gives places where the function has stored one of the tensors its array."""
        arrays = {id(tensor): array for array, tensor in self._tensors.values()}
        stored = [watch for watch in watches if id(watch.value) in arrays and _is_open(watch)]
        for watch in stored:
            restore(watch._replace(value=arrays[id(watch.value)]))
        return bool(stored)

    def computes_constants(self, tracer: Tracer) -> bool:
        """Whether a graph computes values of captured arrays alone, which could be constants."""
        nodes: set[Node] = set()
        names = {name for name, t in tracer.origins.items() if self._is_own(t)}
        for node in tracer.graph.nodes:
            if node.op == "get_attr" and node.target in names:
                nodes.add(node)
            elif node.op == "call_function":
                sources = node.all_input_nodes
                if sources and all(source in nodes for source in sources):
                    nodes.add(node)
                    if "view_of" not in node.meta and node.target is not _CLONE:
                        return True
        return any(guard.node in nodes for guard in tracer.guards)

    def _is_own(self, tensor: Tensor) -> bool:
        return any(tensor is own for _, own in self._tensors.values())

    def choose_watches(self, watches: Iterable[Watch], tracer: Tracer) -> list[Watch]:
        """The watches that a graph needs: without elements that only tensors have read."""
        watches = list(watches)
        # A place that the function itself sets is compared: a graph does not repeat that.
        inputs = [watch for watch, *_ in self.inputs if watch.now() is watch.value]
        replaced = {watch.place for watch in inputs}
        replaced |= {("layout", id(watch.value), None) for watch in inputs}
        exposed = {id(owner_of(root)) for root in tracer.exposed.values()}
        plain = {
            id(owner_of(w.owner))
            for w in watches
            if w.kind == "content" and w.name != OF_TENSOR and id(w.owner) not in self._tensors
        }

        # The body of a loop has captured arrays of its own.
        captured = set() if tracer.has_loops else {id(tensor) for tensor in tracer.origins.values()}

        def is_needed(watch: Watch) -> bool:
            if watch.kind == "slot" and watch.name == "_array" and id(watch.owner) in captured:
                return id(owner_of(watch.value)) in exposed  # else read in each call
            if watch.kind != "content":
                return watch.place not in replaced
            owner = id(owner_of(watch.owner))
            return owner in exposed or owner in plain

        return list(filter(is_needed, watches))

    def require_no_arrays(self, tracer: Tracer, found: Iterable[Any]) -> None:
        """Refuses a function of tensors that returns what would be an array, or writes to it."""
        if self._has_arrays or not self:
            return
        nodes = [value._array for value in found if isinstance(value, Tensor)]
        nodes = [held.node for held in nodes if isinstance(held, TracedArray)]
        if any(value in self for value in found) or any(is_of_arrays(n, tracer) for n in nodes):
            raise TraceError("a result is computed from captured arrays alone")
        if any(is_of_arrays(node, own) for own, node in _written_nodes(tracer)):
            raise TraceError("it writes to what it computes from captured arrays alone")

    def require_hidden(self, tracer: Tracer, gradients: Gradients | None) -> None:
        """Refuses graphs that would need arrays, and not tensors, with a version and memory."""
        if self._has_arrays and self and gradients is not None and gradients.results:
            raise TraceError("results that require grad, of captured arrays")
        if self.inputs and tracer.has_loops:  # whose body has captured arrays of its own
            raise TraceError("a captured array that is replaced between calls, with a loop")
        for watch, *_ in self.inputs:
            if id(root_of(watch.value)) in tracer.exposed:
                raise TraceError("numpy() of a captured array that is replaced between calls")


def _written_nodes(tracer: Tracer) -> Iterator[tuple[Tracer, Node]]:
    """The values that a graph, or that of a loop in it, writes to, each with its tracer."""
    for node in tracer.graph.find_nodes(op="call_function"):
        if isinstance(node.target, LoopCall):
            yield from _written_nodes(node.target.body.tracer)
        schema = getattr(node.target, "schema", None)
        if schema is not None and schema.is_mutable:
            names = [argument.name for argument in schema.arguments.flat_positional]
            values = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
            for argument in schema.arguments.flat_all:
                if argument.is_write:
                    yield from ((tracer, n) for n in nodes_in(values.get(argument.name)))


def _is_open(watch: Watch) -> bool:
    """Whether a place can hold a tensor: user code reads it, and it can be set."""
    return watch.kind in SETTABLE and not issubclass(type(watch.owner), Tensor)


def _is_builtin(watch: Watch) -> bool:
    """Whether a module has a function of Python's, which reads classes, under no other meaning."""
    is_name = watch.kind == "item" and watch.value is EMPTY and "__builtins__" in watch.owner
    return is_name and watch.name in FUNCTIONS_OF_CLASSES


def _arrays_in(value: Any) -> Iterator[Any]:
    """The plain arrays that a place holds: one, or those in a tuple."""
    if type(value) is np.ndarray:
        if value.dtype.kind in "biufc" and value.dtype.isnative:
            yield value
    elif issubclass(type(value), tuple):
        for item in value:
            yield from _arrays_in(item)


def _are_alike(now: Any, before: Any) -> bool:
    kinds = type(now) is np.ndarray and type(before) is np.ndarray
    return kinds and (now.shape, now.dtype) == (before.shape, before.dtype)


def _is_inherited(watch: Watch) -> bool:
    """Whether a class has its attribute from another class."""
    return watch.kind == "class" and watch.name not in watch.owner.__dict__
