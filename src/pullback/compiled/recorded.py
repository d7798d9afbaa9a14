"""Calls of compiled functions that are recorded: results with a history, and compiled gradients.

While a function is traced, the gradients of its results by the arguments and captured tensors that
require grad are traced with it, as a function of cotangents (``trace_gradients``). A recorded call
runs the forward program and attaches one node, ``CompiledCallBackward``, to the results. Its
backward runs the backward program for the results that have got a cotangent: as without
compilation, the others have no part in the gradients. A backward that is itself recorded
(``create_graph=True``), or whose cotangents are batched or have tangents, calls the function as it
is instead and differentiates that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.api import grad as gradients_of
from pullback.autograd.function import Function, FunctionCtx
from pullback.autograd.graph.node import (
    FREED,
    Node,
    OperatorNode,
    freed_error,
    next_sequence_number,
    node_of,
)
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.saved import version, version_error
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.modes import enable_grad
from pullback.compiled.eager.program import MISS
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import is_grad_enabled
from pullback.errors import AutogradError, SavedVersionError, TraceError
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import Tensor, fresh, version_of, wrap

__all__ = [
    "CompiledCall",
    "CompiledCallBackward",
    "CompiledStepBackward",
    "Gradients",
    "Pull",
    "Recorded",
    "RecordedCall",
    "attach",
    "attach_freed",
    "is_differentiable",
    "trace_gradients",
]


_STANDING_IN = RLock()


class Gradients(NamedTuple):
    """Traced gradients of the results of a function.

    Attributes:
        results: the places of the results that require grad and can be differentiated.
        freed: the places of those whose graph a backward pass inside of the function has freed.
        leaves: captured tensors that the results depend on.
        nodes: the node of each gradient, of arguments first; None where one is zero.
        reached: for each gradient, the numbers of the results that it is a gradient of.
        groups: for each result, the number of its group; results of one group share saved values,
            so that a backward pass from one frees the others. None for one without saved values.
    """

    results: list[int]
    freed: list[int]
    leaves: list[Tensor]
    nodes: list[Any]
    reached: list[set[int]]
    groups: list[int | None]


def trace_gradients(
    tracer: Tracer, found: Sequence[Any], arguments: list[Tensor]
) -> Gradients | None:
    """Traces the gradients of results by arguments and captured tensors; None if none is needed."""
    places = [n for n, x in enumerate(found) if isinstance(x, Tensor) and requires_grad(x)]
    if not places:
        return None
    leaves = list(tracer.leaves.values())
    inputs = [*arguments, *leaves]
    graphs = {n: _Behind(found[n], inputs) for n in places}
    _require_known_leaves(graphs.values(), {_node(found[n]) for n in places}, inputs)
    freed = [n for n in places if graphs[n].is_freed]
    results = [n for n in places if n not in freed]
    behind = [graphs[n] for n in results]
    draws = len(tracer.random)
    nodes = _trace_nodes(tracer, [found[n] for n in results], inputs)
    if len(tracer.random) != draws:
        raise TraceError("the backward pass of a result draws random numbers")
    reached = [{n for n, b in enumerate(behind) if edge in b.inputs} for edge in map(_node, inputs)]
    return Gradients(results, freed, leaves, nodes, reached, _groups(behind))


def _trace_nodes(tracer: Tracer, outputs: list[Tensor], inputs: list[Tensor]) -> list[Any]:
    """The nodes of the gradients of outputs, as a function of new inputs: their cotangents."""
    if not outputs:
        return [None] * len(inputs)
    cotangents = [wrap(tracer.input("cotangent", np.ones(x.shape, x.dtype))) for x in outputs]
    try:
        made = gradients_of(outputs, inputs, cotangents, retain_graph=True, allow_unused=True)
    except SavedVersionError as error:
        raise TraceError(
            "a result requires grad, and cannot be differentiated after a write of the function; "
            "return result.detach()"
        ) from error
    return [None if g is None else _traced_node(tracer, g) for g in made]


def _traced_node(tracer: Tracer, tensor: Tensor) -> Any:
    held = tensor._array
    return held.node if isinstance(held, TracedArray) else tracer.lift_new(np.asarray(held)).node


def _node(tensor: Tensor) -> Node | None:
    return node_of(edge_of(tensor))


class _Behind:
    """The graph behind a result: the nodes of inputs, and nodes that have saved values.

    Attributes:
        is_freed: whether saved values have been released.
        leaves: nodes where it ends besides inputs.
    """

    def __init__(self, output: Tensor, inputs: list[Tensor]):
        known = set(map(_node, inputs))
        self.inputs: set[Node | None] = set()
        self.leaves: set[Node] = set()
        self.saving: set[Node] = set()
        self.is_freed = False
        seen: set[Node | None] = {None}
        stack = [_node(output)]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            assert node is not None
            seen.add(node)
            if node in known:
                self.inputs.add(node)
                continue
            if node._saves or not isinstance(node, OperatorNode):
                self.saving.add(node)
                saved = (*node._saves, "_kept")  # those of a Function
                self.is_freed |= any(getattr(node, name, None) is FREED for name in saved)
            if not node._edges:
                self.leaves.add(node)
            stack += [node_of(edge) for edge in node._edges]


def _groups(behind: list[_Behind]) -> list[int | None]:
    """The group of each result: those that share a node with saved values are in one."""
    found: list[int | None] = []
    for number, own in enumerate(behind):
        joined = {found[n] for n in range(number) if behind[n].saving & own.saving}
        group = min((g for g in joined if g is not None), default=number)
        found = [group if g in joined and g is not None else g for g in found]
        found.append(group if own.saving else None)
    return found


def _require_known_leaves(
    behind: Iterable[_Behind], returned: set[Node | None], inputs: list[Tensor]
) -> None:
    """Refuses results whose history leads to a leaf that is no input of the program.

    A leaf that the function makes and does not return is out of reach after the call.
    """
    for node in set[Node]().union(*(graph.leaves for graph in behind)):
        variable = getattr(node, "variable", None)
        is_inner = variable is not None and isinstance(variable._array, TracedArray)
        if not is_inner or node in returned or not inputs:
            raise TraceError(
                "a result depends on a tensor that requires grad and is neither an argument nor "
                "used by an operator of the function itself"
            )


def is_differentiable(leaf: Any) -> bool:
    """Whether an argument is a tensor that requires grad."""
    return isinstance(leaf, Tensor) and requires_grad(leaf)


class Recorded(NamedTuple):
    """The backward program of a traced function.

    Attributes:
        backward: the backward program for some of the cotangents (truth values); None if there is
            none, and the function is called again.
        takes: for each input of the forward program that the backward program takes, its place
            among the arguments, or the name of a captured array.
        gradients: the traced gradients.
        refusal: why the function cannot be called again for a derivative; or empty.
        origins: captured tensors, which a second call of the function reads.
    """

    backward: Callable[[tuple[bool, ...]], Pull | None]
    takes: list[int | str]
    gradients: Gradients
    refusal: str
    origins: list[Tensor]


class Pull(NamedTuple):
    """A backward program.

    Attributes:
        run: takes residuals, inputs of the forward program and cotangents, None where it needs
            none; returns the gradients that have a node, None for those that are zero; or MISS.
        needs: the places of those that it reads, in the same order.
    """

    run: Callable[..., Any]
    needs: set[int]


class RecordedCall(NamedTuple):
    """One call: what its backward needs."""

    program: Recorded
    call: Callable[[Sequence[Tensor]], list[Tensor]]  # the function as it is, on other arguments
    arguments: list[Tensor]  # those that require grad
    values: list[Any]  # the results
    residuals: list[Any]
    inputs: list[Any]  # of the forward program that `program.takes` names
    reads: list[Tensor]  # what a second call of the function reads


class CompiledCall(Function):
    """Attaches the results of a compiled program to the arguments and captured tensors."""

    @staticmethod
    def forward(call: RecordedCall, *tensors: Tensor) -> Any:  # noqa: ARG004 - they are the inputs
        """The results that require grad, which the program has computed."""
        return tuple(call.values[n] for n in call.program.gradients.results)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Saves residuals and inputs."""
        call = inputs[0]
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.versions = [version(tensor) for tensor in call.reads]
        given = [*call.residuals, *call.inputs]
        ctx.numbers = [None if isinstance(x, Tensor) else x for x in given]
        ctx.save_for_backward(*(x if isinstance(x, Tensor) else None for x in given))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        """Runs the backward program, or differentiates the function."""
        call: RecordedCall = ctx.call
        gradients = call.program.gradients
        given = tuple(grad is not None for grad in grads)
        ctx.begin(given)
        chosen = {n for n, is_given in enumerate(given) if is_given}
        made = None
        plain = [g for g in grads if g is not None]
        if not is_grad_enabled() and all(
            type(g._array) is np.ndarray and not g._flags & DUAL for g in plain
        ):
            made = _pull(ctx, call, given, grads)
        if made is None:
            made = _differentiate(ctx, call, grads)
        pairs = zip(made, gradients.reached, strict=True)
        return (None, *(grad if reached & chosen else None for grad, reached in pairs))


class CompiledCallBackward(FunctionCtx):
    """Node of a recorded call: results of one group are freed together, as their graphs are."""

    _forward_cls = CompiledCall
    call: RecordedCall
    versions: list[Any]
    numbers: list[Any]  # inputs of the backward program that are no tensors
    _freed: frozenset[int] = frozenset()  # groups
    _last: frozenset[int] = frozenset()  # groups of the pass that runs

    def begin(self, given: tuple[bool, ...]) -> None:
        """Begins a pass from some of the results."""
        groups = self.call.program.gradients.groups
        own = frozenset(
            g for g, is_given in zip(groups, given, strict=True) if is_given and g is not None
        )
        if own & self._freed:
            raise freed_error(self)
        self._last = own

    def release(self) -> None:
        """Releases saved values when all groups are freed."""
        self._freed |= self._last
        groups = {g for g in self.call.program.gradients.groups if g is not None}
        if groups and self._freed >= groups:
            super().release()

    def load(self, place: int) -> Any:
        """A residual or an input, after the version check; as a tensor without history."""
        if self._kept is FREED:
            raise freed_error(self)
        value, expected = self._kept[place]
        if value is None:
            return self.numbers[place]
        return wrap(self._load(value, expected)._array)


CompiledCall._backward_cls = CompiledCallBackward


def _pull(
    ctx: CompiledCallBackward, call: RecordedCall, given: tuple[bool, ...], grads: Any
) -> list[Tensor | None] | None:
    """The gradients by the backward program; None where there is none."""
    pull = call.program.backward(given)
    if pull is None:
        return None
    count = len(ctx.numbers)
    inputs = [ctx.load(n) if n in pull.needs else None for n in range(count)]
    found = pull.run(*inputs, *grads)
    if found is MISS:
        return None
    made = iter(found)
    return [
        None if node is None or (grad := next(made)) is None else fresh(grad._array)
        for node in call.program.gradients.nodes
    ]


def _differentiate(ctx: CompiledCallBackward, call: RecordedCall, grads: Any) -> Any:
    """The gradients by a second call of the function as it is."""
    if call.program.refusal:
        raise AutogradError(
            f"{ctx.name()}: this derivative calls the compiled function again, which "
            f"{call.program.refusal}. Differentiate the function without pb.compile."
        )
    for tensor, expected in zip(call.reads, ctx.versions, strict=True):
        if version(tensor) != expected:
            raise version_error(ctx, tensor, expected)
    records = is_grad_enabled()
    captured = call.program.gradients.leaves
    with enable_grad():
        # New tensors, because one may be several arguments, and one computed from another. They
        # are made before the stand-ins, because an argument may be a captured tensor, too.
        slots = [t.clone() if records else _as_leaf(t) for t in call.arguments]
        # The argument of a transform that has ended has no history any more.
        slots = [slot if requires_grad(slot) else _as_leaf(slot) for slot in slots]
    with enable_grad(), _stand_ins(captured):
        outputs = call.call(slots)
        pairs = [pair for pair in zip(outputs, grads, strict=True) if pair[1] is not None]
        return gradients_of(
            [output for output, _ in pairs],
            [*slots, *captured],
            [grad for _, grad in pairs],
            create_graph=records,
            retain_graph=True,  # the history of the arguments is not ours
            allow_unused=True,
        )


def _as_leaf(tensor: Tensor) -> Tensor:
    """A tensor without history that requires grad, also inside of transforms."""
    leaf = fresh(tensor._array)
    leaf._flags |= REQUIRES_GRAD
    return leaf


@contextmanager
def _stand_ins(tensors: list[Tensor]) -> Iterator[None]:
    """A block in which leaves have the history of a copy of them.

    A pass to them ends at the copies, so that it counts neither arguments that are computed from
    them nor hooks. What is recorded leads on to the leaves, also by other threads meanwhile.
    """
    with _STANDING_IN:
        before = [tensor._edge for tensor in tensors]
        try:
            for tensor in tensors:
                version_of(tensor)  # that of the tensor, not of the copy's node
                tensor._edge = tensor.clone()._edge
            yield
        finally:
            for tensor, edge in zip(tensors, before, strict=True):
                tensor._edge = edge


class CompiledStepBackward(Node):
    """Node of a result whose graph was freed by a backward pass inside of the function."""

    __slots__ = ("_edges",)

    def __init__(self, tensor: Tensor, edges: tuple[Any, ...]):
        self._edges = edges
        self._seq = next_sequence_number()
        self._output_metadata = intern_metadata(tensor.shape, tensor.dtype)

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002 - always raises
        """Raises: the function has run the backward pass."""
        raise freed_error(self)


def attach(call: RecordedCall) -> list[Any]:
    """The results of a recorded call, with their history."""
    gradients = call.program.gradients
    values = list(call.values)
    with enable_grad():  # where grad mode is off, the function has enabled it
        made = CompiledCall.apply(call, *call.arguments, *gradients.leaves)
    for place, tensor in zip(gradients.results, made, strict=True):
        values[place] = tensor
    return values


def attach_freed(values: list[Any], gradients: Gradients | None, leaves: list[Any]) -> list[Any]:
    """The results, with histories of those that the function has run the backward pass on."""
    if gradients is None or not gradients.freed:
        return values
    tensors = [*filter(is_differentiable, leaves), *gradients.leaves]
    edges = tuple(edge_of(t) for t in tensors)
    found = list(values)
    for place in gradients.freed:
        tensor = found[place] = fresh(values[place]._array)
        tensor._flags |= REQUIRES_GRAD
        tensor._edge = CompiledStepBackward(tensor, edges)
    return found
