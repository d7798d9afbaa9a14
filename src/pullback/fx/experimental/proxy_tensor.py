"""``make_fx``: the graph of a function for given arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd.tensor_data import detach
from pullback.dispatch.modes import is_grad_enabled
from pullback.errors import TraceError
from pullback.fx.batched import parts_of
from pullback.fx.functional import functional_form
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node
from pullback.fx.operator_arguments import written_arrays
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer, current_tracer
from pullback.fx.user_code import parameter_names
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import ContentVersion, Tensor, wrap
from pullback.utils import pytree

__all__ = ["make_fx", "trace"]

_TRACED = (np.ndarray, TracedArray, BatchedArray)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    *,
    pre_dispatch: bool = False,
) -> Callable[..., GraphModule]:
    """A function of the arguments of `f` that returns the graph of `f` for them.

    The graph has the operators below autograd: derivatives that `f` computes are part of it, and
    composite operators appear as what they are made of. Tensors among the arguments, also in
    containers, are its inputs. Other tensors and arrays that `f` reads are captured, and read again
    whenever the graph runs. Python values are constants.

    Args:
        f: the function; it runs once, on the given arguments.
        decomposition_table: functions by operator that are traced in the operator's place.
        tracing_mode: ``"real"`` or ``"fake"``, which are the same here: shapes are those of the
            arguments, and values cannot be read. ``"symbolic"`` shapes do not exist.
        pre_dispatch: must be False: operators above autograd are not recorded.

    >>> import pullback as pb
    >>> module = make_fx(pb.func.grad(lambda x: pb.sin(x).sum()))(pb.tensor([0.0, 1.0]))
    >>> print(module.code)
    def forward(self, x_1):
        ones = pullback.ops.pullback.ones.default([], dtype('float64'))
        broadcast_to = pullback.ops.pullback.broadcast_to.default(ones, [2]);  ones = None
        cos = pullback.ops.pullback.cos.default(x_1);  x_1 = None
        mul = pullback.ops.pullback.mul.default(broadcast_to, cos);  broadcast_to = cos = None
        return mul
    <BLANKLINE>
    """
    if tracing_mode not in ("real", "fake"):
        raise ValueError(
            f"make_fx: tracing_mode must be 'real' or 'fake', not {tracing_mode!r}: a graph is "
            f"right for the shapes of its arguments; trace again for others"
        )

    if pre_dispatch:
        raise ValueError(
            "make_fx: pre_dispatch must be False: operators are recorded below autograd"
        )

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        leaves, spec = pytree.flatten(args)
        tracer = _Tracer()
        tracer.decompositions = dict(decomposition_table or {})
        module = trace(tracer, f, leaves, spec)
        if not tracer.functional_forms:
            return module
        return functional_form(module, keeps_views=tracer.functional_forms == {"mutations"})

    return traced


class _Tracer(Tracer):
    """A tracer with nodes for ``detach()`` and ``data``: a graph can be differentiated itself.

    Such nodes also stand before what is written to memory from outside where nothing is recorded:
    a buffer of a module would get a history otherwise.
    """

    def note_made(self, tensor: Tensor, source: Tensor) -> None:
        super().note_made(tensor, source)
        if current_tracer() is self and isinstance(source._array, _TRACED):
            tensor._array = self._detached(source)

    def record_function(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        kernel: Callable[..., Any] | None = None,
    ) -> Any:
        operator = getattr(function, "operator", function)  # a BatchedCall has one
        is_silent_write = operator.schema.is_mutable and not is_grad_enabled()
        if is_silent_write and any(map(self.is_outside, written_arrays(operator, args, kwargs))):
            args = (*args[:1], *(self._without_history(value) for value in args[1:]))
        return super().record_function(function, args, kwargs, kernel)

    def _without_history(self, value: Any) -> Any:
        held = value._array if isinstance(value, Tensor) else None
        is_array = isinstance(held, TracedArray) and held.number is None
        return wrap(self._detached(value)) if is_array else value

    def _detached(self, tensor: Tensor) -> Any:
        held, levels = parts_of(self, tensor)
        node = self.graph.call_function(detach, (held.node,))
        node.meta.update(view_of=held.node, byte_offset=0)
        made = self.made(held.value, node)
        return BatchedArray(made, levels) if levels else made


def trace(
    tracer: Tracer, f: Callable[..., Any], leaves: list[Any], spec: pytree.Spec
) -> GraphModule:
    """The graph of `f` for arguments, given as the leaves of their tuple, and its structure."""
    names = _names(f, spec)
    given = [_input(tracer, *pair) for pair in zip(names, leaves, strict=True)]
    with tracer.running():
        returned = f(*pytree.unflatten(spec, given))
    found, out_spec = pytree.flatten(returned)
    nodes = [_node(tracer, value) for value in found]
    tracer.graph.output(pytree.unflatten(out_spec, nodes))
    tracer.graph.eliminate_dead_code()
    captured = {name: _captured(tracer, name) for name in tracer.captured}
    return GraphModule(captured, tracer.graph, in_spec=spec)


def _captured(tracer: Tracer, name: str) -> Tensor:
    """A captured tensor, whose gradient a call of the module may record; or one of an array."""
    origin = tracer.origins.get(name)
    if origin is None or type(origin._counter) is ContentVersion:  # an array
        return wrap(tracer.captured[name])
    return origin


def _names(f: Callable[..., Any], spec: pytree.Spec) -> list[str]:
    """A name for each leaf of the arguments, from the names of the parameters."""
    stems = parameter_names(f, len(spec.children))
    pairs = zip(stems, spec.children, strict=True)
    return [f"{stem}_{count + 1}" for stem, child in pairs for count in range(child.size)]


def _input(tracer: Tracer, name: str, leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        held: Any = leaf._array
        if isinstance(held, TracedArray) and held.tracer is current_tracer():
            held = held.value.copy()  # of a trace around this one, which gets the graph's calls
        if not isinstance(held, np.ndarray):
            raise TraceError(
                f"make_fx: {name} holds a {type(held).__name__}; trace with plain tensors, "
                f"and call transforms inside of the traced function"
            )
        made = wrap(tracer.input(name, held))
        if leaf.requires_grad:
            made.requires_grad = True
        return made
    if isinstance(leaf, np.ndarray):
        return wrap(tracer.input(name, leaf))
    tracer.graph.placeholder(name)
    return leaf


def _node(tracer: Tracer, value: Any) -> Node | Any:
    if not isinstance(value, Tensor):
        return value
    held = value._array
    if isinstance(held, TracedArray):
        return held.node
    if isinstance(held, np.ndarray):
        return tracer.capture(value).node
    raise TraceError(f"make_fx: a result holds a {type(held).__name__}, which is no array")
