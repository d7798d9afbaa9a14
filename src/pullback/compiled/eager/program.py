"""``Program``: a traced graph as one Python function that calls the operators' kernels.

Calls go to kernels directly: no dispatch, no autograd, no checks of arguments. Guards are checked
where the program had read a value; a mismatch ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.eager.common_subexpressions import merge_equal_nodes
from pullback.compiled.eager.inplace import Reuse, find_reuse
from pullback.compiled.results import OutsideArray, constant_result
from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.dispatch.modes import get_state, set_state
from pullback.fx.dependencies import Guard
from pullback.fx.loop_call import LoopCall
from pullback.fx.node import Node, map_arg, memory_of, schema_of
from pullback.fx.source import SourceWriter, run_source
from pullback.fx.tracer import PLAIN_STATE, Tracer, untraced
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.tensor import Tensor, as_operand, wrap

__all__ = ["MISS", "Program", "compile_program"]

MISS: Any = type("Miss", (), {"__repr__": lambda _: "<a guard does not hold>"})()
"""Returned by a program where a value differs from the one that its graph was traced with."""

_CPU = KEY_BITS[DispatchKey.CPU]
_NUMBERS = (bool, int, float, complex)


class Program(NamedTuple):
    """A graph that can be run, with its origin."""

    run: Callable[..., Any]  # takes the inputs as tensors and numbers, returns a list or MISS
    source: Callable[[], str]  # writes its graph
    tracer: Tracer
    outputs: list[Any]  # nodes and constants
    reason: str  # why it must not run again, and the function is called instead; or empty
    llvm_ir: Callable[[], str] = str  # writes its machine code
    note: str = ""  # why it is no machine code
    native: Any = None  # the native program


def compile_program(
    tracer: Tracer, outputs: list[Any], kept: Iterable[Node] = (), cotangents: int = 0
) -> Program:
    """Makes the function of a traced graph, which returns the given nodes and constants.

    Nodes of other programs of the graph, `kept`, stay in it. Writes of its backward part, whose
    inputs are the last placeholders, `cotangents` of them, are no part of the program.
    """
    if not any(map(_has_effect, tracer.graph.nodes)):
        guarded = [guard.node for guard in tracer.guards]
        merge_equal_nodes(tracer.graph, [*outputs, *kept, *guarded])
    needed = _find_needed(tracer, outputs, cotangents)
    guards: dict[Node, list[Guard]] = {}
    for guard in tracer.guards:
        guards.setdefault(guard.node, []).append(guard)
    writer = _KernelWriter(node.name for node in tracer.graph.nodes)
    constants = _constants(tracer, needed)
    inputs = [node.name for node in tracer.graph.nodes if node.op == "placeholder"]
    lines: list[str] = []
    for number in tracer.graph.find_nodes(op="placeholder"):
        lines += writer.checks(guards.get(number, ()))
    steps = [node for node in tracer.graph.nodes if node in needed and node.op != "placeholder"]
    writer.reuse = find_reuse(steps, {*guards, *_nodes_of(outputs)}, set(constants))
    steps = [node for node in steps if node not in writer.reuse.skipped]
    dies = _last_uses(steps, writer.reuse, {*guards, *_nodes_of(outputs), *constants})
    for place, node in enumerate(steps):
        if node.op == "get_attr":
            held = writer.constant(tracer.captured)
            lines.append(f"{node.name} = {writer.constant(wrap)}({held}[{node.target!r}])")
        elif node in constants:
            lines.append(f"{node.name} = {writer.constant(constants[node])}")
        else:
            lines.append(writer.statement(node))
        lines += writer.checks(guards.get(node, ()))
        if place in dies:
            lines.append(f"del {', '.join(dies[place])}")
    lines.append(f"return [{', '.join(writer.output(value) for value in outputs)}]")
    head = f"def program({', '.join(inputs)}):"
    source = "\n    ".join([head, *lines]) + "\n"
    inner = run_source(source, "program", "compiled program", writer.globals)

    def run(*args: Any) -> Any:
        before, settings = get_state(), get_settings()
        try:
            set_state(PLAIN_STATE)
            set_settings(QUIET)  # the function may have switched warnings off
            return inner(*args)
        finally:
            try:
                set_settings(settings)
            finally:
                set_state(before)

    return Program(run, lambda: source, tracer, outputs, _refusal(tracer))


def _nodes_of(values: list[Any]) -> list[Node]:
    """The nodes among results."""
    return [value for value in values if isinstance(value, Node)]


def _last_uses(steps: list[Node], reuse: Reuse, kept: set[Node]) -> dict[int, list[str]]:
    """The names that each step of a program is the last to use, so that memory is freed early."""
    last: dict[Node, int] = {}
    for place, node in enumerate(steps):
        if node.op != "get_attr":
            last.update(dict.fromkeys(reuse.operands(node), place))
    made = {node for node in steps if node.op != "get_attr"}
    found: dict[int, list[str]] = {}
    for node, place in last.items():
        if node in made and node not in kept:
            found.setdefault(place, []).append(node.name)
    return found


def _refusal(tracer: Tracer) -> str:
    """The reason why a graph cannot run again: a write is not undone where a guard fails."""
    if not tracer.guards or not tracer.writes:
        return ""
    order = {node: place for place, node in enumerate(tracer.graph.nodes)}
    last = max(tracer.guards, key=lambda guard: order[guard.node])
    if min(order[node] for node in tracer.writes) > order[last.node]:
        return ""
    return (
        f"it writes to an argument or captured array before {last.what}{last.line} reads a value; "
        f"write after the branch, or return the new value"
    )


def _find_needed(tracer: Tracer, outputs: list[Any], cotangents: int) -> set[Node]:
    """The nodes that results, guards and writes depend on."""
    nodes = list(tracer.graph.nodes)
    if cotangents:
        first = tracer.graph.find_nodes(op="placeholder")[-cotangents]
        nodes = nodes[: nodes.index(first)]
    stack = [value for value in outputs if isinstance(value, Node)]
    stack += [guard.node for guard in tracer.guards]
    stack += [node for node in nodes if _has_effect(node)]
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.all_input_nodes
    return found


def _constants(tracer: Tracer, needed: set[Node]) -> dict[Node, Tensor]:
    """The values of nodes that depend on nothing, in a program that writes to no memory."""
    if any(map(_has_effect, tracer.graph.nodes)):
        return {}
    found: dict[Node, Tensor] = {}
    with untraced():
        for node in tracer.graph.nodes:
            inputs = node.all_input_nodes
            known = all(value in found for value in inputs)
            if node in needed and hasattr(node.target, "overloadpacket") and known:
                args = map_arg(node.args, found.__getitem__)
                result = node.target(*args, **map_arg(node.kwargs, found.__getitem__))
                if isinstance(result, Tensor):
                    found[node] = result
                    node.meta["is_constant"] = True
    return found


def _has_effect(node: Node) -> bool:
    schema = schema_of(node.target)
    if schema is None:
        return False
    return bool(schema.is_mutable) or "nondeterministic_seeded" in getattr(node.target, "tags", ())


def _same(array: Any, expected: np.ndarray[Any, Any]) -> bool:
    held = array._array
    return bool(held.shape == expected.shape and held.tobytes() == expected.tobytes())


def _add_part(total: Tensor, part: Tensor, index: Any) -> Tensor:
    total._array[index] += part._array
    return total


class _KernelWriter(SourceWriter):
    """Python statements of nodes that call kernels in the place of operators."""

    def __init__(self, taken: Iterable[str]) -> None:
        super().__init__(taken=taken)
        self.reuse = Reuse()

    def checks(self, guards: Iterable[Guard]) -> list[str]:
        """Statements that end the run where a guard does not hold."""
        miss = self.constant(MISS)
        return [f"if not {self.check(guard)}: return {miss}" for guard in guards]

    def constant(self, value: Any) -> str:
        """The name of a value that the program keeps."""
        return self._object(value, "constant")

    def function(self, target: Any) -> str:
        """The name of the kernel of an operator, or of any other function."""
        if hasattr(target, "overloadpacket"):
            return self._object(target.below(_CPU), target.overloadpacket.__name__)
        if isinstance(target, LoopCall):
            program = compile_program(target.body.tracer, target.body.outputs)
            return self._object(target.with_step(target.body.reorder(program.run)), "loop")
        return super().function(target)

    def statement(self, node: Node) -> str:
        """The statement of one node; numbers stand as tensors where the schema has tensors."""
        if node in self.reuse.copies:
            return f"{node.name} = {self.reuse.copies[node].name}"
        if node in self.reuse.adds:
            total, part, index = self.reuse.adds[node]
            add = self._object(_add_part, "add_part")
            return f"{node.name} = {add}({total.name}, {part.name}, {self.literal(index)})"
        schema = schema_of(node.target)
        if schema is None:
            return super().statement(node)
        arguments = schema.arguments.flat_all
        by_name = {argument.name: argument.type.is_tensor_like() for argument in arguments}
        is_tensor = [by_name[a.name] for a in schema.arguments.flat_positional]
        values = [
            self._operand(value) if tensor else self.literal(value)
            for value, tensor in zip(node.args, is_tensor, strict=False)
        ]
        for name, value in node.kwargs.items():
            text = self._operand(value) if by_name[name] else self.literal(value)
            values.append(f"{name}={text}")
        return f"{node.name} = {self.function(node.target)}({', '.join(values)})"

    def _operand(self, value: Any) -> str:
        if type(value) in _NUMBERS:
            return self.constant(as_operand(value))
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._operand, value))}]"
        return self.literal(value)

    def check(self, guard: Guard) -> str:
        """The expression that says whether a guard holds."""
        name = guard.node.name
        if isinstance(guard.value, np.ndarray):
            same = self._object(_same, "same")
            return f"{same}({name}, {self.constant(guard.value)})"
        expected = self.constant(guard.value)
        if guard.value == 0 and isinstance(guard.value, float | complex):  # 0.0 is not -0.0
            return f"repr({name}) == repr({expected})"
        return f"({name} == {expected} or {name} != {name} and {expected} != {expected})"

    def output(self, value: Any) -> str:
        """The expression of one result; memory that the program keeps is copied."""
        if isinstance(value, OutsideArray | np.ndarray):
            return f"{self._object(constant_result, 'copied')}({self.constant(value)})"
        if not isinstance(value, Node):
            return self.constant(value)
        return f"{self._object(_copy, 'copied')}({value.name})" if _is_kept(value) else value.name


def _is_kept(node: Node) -> bool:
    node = memory_of(node)
    return node.op == "get_attr" or "is_constant" in node.meta


def _copy(tensor: Tensor) -> Tensor:
    return wrap(tensor._array.copy())
