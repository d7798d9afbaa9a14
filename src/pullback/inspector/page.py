"""The inspector's page: one HTML document with its data, style and scripts inside.

The data are JSON in a script element that is no program; ``<`` is written as an escape there, so
that no name can end the element. The scripts set texts, never markup. A policy in the head of the
page forbids every connection.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from pullback.inspector.graph import GraphData, NodeData
from pullback.profiler.averages import Averages

__all__ = ["MOST_NODES", "memory_timeline", "page_data", "render_page"]

MOST_NODES = 20_000  # of a larger graph the page has a summary
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@cache
def _asset(name: str) -> str:
    return (resources.files("pullback.inspector") / "assets" / name).read_text(encoding="utf-8")


def render_page(
    graph: GraphData,
    title: str,
    explanations: Sequence[tuple[str, int | None, str]],
    averages: Averages | None,
) -> str:
    """The whole document."""
    data = json.dumps(page_data(graph, explanations, averages), separators=(",", ":"))
    data = data.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " ")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)} - Pullback inspector</title>"
        f"<style>{_asset('inspector.css')}</style></head><body>"
        f"<header><strong id='title'>{html.escape(title)}</strong>{_asset('inspector.html')}"
        f'<script type="application/json" id="data">{data}</script>'
        f"<script>{_asset('dagre.min.js')}</script><script>{_asset('inspector.js')}</script>"
        "</body></html>\n"
    )


def page_data(
    graph: GraphData,
    explanations: Sequence[tuple[str, int | None, str]],
    averages: Averages | None,
) -> dict[str, Any]:
    """The page's data: nodes (or their summary), inputs, memory, operators, first bad value."""
    nodes = graph.nodes
    is_whole = len(nodes) <= MOST_NODES
    return {
        "total": len(nodes),
        "nodes": [_compact(node) for node in nodes] if is_whole else [],
        "roots": graph.roots if is_whole else [],
        "inputs": [
            {"name": name, "node": place if is_whole else None, "text": text}
            for name, place, text in explanations
        ],
        "memory": _thin(memory_timeline(nodes)),
        "operators": _by_operator(nodes),
        "profile": [] if averages is None else [row._asdict() for row in averages.sorted_by()],
        "bad": _first_bad(nodes),
        "bad_cotangent": _first_bad_cotangent(nodes),
    }


def _compact(node: NodeData) -> dict[str, Any]:
    """A node's contents without empty fields and without identities of memory."""
    found = {name: value for name, value in asdict(node).items() if value not in ("", [], {}, None)}
    for value in found.get("saved", ()):
        del value["key"]
    norm = found.get("cotangent_norm")
    if isinstance(norm, float) and norm - norm != 0:  # JSON has no nan and inf
        found["cotangent_norm"] = str(norm)
    return found


def memory_timeline(nodes: Sequence[NodeData]) -> list[int]:
    """Bytes of saved values after each node of the forward pass, then of the backward pass.

    Memory that several nodes share counts once, from the first to the last of them; a pass frees
    the values of a node when it has run.
    """
    holders: dict[int, int] = {}
    sizes: dict[int, int] = {}
    total, timeline = 0, []
    for node in nodes:
        for value in node.saved:
            if value.key:
                holders[value.key] = holders.get(value.key, 0) + 1
                if holders[value.key] == 1:
                    sizes[value.key] = value.nbytes
                    total += value.nbytes
        timeline.append(total)
    for node in reversed(nodes):
        for value in node.saved:
            if value.key:
                holders[value.key] -= 1
                if not holders[value.key]:
                    total -= sizes[value.key]
        timeline.append(total)
    return timeline


def _thin(values: list[int], most: int = 1000) -> list[int]:
    """At most so many values of a list, the largest of each part."""
    size = -(-len(values) // most)
    return [max(values[start : start + size]) for start in range(0, len(values), max(size, 1))]


def _by_operator(nodes: Sequence[NodeData]) -> list[dict[str, Any]]:
    """Number of nodes and bytes of saved values by name, the most frequent first."""
    rows: dict[str, list[int]] = {}
    for node in nodes:
        row = rows.setdefault(node.name, [0, 0])
        row[0] += 1
        row[1] += sum(value.nbytes for value in node.saved)
    ordered = sorted(rows.items(), key=lambda item: (-item[1][0], item[0]))
    return [{"name": name, "count": count, "bytes": nbytes} for name, (count, nbytes) in ordered]


def _first_bad(nodes: Sequence[NodeData]) -> dict[str, Any] | None:
    """The first node with NaN or inf, and what it was computed from, the nearest first."""
    first = next((node for node in nodes if node.state), None)
    if first is None:
        return None
    history: list[int] = []
    waiting, seen = list(first.inputs), {first.id}
    while waiting and len(history) < 20:
        place = waiting.pop(0)
        if place not in seen:
            seen.add(place)
            history.append(place)
            waiting += nodes[place].inputs
    return {"node": first.id, "name": first.name, "state": first.state, "history": history}


def _first_bad_cotangent(nodes: Sequence[NodeData]) -> dict[str, Any] | None:
    """The first node of the backward pass that returned NaN or inf, and what it returned it to.

    That is the node recorded last whose inputs got such a cotangent, while its own was finite.
    """
    for node in reversed(nodes):
        norm = node.cotangent_norm
        reached = [place for place in node.inputs if _is_bad(nodes[place].cotangent_norm)]
        if norm is not None and not _is_bad(norm) and reached:
            return {"node": node.id, "name": node.name, "reached": reached}
    return None


def _is_bad(norm: float | None) -> bool:
    return norm is not None and not math.isfinite(norm)
