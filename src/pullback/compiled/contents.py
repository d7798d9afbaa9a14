"""Captured arrays that a graph reads, and that NumPy may have read, too.

A graph reads a captured array from its own memory in each run, so its elements need no comparison.
NumPy may have read the same array while the function was traced: in ``np.sin(w) * x + w`` the sine
is a constant of the graph, which is right for these elements only. A graph with constants that
NumPy has made keeps the comparison. Where all elements of an array have changed, and the function,
traced again, gives the same graph with the same constants, only the graph reads the array: from
then on its elements are not compared.

An array that the function reaches as a tensor alone is read by operators, and by Python where
``numpy()`` exposes it, or a copy is made. If it is exposed, its elements are always compared; if
not, some changed elements are enough (rows of an embedding change), and a graph without constants
of NumPy compares none, also of arrays that it does not read (the buffers of a BatchNorm in eval()).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback.compiled.watch import HELD, Watch, owners_of_arrays
from pullback.fx.node import Node
from pullback.fx.tracer import Tracer
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import ContentVersion

__all__ = ["Contents"]

_MOST_GRAPHS = 64  # whose arrays are known


class Contents:
    """Choice of the captured arrays of one function whose elements are compared between calls."""

    def __init__(self) -> None:
        self._digests: dict[Any, bytes] = {}  # of the last trace of each signature
        # arrays that NumPy does not read, by id, for each graph: another one may have its constants
        self._only_in_graphs: dict[bytes, dict[int, Any]] = {}
        self._changed: dict[int, Any] = {}  # since the last trace
        self._before: dict[Any, bytes] = {}  # digests of that

    def note_change(self, change: Watch, watches: list[Watch]) -> None:
        """Notes the place whose change is the reason to trace again.

        A training step changes all parameters at once: each array that has changed counts.
        """
        self._changed = _find_changed(watches) if change.kind == "content" else {}
        self._before, self._digests = self._digests, {}

    def choose(
        self, key: Any, watches: list[Watch], tracer: Tracer, outputs: Iterable[Any]
    ) -> list[Watch]:
        """The watches that a graph needs.

        Args:
            key: the signature of the call that was traced.
            watches: all that the function may read.
            tracer: with the graph.
            outputs: nodes and constants that the graph returns.
        """
        exposed = {id(owner_of(root)) for root in tracer.exposed.values()}
        held = {id(owner_of(watch.owner)) for watch in watches if watch.name is HELD}
        read = {id(owner_of(array)) for array in tracer.captured.values()}
        read |= held - _find_plain(watches)
        digest = _digest_constants(tracer, outputs, owners_of_arrays(watches))
        if digest is not None:
            self._digests[key] = digest
            if self._before.get(key) == digest:
                self._learn(digest, exposed)
            read &= self._only_in_graphs.get(digest, {}).keys()
        read -= exposed
        return [w for w in watches if w.kind != "content" or id(owner_of(w.owner)) not in read]

    def _learn(self, digest: bytes, exposed: set[int]) -> None:
        """Notes that the arrays that have changed do not matter for the constants of a graph."""
        if len(self._only_in_graphs) >= _MOST_GRAPHS:
            self._only_in_graphs.clear()
        known = self._only_in_graphs.setdefault(digest, {})
        known.update((p, owner) for p, owner in self._changed.items() if p not in exposed)


def _find_plain(watches: list[Watch]) -> set[int]:
    """The ids of arrays that the function does not reach as tensors alone."""
    return {
        id(owner_of(watch.owner))
        for watch in watches
        if watch.kind == "content" and watch.name is not HELD
    }


def _find_changed(watches: list[Watch]) -> dict[int, Any]:
    """The arrays that have changed, by id; of plain ones those whose elements have all changed."""
    contents = [watch for watch in watches if watch.kind == "content"]
    changed = [watch for watch in contents if watch.has_changed()]
    found = {id(owner_of(watch.owner)): owner_of(watch.owner) for watch in changed}
    for watch in contents:
        if watch.name is not HELD and not _has_changed_wholly(watch):
            found.pop(id(owner_of(watch.owner)), None)
    return found


def _has_changed_wholly(watch: Watch) -> bool:
    return watch.owner.shape == watch.value.shape and bool(np.all(watch.owner != watch.value))


def _digest_constants(tracer: Tracer, outputs: Iterable[Any], outside: set[int]) -> bytes | None:
    """A digest of a graph and of its constants that NumPy may have made; None if it has none."""
    made: list[Any] = [
        array
        for name, array in tracer.captured.items()
        if id(owner_of(array)) not in outside and _is_plain(tracer, name)
    ]
    made += [x for x in outputs if isinstance(x, np.ndarray | np.generic)]
    scalars = [x for node in tracer.graph.nodes for x in node.args if isinstance(x, np.generic)]
    if not made and not scalars:
        return None
    digest = hashlib.blake2b(str(tracer.graph).encode())
    for array in (*made, *(guard.value for guard in tracer.guards)):
        held = np.asarray(array)
        digest.update(f"{held.dtype.str}{held.shape}".encode())
        digest.update(held.tobytes())
    digest.update(repr([x for x in outputs if not isinstance(x, Node | np.ndarray)]).encode())
    return digest.digest()


def _is_plain(tracer: Tracer, name: str) -> bool:
    """Whether a captured value is an array, and not that of a tensor from outside."""
    origin = tracer.origins.get(name)
    return origin is None or type(origin._counter) is ContentVersion
