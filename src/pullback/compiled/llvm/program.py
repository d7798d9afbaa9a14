"""Native programs: a lowered graph as machine code, with eager calls between its segments.

A *segment* is a part of the graph without calls: one LLVM function. Opaque operators, and functions
of elements that have no machine code, run between segments as they are (``steps.py``). A program
whose arguments and results are tensors, arrays and numbers in tuples and lists also has a function
of Python that does the whole call (``entry.py``).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from pullback._cpython import IS_TESTED
from pullback.compiled.eager.program import MISS, Program
from pullback.compiled.llvm.arrays import find_blas, register_share_chunks
from pullback.compiled.llvm.compiler import function_address, ir, load_code, read_number
from pullback.compiled.llvm.digest import graph_digest, has_product, source_digest
from pullback.compiled.llvm.entry import (
    STACK_ARENA,
    Captured,
    Leaf,
    ProgramFunction,
    Result,
    Signature,
    TracedCall,
    can_emit_call,
    emit_call,
    emit_steps_call,
)
from pullback.compiled.llvm.objects import Symbols, make_function, make_pointer_function
from pullback.compiled.llvm.segments import Segment, find_calls, find_steps
from pullback.compiled.llvm.steps import make_call, make_steps
from pullback.compiled.lowering.interpret import has_false_check
from pullback.compiled.lowering.ir import Node
from pullback.compiled.lowering.lower import Lowered, Output, lower
from pullback.compiled.lowering.reroll import reroll
from pullback.compiled.lowering.split import split, without_cotangents
from pullback.compiled.results import OutsideArray, constant_result
from pullback.fx.collector import collector_off
from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["NativeHalves", "NativeProgram", "TracedCall", "compile_native"]


def _load(segment: Segment, engine: Any) -> dict[str, Any]:
    """The fields of a segment that its code has."""
    arena = read_number(engine, f"arena_{segment.name}")
    if IS_TESTED:  # objects of this interpreter have the layout that ``entry.py`` reads
        function = make_function(function_address(engine, f"call_{segment.name}"), engine)
        return {"function": function, "arena": arena, "takes_memory": arena > STACK_ARENA}
    count = len(segment.inputs) + len(segment.outputs) + 1
    function = make_pointer_function(function_address(engine, segment.name), count, engine)
    return {"function": function, "arena": arena}


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
        self.graph = reroll(lowered.graph, find_calls(lowered.graph))
        self.call: Any = None
        self.hits = ctypes.c_int64(0)
        self._steps = find_steps(self.graph)
        self.opaque = [step for step in self._steps if isinstance(step, Node)]
        self._call_text = ""  # of the function for whole calls
        self._compile(call)

    def _segments(self) -> list[Segment]:
        """A segment for each function."""
        found = {step.name: step for step in self._steps if isinstance(step, Segment)}
        return list(found.values())

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
        loaded = {segment.name: _load(segment, engine) for segment in self._segments()}
        self._steps = [
            step._replace(**loaded[step.name]) if isinstance(step, Segment) else step
            for step in self._steps
        ]
        is_plain = IS_TESTED and not (self.lowered.writes or self.lowered.aliases)
        if is_plain and call is not None and can_emit_call(call):
            self._make_call(engine, call)

    def _make_call(self, engine: Any, call: TracedCall) -> None:
        """Makes the function for whole calls, if there is a form of it."""
        module = ir.Module(name="pullback")
        symbols = Symbols(module)
        segment = self._single_segment()
        is_made = (
            self._emit_steps_call(symbols, call)
            if segment is None
            else self._emit_call(symbols, call, engine, segment)
        )
        if not is_made:
            return
        self._call_text = text = str(module)
        own = load_code(text, lambda: text, symbols.addresses)
        kept = (engine, own, symbols.kept, self.hits)
        self.call = make_function(function_address(own, "call"), kept, has_keywords=True)

    def _single_segment(self) -> Segment | None:
        """The segment that computes all results in arrays of their own, if there is one."""
        results = [*self.graph.outputs, *self.graph.checks]
        if len(self._steps) != 1 or not isinstance(self._steps[0], Segment):
            return None
        segment = self._steps[0]
        numbers = {n.id for n in results}
        is_whole = len(numbers) == len(results) and numbers == {n.id for n in segment.outputs}
        return segment if is_whole else None

    def _emit_call(self, symbols: Symbols, call: TracedCall, engine: Any, segment: Segment) -> bool:
        """Writes the function for whole calls of one segment, if there is a form of it."""
        order = {node.id: place for place, node in enumerate(segment.outputs)}
        places = {node.id: place for place, node in enumerate(segment.inputs)}
        sources = [places.get(n.id, -1) for n in self.graph.inputs]
        signature = self._signature(call, sources, order)
        if signature is None:
            return False
        program = ProgramFunction(
            function_address(engine, segment.name),
            len(segment.inputs),
            segment.outputs,
            {order[node.id] for node in self.graph.checks},
            segment.arena,
            sum(n.size for n in segment.graph.live()),
        )
        emit_call(symbols.module, symbols, "call", program, signature)
        return True

    def _emit_steps_call(self, symbols: Symbols, call: TracedCall) -> bool:
        """Writes the function for whole calls of several steps, if there is a form of it."""
        graph = self.graph
        order = {node.id: place for place, node in enumerate(graph.outputs)}
        signature = self._signature(call, list(range(len(graph.inputs))), order)
        if signature is None or graph.effects:
            return False
        numbers = [
            graph.inputs[leaf.input]
            for leaf in signature.leaves
            if leaf.kind in ("number", "scalar") and leaf.input >= 0
        ]
        steps = make_call(graph, self._steps, numbers, signature.results, call.out_spec)
        emit_steps_call(symbols.module, symbols, "call", steps, len(graph.inputs), signature)
        return True

    def llvm_ir(self) -> str:
        """The text of its code, which is written again."""
        return f"{self._write()}\n{self._call_text}"

    def describe_loops(self) -> list[str]:
        """Lines about loops that run in Python, with the first call of their steps."""
        lines = []
        for node in self.opaque:
            if node.op == "loop":
                loop = node.attrs[0]
                calls = find_calls(loop.body)
                first = next(n for n in loop.body.nodes if n.id in calls)
                name = first.attrs[0] if first.op in ("opaque", "elementwise") else first.op
                times = "while true" if loop.length is None else f"{loop.length} times"
                lines.append(f"a loop ({times}) runs in Python: its step calls {name}")
        return lines

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
                    origin = self.tracer.origins.get(source.name)
                    captured[own] = Captured(array, self.graph.inputs[place], origin)
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
        given: list[Any] = []
        starts: list[Any] = []
        for source, node in zip(self.lowered.sources, graph.inputs, strict=True):
            is_captured = source.kind == "captured"
            value = self.tracer.captured[source.name] if is_captured else inputs[source.name]
            array = value._array if isinstance(value, Tensor) else value
            given.append(array)
            try:
                starts.append(_in_c_order(array, node))
            except OverflowError:
                return MISS
        try:
            found = self._run_steps(*starts)
        except Exception:
            # A call for which the graph is wrong may raise before its checks are computed.
            if has_false_check(graph, starts):
                return MISS
            raise
        if found is MISS:
            return MISS
        return self._results({n.id: x for n, x in zip(graph.outputs, found, strict=True)}, given)

    @functools.cached_property
    def _run_steps(self) -> Any:
        return make_steps(self.graph, self._steps)

    def _write_outside(self, values: dict[int, Any], given: list[Any]) -> None:
        """Writes to arguments and captured arrays, after what lies in their memory is copied."""
        outputs, writes = self.graph.outputs, self.lowered.writes
        written = [given[write.source] for write in writes]
        # What a segment has made lies in memory of its own: 33 results against 24 targets took a
        # third of a training step.
        segments = [step for step in self._steps if isinstance(step, Segment)]
        made = {n.id for segment in segments for n in segment.outputs}
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
