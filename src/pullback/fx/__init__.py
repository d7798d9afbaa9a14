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
    from pullback.fx.interpreter import Interpreter
    from pullback.fx.node import Node
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.fx": ["experimental"],
            "pullback.fx.graph": ["Graph"],
            "pullback.fx.graph_module": ["GraphModule"],
            "pullback.fx.interpreter": ["Interpreter"],
            "pullback.fx.node": ["Node"],
        },
    )

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "experimental"]
