"""``AccumulateGrad``, the node of a leaf, at which gradients end, and the edges that lead to it.

Also the inputs of transforms that have ended (`ended`) while something still holds their graph: a
pullback (``func.vjp``), which needs the graph again, or a tensor that the function stored in a list
it captured. Such a tensor is a constant from then on, since its history leads to no other leaf.
``escapes.py`` registers these inputs, ``view.settle`` makes constants of tensors that lead only to
them, and backward passes leave out the nodes that lead only to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from threading import Lock
from typing import Any, ClassVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.node import (
    LEAF_SEQUENCE_NUMBER,
    Edge,
    Node,
    Output,
    later_threads,
    node_of,
)
from pullback.autograd.graph.output_metadata import (
    FLOAT64,
    FLOAT64_METADATA,
    OutputMetadata,
    copy_metadata,
    intern_metadata,
)
from pullback.autograd.graph.payload_nodes import mark
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import AutogradError
from pullback.tensor.meta import OWN, Meta
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import TRACES, Tensor, meta_of, note_grad

__all__ = [
    "AccumulateGrad",
    "OutdatedAccumulateGrad",
    "ended",
    "find_ends",
    "judge",
    "leads_on",
    "leaf_edge",
    "living_nodes",
    "note_ended",
    "outdate_metadata",
    "reaches_ended",
]

_ndarray = np.ndarray
_lock = Lock()  # one leaf may get its node from several threads, and its gradient


class AccumulateGrad(Node):
    """Adds what arrives to the gradient of one leaf.

    It holds the leaf; the leaf holds it weakly, so that a graph dies with its last user.
    """

    __slots__ = ("variable", "__weakref__")
    _edges: tuple[Edge, ...] = ()
    _saves: ClassVar[tuple[str, ...]] = ("variable",)
    _is_single: ClassVar[bool] = False  # ``grad_dtype`` may ask for another dtype
    variable: Tensor

    def __init__(self, variable: Tensor):
        self.variable = variable
        self._seq = LEAF_SEQUENCE_NUMBER
        array = variable._array
        wanted = OWN if variable._meta is None else variable._meta.grad_dtype
        dtype = array.dtype
        if type(array) is _ndarray and dtype is FLOAT64 and wanted is OWN:
            try:  # without a call, as most leaves are alike
                self._output_metadata = FLOAT64_METADATA[array.shape]
            except KeyError:
                self._output_metadata = intern_metadata(array.shape, dtype)
            return
        self._output_metadata = intern_metadata(array.shape, dtype)
        if wanted is not OWN:  # metadata of the gradient, not of the leaf
            self._output_metadata = OutputMetadata(array.shape, wanted)
        if isinstance(array, Payload):
            mark(self)

    @property
    def is_watched(self) -> bool:
        """Whether the node or its leaf has hooks."""
        extras = self._output_metadata.extras
        if extras is not None and extras.hooks is not None:
            return True
        meta = self.variable._meta
        return meta is not None and bool(meta.hooks or meta.accumulator_hooks)

    def release(self) -> None:
        """A leaf is no saved value: nothing to let go of."""

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:
        """Adds the gradient to ``variable.grad``."""
        (grad,) = grads
        return self.accumulate(xp, grad, False)

    def accumulate(self, xp: Any, grad: Any, is_owned: bool) -> tuple[Any, ...]:
        """Adds a gradient; with `is_owned`, it may become ``variable.grad`` without a copy."""
        variable = self.variable
        if grad is None or not variable._flags & REQUIRES_GRAD:
            return ()
        if variable._edge is not None:
            raise AutogradError(
                "AccumulateGrad: a leaf tensor has been moved into the graph interior: it was "
                "modified in place by a recorded operation after it had been used"
            )
        meta = variable._meta or meta_of(variable)
        if TRACES:
            note_grad(variable, reads=True)
        with _lock:
            xp.accumulate(meta, variable, grad, is_owned)
        return ()


class OutdatedAccumulateGrad(AccumulateGrad):
    """The accumulator of a leaf that has got another shape since: ``x.data = y``, ``x.t_()``."""

    __slots__ = ()

    def accumulate(self, xp: Any, grad: Any, is_owned: bool) -> tuple[Any, ...]:
        """Adds a gradient if it differs from the leaf by axes of length one only."""
        shape = self.variable.shape
        if grad is not None and grad.shape != shape:
            if [n for n in grad.shape if n != 1] != [n for n in shape if n != 1]:
                raise AutogradError(
                    f"AccumulateGrad: a gradient of shape {list(grad.shape)} arrives at a leaf "
                    f"that has shape {list(shape)} now; it was used before its shape changed. "
                    f"Compute the loss again."
                )
            grad = xp.reshape(grad, list(shape))
        return super().accumulate(xp, grad, is_owned)


def leaf_edge(tensor: Tensor) -> Edge:
    """The edge of a tensor without history: to its accumulator, or nowhere."""
    if not tensor._flags & REQUIRES_GRAD:
        return None
    meta = tensor._meta
    if meta is None:
        meta = tensor._meta = Meta()
    with _lock:
        node = None if meta.accumulator is None else meta.accumulator()
        if node is None:
            node = AccumulateGrad(tensor)
            meta.accumulator = ref(node)
    return node


def outdate_metadata(leaf: Tensor, array: NDArray[Any]) -> None:
    """Before a leaf gets another array: the metadata of its accumulator is no longer that of it."""
    meta = leaf._meta
    node = None if meta is None or meta.accumulator is None else meta.accumulator()
    if node is None:
        return
    node._output_metadata = copy_metadata(node._output_metadata)
    if type(node) is AccumulateGrad and array.shape != leaf.shape:
        node.__class__ = OutdatedAccumulateGrad


# --- inputs of transforms that have ended --------------------------------------------------------

ended: dict[int, ref[AccumulateGrad]] = {}
"""The nodes of such inputs, by ``id``; a node that is freed removes itself. Empty in nearly all
programs, so that hot paths test only whether it is."""

_MAX_VERDICTS = 4096
_leading: list[set[int]] = [set()]
"""Sequence numbers of nodes for which `leads_on` returned True, since the last `note_ended`.

A program that reads ``requires_grad`` after each of many operations walks through each operation
once. The set holds numbers, because it must not keep nodes alive. They identify nodes only while
one thread records (``later_threads``); otherwise they are not used.
"""


def note_ended(node: AccumulateGrad) -> None:
    """Registers in `ended` that the transform of an input has ended."""
    key = id(node)
    # Called as ``ended.pop(key, reference)``: a callback in C, since an interrupt that arrives in
    # a callback written in Python would be lost.
    ended[key] = ref(node, partial(ended.pop, key))
    _leading[0] = set()  # after the registration: a `leads_on` that began before has the old set


def leads_on(node: Node) -> bool:
    """Whether a node leads to anything else than inputs of transforms that have ended.

    As `judge`, but for one node, and stops at the first that leads elsewhere.
    """
    leading, number = _leading[0], node._seq
    stack, seen, has_ended = [node], {node}, False
    while stack:
        node = stack.pop()
        if id(node) in ended:
            has_ended = True
            continue
        behind = [target for target in map(node_of, node._edges) if target is not None]
        if not behind or (node._seq in leading and not later_threads):
            if number != LEAF_SEQUENCE_NUMBER and len(leading) < _MAX_VERDICTS:
                leading.add(number)
            return True
        for target in behind:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return not has_ended


def judge(root: Node, verdicts: dict[Node, bool]) -> None:
    """Writes to `verdicts`, for a node and all nodes behind it, what `leads_on` returns of them."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in verdicts:
            stack.pop()
            continue
        has_ended = id(node) in ended
        edges = () if has_ended else node._edges
        behind = [target for target in map(node_of, edges) if target is not None]
        waiting = [target for target in behind if target not in verdicts]
        if waiting:
            stack.extend(waiting)
            continue
        verdicts[node] = any(verdicts[t] for t in behind) if behind else not has_ended
        stack.pop()


def find_ends(roots: Iterable[Node]) -> set[Node]:
    """The nodes behind some roots that lead nowhere: leaves.

    A pass for some inputs, and any pass while a pullback is alive, begins with it. Nodes with edges
    in slots have branches of their own, which takes two thirds of the time: 145 ns a node, of 1,400
    ns for running it.
    """
    stack: list[Any] = list(roots)
    seen: set[Any] = {None, *stack}
    ends: set[Node] = set()
    while stack:
        node = stack.pop()
        arity = node._arity
        if arity == 2:
            target, other = node._edge0, node._edge1
            if target is None:
                target = other
            elif other not in seen:
                seen.add(other)
                stack.append(other)
        elif arity:
            target = node._edge0
        else:
            targets = {node.node} if type(node) is Output else {*node._edges}
            if not targets or targets == {None}:
                ends.add(node)
            stack += targets - seen
            seen |= targets
            continue
        if target not in seen:
            seen.add(target)
            stack.append(target)
        elif target is None:
            ends.add(node)
    return ends


def reaches_ended(roots: Iterable[Node]) -> bool:
    """Whether an input of a transform that has ended can be reached; nearly always False."""
    return any(id(node) in ended for node in find_ends(roots))


def living_nodes(roots: Sequence[Node], needed: set[Node] | None) -> set[Node] | None:
    """The needed nodes without those that lead only to inputs of ended transforms.

    None, given or returned, means that all nodes are needed.
    """
    if not reaches_ended(roots):
        return needed
    verdicts: dict[Node, bool] = {}
    for root in roots:
        judge(root, verdicts)
    if all(verdicts.values()):
        return needed
    return {n for n, lives in verdicts.items() if lives and (needed is None or n in needed)}
