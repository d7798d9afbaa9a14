"""Programs as graphs: what ``make_fx`` records, and how to read, change and run it.

The names are PyTorch's, ``torch.fx``. ``docs/tracing.md`` has examples.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
    from pullback.fx import experimental
    from pullback.fx.graph import Graph
    from pullback.fx.graph_module import GraphModule
    from pullback.fx.interpreter import Interpreter, Transformer
    from pullback.fx.node import Node, map_arg
    from pullback.fx.proxy import Proxy
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.fx": ["experimental"],
            "pullback.fx.graph": ["Graph"],
            "pullback.fx.graph_module": ["GraphModule"],
            "pullback.fx.interpreter": ["Interpreter", "Transformer"],
            "pullback.fx.node": ["Node", "map_arg"],
            "pullback.fx.proxy": ["Proxy"],
        },
    )

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Transformer",
    "experimental",
    "map_arg",
]
