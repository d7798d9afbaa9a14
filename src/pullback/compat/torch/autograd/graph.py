"""``torch.autograd.graph``: nodes, edges and hooks of saved tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.autograd import graph as _graph
from pullback.autograd.graph import (
    GradientEdge,
    Node,
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
    save_on_cpu,
)
from pullback.compat.torch.tensor import converting

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks(_graph.saved_tensors_hooks):
    """A block in which what nodes save is packed by one function and unpacked by another.

    >>> import pullback.compat.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.size(), torch.ones):
    ...     y = x * x
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]):
        super().__init__(converting(pack_hook), converting(unpack_hook))
