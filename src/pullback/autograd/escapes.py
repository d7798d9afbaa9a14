"""The end of a transform: values that have escaped from its function become constants.

    mean = [pb.tensor(0.0)]

    def loss(w):
        h = w * w
        mean[0] = 0.9 * mean[0] + 0.1 * h.mean()      # alive after the transform, with its history
        return h.sum()

Nobody keeps a list of a graph's tensors. But an input's node dies with the last node that leads to
it, so where it is dead after the graph has been let go, nothing has escaped; this is all that is
asked after an ordinary call. Otherwise the tensors are looked for among the objects that Python's
garbage collector knows, youngest first, until the node is dead. An interpreter that frees objects
later only looks more often.

A function that was left by an exception has the same end. Where a pullback keeps the graph, escaped
tensors are made constants when somebody asks (``view.settle``); if many such graphs are alive, all
of them at once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from pullback.autograd.accumulate import AccumulateGrad, ended, judge, note_ended
from pullback.autograd.level import current_level
from pullback.autograd.node import Node, node_of
from pullback.autograd.view import make_constant, view_of
from pullback.tensor.levels import active_levels
from pullback.tensor.tensor import Tensor

__all__ = ["end_inputs", "hold_inputs", "pending"]

_FEW = 64  # inputs of ended transforms that may be alive before all tensors are looked through
_limit = [_FEW]
pending: set[int] = set()  # keys of ``ended`` whose graphs nobody is to hold


def end_inputs(inputs: Iterable[Tensor]) -> None:
    """Called when a transform has let go of its graph: what is left of it becomes constant.

    `inputs` are the leaves that the function got.
    """
    for tensor in inputs:
        node = _accumulator(tensor)
        if node is not None:
            note_ended(node)
            pending.add(id(node))
    node = None  # nothing of the graph may be held by this frame
    # Inside another transform all of it is looked for at once, when the outermost one ends.
    if pending and not _is_inside():
        _look_for_tensors()


def hold_inputs(inputs: Iterable[Tensor]) -> None:
    """Called when a transform ends whose graph will be needed again."""
    for tensor in inputs:
        node = _accumulator(tensor)
        if node is not None:
            note_ended(node)
    if len(ended) > _limit[0] and not _is_inside():
        pending.update(ended)
        _look_for_tensors()
        _limit[0] = _FEW + 2 * len(ended)


def _is_inside() -> bool:
    return current_level() is not None or bool(active_levels())


def _accumulator(tensor: Tensor) -> AccumulateGrad | None:
    meta = tensor._meta
    node = None if meta is None or meta.accumulator is None else meta.accumulator()
    return node if type(node) is AccumulateGrad else None


def _look_for_tensors() -> None:
    """Makes constants of tensors whose history has ended, until nothing holds it any more."""
    for generation in range(3):
        if pending.isdisjoint(ended):
            break
        _settle(gc.get_objects(generation))
    pending.clear()


def _settle(objects: list[Any]) -> None:
    """Makes constants of those objects that are tensors with a history that has ended."""
    verdicts: dict[Node, bool] = {}
    found = [each for each in objects if type(each) is Tensor]
    objects.clear()
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
