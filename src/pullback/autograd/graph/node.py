"""Nodes: recorded operations, with their edges and saved values.

An edge says where a gradient flows: a node, which means its first output, or an ``Output``; None
where no gradient is needed. ``_edges`` has one for each differentiable input. ``_output_metadata``
describes the forward result, so that cotangents can be checked and summed to it. All these names
begin with an underscore because nodes of user functions are also their ``ctx``, where users keep
what they like; and generated nodes have the arguments that they save beside them.

Python's garbage collector looks at every object of a graph again and again while it grows, so an
operation leaves as few as possible, and small ones: generated nodes have their edges in slots,
without a tuple, and all that is mostly the same for many nodes is one tuple, which they share.

A saved value is a bare array where that is all that has to be kept: of the node's own result, or of
an input that is a result of the node behind an edge. The counter of its versions begins with the
first view, ``detach`` or write, and is stored in the node of the result.

Generated nodes are subclasses with a slot for every saved value and one method, ``backward(xp,
grad)``, whose `xp` is a namespace: raw array functions, or operators on tensors when the backward
pass itself is to be differentiated. What users may do with a node beyond its names (call it, hook
it, read its saved values) is attached in ``node_methods.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias, final, overload

from numpy.typing import NDArray

from pullback.autograd.graph.output_metadata import (
    FURTHER_OUTPUT,
    DType,
    NodeHooks,
    OutputExtras,
    OutputMetadata,
    Shape,
    VersionCounter,
    intern_metadata,
)
from pullback.errors import GraphFreedError
from pullback.interrupts import VariableGuard
from pullback.tensor.tensor import COUNTING, Tensor

__all__ = [
    "FREED",
    "LEAF_SEQUENCE_NUMBER",
    "Edge",
    "ManyEdges",
    "Node",
    "OneEdge",
    "OperatorNode",
    "Output",
    "OwnedNumber",
    "TwoEdges",
    "UnpackedEdge",
    "describe",
    "describe_all",
    "edge_to",
    "freed_error",
    "later_threads",
    "next_sequence_number",
    "node_of",
    "numbered_by",
    "output_of",
    "sequence_counter",
    "set_traits",
    "unpack_edge",
]


def describe(node: Node, shape: Shape | None, dtype: DType | None) -> None:
    """Sets the metadata of a node's only output; its extras stay."""
    extras = node._output_metadata.extras
    if extras is None:
        node._output_metadata = intern_metadata(shape, dtype)
    else:
        node._output_metadata = OutputMetadata(shape, dtype, extras)


def describe_all(node: Node, outputs: Sequence[Tensor | NDArray[Any] | None]) -> None:
    """Sets the metadata of all outputs of a node; None is an output that is no tensor."""
    if len(outputs) == 1:
        held = outputs[0]._array if type(outputs[0]) is Tensor else outputs[0]
        describe(node, None if held is None else held.shape, None if held is None else held.dtype)
        return
    described = [
        intern_metadata(None, None) if o is None else intern_metadata(o.shape, o.dtype)
        for o in outputs
    ]
    extras = node._output_metadata.extras
    node._output_metadata = OutputMetadata(None, None, extras, outputs=tuple(described))


@final
class Output:
    """The edge to an output of a node that is not its first."""

    __slots__ = ("node", "number")

    _is_single: ClassVar[bool] = False
    _arity: ClassVar[int] = 0
    _output_metadata: ClassVar[OutputMetadata] = FURTHER_OUTPUT

    def __init__(self, node: Node, number: int):
        self.node = node
        self.number = number

    def shared_counter(self, counter: VersionCounter) -> VersionCounter:
        """As that of the node, for this output."""
        return self.node.shared_counter(counter, self.number)

    def __eq__(self, other: object) -> bool:
        return type(other) is Output and self.node is other.node and self.number == other.number

    def __hash__(self) -> int:
        return hash((self.node, self.number))


Edge: TypeAlias = "Node | Output | None"
UnpackedEdge: TypeAlias = "tuple[Node | None, int]"


def edge_to(node: Node, number: int) -> Node | Output:
    """The edge to an output of a node."""
    return Output(node, number) if number else node


@overload
def unpack_edge(edge: Node | Output) -> tuple[Node, int]: ...
@overload
def unpack_edge(edge: Edge) -> UnpackedEdge: ...
def unpack_edge(edge: Edge) -> UnpackedEdge:
    """The node that an edge leads to, and which of its outputs."""
    return (edge.node, edge.number) if type(edge) is Output else (edge, 0)


def node_of(edge: Edge) -> Node | None:
    """The node that an edge leads to."""
    return edge.node if type(edge) is Output else edge


LEAF_SEQUENCE_NUMBER = 2**64 - 1
"""That of every accumulation node, which runs as soon as its cotangents have arrived."""

_threads = itertools.count()  # of the threads that have recorded anything
later_threads: list[int] = []
"""All but the first such thread. While it is empty, sequence numbers alone order the nodes."""


def _start_counter() -> int:
    """Starts the sequence numbers of this thread; returns the first."""
    thread = next(_threads)
    if thread:
        later_threads.append(thread)
    counter = itertools.count().__next__
    _counter.set(counter)
    return counter()


_counter: ContextVar[Callable[[], int]] = ContextVar("pullback_sequence", default=_start_counter)
sequence_counter = _counter.get
"""``sequence_counter()()`` is ``next_sequence_number()`` in two calls into C, for hot paths."""


def next_sequence_number() -> int:
    """The sequence number of the next node that this thread records."""
    return _counter.get()()


class OwnedNumber(int):
    """A sequence number with the owner of the block in which its node was recorded."""

    owner: Any


def numbered_by(owner: Any) -> VariableGuard[Callable[[], int]]:
    """A block whose nodes have an ``OwnedNumber`` with this owner."""
    counter = _counter.get()
    if counter is _start_counter:
        counter()
        counter = _counter.get()

    def owned() -> int:
        number = OwnedNumber(counter())
        number.owner = owner
        return number

    return VariableGuard(_counter, owned)


class _Freed:
    """Stands in every slot of saved values once they have been released."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = _Freed()


class Node:
    """One recorded operation; what ``tensor.grad_fn`` shows.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0], requires_grad=True)
    >>> node = pb.sin(x).grad_fn
    >>> node.name(), isinstance(node, pb.autograd.graph.Node)
    ('SinBackward0', True)
    """

    __slots__ = ("_seq", "_output_metadata")

    # Slots with saved values, and of those the ones that hold tensors; set by generated classes.
    _saves: ClassVar[tuple[str, ...]] = ()
    _saves_tensors: ClassVar[tuple[str, ...]] = ()
    _saves_results: ClassVar[tuple[str, ...]] = ()  # those that hold the only result
    # The inputs in the order of the edges, where one may be saved as a bare array.
    _inputs: ClassVar[tuple[str, ...]] = ()
    _edge_names: ClassVar[tuple[str, ...]] = ()  # all of them, if none is a list of tensors
    _arity: ClassVar[int] = 0  # how many edges have a slot of their own; if none, see ``_edges``
    _outputs: ClassVar[int] = 1
    _is_plain: ClassVar[bool] = False  # whether ``run`` needs nothing but the gradient
    # Whether there is always one output, so that ``_output_metadata`` is that of a gradient.
    _is_single: ClassVar[bool] = True
    # Whether what ``run`` returns has the shape and dtype of the gradient that it got.
    _is_exact: ClassVar[bool] = False
    # Whether each has the shape and dtype of the result where an edge leads to the same ones.
    _is_alike: ClassVar[bool] = False
    # Whether every gradient that ``run`` returns is a new array, which no other object holds.
    _makes_new: ClassVar[bool] = False
    # Whether nothing stands against ``run``: that it calls no code of the user's, nor has a way of
    # its own, ``run_on``, for passes that let it see the other gradients on their way.
    _is_direct: ClassVar[bool] = False
    _sees_buffers: ClassVar[bool] = False
    _traits: ClassVar[tuple[Any, ...]]  # what the engine reads of every class, see ``set_traits``
    # Whether it hands its gradient on as it is, or negated, summed to the shape of an operand.
    _only_sums: ClassVar[bool] = False
    # Whether it is a write that leaves nothing of the old value, whose gradient then is zero.
    _erases: ClassVar[bool] = False
    # Operators narrow a complex gradient to a real input by themselves; user code must do it.
    _narrows: ClassVar[bool] = True
    _origin: ClassVar[str] = ""  # for errors: where a formula that is user code comes from
    _operator: ClassVar[str] = ""  # the operator that an `OperatorNode` records

    _edges: tuple[Edge, ...]
    _edge0: Edge
    _edge1: Edge
    _seq: int
    _output_metadata: OutputMetadata

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:
        """The gradients of the inputs, one for each edge; None where an edge leads nowhere."""
        raise NotImplementedError(f"{self.name()} has no backward")

    def run(self, xp: Any, grad: Any, keep: bool) -> tuple[Any, ...]:
        """``backward`` on raw arrays, as the engine calls it; releases saved values unless `keep`.

        Generated nodes have the formula once more in this form, with what is saved read in line.
        `grad` is a list where a node has several outputs.
        """
        results = self.backward(xp, grad) if self._outputs == 1 else self.backward(xp, *grad)
        if not keep:
            self.release()
        return results

    def release(self) -> None:
        """Lets go of the saved values; a second backward through them then raises."""

    def name(self) -> str:
        """The node's name, for example ``"MulBackward0"``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[UnpackedEdge, ...]:
        """The nodes that this node's gradients flow to, with the output that each one is for."""
        return tuple([unpack_edge(edge) for edge in self._edges])

    def shared_counter(self, counter: VersionCounter, number: int = 0) -> VersionCounter:
        """The version counter of an output: the given one, unless the output has one already.

        A node that has saved the output as a bare array finds it here. The caller holds the lock
        ``COUNTING``, or no other thread has the output yet.
        """
        return self.make_extras().version_counters.setdefault(number, counter)

    def make_extras(self) -> OutputExtras:
        """The extras of the node's outputs, made if it has none yet; under the same condition."""
        metadata = self._output_metadata
        extras = metadata.extras
        if extras is None:
            extras = OutputExtras()
            self._output_metadata = OutputMetadata(
                metadata.shape, metadata.dtype, extras, outputs=metadata.outputs
            )
        return extras

    @property
    def _hooks(self) -> NodeHooks | None:
        return self._output_metadata.hooks

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for anything that users want to keep with the node."""
        return self.make_hooks().metadata

    def make_hooks(self) -> NodeHooks:
        """The node's hooks, made if it has none yet."""
        with COUNTING:
            extras = self.make_extras()
            if extras.hooks is None:
                extras.hooks = NodeHooks()
            return extras.hooks

    def _sequence_nr(self) -> int:
        return self._seq

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class OperatorNode(Node):
    """A node that the generator has made: it calls no code of the user's."""

    __slots__ = ()
    _is_plain: ClassVar[bool] = True
    _is_direct: ClassVar[bool] = True

    # Slots of subclasses for saved tensor arguments, by their places, and for the only result;
    # those of options and of several results have the names that the schema has for them.
    _saved0: Any
    _saved1: Any
    _saved2: Any
    _saved3: Any
    _version0: Any
    _version1: Any
    _version2: Any
    _version3: Any
    _result: Any


class OneEdge(OperatorNode):
    """The node of an operator of one tensor."""

    __slots__ = ("_edge0",)
    _arity: ClassVar[int] = 1

    @property
    def _edges(self) -> tuple[Edge, ...]:
        return (self._edge0,)

    @_edges.setter
    def _edges(self, edges: tuple[Edge, ...]) -> None:
        (self._edge0,) = edges


class TwoEdges(OperatorNode):
    """The node of an operator of two tensors."""

    __slots__ = ("_edge0", "_edge1")
    _arity: ClassVar[int] = 2

    def _set_edges(self, edges: tuple[Edge, ...]) -> None:
        self._edge0, self._edge1 = edges

    _edges = property(attrgetter("_edge0", "_edge1"), _set_edges)  # no call into Python


class ManyEdges(OperatorNode):
    """The node of an operator of more tensors, or of a list of them."""

    __slots__ = ("_edges",)


def set_traits(cls: type[Node]) -> None:
    """Collects the attributes that the engine reads of each node in one tuple.

    The first two are its ``run``, or ``run_on``, where nothing stands against calling them; then
    whether its results are exact, alike and new, and how many edges have slots.
    """
    run = cls.run if cls._is_direct else None
    run_on = getattr(cls, "run_on", None) if cls._is_plain else None
    cls._traits = (run, run_on, cls._is_exact, cls._is_alike, cls._makes_new, cls._arity)


def freed_error(node: Node) -> GraphFreedError:
    """The error for a second backward through released values."""
    return GraphFreedError(
        f"{node.name()}: Trying to backward through the graph a second time (or directly access "
        f"saved tensors after they have already been freed). Saved values are freed by .backward() "
        f"and autograd.grad(). Specify retain_graph=True in the first call to keep them."
    )


def output_of(node: Node, number: int) -> tuple[Shape, DType]:
    """Shape and dtype of one output."""
    metadata = node._output_metadata
    if node._outputs != 1:
        metadata = metadata.outputs[number]
    return metadata.shape, metadata.dtype
