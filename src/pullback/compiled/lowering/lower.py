"""Lowering: from a traced graph of operators to the intermediate representation.

A traced graph has views that share memory and operators that write to it. Here each memory has a
newest value, a node whose elements are those of the array that made the memory, in C order. A view
is a ``Place`` in it, known from the addresses and strides of the arrays of the trace; a read is a
``view`` of the newest value, a write an ``update`` that makes the next one. Writes to arguments and
captured arrays are results of the program, which the caller copies to them.

What an operator computes is said by ``operators.py``. One that has no form in primitive operations
becomes an ``opaque`` node, a call of its kernel.
"""

from __future__ import annotations

import math
import operator as python_operators
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback._lazy import lazy_module
from pullback.compiled.lowering.builder import Builder
from pullback.compiled.lowering.expressions import CannotLower, Value, apply
from pullback.compiled.lowering.ir import Graph, Node, Place, c_strides
from pullback.compiled.lowering.lower_loop import add_loop, prune_loops
from pullback.compiled.lowering.lower_vmap import lower_batched, written_in_batch
from pullback.compiled.lowering.opaque import Hole, OnCopy, OpaqueCall
from pullback.compiled.lowering.operators import (
    MOST_POSITIONS,
    lower_operator,
    operator_name,
    parameters_of,
)
from pullback.compiled.lowering.rules import affine_place, move_elements
from pullback.fx.batched import BatchedCall
from pullback.fx.loop_call import LoopBody, LoopCall
from pullback.fx.node import Node as TracedNode
from pullback.fx.node import map_arg, schema_of
from pullback.fx.traced_number import item_of
from pullback.fx.tracer import Tracer, untraced
from pullback.tensor.tensor import as_operand

if TYPE_CHECKING:
    from pullback.compiled.eager import program as eager_program
    from pullback.compiled.llvm import program as native_program
else:
    # These import this module.
    native_program = lazy_module("pullback.compiled.llvm.program")
    eager_program = lazy_module("pullback.compiled.eager.program")

__all__ = ["Lowered", "Output", "Source", "Write", "lower"]

_DTYPES = "?bhilqBHILQfdFD"
_NUMBER_DTYPES = {bool: np.dtype(bool), int: np.dtype(np.int64)}
_SAME_NAMES = "sqrt exp expm1 log1p log2 log10 log sin cos tan sinh cosh tanh erf erfc"
_NUMBER_FUNCTIONS: dict[Any, str] = {
    python_operators.add: "add",
    python_operators.sub: "subtract",
    python_operators.mul: "multiply",
    python_operators.neg: "negative",
    python_operators.abs: "absolute",
    python_operators.truediv: "divide",
    python_operators.pow: "power",
    **{getattr(math, name): name for name in _SAME_NAMES.split()},
    **{getattr(math, f"a{name}"): f"arc{name}" for name in ("sin", "cos", "tan", "tan2")},
    math.fabs: "absolute",
}
_NUMBER_COMPARISONS: dict[Any, str] = {
    python_operators.lt: "less",
    python_operators.le: "less_equal",
    python_operators.gt: "greater",
    python_operators.ge: "greater_equal",
    python_operators.eq: "equal",
    python_operators.ne: "not_equal",
}
_WITHOUT_ERRORS = ("add", "subtract", "multiply", "negative", "absolute")


class Source(NamedTuple):
    """Origin of an input of a lowered program."""

    kind: str  # "argument" or "captured"
    name: Any  # the number of the argument, or the name of the captured array
    number: type | None  # of an argument that is a Python number


class Write(NamedTuple):
    """A result that is copied to the memory of an input after a run."""

    source: int  # the index of the input
    output: int  # the index of the result


class Lowered(NamedTuple):
    """A program in the intermediate representation.

    The graph's outputs are the results that are nodes, in order, then the values of `writes`.
    """

    graph: Graph
    sources: list[Source]
    results: list[Any]  # for each result, the index of an output in an `Output`, or a constant
    writes: list[Write]
    aliases: dict[int, int]  # results that are an argument's own memory: the index of the input


class Output(NamedTuple):
    """A result of a program: an output of the graph."""

    output: int
    number: type | None  # a result that is a Python number


class _Memory:
    """One memory: the newest value of all its elements, as a node.

    Attributes:
        value: the node.
        shape, strides, dtype: of the array that made the memory; strides in bytes.
        source: the index of the input whose memory it is; -1 for a memory of the program's own.
        is_split: whether a view reads parts of its numbers, as ``.real`` does; true of both.
    """

    def __init__(self, value: Node, meta: Any, source: int = -1):
        self.value = value
        self.shape = meta.shape
        self.strides = meta.strides
        self.dtype = meta.dtype
        self.source = source
        self.is_split = False
        size = self.dtype.itemsize
        pairs = zip(self.shape, self.strides, c_strides(self.shape), strict=True)
        self.is_dense = all(n == 1 or ours == size * theirs for n, ours, theirs in pairs)

    def place(self, view: _View) -> Any:
        """The elements of a view in the newest value: a ``Place``, or an array of positions."""
        size = self.dtype.itemsize
        if self.is_dense or 0 in view.shape:
            if view.offset % size or any(s % size for s in view.strides):
                raise CannotLower("a view that divides numbers")
            steps = tuple(s // size for s in view.strides)
            return Place(view.offset // size, steps, view.shape).normalized
        return self._place_by_positions(view)

    def _place_by_positions(self, view: _View) -> Any:
        """The same for memory in another order: its elements are numbered, and the view is read."""
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)
        size = self.dtype.itemsize
        count = (high - low) // size + 1
        if count > MOST_POSITIONS or any(s % size for s in (*self.strides, *view.strides)):
            raise CannotLower("a view of memory in an unusual order")
        numbers = np.full(count, -1, np.int64)
        own = Place(-low // size, tuple(s // size for s in self.strides), self.shape)
        numbers[own.positions()] = np.arange(prod(self.shape)).reshape(self.shape)
        theirs = Place(
            (view.offset - low) // size, tuple(s // size for s in view.strides), view.shape
        )
        positions = numbers[theirs.positions()]
        found = affine_place(positions)
        return positions if found is None else found.normalized


class _View(NamedTuple):
    """A value of the traced graph: part of a memory; offset and strides are in bytes."""

    memory: _Memory
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the part is the whole, as the array that made the memory has it."""
        memory = self.memory
        return self.shape == memory.shape and self.strides == memory.strides and not self.offset


class _Number(NamedTuple):
    """A Python number of the traced graph."""

    node: Node
    kind: type


class _Lowering:
    def __init__(self, tracer: Tracer, outputs: list[Any]):
        self.tracer = tracer
        self.outputs = outputs
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.sources: list[Source] = []
        self.views: dict[TracedNode, _View] = {}
        self.numbers: dict[TracedNode, _Number] = {}
        self.lists: dict[TracedNode, Any] = {}  # values that are tuples: nodes, or an opaque node
        self.memories: list[_Memory] = []
        self.guards: dict[TracedNode, list[Any]] = {}
        for guard in tracer.guards:
            self.guards.setdefault(guard.node, []).append(guard.value)
        self._check_aliases()

    def _check_aliases(self) -> None:
        if not self.tracer.writes:
            return
        roots = [n.meta["root"] for n in self.tracer.graph.nodes if "root" in n.meta]
        if len(set(roots)) < len(roots):
            raise CannotLower("a write to memory that two arrays from outside share")

    def run(self) -> Lowered:
        arguments = 0
        for node in self.tracer.graph.nodes:
            if node.op == "placeholder":
                self._add_argument(node, arguments)
                arguments += 1
            elif node.op == "get_attr":
                self._add_captured(node)
            elif node.op == "call_function":
                self._call(node)
            for value in self.guards.get(node, ()):
                self._guard(node, value)
        return self._finish()

    # --- inputs and results -----------------------------------------------------------------------

    def _add_argument(self, node: TracedNode, index: int) -> None:
        number = node.meta.get("number")
        if number is not None:
            dtype = _number_dtype(number)
            self.numbers[node] = _Number(self.graph.input((), dtype), number)
        elif "tensor_meta" in node.meta:
            self._keep(node, self._input(node), len(self.sources))
        else:
            return
        self.sources.append(Source("argument", index, number))

    def _add_captured(self, node: TracedNode) -> None:
        if "is_scalar" in node.meta:
            self._keep(node, self.graph.const(self.tracer.captured[node.target]))
            return
        self._keep(node, self._input(node), len(self.sources))
        self.sources.append(Source("captured", node.target, None))

    def _input(self, node: TracedNode) -> Node:
        meta = node.meta["tensor_meta"]
        if meta.dtype.char not in _DTYPES:
            raise CannotLower(f"an array of {meta.dtype}")
        return self.graph.input(meta.shape, meta.dtype)

    def _keep(self, node: TracedNode, value: Node, source: int = -1) -> None:
        """Makes a value the newest one of a memory of its own."""
        meta = node.meta["tensor_meta"]
        if value.shape != meta.shape or value.dtype != meta.dtype:
            raise CannotLower(f"{value} in the place of {meta}")
        if not meta.dtype.isnative:
            raise CannotLower("an array of another byte order")
        memory = _Memory(value, meta, source)
        self.memories.append(memory)
        self.views[node] = _View(memory, 0, meta.shape, meta.strides)

    def _finish(self) -> Lowered:
        results: list[Any] = []
        aliases: dict[int, int] = {}
        outputs: list[Node] = []
        for place, value in enumerate(self.outputs):
            if not isinstance(value, TracedNode):
                results.append(value)
                continue
            number = self.numbers.get(value)
            results.append(Output(len(outputs), None if number is None else number.kind))
            view = self.views.get(value)
            if view is not None and view.memory.source >= 0 and view.is_whole:
                aliases[place] = view.memory.source
            outputs.append(number.node if number is not None else self.read(value))
        writes = []
        for memory in self.memories:
            if memory.source >= 0 and memory.value is not self.graph.inputs[memory.source]:
                writes.append(Write(memory.source, len(outputs)))
                outputs.append(memory.value)
        self.graph.outputs = outputs
        return Lowered(self.graph, self.sources, results, writes, aliases)

    def _guard(self, node: TracedNode, value: Any) -> None:
        """A check that a value is the one that the program had read."""
        number = self.numbers.get(node)
        found = number.node if number is not None else self.read(node)
        x = Value(found, self.builder)
        expected = np.asarray(value)
        same = x == Value(self.builder.const(expected, found.dtype), self.builder)
        if expected.dtype.kind in "fc":
            nan = Value(self.builder.const(np.isnan(expected)), self.builder)
            same = same | (apply("isnan", x) & nan)
        if expected.dtype.kind == "f" and not np.all(expected):
            sign = Value(self.builder.const(np.signbit(expected)), self.builder)
            same = same & (apply("signbit", x) == sign)
        self.builder.require(same.node)

    # --- memory -----------------------------------------------------------------------------------

    def read(self, node: TracedNode) -> Node:
        """The value of an array at this point."""
        view = self.views[node]
        if view.is_whole:
            return view.memory.value
        place = view.memory.place(view)
        if isinstance(place, Place):
            return self.builder.view(view.memory.value, place)
        return move_elements(Value(view.memory.value, self.builder), place).node

    def write(self, node: TracedNode, value: Node) -> None:
        """Makes the next value of a memory, with new elements at the place of an array."""
        view = self.views[node]
        memory = view.memory
        if memory.is_split or node.meta["tensor_meta"].dtype != memory.dtype:
            raise CannotLower("a write to memory that is read as another dtype")
        place = memory.place(view)
        if not isinstance(place, Place):
            raise CannotLower("a write to memory in an unusual order")
        if any(n > 1 and s == 0 for n, s in zip(place.shape, place.strides, strict=True)):
            raise CannotLower("a write to elements that share memory")
        part = self.builder.broadcast(self.builder.cast(value, memory.dtype), view.shape)
        memory.value = self.builder.update("set", memory.value, place, part)

    def _is_view(self, node: TracedNode) -> bool:
        """Makes a node a view of memory, if its array was one in the trace."""
        source = node.meta.get("view_of")
        if source is None:
            return False
        view = self.views[source]
        meta = node.meta["tensor_meta"]
        if meta.dtype != view.memory.dtype:
            view.memory.is_split = True
            return False
        offset = view.offset + node.meta.get("byte_offset", 0)
        self.views[node] = _View(view.memory, offset, meta.shape, meta.strides)
        return True

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, node: TracedNode) -> None:
        target = node.target
        if target is python_operators.getitem and node.args[0] in self.lists:
            self._item(node)
            return
        if target is as_operand:
            self.numbers[node] = self.numbers[node.args[0]]
            return
        if target is item_of:
            number = self.builder.cast(self.read(node.args[0]), np.dtype(float))
            self.numbers[node] = _Number(number, float)
            return
        if isinstance(target, LoopCall):
            self._loop(node)
            return
        schema = schema_of(target)
        if schema is None:
            self._number_call(node)
        elif schema.is_mutable:
            self._in_place(node, schema)
        elif not self._is_view(node):
            self._functional(node)
            if "view_of" in node.meta:  # a write to it would be one to the numbers that it divides
                self.views[node].memory.is_split = True

    def _item(self, node: TracedNode) -> None:
        if self._is_view(node):
            return
        items = self.lists[node.args[0]]
        meta = node.meta["tensor_meta"]
        index = node.args[1]
        value = (
            self.builder.pick(items, index, meta.shape, meta.dtype)
            if isinstance(items, Node)
            else items[index]
        )
        self._keep(node, value)

    def _number_call(self, node: TracedNode) -> None:
        """Python's arithmetic on numbers: of floats as machine code, else by Python."""
        given: list[Any] = [
            self.numbers.get(a, a) if isinstance(a, TracedNode) else a for a in node.args
        ]
        if all(
            a.kind is float if isinstance(a, _Number) else type(a) in (int, float) for a in given
        ) and self._float_call(node, given):
            return
        kind = node.meta.get("number")
        if kind not in (bool, int, float, complex):
            raise CannotLower(f"{node.target} of numbers")
        call = self._opaque(node, "arithmetic of Python's numbers")
        made = self.graph.add("opaque", *call, (), _number_dtype(kind), unique=True)
        self.numbers[node] = _Number(made, kind)

    def _float_call(self, node: TracedNode, given: list[Any]) -> bool:
        """A function of floats as machine code; returns whether there is one.

        Where Python raises (division by zero, overflow, outside of a domain), a check fails.
        """
        values = [
            Value(a.node, self.builder) if isinstance(a, _Number) else float(a) for a in given
        ]
        if node.target in _NUMBER_COMPARISONS:
            found = apply(_NUMBER_COMPARISONS[node.target], *values)
            self.numbers[node] = _Number(found.node, bool)
            return True
        if node.target is bool:
            self.numbers[node] = _Number(apply("not_equal", values[0], 0.0).node, bool)
            return True
        name = _NUMBER_FUNCTIONS.get(node.target)
        if name is None or node.meta.get("number") is not float or (name == "log" and given[1:]):
            return False
        found = apply(name, *values)
        if name not in _WITHOUT_ERRORS:
            is_nan = [apply("isnan", value) for value in values if isinstance(value, Value)]
            holds = apply("isfinite", found)
            for one in is_nan:
                holds = holds | one
            self.builder.require(holds.node)
        self.numbers[node] = _Number(found.node, float)
        return True

    def _in_place(self, node: TracedNode, schema: Any) -> None:
        """An operator that writes: its functional form, then a write."""
        name = operator_name(node.target)
        target = node.args[0] if node.args else None
        if not isinstance(target, TracedNode) or not name.endswith("_") or target not in self.views:
            raise CannotLower(f"{name} writes to an argument that is not its first")
        try:
            found = self._lower_write(node, schema, name)
        except CannotLower as reason:
            found = Value(self._add_opaque(node, str(reason), OnCopy(node.target)), self.builder)
        if not isinstance(found, Value):
            found = Value(
                self.builder.full(found, (), self.views[target].memory.dtype), self.builder
            )
        self._check_number(found, self.views[target].memory.dtype)
        self.write(target, found.node)
        self.views[node] = self.views[target]

    def _lower_write(self, node: TracedNode, schema: Any, name: str) -> Any:
        """Lowers what an in-place operator writes: a value, or a number."""
        rest = list(map_arg(node.args[1:], self._value))
        kwargs = map_arg(node.kwargs, self._value)
        if name == "copy_" and not isinstance(node.target, BatchedCall):
            return rest[0]
        if name in ("fill_", "zero_") and not isinstance(node.target, BatchedCall):
            return rest[0] if rest else 0
        now = Value(self.read(node.args[0]), self.builder)
        if isinstance(node.target, BatchedCall):
            return written_in_batch(node.target, name, now, rest, kwargs)
        return lower_operator(name[:-1], schema, [now, *rest], kwargs)

    def _check_number(self, value: Value, dtype: np.dtype[Any]) -> None:
        """Python numbers that do not fit into an array of integers raise; machine code cannot."""
        if value.number is int:
            self.builder.require_range(value.node, dtype)
        elif value.number is not None and dtype.kind in "iu":
            raise CannotLower("a number that is no integer in an array of integers")

    def _functional(self, node: TracedNode) -> None:
        """An operator that writes nothing, or the same as an opaque node."""
        try:
            self._keep_result(node, self._lower_call(node))
        except CannotLower as reason:
            self._keep_opaque(node, str(reason))

    def _lower_call(self, node: TracedNode) -> Any:
        target = node.target
        is_batched = isinstance(target, BatchedCall)
        if not is_batched and "nondeterministic_seeded" in target.tags:
            raise CannotLower("random numbers")
        name = operator_name(target)
        if not is_batched and not node.all_input_nodes:
            return self._evaluate(node, name)
        args = list(map_arg(node.args, self._value))
        kwargs = map_arg(node.kwargs, self._value)
        if is_batched:
            return lower_batched(target, args, kwargs, self.builder)
        return lower_operator(name, target.schema, args, kwargs, target)

    def _evaluate(self, node: TracedNode, name: str) -> Value:
        """An operator without operands: a constant."""
        meta = node.meta.get("tensor_meta")
        if meta is None or meta.dtype.char not in _DTYPES:
            raise CannotLower("results of another kind")
        if name in ("zeros", "ones", "empty"):
            number = 1 if name == "ones" else 0
            return Value(self.builder.full(number, meta.shape, meta.dtype), self.builder)
        with untraced():
            found = node.target(*node.args, **node.kwargs)
        return Value(self.builder.const(np.asarray(found._array)), self.builder)

    def _keep_result(self, node: TracedNode, found: Any) -> None:
        if isinstance(found, list | tuple):
            self.lists[node] = [value.node for value in found]
            return
        meta = node.meta["tensor_meta"]
        if not isinstance(found, Value):
            found = Value(self.builder.full(found, meta.shape, meta.dtype), self.builder)
        if found.shape != meta.shape:
            raise CannotLower(f"a result of shape {found.shape} in the place of {meta.shape}")
        self._keep(node, self.builder.cast(found.node, meta.dtype))

    def _value(self, node: TracedNode) -> Value:
        """A number or an array as rules get it."""
        number = self.numbers.get(node)
        if number is not None:
            return Value(number.node, self.builder, number.kind)
        self._require_array(node)
        return Value(self.read(node), self.builder)

    def _require_array(self, node: TracedNode) -> None:
        if node in self.lists:
            raise CannotLower("a list of arrays as an argument")

    def _loop(self, node: TracedNode) -> None:
        """A loop whose step is a traced graph of its own."""
        steps = node.target.body
        inner = _Lowering(steps.tracer, steps.outputs)
        inner.run()
        calls = [n for n in inner.graph.live() if n.op == "opaque"]
        if calls:
            step = self._step_of(steps, is_native=not inner.graph.checks)
            reason = f"its step has {calls[0].attrs[0].name}"
            self._keep_opaque(node, reason, node.target.with_step(step))
            return
        order = [n for n in steps.tracer.graph.nodes if n in inner.views or n in inner.numbers]
        order = [
            n for n in order if n.op in ("placeholder", "get_attr") and "is_scalar" not in n.meta
        ]
        given = [
            self.numbers[arg].node if arg in self.numbers else self.read(arg) for arg in node.args
        ]
        self.lists[node] = add_loop(self.builder, node.target, inner.graph, order, given)

    def _step_of(self, steps: LoopBody, *, is_native: bool) -> Callable[..., Any]:
        """The function of one step: machine code with calls between, or kernels alone."""
        if is_native:
            return steps.reorder(native_program.compile_native(steps.tracer, steps.outputs).run)
        return steps.reorder(eager_program.compile_program(steps.tracer, steps.outputs).run)

    # --- opaque calls -----------------------------------------------------------------------------

    def _opaque(
        self, node: TracedNode, reason: str, target: Any = None
    ) -> tuple[list[Node], tuple[OpaqueCall]]:
        """The operands and the attributes of an opaque node."""
        operands: list[Node] = []

        def hole(value: TracedNode) -> Hole:
            self._require_array(value)
            number = self.numbers.get(value)
            operands.append(number.node if number is not None else self.read(value))
            if number is None:
                return Hole(len(operands) - 1, "tensor")
            return Hole(len(operands) - 1, "operand" if value.target is as_operand else "number")

        args = [map_arg(a, hole) for a in node.args]
        schema = schema_of(node.target)
        if schema is not None:
            positional, _, tensors = parameters_of(schema)
            for place, name in enumerate(positional[: len(args)]):
                if name in tensors:
                    args[place] = _as_operands(args[place])
        kwargs = {key: map_arg(a, hole) for key, a in node.kwargs.items()}
        return operands, (OpaqueCall(target or node.target, args, kwargs, reason),)

    def _add_opaque(self, node: TracedNode, reason: str, target: Any = None) -> Node:
        """An opaque node in the place of a call."""
        operands, attrs = self._opaque(node, reason, target)
        meta = node.meta.get("tensor_meta")
        shape, dtype = ((), np.dtype(bool)) if meta is None else (meta.shape, meta.dtype)
        made = self.graph.add("opaque", operands, attrs, shape, dtype, unique=True)
        if "nondeterministic_seeded" in getattr(node.target, "tags", ()):
            self.graph.effects.append(made)
        return made

    def _keep_opaque(self, node: TracedNode, reason: str, target: Any = None) -> None:
        made = self._add_opaque(node, reason, target)
        if node.meta.get("tensor_meta") is None:
            self.lists[node] = made
        else:
            self._keep(node, made)


def _as_operands(value: Any) -> Any:
    """Numbers in the places of tensors, as kernels take them."""
    if type(value) in (list, tuple):
        return type(value)(map(_as_operands, value))
    return as_operand(value) if type(value) in (bool, int, float, complex) else value


def _number_dtype(kind: type) -> np.dtype[Any]:
    return _NUMBER_DTYPES.get(kind) or np.dtype(kind)


def lower(tracer: Tracer, outputs: list[Any]) -> Lowered:
    """The lowered form of a traced program with these results; raises ``CannotLower``."""
    lowered = _Lowering(tracer, outputs).run()
    return lowered._replace(graph=prune_loops(lowered.graph))
