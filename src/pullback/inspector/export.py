"""A graph in the forms of other tools: Graphviz and networkx."""

from __future__ import annotations

from typing import Any

from pullback.errors import MissingPackageError
from pullback.inspector.graph import GraphData, NodeData

__all__ = ["to_dot", "to_networkx"]

_COLORS = {
    "leaf": "#9fd8a4",
    "input": "#9fd8a4",
    "view": "#cfd8ff",
    "write": "#ffc9a8",
    "function": "#e3c8ff",
    "output": "#dddddd",
}


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _label(node: NodeData) -> str:
    shape = " ".join(node.shapes)
    return f"{node.name}\n{shape} {node.dtype}".strip()


def to_dot(graph: GraphData) -> str:
    """Graphviz's language: edges from inputs to results."""
    lines = ["digraph pullback {", "  node [shape=box, style=filled, fontname=sans];"]
    for node in graph.nodes:
        color = _COLORS.get(node.kind, "#f4f4f4")
        line = f", tooltip={_quote(node.line)}" if node.line else ""
        lines.append(
            f"  n{node.id} [label={_quote(_label(node))}, fillcolor={_quote(color)}{line}];"
        )
    for node in graph.nodes:
        lines += [f"  n{source} -> n{node.id};" for source in node.inputs]
    return "\n".join([*lines, "}"]) + "\n"


def to_networkx(graph: GraphData) -> Any:
    """A ``networkx.DiGraph``; nodes have the attributes of the page."""
    try:
        import networkx
    except ImportError:
        raise MissingPackageError("to_networkx needs networkx: pip install networkx") from None
    made = networkx.DiGraph()
    for node in graph.nodes:
        made.add_node(
            node.id,
            name=node.name,
            operator=node.operator,
            kind=node.kind,
            shapes=list(node.shapes),
            dtype=node.dtype,
            line=node.line,
            saved_bytes=sum(value.nbytes for value in node.saved),
            cotangent_norm=node.cotangent_norm,
        )
    made.add_edges_from((source, node.id) for node in graph.nodes for source in node.inputs)
    return made
