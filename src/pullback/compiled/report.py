"""Reports about compiled functions: what is compiled, what is not, and why.

A report lowers the traced graphs once more, which finds the operators that stay calls of kernels,
with the reason for each, and the loops and memory of a program. ``record_functions`` collects all
compiled functions of a block, for ``python -m pullback compile-report``.
"""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pullback.compiled.eager.program import Program
from pullback.compiled.lowering.expressions import CannotLower
from pullback.compiled.lowering.ir import Graph
from pullback.compiled.lowering.lower import lower
from pullback.fx.source import annotate
from pullback.fx.tracer import untraced

__all__ = [
    "describe_kind",
    "describe_program",
    "note_function",
    "program_text",
    "record_functions",
]

_recorded: list[list[Any]] = []


@contextmanager
def record_functions() -> Iterator[list[Any]]:
    """A block whose compiled functions are collected in a list, in the order of their making."""
    found: list[Any] = []
    _recorded.append(found)
    try:
        yield found
    finally:
        _recorded.remove(found)


def note_function(function: Any) -> None:
    """Adds a new compiled function to the lists of the blocks around."""
    for found in _recorded:
        found.append(function)


def describe_program(program: Any) -> list[str]:
    """Lines about one graph: its size, segments, opaque operators, memory and guards."""
    tracer = program.tracer
    captured = sum(array.nbytes for array in tracer.captured.values())
    calls = [node for node in tracer.graph.nodes if node.op == "call_function"]
    lines = [
        f"{len(calls)} traced operator calls; "
        f"{len(tracer.captured)} captured arrays, {captured} bytes; "
        f"{len(tracer.writes)} writes to memory from outside; "
        f"{len(tracer.random)} random operators"
    ]
    if getattr(program, "note", ""):
        lines.append(f"no machine code: {program.note}")
    try:
        with untraced():
            graph = lower(tracer, program.outputs).graph
    except CannotLower as reason:
        lines.append(f"runs as NumPy kernels, call by call: {reason}")
    else:
        lines += _describe_graph(graph)
    if getattr(program, "native", None) is not None:
        lines += program.native.describe_loops()
    return lines + [_describe_guard(guard) for guard in tracer.guards]


def _describe_guard(guard: Any) -> str:
    """One line about a value that the program has read, with the source that reads it."""
    value = guard.value.tolist() if isinstance(guard.value, np.ndarray) else guard.value
    place = re.fullmatch(r" \((.*):(\d+)\)", guard.line)
    source = linecache.getline(place[1], int(place[2])).strip() if place else ""
    text = f": `{source}`" if source else ""
    return f"guard: {guard.what} was {value!r}{guard.line}{text}"


def _describe_graph(graph: Graph) -> list[str]:
    nodes = graph.live()
    kinds = Counter(node.op for node in nodes if node.op not in ("input", "const", "pick"))
    sizes = ", ".join(f"{count} {op}" for op, count in sorted(kinds.items()))
    opaque = Counter(
        (node.attrs[0].name, node.attrs[0].reason) for node in nodes if node.op == "opaque"
    )
    lines = [
        f"{_segments(graph)} segment(s): {sizes or 'no operation'}; at most {_peak(graph)} bytes "
        f"of intermediate values"
    ]
    for node in nodes:
        if node.op == "loop":
            length = node.attrs[0].length
            lines.append("loop: while true" if length is None else f"loop: {length} times")
    for (name, reason), count in opaque.items():
        times = f" ({count} times)" if count > 1 else ""
        lines.append(f"opaque: {name}{times}: {reason}")
    return lines


def _segments(graph: Graph) -> int:
    """The number of parts between opaque calls: the levels at which something is computed."""
    level: dict[int, int] = {}
    used: set[int] = set()
    for node in graph.live():
        below = max((level[n.id] for n in node.inputs), default=0)
        if node.op == "opaque":
            level[node.id] = below + 1
        else:
            level[node.id] = below
            if node.op not in ("input", "const", "pick"):
                used.add(below)
    return len(used)


def _peak(graph: Graph) -> int:
    """The largest sum of intermediate values that are needed at once, views being free.

    An upper bound: values that a loop over elements keeps in registers count, too.
    """
    nodes = graph.live()
    last = {n.id: place for place, node in enumerate(nodes) for n in node.inputs}
    free = {"input", "const", "view", "pick", "iota"}
    kept = {node.id for node in graph.outputs}
    now = peak = 0
    ends: dict[int, int] = {}
    for place, node in enumerate(nodes):
        if node.op not in free:
            size = node.size * node.dtype.itemsize
            now += size
            peak = max(peak, now)
            if node.id in last and node.id not in kept:
                ends[last[node.id]] = ends.get(last[node.id], 0) + size
        now -= ends.pop(place, 0)
    return peak


def describe_kind(kind: tuple[Any, ...]) -> str:
    """The signature of a leaf in reports, such as ``float64[2, 3]``."""
    if kind[0] in ("tensor", "array"):
        return f"{np.dtype(kind[2])}{list(kind[1])}"
    return str(kind[1].__name__) if kind[0] == "number" else repr(kind[2])


def program_text(program: Program) -> str:
    """A graph with the shape and dtype of each value."""
    return annotate(program.source(), program.tracer.graph.nodes)
