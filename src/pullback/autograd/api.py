"""``backward`` and ``grad``: the two ways to start a backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.engine.exposed import to_tensors
from pullback.autograd.engine.fast_path import run_scalar_backward
from pullback.autograd.engine.graph_task import GraphTask
from pullback.autograd.engine.roots import Root, Seeds, seeds_of
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.gradient_edge import GradientEdge, list_roots
from pullback.autograd.graph.node import Edge, Node, output_of, unpack_edge
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.retain_grad import retain_grad
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.levels import forbid_in_transform, leave_tape
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.errors import AutogradError, AutogradValueError
from pullback.tensor.levels import RowLevel
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, fresh, zeros_beside

if TYPE_CHECKING:
    from pullback.autograd.debug import anomaly_task
    from pullback.batching import add_remove_dim
else:
    anomaly_task = lazy_module("pullback.autograd.debug.anomaly_task")
    add_remove_dim = lazy_module("pullback.batching.add_remove_dim")

__all__ = ["Inputs", "backward", "grad"]

Inputs = Root | Sequence[Root] | Mapping[Any, Root]


def backward(
    tensors: Root | Sequence[Root],
    grad_tensors: Seeds = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Seeds = None,
    inputs: Inputs | None = None,
) -> None:
    """Adds the gradients of some tensors to the ``grad`` of the leaves that they came from.

    Args:
        tensors: the roots; their gradients are ones unless given.
        grad_tensors: the gradient of each root, of exactly its shape.
        retain_graph: keep saved values for another pass; as `create_graph` unless given.
        create_graph: record the pass itself, so that the gradients can be differentiated.
        grad_variables: the old name of `grad_tensors`.
        inputs: write to the ``grad`` of these only.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> backward((x * x).sum())
    >>> x.grad.tolist()
    [2.0, 4.0]
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise AutogradError(
                "backward: grad_tensors and grad_variables (deprecated) cannot both be given; use "
                "grad_tensors"
            )
        warnings.warn(
            "backward: grad_variables is deprecated; use grad_tensors", FutureWarning, stacklevel=2
        )
        grad_tensors = grad_variables
    forbid_in_transform("Tensor.backward()", "use func.grad or func.vjp, or autograd.grad, instead")
    roots = list_roots(tensors)
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True makes a reference cycle between a parameter "
            "and its gradient, which can leak memory; autograd.grad does not. Reset .grad to None "
            "after use to break the cycle.",
            stacklevel=2,
        )
    task = _task(create_graph, retain_graph)
    if inputs is not None:
        wanted = list_roots(inputs)
        if not wanted:
            raise AutogradError(
                "`inputs` argument to `backward()` cannot be empty; leave it out to reach all"
            )
        for tensor in wanted:
            if isinstance(tensor, Tensor):
                retain_grad(tensor)
        edges = [_input_edge(tensor) for tensor in wanted]
        task.runs_inputs = True
        task.capture(
            [(node, n, -1) for node, n in edges if not isinstance(node, AccumulateGrad)],
            accumulate=[node for node, _ in edges if isinstance(node, AccumulateGrad)],
        )
    task.run(seeds_of(roots, grad_tensors))


def grad(
    outputs: Root | Sequence[Root],
    inputs: Inputs,
    grad_outputs: Seeds = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of some outputs with respect to some inputs, as a tuple (a dict for a dict).

    Nothing is written to the ``grad`` of any leaf.

    Args:
        outputs: the roots; their gradients are ones unless given.
        inputs: what to differentiate by.
        grad_outputs: the gradient of each root, of exactly its shape.
        retain_graph: keep saved values for another pass; as `create_graph` unless given.
        create_graph: record the pass itself, so that the gradients can be differentiated.
        only_inputs: always true.
        allow_unused: give None for an input that the outputs do not depend on, instead of raising.
        is_grads_batched: `grad_outputs` have one more axis in front; so have the results.
        materialize_grads: give zeros for an input that the outputs do not depend on.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    if materialize_grads and allow_unused is False:
        raise _materialize_error()
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False has no effect any more; for gradients of other leaves use "
            "backward",
            FutureWarning,
            stacklevel=2,
        )
    roots, wanted = list_roots(outputs), list_roots(inputs)
    if not wanted:
        raise AutogradError(
            "`inputs` argument to `grad()` cannot be empty; name the tensors to differentiate by"
        )
    batch: tuple[int, ...] = ()
    results: list[Tensor | None] | None = None
    if is_grads_batched:
        rows, batch = _rows(roots, grad_outputs)
        results = _batched(roots, wanted, rows, *batch, create_graph, retain_graph)
    elif grad_outputs is None and type(outputs) is Tensor and not create_graph:
        results = run_scalar_backward(outputs, wanted, bool(retain_graph))
    if results is None:
        results = _gradients(roots, wanted, grad_outputs, create_graph, retain_graph)
    if not allow_unused or materialize_grads:
        _fill_unused(results, wanted, materialize_grads, batch)
    if type(inputs) not in (Tensor, list, tuple) and isinstance(inputs, Mapping):
        return dict(zip(inputs, results, strict=True))
    return tuple(results)


def _materialize_error() -> AutogradValueError:
    return AutogradValueError(
        "grad: Expected allow_unused to be True or not passed when materialize_grads=True, but "
        "got: allow_unused=False. Unused inputs get zeros then; leave allow_unused out."
    )


def _fill_unused(
    results: list[Tensor | None],
    wanted: list[Any],
    with_zeros: bool,
    batch: tuple[int, ...],
) -> None:
    """Replaces missing gradients by zeros, or raises."""
    for place, result in enumerate(results):
        if result is not None:
            continue
        if not with_zeros:
            raise AutogradError(
                f"grad: One of the differentiated Tensors appears to not have been used in the "
                f"graph. Set allow_unused=True if this is the desired behavior, to get None for "
                f"input {place}, or materialize_grads=True to get zeros."
            )
        shape, dtype = output_of(*_input_edge(wanted[place]))
        beside = wanted[place] if isinstance(wanted[place], Tensor) else None
        results[place] = zeros_beside(beside, batch + shape, dtype)


def _task(create_graph: bool, retain_graph: bool | None) -> GraphTask:
    kind = anomaly_task.AnomalyTask if is_anomaly_enabled() else GraphTask
    keep = create_graph if retain_graph is None else retain_graph
    return kind(create_graph=create_graph, retain_graph=keep)


def _gradients(
    roots: list[Any],
    wanted: list[Any],
    grad_outputs: Seeds,
    create_graph: bool,
    retain_graph: bool | None,
) -> list[Tensor | None]:
    """One pass: the gradient that arrives at each input, None where none does."""
    if not create_graph:
        leave_tape()
    edges = [_input_edge(tensor) for tensor in wanted]
    task = _task(create_graph, retain_graph)
    task.capture([(*edge, place) for place, edge in enumerate(edges)])
    captured = task.run(seeds_of(roots, grad_outputs))
    found = [captured.get(place) for place in range(len(edges))]
    given = [] if grad_outputs is None else list_roots(grad_outputs)
    seeds = [seed for seed in given if isinstance(seed, Tensor)]
    return to_tensors(task.exposed, task.xp, found, seeds)


def _batched(
    roots: list[Any],
    wanted: list[Any],
    rows: list[Tensor],
    size: int,
    create_graph: bool,
    retain_graph: bool | None,
) -> list[Tensor | None]:
    """One pass for all rows of a batch of gradients, as a mapped function of one row."""
    level = RowLevel(size, "error")
    seeds = [_in_level(row, level.number) for row in rows]
    with level:
        found = _gradients(roots, wanted, seeds, create_graph, retain_graph)
    return [
        None if result is None else tensors.out_of_level(result, 0, level.number, size)
        for result in found
    ]


def _in_level(row: Tensor, number: int) -> Tensor:
    """A gradient with its first axis as a level; by an operator only if that is to be recorded."""
    if row._flags & (REQUIRES_GRAD | PLAIN_VIEW | DUAL) or isinstance(row._array, Payload):
        return tensors._add_level(row, 0, number)  # type: ignore[no-any-return]
    return fresh(add_remove_dim.add_level(row._array, 0, number))


def _rows(roots: list[Any], grad_outputs: Seeds) -> tuple[list[Tensor], tuple[int]]:
    """Batched gradients of the roots, checked, and how many there are of each."""
    batched = list_roots(grad_outputs)
    if grad_outputs is None or any(not isinstance(g, Tensor) for g in batched):
        raise AutogradValueError(
            "grad: is_grads_batched=True needs grad_outputs, a tensor for every output"
        )
    sizes = {g.shape[:1] for g in batched}
    if len(sizes) != 1 or sizes == {()}:
        raise AutogradError(
            f"grad: with is_grads_batched=True all grad_outputs have one axis in front of the same "
            f"length, but their shapes are {[list(g.shape) for g in batched]}"
        )
    if len(batched) != len(roots):
        raise AutogradError(f"got {len(roots)} tensors and {len(batched)} gradients")
    for place, (root, row) in enumerate(zip(roots, batched, strict=True)):
        shape = root.shape if isinstance(root, Tensor) else output_of(*root)[0]
        if row.shape[1:] != shape:
            raise AutogradError(
                f"If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                f"as the batch dimension, and the others are those of the output: grad_output"
                f"[{place}] has a shape of {list(row.shape)} and output[{place}] has a shape of "
                f"{list(shape)}"
            )
    return batched, (batched[0].shape[0],)


def _input_edge(tensor: Any) -> tuple[Node, int]:
    if isinstance(tensor, GradientEdge):
        return tensor
    if not isinstance(tensor, Tensor):
        raise AutogradError(
            f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}"
        )
    if not (tensor._flags & REQUIRES_GRAD or requires_grad(tensor)):
        raise AutogradError(
            "One of the differentiated Tensors does not require grad; set requires_grad_() on it "
            "before computing"
        )
    node, number = unpack_edge(edge_of(tensor))
    if node is None:  # a view made under no_grad: nothing arrives at it
        return _Nowhere(tensor), 0
    return node, number


class _Nowhere(Node):
    """Placeholder for an input that no gradient can reach."""

    __slots__ = ()
    _edges: tuple[Edge, ...] = ()

    def __init__(self, tensor: Tensor):
        self._seq = 0
        self._output_metadata = intern_metadata(tensor.shape, tensor.dtype)
