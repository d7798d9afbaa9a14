"""Keys of machine code: all that it depends on, before it is written.

The key of a program is a hash of its graphs (operations, operands, attributes, shapes, dtypes, the
bytes of constants, bodies of loops), and of what the emitters read besides: the processor, the
versions of LLVM, NumPy and Python, the library for matrix products, and the source of the compiled
mode. An attribute of an unknown kind raises, so that no two programs have one key because a
difference between them was not looked at.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pullback.compiled.lowering.ir import Graph, Loop, Node

__all__ = ["graph_digest", "has_product", "source_digest"]

_PLAIN = (str, int, float, complex, bool, type(None))


def graph_digest(graphs: Iterable[Graph]) -> str:
    """The hash of some graphs, as a text.

    >>> graph = Graph()
    >>> graph.outputs = [graph.add("elementwise", [graph.const(1.0)], ("sin",))]
    >>> len(graph_digest([graph])), graph_digest([graph]) == graph_digest([Graph()])
    (64, False)
    """
    found = hashlib.sha256()
    for graph in graphs:
        _add_graph(found, graph)
    return found.hexdigest()


def _add_graph(found: Any, graph: Graph) -> None:
    """Adds a graph to a hash; numbers of nodes are their places in ``graph.nodes``."""
    for node in graph.nodes:
        found.update(_node_text(node).encode())
        if node.value is not None:
            found.update(np.ascontiguousarray(node.value).tobytes())
    ends = [[n.id for n in nodes] for nodes in (graph.outputs, graph.checks, graph.effects)]
    found.update(f"end {len(graph.nodes)} {ends}\n".encode())


def _node_text(node: Node) -> str:
    operands = [n.id for n in node.inputs]
    attrs = [_attribute_text(attr) for attr in node.attrs]
    return f"{node.id} {node.op} {operands} {attrs} {node.shape} {node.dtype.char}\n"


def _attribute_text(attr: Any) -> str:
    """An attribute as a text, which differs for different ones."""
    if isinstance(attr, Loop):
        return f"Loop {attr.length} {attr.carried} {graph_digest([attr.body])}"
    if isinstance(attr, tuple):
        return f"({','.join(map(_attribute_text, attr))})"
    if isinstance(attr, np.integer):
        attr = int(attr)
    if type(attr) not in _PLAIN:
        raise TypeError(f"an attribute of type {type(attr).__name__} has no text for a key")
    return repr(attr)


def has_product(graph: Graph) -> bool:
    """Whether a graph, or the body of a loop in it, has a product of matrices."""
    return any(
        node.op == "matmul" or (node.op == "loop" and has_product(node.attrs[0].body))
        for node in graph.nodes
    )


@functools.cache
def source_digest() -> str:
    """The hash of the modules of the compiled mode; empty where their source is not there."""
    folder = Path(__file__).parents[1]
    found = hashlib.sha256()
    paths = sorted(folder.rglob("*.py"))
    for path in paths:
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder)} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest() if paths else ""
