"""Native programs: a lowered graph as machine code, with eager calls between its segments.

A *segment* is a part of the graph without calls: one LLVM function. Opaque operators, and functions
of elements that have no machine code, run between segments as they are. A program of one segment
whose arguments and results are tensors, arrays and numbers in tuples and lists also has a function
of Python that does the whole call (``entry.py``).
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from pullback._cpython import IS_TESTED
from pullback.compiled.eager.program import MISS, Program
from pullback.compiled.llvm.arrays import can_emit, emit_arrays, find_blas, register_share_chunks
from pullback.compiled.llvm.compiler import function_address, ir, load_code, read_number
from pullback.compiled.llvm.digest import graph_digest, has_product, source_digest
from pullback.compiled.llvm.entry import (
    Captured,
    Leaf,
    ProgramFunction,
    Result,
    Signature,
    Symbols,
    TracedCall,
    can_emit_call,
    emit_call,
    emit_pointers,
    make_function,
    make_pointer_function,
)
from pullback.compiled.llvm.registers import emit_program
from pullback.compiled.llvm.schedule import choose_limit, is_large
from pullback.compiled.llvm.vector.elements import is_supported
from pullback.compiled.lowering.interpret import compute, has_false_check
from pullback.compiled.lowering.ir import Graph, Node, c_strides, copy_nodes
from pullback.compiled.lowering.lower import Lowered, Output, lower
from pullback.compiled.lowering.reroll import reroll
from pullback.compiled.lowering.split import split, without_cotangents
from pullback.compiled.results import OutsideArray, constant_result
from pullback.fx.collector import collector_off
from pullback.fx.tracer import Tracer
from pullback.kernels.errstate import errstate
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["NativeHalves", "NativeProgram", "TracedCall", "compile_native"]

_HALF = np.dtype(np.float16)  # has no machine code; NumPy makes it of int8 and bool


class _Segment(NamedTuple):
    """One LLVM function, and the values that it reads and makes."""

    inputs: list[Node]
    outputs: list[Node]
    graph: Graph
    name: str
    function: Any = None  # takes arrays: inputs, outputs and an arena
    arena: int = 0  # bytes

    def emit(self, module: Any) -> None:
        """Adds its function, the size of its arena, and a function that takes arrays."""
        emit = emit_arrays if _suits_arrays(self.graph) else emit_program
        function, arena = emit(module, self.name, self.graph)
        size = ir.GlobalVariable(module, ir.IntType(64), f"arena_{self.name}")
        size.initializer = ir.Constant(ir.IntType(64), arena)
        emit_pointers(module, f"call_{self.name}", function)


def _find_dead(steps: list[_Segment | Node], kept: list[Node]) -> list[list[int]]:
    """For each step, the values that no later one reads: their memory is free after it.

    They are those that steps have made. Without it, a gradient through a cumulative sum or a sort
    takes more memory than in eager.
    """
    last: dict[int, int] = {}
    for place, step in enumerate(steps):
        made = step.outputs if isinstance(step, _Segment) else [step]
        last |= dict.fromkeys([n.id for n in made], place)
        last |= {n.id: place for n in step.inputs if n.id in last}
    dead: list[list[int]] = [[] for _ in steps]
    results = {node.id for node in kept}
    for number, place in last.items():
        if number not in results:
            dead[place].append(number)
    return dead


def _is_call(node: Node, limit: int) -> bool:
    """Whether a node has no machine code."""
    if node.op == "opaque":
        return True
    if node.op == "pick":
        return _is_call(node.inputs[0], limit)
    if any(value.dtype == _HALF for value in (node, *node.inputs) if value.op != "loop"):
        return True
    if node.op in ("view", "update") and node.place.step:
        part = node if node.op == "view" else node.inputs[1]
        is_dense = node.place.strides == c_strides(node.place.shape)
        return part.size > limit and not is_dense
    if node.op == "elementwise" and node.function != "cast":
        return not is_supported(node.function, node.inputs[-1].dtype)
    if node.op == "loop":
        body = node.attrs[0].body
        return any(_is_call(n, limit) for n in body.live())
    return is_large(node, limit) and not can_emit(node)


def _find_steps(graph: Graph) -> list[_Segment | Node]:
    """The segments of a graph, and the nodes that are called between them.

    A phase is a segment and the calls after it. A call that draws random numbers is in no phase
    before that of an earlier one: they come from one stream.
    """
    random = {node.id for node in graph.effects}
    drawn = 0  # the phase of the last call that draws
    phase: dict[int, int] = {}
    called: dict[int, bool] = {}
    found: list[tuple[list[Node], list[Node]]] = []
    limit = choose_limit(graph)
    for node in graph.live():
        if node.op in ("input", "const"):
            continue
        is_called = called[node.id] = _is_call(node, limit)
        at = 0
        for x in node.inputs:
            if x.op not in ("input", "const"):
                at = max(at, phase[x.id] + (called[x.id] and not is_called))
        if node.id in random:
            at = drawn = max(at, drawn)
        phase[node.id] = at
        while len(found) <= at:
            found.append(([], []))
        found[at][is_called].append(node)
    used = _find_uses(graph, found)
    steps: list[_Segment | Node] = []
    for place, (own, calls) in enumerate(found):
        wanted = {n.id for n in own if used.get(n.id, set()) - {2 * place}}
        if wanted:
            steps.append(_segment(own, wanted, place))
        steps += calls
    return steps


def _find_uses(graph: Graph, phases: list[tuple[list[Node], list[Node]]]) -> dict[int, set[int]]:
    """The places that read a node: twice its phase, one more for calls; -1 for results."""
    used: dict[int, set[int]] = {}
    for place, nodes in enumerate(nodes for phase in phases for nodes in phase):
        for node in nodes:
            for x in node.inputs:
                used.setdefault(x.id, set()).add(place)
    for node in (*graph.outputs, *graph.checks):
        used.setdefault(node.id, set()).add(-1)
    return used


def _segment(nodes: list[Node], wanted: set[int], number: int) -> _Segment:
    """The graph of a segment."""
    graph, inputs, made = copy_nodes(nodes)
    outputs = [n for n in nodes if n.id in wanted and n.op != "loop"]
    graph.outputs = [made[n.id] for n in outputs]
    return _Segment(inputs, outputs, graph, f"segment{number}")


def _suits_arrays(graph: Graph) -> bool:
    """Whether all of a segment is computed in memory: large values, and no loop."""
    live, limit = graph.live(), choose_limit(graph)
    is_plain = all(can_emit(node) for node in live)
    return is_plain and any(is_large(node, limit) for node in live)


def _load(segment: _Segment, engine: Any) -> _Segment:
    """A segment with its function."""
    arena = read_number(engine, f"arena_{segment.name}")
    if IS_TESTED:  # objects of this interpreter have the layout that ``entry.py`` reads
        address = function_address(engine, f"call_{segment.name}")
        return segment._replace(function=make_function(address, engine), arena=arena)
    count = len(segment.inputs) + len(segment.outputs) + 1
    function = make_pointer_function(function_address(engine, segment.name), count, engine)
    return segment._replace(function=function, arena=arena)


class NativeProgram:
    """A program that can be run.

    Attributes:
        call: the function of Python for whole calls; None if it has none.
        lowered: its graph before re-rolling.
        graph: its graph.
        opaque: the calls between its segments.
        hits: the number of whole calls.
    """

    def __init__(self, tracer: Tracer, lowered: Lowered, call: TracedCall | None):
        self.tracer = tracer
        self.lowered = lowered
        self.graph = reroll(lowered.graph)
        self.call: Any = None
        self.hits = ctypes.c_int64(0)
        self._constants = [node for node in self.graph.nodes if node.op == "const"]
        self._steps = _find_steps(self.graph)
        self.opaque = [step for step in self._steps if isinstance(step, Node)]
        self._call_text = ""  # of the function for whole calls
        self._compile(call)

    def _segments(self) -> list[_Segment]:
        return [step for step in self._steps if isinstance(step, _Segment)]

    def _write(self) -> str:
        """The module of all segments, as LLVM's text."""
        module = ir.Module(name="pullback")
        for segment in self._segments():
            segment.emit(module)
        return str(module)

    def _key(self) -> str:
        """The key of the machine code of all segments; registers the symbols that it refers to."""
        graphs = [segment.graph for segment in self._segments()]
        names = [segment.name for segment in self._segments()]
        register_share_chunks()
        blas = find_blas() if any(has_product(graph) for graph in graphs) else None
        if not source_digest():  # compiled modules without their source may be of any version
            return self._write()
        return f"{source_digest()} {names} {blas} {graph_digest(graphs)}"

    def _compile(self, call: TracedCall | None) -> None:
        engine = None
        if self._segments():
            engine = load_code(self._key(), self._write)
        self._steps = [
            _load(step, engine) if isinstance(step, _Segment) else step for step in self._steps
        ]
        self._dead = _find_dead(self._steps, [*self.graph.outputs, *self.graph.checks])
        if len(self._steps) == 1 and call is not None and can_emit_call(call):
            (step,) = self._steps
            if isinstance(step, _Segment):
                self._make_call(engine, step, call)

    def _make_call(self, engine: Any, segment: _Segment, call: TracedCall) -> None:
        """Makes the function for whole calls, if there is a form of it."""
        if not IS_TESTED or self.lowered.writes or self.lowered.aliases:
            return
        results = [*self.graph.outputs, *self.graph.checks]
        if any(node.op in ("input", "const") for node in results):
            return
        order = {node.id: place for place, node in enumerate(segment.outputs)}
        if len(order) != len(results) or order.keys() != {n.id for n in results}:
            return
        places = {node.id: place for place, node in enumerate(segment.inputs)}
        sources = [places.get(n.id, -1) for n in self.graph.inputs]
        signature = self._signature(call, sources, order)
        if signature is None:
            return
        program = ProgramFunction(
            function_address(engine, segment.name),
            len(segment.inputs),
            segment.outputs,
            {order[node.id] for node in self.graph.checks},
            segment.arena,
            sum(n.size for n in segment.graph.live()),
        )
        module = ir.Module(name="pullback")
        symbols = Symbols(module)
        emit_call(module, symbols, "call", program, signature)
        self._call_text = text = str(module)
        own = load_code(text, lambda: text, symbols.addresses)
        kept = (engine, own, symbols.kept, self.hits)
        self.call = make_function(function_address(own, "call"), kept, has_keywords=True)

    def llvm_ir(self) -> str:
        """The text of its code, which is written again."""
        return f"{self._write()}\n{self._call_text}"

    def as_program(self, outputs: list[Any], backward: NativeProgram | None = None) -> Program:
        """The same as a program of its traced graph; with the backward program for its texts."""
        parts = [self] if backward is None else [self, backward]

        def source() -> str:
            return "\n".join(str(part.graph) for part in parts)

        def llvm_ir() -> str:
            return "\n".join(part.llvm_ir() for part in parts)

        return Program(self.run, source, self.tracer, outputs, "", llvm_ir, "", self)

    def _signature(
        self, call: TracedCall, sources: list[int], order: dict[int, int]
    ) -> Signature | None:
        """The signature for `emit_call`; None where it has no form."""
        given = call.given
        if not all(map(_is_in_c_order, given.leaves)):  # it would serve arrays of another layout
            return None
        captured = {}
        leaves = [_leaf(*pair) for pair in zip(given.leaves, given.kinds, strict=True)]
        for place, (source, own) in enumerate(zip(self.lowered.sources, sources, strict=True)):
            if source.kind == "captured":
                array = self.tracer.captured[source.name]
                if own >= 0:
                    if not (array.flags.c_contiguous and array.flags.aligned):
                        return None
                    captured[own] = Captured(array, self.graph.inputs[place])
            else:
                leaf = leaves[source.name]
                leaves[source.name] = leaf._replace(input=own, node=self.graph.inputs[place])
        results = []
        for result in self.lowered.results:
            if isinstance(result, Output):
                node = self.graph.outputs[result.output]
                kind = "array" if given.returns_arrays else "tensor"
                if result.number is not None:
                    kind = "number"
                elif given.returns_arrays and not node.shape:
                    kind = "scalar"
                results.append(Result(kind, order[node.id]))
            elif isinstance(result, Tensor | np.ndarray | OutsideArray):
                return None
            else:
                results.append(Result("constant", result))
        hits = ctypes.addressof(self.hits)
        return Signature(call, leaves, captured, results, hits)

    def run(self, *inputs: Any) -> Any:
        """Runs the program on tensors and numbers; returns a list of results, or MISS."""
        graph = self.graph
        values = {node.id: node.value for node in self._constants}
        given: list[Any] = []
        for source, node in zip(self.lowered.sources, graph.inputs, strict=True):
            is_captured = source.kind == "captured"
            value = self.tracer.captured[source.name] if is_captured else inputs[source.name]
            array = value._array if isinstance(value, Tensor) else value
            given.append(array)
            try:
                values[node.id] = _in_c_order(array, node)
            except OverflowError:
                return MISS
        starts = [values[node.id] for node in graph.inputs]
        try:
            self._run_steps(values)
        except Exception:
            # A call for which the graph is wrong may raise before its checks are computed.
            if has_false_check(graph, starts):
                return MISS
            raise
        if not all(bool(values[node.id]) for node in graph.checks):
            return MISS
        return self._results(values, given)

    def _run_steps(self, values: dict[int, Any]) -> None:
        with errstate(all="ignore"):
            for step, dead in zip(self._steps, self._dead, strict=True):
                if isinstance(step, _Segment):
                    _run_segment(step, values)
                else:
                    values[step.id] = compute(step, [values[x.id] for x in step.inputs])
                for number in dead:
                    del values[number]

    def _write_outside(self, values: dict[int, Any], given: list[Any]) -> None:
        """Writes to arguments and captured arrays, after what lies in their memory is copied."""
        outputs, writes = self.graph.outputs, self.lowered.writes
        written = [given[write.source] for write in writes]
        # What a segment has made lies in memory of its own: 33 results against 24 targets took a
        # third of a training step.
        made = {n.id for segment in self._segments() for n in segment.outputs}
        for node in [node for node in outputs if node.id not in made]:
            array = values[node.id]
            if any(np.may_share_memory(array, target) for target in written):
                values[node.id] = array.copy()
        for write, target in zip(writes, written, strict=True):
            target[...] = values[outputs[write.output].id]

    def _results(self, values: dict[int, Any], given: list[Any]) -> list[Any]:
        graph = self.graph
        if self.lowered.writes:
            self._write_outside(values, given)
        found: list[Any] = []
        seen: set[int] = set()
        for place, result in enumerate(self.lowered.results):
            if not isinstance(result, Output):
                found.append(constant_result(result))
                continue
            node = graph.outputs[result.output]
            array = values[node.id]
            if result.number is not None:
                found.append(array.item())
                continue
            alias = self.lowered.aliases.get(place)
            if alias is not None and given[alias].shape == node.shape:
                found.append(wrap(given[alias]))
                continue
            if node.id in seen or node.op in ("input", "const") or not array.flags.writeable:
                array = array.copy()
            seen.add(node.id)
            found.append(wrap(array))
        return found


def _run_segment(segment: _Segment, values: dict[int, Any]) -> None:
    given = [np.ascontiguousarray(values[n.id]) for n in segment.inputs]
    made = [np.empty(n.shape, n.dtype) for n in segment.outputs]
    arena = np.empty(segment.arena + 64, np.uint8)
    start = -arena.__array_interface__["data"][0] % 64
    segment.function(*given, *made, arena[start:])
    for node, array in zip(segment.outputs, made, strict=True):
        values[node.id] = array


def _is_in_c_order(value: Any) -> bool:
    array = value._array if isinstance(value, Tensor) else value
    return not isinstance(array, np.ndarray) or bool(array.flags.c_contiguous)


def _leaf(value: Any, kind: tuple[Any, ...]) -> Leaf:
    """One leaf of the arguments, as machine code for whole calls checks it."""
    if isinstance(value, np.generic):
        return Leaf("scalar", type(value))
    return Leaf(kind[0], kind[1] if kind[0] == "number" else value)


def _in_c_order(array: Any, node: Node) -> Any:
    """An input as machine code reads it; nearly always it is one already."""
    if type(array) is np.ndarray and array.shape == node.shape and array.dtype == node.dtype:
        flags = array.flags
        if flags.c_contiguous and flags.aligned:
            return array
    return np.require(array, node.dtype, ["C", "A"]).reshape(node.shape)


class NativeHalves:
    """The forward and the backward program of a trace; raises ``CannotLower``.

    Attributes:
        forward: the forward program.
        sources: the inputs of the forward program that the backward program takes.
    """

    @collector_off()
    def __init__(self, tracer: Tracer, outputs: list[Any], gradients: list[Any], cotangents: int):
        joint = lower(tracer, [*outputs, *gradients])
        halves = split(joint, len(outputs), cotangents)
        self._tracer = tracer
        self._lowered = halves.backward
        self.forward = NativeProgram(tracer, halves.forward, None)
        self.sources = [joint.sources[place] for place in halves.inputs]

    @collector_off()
    def backward(self, given: tuple[bool, ...]) -> NativeProgram:
        """The backward program for some of the cotangents; the others are None in its calls."""
        lowered = self._lowered if all(given) else without_cotangents(self._lowered, given)
        return NativeProgram(self._tracer, lowered, None)


@collector_off()
def compile_native(
    tracer: Tracer, outputs: list[Any], call: TracedCall | None = None
) -> NativeProgram:
    """The native program of a trace; raises ``CannotLower``."""
    return NativeProgram(tracer, lower(tracer, outputs), call)
