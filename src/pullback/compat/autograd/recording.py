"""Traces: every operation on a value becomes a node of a class that the caller chooses.

A trace is a dispatch mode (``pullback.utils._python_dispatch``). Nodes belong to the memory of
values, so that they are found again where a transform wraps the same memory in another tensor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

from pullback.compat.autograd.boxes import getval
from pullback.compat.autograd.linear import is_traced, plain
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree
from pullback.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

__all__ = ["Node", "active_trace", "is_tracing", "record_call", "trace"]


class Node:
    """Base class of the nodes of a trace; see `trace`."""

    __slots__: Sequence[str] = ()

    def __init__(
        self,
        value: Any,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ):
        raise NotImplementedError(f"{type(self).__name__} has no __init__; define it")

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        """Sets the attributes of the node of the argument."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_root; define it")

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Self:
        """Makes the node of the argument of a traced function."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


class _Named:
    """A function of values with a name, which gives tensors only where it is given traced ones."""

    def __init__(self, name: str, call: Callable[..., Any]):
        self.__name__ = name
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return plain(self._call(*args, **kwargs))


class _Trace(TorchDispatchMode):
    """One active trace.

    Attributes:
        nodes: the node of each traced array by its id, with the array, which keeps the id unique.
    """

    def __init__(self, kind: type[Node]):
        self._kind = kind
        self.nodes: dict[int, tuple[Any, Any]] = {}

    def node_of(self, value: Any) -> Any:
        """The node of a tensor, or None."""
        found = self.nodes.get(id(value._array)) if isinstance(value, Tensor) else None
        return None if found is None else found[1]

    def set_node(self, tensor: Tensor, node: Any) -> None:
        """Declares the node of a tensor's memory."""
        self.nodes[id(tensor._array)] = (tensor._array, node)

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs an operator and adds its node."""
        options = kwargs or {}
        out = func(*args, **options)
        name = func.name().rpartition("::")[2].partition(".")[0]
        self.record(name, func, args, options, out)
        return out

    def record(
        self, name: str, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], out: Any
    ) -> None:
        """Adds the nodes of one call, if an argument is traced."""
        leaves, spec = pytree.flatten((tuple(args), kwargs), none_is_leaf=True)
        places = tuple(p for p, leaf in enumerate(leaves) if self.node_of(leaf) is not None)
        if not places:
            return
        tensors = [isinstance(leaf, Tensor) for leaf in leaves]

        def run(*values: Any) -> Any:
            pairs = zip(values, tensors, strict=True)
            given = [creation.asarray(v) if is_tensor else v for v, is_tensor in pairs]
            again, options = pytree.unflatten(spec, given)
            return call(*again, **options)

        parents = tuple(self.node_of(leaves[place]) for place in places)
        values = tuple(getval(leaf) for leaf in leaves)
        result = pytree.map(getval, out)
        node = self._kind(result, _Named(name, run), values, {}, places, parents)
        self.set_leaves(out, node)

    def set_leaves(self, tree: Any, node: Any) -> None:
        """Declares the node of a tree; leaves get nodes of their own, which take them out of it."""
        if isinstance(tree, Tensor):
            self.set_node(tree, node)
            return
        whole = pytree.map(getval, tree)
        for place, leaf in enumerate(pytree.leaves(tree)):
            if isinstance(leaf, Tensor):
                taken = self._kind(getval(leaf), _TAKE, (whole, place), {}, (0,), (node,))
                self.set_node(leaf, taken)

    def join(self, tree: Any) -> Any:
        """The node of a result, which joins the nodes of its leaves; None if none is traced."""
        if isinstance(tree, Tensor):
            return self.node_of(tree)
        leaves, spec = pytree.flatten(tree)
        places = tuple(p for p, leaf in enumerate(leaves) if self.node_of(leaf) is not None)
        if not places:
            return None
        make = _Named("make_container", lambda *values: pytree.unflatten(spec, values))
        parents = tuple(self.node_of(leaves[place]) for place in places)
        values = tuple(map(getval, leaves))
        return self._kind(pytree.unflatten(spec, values), make, values, {}, places, parents)


_TAKE = _Named("container_take", lambda tree, place: pytree.leaves(tree)[place])


def active_trace(values: list[Any]) -> _Trace | None:
    """The innermost trace that one of these values belongs to."""
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, _Trace) and any(mode.node_of(value) is not None for value in values):
            return mode
    return None


def is_tracing() -> bool:
    """Returns whether a trace is active."""
    return any(isinstance(mode, _Trace) for mode in _get_current_dispatch_mode_stack())


def record_call(
    trace: _Trace, fun: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls a function as one operation of a trace."""
    with _disable_current_modes():
        out = fun(*args, **kwargs)
    trace.record(name, fun, args, kwargs, out)
    return out


def trace(start_node: Node, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Calls ``fun(x)``, and makes nodes of the class of `start_node` for what it computes from x.

    Each operation makes ``Class(value, fun, args, kwargs, parent_argnums, parents)``. Operations
    are those of ``docs/operators.md`` and primitives.

    Returns the value and its node, or None if it does not depend on x.

    >>> import numpy as np
    >>> class Count(Node):
    ...     def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
    ...         self.names = [name for parent in parents for name in parent.names] + [fun.__name__]
    ...     def initialize_root(self):
    ...         self.names = []
    >>> value, node = trace(Count.new_root(), lambda x: np.sin(x) * 2.0, 0.0)
    >>> value, node.names
    (0.0, ['sin', 'mul'])
    """
    mode = _Trace(type(start_node))
    leaves, spec = pytree.flatten(x)
    start = pytree.unflatten(spec, [_entered(leaf) for leaf in leaves])
    mode.set_leaves(start, start_node)
    with mode:
        found = fun(start)
        node = mode.join(found)
    if node is None:
        warnings.warn("Output seems independent of input.", stacklevel=2)
    return plain(found), node


def _entered(leaf: Any) -> Any:
    """An argument's leaf as a tensor with memory of its own, which identifies it."""
    if isinstance(leaf, Tensor) and is_traced(leaf):
        return leaf + 0
    return creation.array(leaf)
