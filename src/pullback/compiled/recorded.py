"""Calls of compiled functions that are recorded: results with a history, and compiled gradients.

While a function is traced, the gradients of its results by the arguments and captured tensors that
require grad are traced with it, as a function of cotangents (``trace_gradients``). A recorded call
runs the forward program and attaches one node, ``CompiledCallBackward``, to the results. Its
backward runs the backward program. A backward that is itself recorded (``create_graph=True``), or
whose cotangents are batched or have tangents, calls the function as it is instead and
differentiates that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.api import grad as gradients_of
from pullback.autograd.function import Function
from pullback.autograd.graph.node import Node, freed_error, next_sequence_number, node_of
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.modes import enable_grad
from pullback.compiled.llvm.entry import MISS
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import is_grad_enabled
from pullback.errors import AutogradError, GraphFreedError, TraceError
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = [
    "CompiledCall",
    "CompiledStepBackward",
    "Gradients",
    "Recorded",
    "RecordedCall",
    "attach",
    "attach_freed",
    "differentiable",
    "is_differentiable",
    "trace_gradients",
]


class Gradients(NamedTuple):
    """Traced gradients of the results of a function.

    Attributes:
        results: the places of the results that require grad.
        leaves: captured tensors that the results depend on.
        nodes: the node of each gradient, of arguments first; None where one is zero.
        is_freed: whether the function has run the backward pass already.
    """

    results: list[int]
    leaves: list[Tensor]
    nodes: list[Any]
    is_freed: bool = False


def trace_gradients(
    tracer: Tracer, found: Sequence[Any], arguments: list[Tensor]
) -> Gradients | None:
    """Traces the gradients of results by arguments and captured tensors; None if none is needed."""
    results = [n for n, x in enumerate(found) if isinstance(x, Tensor) and requires_grad(x)]
    if not results:
        return None
    leaves = list(tracer.leaves.values())
    inputs = [*arguments, *leaves]
    outputs = [found[n] for n in results]
    _require_known_leaves(outputs, inputs)
    cotangents = [wrap(tracer.input("cotangent", np.ones(x.shape, x.dtype))) for x in outputs]
    try:
        made = gradients_of(outputs, inputs, cotangents, retain_graph=True, allow_unused=True)
    except GraphFreedError:
        if not all(_is_freed(*pair, inputs) for pair in zip(outputs, cotangents, strict=True)):
            raise TraceError(
                "backward() inside of the function has freed the graph of one result, and not "
                "that of another one; return detached tensors"
            ) from None
        return Gradients(results, leaves, [], is_freed=True)
    nodes = [None if g is None else _node(tracer, g) for g in made]
    return Gradients(results, leaves, nodes)


def _is_freed(output: Tensor, cotangent: Tensor, inputs: list[Tensor]) -> bool:
    """Whether a backward pass has freed the graph of a result."""
    try:
        gradients_of([output], inputs, [cotangent], retain_graph=True, allow_unused=True)
    except GraphFreedError:
        return True
    return False


def _node(tracer: Tracer, tensor: Tensor) -> Any:
    held = tensor._array
    return held.node if isinstance(held, TracedArray) else tracer.lift_new(np.asarray(held)).node


def _require_known_leaves(outputs: list[Tensor], inputs: list[Tensor]) -> None:
    """Refuses results whose history leads to a leaf that is no input of the program.

    A leaf that the function makes and does not return is out of reach after the call.
    """
    known = {node_of(edge_of(tensor)) for tensor in inputs}
    stack = [node_of(edge_of(tensor)) for tensor in outputs]
    returned = set(stack)
    seen = {None, *known}
    while stack:
        node = stack.pop()
        if node in seen or node is None:
            continue
        seen.add(node)
        edges = node._edges
        variable = getattr(node, "variable", None)
        is_inner = variable is not None and isinstance(variable._array, TracedArray)
        if not edges and (not is_inner or node in returned):
            raise TraceError(
                "a result depends on a tensor that requires grad and is neither an argument nor "
                "used by an operator of the function itself"
            )
        stack += [node_of(edge) for edge in edges]


def differentiable(leaves: list[Any]) -> list[Tensor]:
    """The tensors among arguments that require grad."""
    return [leaf for leaf in leaves if is_differentiable(leaf)]


def is_differentiable(leaf: Any) -> bool:
    """Whether an argument is a tensor that requires grad."""
    return isinstance(leaf, Tensor) and requires_grad(leaf)


class Recorded(NamedTuple):
    """The backward program of a traced function.

    Attributes:
        pull: takes residuals, inputs and cotangents; returns the gradients that are not zero, or
            MISS.
        takes: for each input that `pull` takes, its place among the arguments, or the name of a
            captured array.
        gradients: the traced gradients.
        refusal: why the function cannot be called again for a second derivative; or empty.
    """

    pull: Callable[..., Any]
    takes: list[int | str]
    gradients: Gradients
    refusal: str


class RecordedCall(NamedTuple):
    """One call: what its backward needs beside saved tensors."""

    program: Recorded
    call: Callable[[Sequence[Tensor]], list[Tensor]]  # the function as it is, on other arguments
    arguments: list[Tensor]  # those that require grad
    values: list[Any]  # the results
    residuals: list[Any]
    inputs: list[Any]  # what `pull` takes: tensors, arrays and numbers


class CompiledCall(Function):
    """Attaches the results of a compiled program to the arguments and captured tensors."""

    @staticmethod
    def forward(call: RecordedCall, *tensors: Tensor) -> Any:  # noqa: ARG004 - they are the inputs
        """The results that require grad, which the program has computed."""
        return tuple(call.values[n] for n in call.program.gradients.results)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Saves arguments and residuals."""
        call, *tensors = inputs
        ctx.call = call
        ctx.count = len(tensors)
        taken = [x for x in call.inputs if isinstance(x, Tensor)]
        ctx.save_for_backward(*tensors, *call.residuals, *taken)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Runs the backward program, or differentiates the function."""
        saved = ctx.saved_tensors
        call, tensors = ctx.call, saved[: ctx.count]
        plain = all(type(g._array) is np.ndarray and not g._flags & DUAL for g in grads)
        if plain and not is_grad_enabled():
            rest = iter(saved[ctx.count :])
            residuals = [next(rest) for _ in call.residuals]
            taken = [wrap(next(rest)._array) if isinstance(x, Tensor) else x for x in call.inputs]
            found = call.program.pull(*residuals, *taken, *grads)
            if found is not MISS:
                made = iter(found)
                nodes = call.program.gradients.nodes
                return (None, *(None if n is None else fresh(next(made)._array) for n in nodes))
        return (None, *_differentiate(ctx, call, tensors, grads))


def _differentiate(ctx: Any, call: RecordedCall, tensors: Any, grads: Any) -> Any:
    """The gradients by a second call of the function as it is."""
    if call.program.refusal:
        raise AutogradError(
            f"{ctx.name()}: a second derivative calls the compiled function again, which "
            f"{call.program.refusal}. Differentiate the function without pb.compile."
        )
    count = len(call.arguments)
    arguments, captured = tensors[:count], tensors[count:]
    records = is_grad_enabled()
    if records:
        _require_unrelated(ctx, arguments, captured)
    with enable_grad():
        # New tensors, because one may be several arguments, and one computed from another.
        slots = [t.clone() if records else _as_leaf(t) for t in arguments]
        return gradients_of(
            call.call(slots),
            [*slots, *captured],
            list(grads),
            create_graph=records,
            retain_graph=True,  # the history of the arguments is not ours
            allow_unused=True,
        )


def _as_leaf(tensor: Tensor) -> Tensor:
    """A tensor without history that requires grad, also inside of transforms."""
    leaf = fresh(tensor._array)
    leaf._flags |= REQUIRES_GRAD
    return leaf


def _require_unrelated(ctx: Any, arguments: Any, captured: Any) -> None:
    """Refuses arguments computed from captured tensors: their gradients would be counted twice."""
    targets = {node_of(edge_of(tensor)) for tensor in captured}
    stack = [node_of(edge_of(tensor)) for tensor in arguments] if targets else []
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node in targets:
            raise AutogradError(
                f"{ctx.name()}: a second derivative calls the compiled function again, and an "
                f"argument is computed from a tensor that the function captures. Pass that tensor "
                f"as an argument too, or differentiate the function without pb.compile."
            )
        if node is not None and node not in seen:
            seen.add(node)
            stack += [node_of(edge) for edge in node._edges]


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
    made = CompiledCall.apply(call, *call.arguments, *gradients.leaves)
    values = list(call.values)
    for place, tensor in zip(gradients.results, made, strict=True):
        values[place] = tensor
    return values


def attach_freed(values: list[Any], gradients: Gradients, leaves: list[Any]) -> list[Any]:
    """Results of a function that has run the backward pass on their graph."""
    edges = tuple(edge_of(t) for t in (*differentiable(leaves), *gradients.leaves))
    found = list(values)
    for place in gradients.results:
        tensor = found[place] = fresh(values[place]._array)
        tensor._flags |= REQUIRES_GRAD
        tensor._edge = CompiledStepBackward(tensor, edges)
    return found
