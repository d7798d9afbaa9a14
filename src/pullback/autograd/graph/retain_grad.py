"""``retain_grad``: a tensor in the middle of the graph that keeps its gradient.

The writer belongs to the tensor's node and runs after the tensor's hooks. It has only a weak
reference to the tensor's rare state, so that a graph does not keep its results alive.

One pass for a batch of gradients (``grad`` with ``is_grads_batched=True``) stands for a loop of
passes, each of which would add to ``grad``. So the tensor gets the sum over the batch. (PyTorch
leaves a batched tensor there, which no operation accepts.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import unpack_edge
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.levels import forbid_in_transform
from pullback.autograd.namespaces import Namespace, tensors
from pullback.errors import AutogradError
from pullback.tensor.levels import RowLevel, active_levels
from pullback.tensor.meta import Meta
from pullback.tensor.tensor import TRACES, Tensor, meta_of, note_hook

__all__ = ["retain_grad"]


def retain_grad(tensor: Tensor) -> None:
    """Has ``grad`` filled for a tensor that is not a leaf.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 2
    >>> y.retain_grad()
    >>> (y * y).sum().backward()
    >>> y.grad.tolist()
    [4.0, 8.0]
    """
    if TRACES:
        note_hook(tensor)
    forbid_in_transform("Tensor.retain_grad()", "register_hook() can hand out the gradient")
    if not requires_grad(tensor):
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
    meta = meta_of(tensor)
    if meta.retains_grad:  # the writer follows a view at its next use
        return
    node, number = unpack_edge(edge_of(tensor))
    if node is None or isinstance(node, AccumulateGrad):
        return
    meta.retains_grad = True
    node.make_hooks().retained[number] = _writer(meta, getattr(tensor.shape, "levels", ()))


def _writer(meta: Meta, levels: tuple[int, ...]) -> Callable[[Any, Any], None]:
    """Writes the gradient of a tensor that varies with `levels`."""
    reference = ref(meta)

    def keep(xp: Namespace, gradient: Any) -> None:
        alive = reference()
        if gradient is None or alive is None:
            return
        for level in active_levels():
            if isinstance(level, RowLevel) and level.number not in levels:
                rows = xp.to_tensor(gradient)
                gradient = xp.from_tensor(tensors.sum_over_level(rows, level.number, level.size))
        if alive.grad is not None:
            gradient = xp.add(xp.from_tensor(alive.grad), gradient)
        else:
            gradient = xp.clone(gradient)  # what flows on belongs to the pass
        alive.grad = xp.to_tensor(gradient)

    return keep
