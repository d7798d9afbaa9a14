"""Printed form of tensors inside transforms, and of dual tensors: with levels and tangents.

A tensor that depends on inputs of transforms prints as in PyTorch, the innermost transform
outermost::

    GradTrackingTensor(lvl=2, value=
        BatchedTensor(lvl=1, bdim=0, value=
            tensor([[1., 2.], [3., 4.]])
        )
    )

Levels are counted from the outermost active transform of the thread. Loaded by ``tensor_data.py``
when such a tensor is first printed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pullback.autograd.forward.tangents import follow_base, tangent_at, tangents_of
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import node_of
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import TransformLevel, current_level, process_levels
from pullback.tensor.batched import BatchedArray
from pullback.tensor.levels import active_numbers
from pullback.tensor.payload import Payload
from pullback.tensor.repr import render
from pullback.tensor.tensor import Tensor

__all__ = ["render_with_levels"]


def render_with_levels(tensor: Tensor, suffixes: list[str]) -> str:
    """Renders a tensor, with the levels of the transforms that it depends on, or its tangent.

    `suffixes` describe the graph of ``backward`` (``requires_grad=True``); they are left out of a
    tensor that depends on an input of a reverse-mode transform.
    """
    transforms = list(_transforms())
    serials = sorted([level.serial for level in transforms] + list(active_numbers()))
    depth = {serial: place for place, serial in enumerate(serials, 1)}
    followed = _levels_of(tensor, transforms)
    wrappers = {
        level.serial: f"GradTrackingTensor(lvl={depth[level.serial]}, value=" for level in followed
    }
    array = tensor._array
    if isinstance(array, BatchedArray):
        for number in array.levels:
            at = f"lvl={depth[number]}" if number in depth else "of a vmap that has returned"
            wrappers[number] = f"BatchedTensor({at}, bdim=0, value="
        array = array.array
    if any(not level.forward for level in followed):
        suffixes = []
    if process_levels:
        follow_base(tensor)
        tangent = tangent_at(tensor, process_levels[0])
        if tangent is not None:
            suffixes = [*suffixes, f"tangent={tangent!r}"]
    text = repr(array) if isinstance(array, Payload) else render(np.asarray(array), suffixes)
    for serial in sorted(wrappers):
        text = f"{wrappers[serial]}\n    " + text.replace("\n", "\n    ") + "\n)"
    return text


def _transforms() -> Iterator[TransformLevel]:
    """The active transforms of this thread that differentiate, innermost first."""
    level = current_level()
    while level is not None:
        yield level
        level = level._outer


def _levels_of(tensor: Tensor, transforms: list[TransformLevel]) -> list[TransformLevel]:
    """Those transforms whose inputs the tensor depends on."""
    tangents = tangents_of(tensor)
    counters = _input_counters(tensor) if any(not at.forward for at in transforms) else []
    return [
        level
        for level in transforms
        if level in tangents
        or any(counter is taken for taken in level.inputs for counter in counters)
    ]


def _input_counters(tensor: Tensor) -> list[object]:
    """The version counters of the leaves that a tensor was computed from."""
    found: list[object] = []
    seen = set()
    waiting = [node_of(edge_of(tensor))]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad) and node.variable is not None:
            found.append(node.variable._counter)
        waiting += [node_of(edge) for edge in node._edges]
    return found
