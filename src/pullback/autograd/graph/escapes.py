"""The end of a transform: tensors that have escaped from its function become constants.

    mean = [pb.tensor(0.0)]

    def loss(w):
        h = w * w
        mean[0] = 0.9 * mean[0] + 0.1 * h.mean()      # alive after the transform, with its history
        return h.sum()

A graph has no list of its tensors. But the ``AccumulateGrad`` node of an input is freed with the
last node that has an edge leading to it. If all these nodes are freed when the transform releases
its graph, no tensor has escaped; an ordinary call ends with this test. Otherwise the objects that
Python's garbage collector tracks are searched for the escaped tensors, youngest generation first,
until the nodes are freed. Interpreters without reference counting free nodes later, and search
more often. The oldest generation may have millions of objects, and searching it finds nothing if
something else holds the nodes: a ``grad_fn``, or a tensor that depends on a parameter, too. So the
number of searches of it that are skipped doubles with each one that finds nothing.

A function that raised ends in the same way. Where a pullback (``func.vjp``) keeps the graph, or the
search was skipped, an escaped tensor becomes a constant when ``requires_grad`` or ``grad_fn`` is
next read (``view.settle``); if the inputs of many kept graphs are alive, all tensors are searched
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback._cpython import find_objects
from pullback.autograd.graph.accumulate_grad import AccumulateGrad, ended, judge, note_ended
from pullback.autograd.graph.node import Node, node_of
from pullback.autograd.graph.views import make_constant, view_of
from pullback.autograd.levels import current_level
from pullback.tensor.levels import active_levels
from pullback.tensor.tensor import TENSOR_TYPES, Tensor

__all__ = ["end_inputs", "hold_inputs", "pending"]

_MIN_LIMIT = 64
_limit = [_MIN_LIMIT]  # inputs of ended transforms that may be alive before a search
pending: set[int] = set()  # keys of ``ended`` whose graphs only escaped tensors can hold
_OLDEST = 2  # the garbage collector's last generation
_MAX_SKIPS = 1024
_skips = [0, 0]  # searches of the oldest generation to skip after one that found nothing; left now


def end_inputs(inputs: Iterable[Tensor]) -> None:
    """Makes constants of escaped tensors; called when a transform has released its graph.

    `inputs` are the leaves that the function was called with.
    """
    for tensor in inputs:
        node = _accumulator(tensor)
        if node is not None:
            note_ended(node)
            pending.add(id(node))
    node = None  # this frame must not hold the graph
    # Inside another transform the search waits for the end of the outermost one.
    if pending and not _is_in_transform():
        _search_escaped()


def hold_inputs(inputs: Iterable[Tensor]) -> None:
    """Registers the inputs of a transform that has ended, but whose graph a pullback keeps."""
    for tensor in inputs:
        node = _accumulator(tensor)
        if node is not None:
            note_ended(node)
    if len(ended) > _limit[0] and not _is_in_transform():
        pending.update(ended)
        _search_escaped(is_rare=True)
        _limit[0] = _MIN_LIMIT + 2 * len(ended)


def _is_in_transform() -> bool:
    return current_level() is not None or bool(active_levels())


def _accumulator(tensor: Tensor) -> AccumulateGrad | None:
    meta = tensor._meta
    node = None if meta is None or meta.accumulator is None else meta.accumulator()
    return node if type(node) is AccumulateGrad else None


def _search_escaped(is_rare: bool = False) -> None:
    """Makes constants of tensors whose history has ended, until the pending nodes are freed.

    `is_rare` says that the caller limits how often it searches; then no generation is skipped.
    """
    for generation in range(_OLDEST):
        if pending.isdisjoint(ended):
            break
        _make_constants(find_objects(generation))
    if not pending.isdisjoint(ended):
        if is_rare:
            _make_constants(find_objects(_OLDEST))
        elif _skips[1]:
            _skips[1] -= 1
        else:
            has_found = _make_constants(find_objects(_OLDEST))
            _skips[:] = [0 if has_found else min(2 * _skips[0] + 1, _MAX_SKIPS)] * 2
    pending.clear()


def _make_constants(objects: list[Any]) -> bool:
    """Makes constants of those objects that are tensors with a history that has ended.

    Returns whether there were any. `objects` is emptied, because it would keep the graph alive.
    """
    verdicts: dict[Node, bool] = {}
    found = [each for each in objects if type(each) in TENSOR_TYPES]
    objects.clear()
    has_found = False
    for tensor in found:
        try:
            view = view_of(tensor)
            node = node_of(tensor._edge if view is None else view.edge)
            if node is None:
                continue
            if node not in verdicts:
                judge(node, verdicts)
        except AttributeError:  # another thread is making it, and has not set all slots yet
            continue
        if not verdicts[node]:
            make_constant(tensor)
            has_found = True
    return has_found
