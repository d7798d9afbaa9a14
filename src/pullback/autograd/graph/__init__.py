"""The graph: nodes, edges, saved values and hooks; public names as in ``torch.autograd.graph``.

The modules of this folder hold the graph's parts; the names below are loaded when they are first
used, because the engine and the recorder import single modules of this folder.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
    from pullback.autograd.graph.current_pass import current_graph_task_id, queue_callback
    from pullback.autograd.graph.gradient_edge import GradientEdge, get_gradient_edge
    from pullback.autograd.graph.multi_grad_hook import register_multi_grad_hook
    from pullback.autograd.graph.node import Node
    from pullback.autograd.graph.node_methods import SavedTensor
    from pullback.autograd.graph.saved_hooks import (
        disable_saved_tensors_hooks,
        save_on_cpu,
        saved_tensors_hooks,
    )
    from pullback.autograd.graph.saved_mutation import allow_mutation_on_saved_tensors
    from pullback.autograd.graph.version_counters import (
        _unsafe_preserve_version_counter,  # noqa: F401 - PyTorch has it here
        increment_version,
    )
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.autograd.graph.current_pass": ["current_graph_task_id", "queue_callback"],
            "pullback.autograd.graph.gradient_edge": ["GradientEdge", "get_gradient_edge"],
            "pullback.autograd.graph.multi_grad_hook": ["register_multi_grad_hook"],
            "pullback.autograd.graph.node": ["Node"],
            "pullback.autograd.graph.node_methods": ["SavedTensor"],
            "pullback.autograd.graph.saved_hooks": [
                "disable_saved_tensors_hooks",
                "save_on_cpu",
                "saved_tensors_hooks",
            ],
            "pullback.autograd.graph.saved_mutation": ["allow_mutation_on_saved_tensors"],
            "pullback.autograd.graph.version_counters": [
                "_unsafe_preserve_version_counter",
                "increment_version",
            ],
        },
    )

__all__ = [
    "GradientEdge",
    "Node",
    "SavedTensor",
    "allow_mutation_on_saved_tensors",
    "current_graph_task_id",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
