"""``inspect``: a page about a recorded graph, the call of a function, or a compiled function."""

from __future__ import annotations

import functools
import html
import os
import tempfile
import warnings
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.api import grad
from pullback.autograd.debug.why_no_grad import why_no_grad
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.gradient_edge import GradientEdge
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.autograd.graph.node import Node, node_of
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.errors import AutogradTypeError, PullbackError
from pullback.fx.graph import Graph
from pullback.inspector.export import to_dot, to_networkx
from pullback.inspector.graph import GraphData, NodeData, collect, collect_program
from pullback.inspector.page import render_page
from pullback.interop import numpy_mode
from pullback.operators.creation.functions import ones_like
from pullback.operators.creation.functions import tensor as make_tensor
from pullback.profiler import profile
from pullback.profiler.events import norm_of
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

if TYPE_CHECKING:
    from pullback import compiled
    from pullback.fx import graph_module
else:
    compiled = lazy_module("pullback.compiled")
    graph_module = lazy_module("pullback.fx.graph_module")

__all__ = ["Inspection", "inspect"]


class Inspection:
    """Result of ``inspect``: its page, and the graph in other forms.

    In a notebook it shows itself. Elsewhere ``save`` writes the page and ``show`` opens it.

    Attributes:
        nodes: contents of each node, in the order of recording.
        explanations: for each input, how a gradient reaches it, or why none does.
    """

    def __init__(
        self,
        graph: GraphData,
        title: str,
        explanations: Sequence[tuple[str, int | None, str]] = (),
        profiled: profile | None = None,
    ):
        self._graph = graph
        self._title = title
        self._explanations = list(explanations)
        self._profiled = profiled

    @property
    def nodes(self) -> list[NodeData]:
        """Contents of each node."""
        return self._graph.nodes

    @property
    def explanations(self) -> dict[str, str]:
        """For each input, how a gradient reaches it, or why none does."""
        return {name: text for name, _, text in self._explanations}

    def html(self) -> str:
        """The page: one document without links to anything else."""
        averages = None if self._profiled is None else self._profiled.key_averages()
        return render_page(self._graph, self._title, self._explanations, averages)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page and returns its path."""
        written = Path(path)
        written.write_text(self.html(), encoding="utf-8")
        return written

    def show(self) -> Path:
        """Writes the page to a temporary file and opens it in the browser."""
        with tempfile.NamedTemporaryFile(suffix=".html", delete=False) as file:
            path = self.save(file.name)
        webbrowser.open(path.as_uri())
        return path

    def to_dot(self) -> str:
        """The graph in the language of Graphviz.

        >>> import pullback as pb
        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> print(pb.inspect(pb.sin(x)).to_dot().splitlines()[0])
        digraph pullback {
        """
        return to_dot(self._graph)

    def to_networkx(self) -> Any:
        """The graph as a ``networkx.DiGraph``, edges from inputs to results."""
        return to_networkx(self._graph)

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        style = "width:100%;height:640px;border:1px solid gray;border-radius:6px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'

    def __repr__(self) -> str:
        return f"<Inspection of {self._title}: {len(self.nodes)} nodes>"


def inspect(
    target: Any,
    *args: Any,
    inputs: Tensor | Sequence[Tensor] = (),
    out: str | os.PathLike[str] | None = None,
    title: str = "",
    measured: profile | None = None,
    backward: bool = False,
    **kwargs: Any,
) -> Inspection:
    """Shows what autograd recorded: a graph with saved values, source lines, formulas and times.

    Args:
        target: a tensor or several, a node, a graph of a program, a compiled function, or a
            function, which is called with `args` and `kwargs` while a profile measures it. Of a
            function with a scalar result the gradient is computed as well.
        inputs: tensors for which the page says how a gradient reaches them, or why none does.
        out: a file to write the page to.
        title: of the page.
        measured: a profile of the computation, whose table the page shows.
        backward: run a backward pass over the graph of `target` for the norms of cotangents, with
            ones as the gradient of each result; the ``grad`` of leaves stays as it is.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> pb.inspect((x * x).sum(), inputs=x)
    <Inspection of tensor: 3 nodes>
    >>> pb.inspect(lambda x: (x * x).sum(), x).nodes[1].name
    'MulBackward0'
    """
    wanted = _wanted(inputs)
    if isinstance(target, (Tensor, Node, GradientEdge)) or _are_tensors(target):
        made = _of_results(target, wanted, title or _kind(target), measured, backward)
    elif isinstance(target, Graph):
        made = Inspection(collect_program(target), title or "graph")
    elif isinstance(target, graph_module.GraphModule):
        made = Inspection(collect_program(target.graph), title or "graph module")
    elif isinstance(target, compiled.CompiledFunction):
        if args or kwargs:
            target(*args, **kwargs)
        graphs = target.fx_graphs()
        if not graphs:
            raise AutogradTypeError(
                "inspect: the compiled function has no graph yet; give the arguments of a call, as "
                "inspect(compiled, x)"
            )
        made = Inspection(collect_program(graphs[-1]), title or _name(target))
    elif callable(target):
        made = _of_call(target, args, kwargs, wanted, title or _name(target))
    else:
        raise AutogradTypeError(
            f"inspect: target must be a tensor, a node, a graph or a function, not "
            f"{type(target).__name__}"
        )
    if out is not None:
        made.save(out)
    return made


def _wanted(inputs: Any) -> list[Tensor]:
    found = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for tensor in found:
        if not isinstance(tensor, Tensor):
            raise AutogradTypeError(
                f"inspect: inputs must be tensors of the graph, not {type(tensor).__name__}"
            )
    return found


def _are_tensors(target: Any) -> bool:
    is_list = isinstance(target, list | tuple) and bool(target)
    return is_list and all(isinstance(item, Tensor | Node) for item in target)


def _kind(target: Any) -> str:
    if isinstance(target, GradientEdge):
        return target.node.name()
    if isinstance(target, list | tuple):
        return f"{len(target)} tensors"
    return target.name() if isinstance(target, Node) else type(target).__name__.lower()


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _of_results(
    target: Any, inputs: list[Tensor], title: str, measured: profile | None, backward: bool
) -> Inspection:
    results = list(target) if _are_tensors(target) else [target]
    graph = collect(_nodes(results))
    if backward:
        _add_norms(graph, results)
    first = next((result for result in results if isinstance(result, Tensor)), None)
    return Inspection(graph, title, _explain(graph, first, inputs), measured)


def _add_norms(graph: GraphData, results: list[Any]) -> None:
    """Runs a backward pass that changes nothing, and notes the norm of each node's cotangent."""
    if not all(isinstance(result, Tensor) for result in results):
        raise AutogradTypeError(
            "inspect: backward=True begins a backward pass at tensors, but got a node; give the "
            "tensor that it made"
        )
    reached = [result for result in results if requires_grad(result)]
    leaves = {
        node: data
        for node, data in _with_data(graph)
        if isinstance(node, AccumulateGrad) and node.variable is not None
    }
    if not leaves:
        return
    handles = [
        RemovableHandle(node.make_hooks().pre, functools.partial(_note_norm, data))
        for node, data in _with_data(graph)
        if not isinstance(node, AccumulateGrad)
    ]
    try:
        seeds = [ones_like(result.detach()) for result in reached]
        sources = [node.variable for node in leaves]
        found = grad(reached, sources, seeds, retain_graph=True, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    for data, gradient in zip(leaves.values(), found, strict=True):
        data.cotangent_norm = norm_of([gradient])


def _with_data(graph: GraphData) -> Iterator[tuple[Node, NodeData]]:
    return ((node, graph.nodes[place]) for node, place in graph.index.items())


def _note_norm(data: NodeData, cotangents: tuple[Tensor | None, ...]) -> None:
    data.cotangent_norm = norm_of(cotangents)


def _nodes(results: Iterable[Any]) -> list[Node]:
    found: list[Node] = []
    for result in results:
        if isinstance(result, Tensor):
            node = node_of(edge_of(result)) if requires_grad(result) else None
        else:
            node = result if isinstance(result, Node) else result.node
        if node is not None:
            found.append(node)
    return found


def _explain(
    graph: GraphData, result: Tensor | None, inputs: list[Tensor]
) -> list[tuple[str, int | None, str]]:
    """The name of each input, its node on the page, and the explanation."""
    found: list[tuple[str, int | None, str]] = []
    for number, tensor in enumerate(inputs):
        node = node_of(edge_of(tensor)) if requires_grad(tensor) else None
        place = None if node is None else graph.index.get(node)
        text = "" if result is None else why_no_grad(result, tensor)
        found.append((f"input {number}, shape {list(tensor.shape)}", place, text))
    return found


def _of_call(
    function: Callable[..., Any], args: Any, kwargs: Any, inputs: list[Tensor], title: str
) -> Inspection:
    """Calls a function in a profile; arrays and numbers become tensors if no argument is one."""
    leaves, spec = pytree.flatten((args, kwargs))
    is_numpy = not any(isinstance(leaf, Tensor) for leaf in leaves)
    if is_numpy:
        leaves = [_as_input(leaf) for leaf in leaves]
        args, kwargs = pytree.unflatten(spec, leaves)
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    with profile(check_finite=True) as measured:
        if is_numpy:
            with numpy_mode():
                returned = function(*args, **kwargs)
        else:
            returned = function(*args, **kwargs)
        results = [leaf for leaf in pytree.flatten(returned)[0] if isinstance(leaf, Tensor)]
        reached = [result for result in results if requires_grad(result)]
        sources = [tensor for tensor in given if requires_grad(tensor)]
        if len(reached) == 1 and reached[0].size == 1 and sources:
            _compute_gradient(reached[0], sources)
    graph = collect(_nodes(reached))
    explained = _explain(graph, results[0] if results else None, inputs or given)
    return Inspection(graph, title, explained, measured)


def _compute_gradient(result: Tensor, sources: list[Tensor]) -> None:
    """Runs the backward pass that is measured; the page is made without one that raises."""
    try:
        grad(result, sources, retain_graph=True, allow_unused=True)
    except PullbackError as error:
        text = f"inspect: the page has no times and norms of a backward pass, which raised {error}"
        warnings.warn(text, stacklevel=4)


def _as_input(leaf: Any) -> Any:
    is_array = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"
    return make_tensor(leaf, requires_grad=True) if is_array or type(leaf) is float else leaf
