"""Nodes: the recorded operations. A node knows its edges, its saved values and nothing else.

``_edges`` has one ``(node, output number)`` pair for each differentiable input, ``(None, 0)`` where
that input needs no gradient. ``_shape`` and ``_dtype`` describe the forward result, so that what
flows back can be checked and summed to it; nodes with several outputs have tuples of them. All
these names begin with an underscore because nodes of user functions are also their ``ctx``, where
users keep what they like; and generated nodes have the arguments that they save beside them.

Generated nodes are subclasses with a slot for every saved value and one method, ``backward(xp,
grad)``, whose `xp` is a namespace: raw array functions, or operators on tensors when the backward
pass itself is to be differentiated. What users may do with a node beyond its names (call it, hook
it, read its saved values) is attached in ``node_methods.py``.
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any, ClassVar

from pullback.errors import GraphFreedError

__all__ = [
    "FREED",
    "LAST",
    "NO_EDGE",
    "Edge",
    "HookLists",
    "Node",
    "freed_error",
    "get_counter",
    "next_sequence_number",
]

Edge = tuple["Node | None", int]
NO_EDGE: Edge = (None, 0)

LAST = 2**64 - 1  # the sequence number of accumulation nodes, which run as soon as they can

_counter: ContextVar[itertools.count[int] | None] = ContextVar("pullback_sequence", default=None)
get_counter = _counter.get


def next_sequence_number() -> int:
    """The number of the next node that this thread records."""
    counter = _counter.get()
    if counter is None:
        counter = itertools.count()
        _counter.set(counter)
    return next(counter)


class HookLists:
    """The hooks of one node. Tensor hooks belong to one output, the others to the node."""

    __slots__ = ("post", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Any]] = {}  # output number -> hooks
        self.retained: dict[int, Any] = {}  # output number -> writer of a retained gradient
        self.pre: dict[int, Any] = {}
        self.post: dict[int, Any] = {}


class _Freed:
    """Stands in every slot of saved values once they have been released."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = _Freed()


class Node:
    """One recorded operation; what ``tensor.grad_fn`` shows."""

    __slots__ = ("_edges", "_seq", "_shape", "_dtype", "_hooks", "_metadata", "__weakref__")

    # Slots with saved values, and of those the ones that hold tensors; set by generated classes.
    _saves: ClassVar[tuple[str, ...]] = ()
    _saves_tensors: ClassVar[tuple[str, ...]] = ()
    _outputs: ClassVar[int] = 1
    leaf_hooks: ClassVar[Any] = None  # what an accumulation node finds on its leaf
    # Operators narrow a complex gradient to a real input by themselves; user code must do it.
    _narrows: ClassVar[bool] = True

    _edges: tuple[Edge, ...]
    _seq: int
    _shape: Any
    _dtype: Any
    _hooks: HookLists | None
    _metadata: dict[str, Any] | None

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:
        """The gradients of the inputs, one for each edge; None where an edge leads nowhere."""
        raise NotImplementedError(f"{self.name()} has no backward")

    def release(self) -> None:
        """Lets go of the saved values; a second backward through them then raises."""

    def name(self) -> str:
        """The node's name, for example ``"MulBackward0"``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The nodes that this node's gradients flow to, with the output that each one is for."""
        return self._edges

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for anything that users want to keep with the node."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def hook_lists(self) -> HookLists:
        """The node's hooks, made if it has none yet."""
        if self._hooks is None:
            self._hooks = HookLists()
        return self._hooks

    def _sequence_nr(self) -> int:
        return self._seq

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def freed_error(node: Node) -> GraphFreedError:
    """The error for a second backward through released values."""
    return GraphFreedError(
        f"{node.name()}: Trying to backward through the graph a second time (or directly access "
        f"saved tensors after they have been freed). Saved values are freed by .backward() and "
        f"autograd.grad(); say retain_graph=True in the first call to keep them."
    )
