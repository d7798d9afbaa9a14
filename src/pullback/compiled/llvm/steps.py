"""The steps of a program with calls, as one function of Python.

Its statements call segments and kernels one after the other. The values between them are its local
variables, each of which is deleted after its last reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from pullback.compiled.eager.program import MISS
from pullback.compiled.llvm.arena import ALIGNMENT
from pullback.compiled.llvm.entry import Result
from pullback.compiled.llvm.segments import Segment, Step, find_dead
from pullback.compiled.lowering.interpret import compute
from pullback.compiled.lowering.ir import Graph, Node, is_number
from pullback.dispatch.modes import get_state, set_state
from pullback.fx.source import run_source
from pullback.fx.tracer import PLAIN_STATE
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.tensor import Tensor, as_operand, wrap
from pullback.utils import pytree

__all__ = ["make_call", "make_steps"]

_FRAME = """def steps({inputs}):
    before, settings = get_state(), get_settings()
    try:
        set_state(PLAIN_STATE)
        set_settings(QUIET)
        {body}
    finally:
        try:
            set_settings(settings)
        finally:
            set_state(before)
"""
_BYTE = np.dtype(np.uint8)


class _Writer:
    """Writes the statements of steps."""

    def __init__(self, graph: Graph, steps: list[Step]):
        self.graph = graph
        self.steps = steps
        self.kept = [*graph.outputs, *graph.checks]
        self.globals: dict[str, Any] = {
            "MISS": MISS,
            "PLAIN_STATE": PLAIN_STATE,
            "QUIET": QUIET,
            "as_array": _as_array,
            "as_operand": as_operand,
            "asarray": np.asarray,
            "compute": compute,
            "empty": np.empty,
            "get_settings": get_settings,
            "get_state": get_state,
            "own": _own,
            "set_settings": set_settings,
            "set_state": set_state,
            "wrap": wrap,
        }
        self._names: dict[int, str] = {}  # of objects, by their ids
        read = [node for step in steps for node in step.inputs] + self.kept
        self._read = {node.id for node in read}
        self._tuples = {x.inputs[0].id for x in steps if isinstance(x, Node) and x.op == "pick"}
        for node in read:
            if node.op == "const":
                self.globals[_value(node)] = node.value
            elif node.op == "view" and is_number(node):
                number = node.inputs[0].value.reshape(())
                self.globals[_value(node)] = np.broadcast_to(number, node.shape)

    def object(self, value: Any) -> str:
        """The name of an object, which is kept."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"object{len(self._names)}"
            self.globals[name] = value
        return name

    def make(self, lines: list[str], returned: str) -> Callable[..., Any]:
        """The function of all steps behind some lines; what it returns is an expression."""
        for step, dead in zip(self.steps, find_dead(self.steps, self.kept), strict=True):
            lines += self._segment(step) if isinstance(step, Segment) else [self._call(step)]
            if dead:
                lines.append("del " + ", ".join(f"v{number}" for number in dead))
        if self.graph.checks:
            conditions = dict.fromkeys(map(_value, self.graph.checks))
            lines.append(f"if not ({' and '.join(conditions)}): return MISS")
        body = "\n        ".join([*lines, f"return {returned}"])
        inputs = ", ".join(map(_value, self.graph.inputs))
        source = _FRAME.format(inputs=inputs, body=body)
        return run_source(source, "steps", "compiled steps", self.globals)

    def build(self, spec: pytree.Spec, leaves: list[str]) -> str:
        """The expression of a result's containers around its leaves, which are used up."""
        if spec.kind is None:
            return leaves.pop(0)
        if spec.kind is type(None):
            return "None"
        if is_dataclass(spec.kind):
            listed = ", ".join(leaves.pop(0) for _ in range(spec.size))
            return f"{self.object(pytree.unflatten)}({self.object(spec)}, [{listed}])"
        items = [self.build(child, leaves) for child in spec.children]
        if spec.kind is dict:
            pairs = zip(spec.context[0], items, strict=True)
            return f"{{{', '.join(f'{self.object(key)}: {item}' for key, item in pairs)}}}"
        if spec.kind is list:
            return f"[{', '.join(items)}]"
        made = f"({''.join(f'{item}, ' for item in items)})"
        return made if spec.kind is tuple else f"{self.object(spec.kind)}(*{made})"

    def _array(self, node: Node) -> str:
        """The arguments of functions that make or check an array."""
        return f"{self.object(node.shape)}, {self.object(node.dtype)}"

    def _segment(self, segment: Segment) -> list[str]:
        values = [_value(node) for node in (*segment.inputs, *segment.outputs)]
        if segment.takes_memory:
            values.append(f"empty({segment.arena + ALIGNMENT}, {self.object(_BYTE)})")
        lines = [f"{_value(node)} = empty({self._array(node)})" for node in segment.outputs]
        return [*lines, f"{self.object(segment.function)}({', '.join(values)})"]

    def _call(self, node: Node) -> str:
        operands = [_value(x) for x in node.inputs]
        if node.op == "pick":
            found = f"{operands[0]}[{node.attrs[0]}]"
        elif node.op == "opaque":
            found = node.attrs[0].write(operands, self.object)
        else:
            found = f"compute({self.object(node)}, [{', '.join(operands)}])"
        if node.id in self._read and node.id not in self._tuples:
            found = f"as_array({found}, {self._array(node)})"
        return f"{_value(node)} = {found}"


def _value(node: Node) -> str:
    """The name of a value."""
    return f"v{node.id}"


def _as_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Converts what a kernel has returned to an array in C order of this shape and dtype."""
    array = value._array if type(value) is Tensor else value
    if type(array) is not np.ndarray or not array.flags.c_contiguous:
        array = np.asarray(array, order="C")
    if array.shape != shape or array.dtype != dtype:
        raise AssertionError(f"computed {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
    return array


def _own(array: Any) -> Any:
    """A result that the caller may write to."""
    return array if array.flags.writeable else array.copy()


def make_steps(graph: Graph, steps: list[Step]) -> Callable[..., Any]:
    """A function of the graph's inputs, which returns a list of its outputs, or MISS.

    The inputs are arrays in C order.
    """
    return _Writer(graph, steps).make([], f"[{', '.join(map(_value, graph.outputs))}]")


def make_call(
    graph: Graph,
    steps: list[Step],
    numbers: Sequence[Node],
    results: Sequence[Result],
    spec: pytree.Spec,
) -> Callable[..., Any]:
    """A function of the graph's inputs, which returns the result of a whole call, or MISS.

    Args:
        graph: the graph.
        steps: its steps.
        numbers: the inputs that are numbers of Python or NumPy; others are arrays in C order.
        results: the leaves of the result; the value of those that are outputs is their place.
        spec: the structure of the result.
    """
    writer = _Writer(graph, steps)
    lines = [f"{_value(x)} = asarray({_value(x)}, {writer.object(x.dtype)})" for x in numbers]
    leaves: list[str] = []
    seen = {node.id for node in graph.inputs}
    for kind, value in results:
        if kind == "constant":
            leaves.append(writer.object(value))
            continue
        node = graph.outputs[value]
        is_new = node.id not in seen and node.op != "const"
        seen.add(node.id)
        text = f"own({_value(node)})" if is_new else f"{_value(node)}.copy()"
        forms = {"scalar": f"{_value(node)}[()]", "number": f"{_value(node)}.item()"}
        forms["tensor"] = f"wrap({text})"
        leaves.append(forms.get(kind, text))
    return writer.make(lines, writer.build(spec, leaves))
