"""Links: which elements of an operation's result depend on which elements of its inputs.

The answer for one input is a ``Link``: pairs of places, or a *dense* link where nothing better is
known. A dense link claims that everything depends on everything, so it is never wrong. In order:

1. A rule of ``rules.py``, by the class of the node: element-wise operators, reductions, products.
2. A node that saves no real numbers has a fixed linear map, which can be tried out. If each input
   element goes to at most one output element (a transposition, a sum), the gradient for numbered
   output elements gives its number. If each output element comes from at most one input element (a
   gather), the gradient of that gradient does. A product with a random vector verifies the result.
3. Else the link is dense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd.api import grad
from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.graph.saved import SavedOutput
from pullback.autograd.modes import enable_grad
from pullback.autograd.namespaces import arrays, tensors
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import PullbackError
from pullback.sparse.rules import rule_for
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["Link", "link_of"]

Link = tuple[Any, Any] | None  # places in the output and in the input; None: dense


def link_of(node: Node, number: int, edge: int) -> Link:
    """The link between an output of a node and the input of one of its edges."""
    target, target_number = unpack_edge(node._edges[edge])
    if target is None:  # inside of a write, whose own edges do not say where the base comes from
        return None
    out_shape, _ = output_of(node, number)
    in_shape, _ = output_of(target, target_number)
    rule = rule_for(type(node))
    if rule is not None:
        found = rule(node, number, edge, out_shape, in_shape)
        return None if found is None else (found[0].reshape(-1), found[1].reshape(-1))
    if not _is_fixed_linear(node):
        return None
    try:
        return _Trial(node, number, edge).link()
    except (PullbackError, TypeError, ValueError):
        return None  # no plain operator, or one that cannot be differentiated twice


def _is_fixed_linear(node: Node) -> bool:
    """Whether the gradient is a linear map that depends on no real number that was saved."""
    if type(node).__module__.split(".")[:2] != ["pullback", "_generated"]:
        return False
    values = [getattr(node, name, None) for name in node._saves_tensors]
    flat = [v for value in values for v in (value if type(value) is tuple else (value,))]
    return all(_is_whole(value) for value in flat)


def _is_whole(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, Tensor | SavedOutput):
        value = value._array if isinstance(value, Tensor) else value.array
    return isinstance(value, np.ndarray) and value.dtype.kind in "biu"


class _Trial:
    """The linear map of a node, tried out."""

    def __init__(self, node: Node, number: int, edge: int):
        self.node, self.number, self.edge = node, number, edge
        target, target_number = unpack_edge(node._edges[edge])
        assert target is not None
        self.out_shape, self.out_dtype = output_of(node, number)
        self.in_shape, self.in_dtype = output_of(target, target_number)

    def link(self) -> Link:
        """The link, or None if the map is more than moving elements about."""
        found = _sources(self.pull, self.out_shape, self.out_dtype, self.in_dtype)
        if found is not None:
            inside, outside = found
            return outside, inside
        return _sources(self.push, self.in_shape, self.in_dtype, self.out_dtype)

    def pull(self, values: Any) -> Any:
        """The gradient of the input for a gradient of the output."""
        return self._fit_gradient(arrays, self._backward(arrays, values))

    def push(self, values: Any) -> Any:
        """The output for an input: the gradient of the gradient."""
        seed = wrap(np.zeros(self.out_shape, self.out_dtype))
        seed._flags |= REQUIRES_GRAD
        with enable_grad():
            pulled = self._fit_gradient(tensors, self._backward(tensors, seed))
        (found,) = grad(pulled, seed, wrap(values.astype(pulled.dtype)))
        return found._array

    def _backward(self, xp: Any, seed: Any) -> Any:
        seeds = [None] * self.node._outputs
        seeds[self.number] = seed
        return self.node.backward(xp, *seeds)[self.edge]

    def _fit_gradient(self, xp: Any, found: Any) -> Any:
        """Unbroadcasts and casts a gradient, as the engine does."""
        if found is None:
            return xp.zeros(list(self.in_shape), self.in_dtype)
        if found.shape != self.in_shape:
            found = xp.sum_to(found, self.in_shape, lambda: "sparsity")
        return xp.match_dtype(found, self.in_dtype, True, lambda: "sparsity")


def _sources(
    apply: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any, result_dtype: Any
) -> tuple[Any, Any] | None:
    """Finds the source of each element of a linear map's result, if it is one element at most.

    Returns places in the result and in the argument, without those that come from nowhere.
    """
    if (dtype.kind == "c") != (result_dtype.kind == "c"):
        return None
    size = int(np.prod(shape))
    factors = np.asarray(apply(np.ones(shape, dtype))).reshape(-1)
    numbered = np.asarray(apply(np.arange(1.0, size + 1).astype(dtype).reshape(shape)))
    numbered = numbered.reshape(-1)
    used = factors != 0
    places = np.zeros(factors.shape, np.int64)
    places[used] = np.rint((numbered[used] / factors[used]).real).astype(np.int64) - 1
    if np.any(places < 0) or np.any(places >= max(size, 1)):
        return None
    rng = np.random.default_rng(0)
    random = rng.uniform(1.0, 2.0, shape).astype(dtype)
    if dtype.kind == "c":
        random = random + 1j * rng.uniform(1.0, 2.0, shape)
    expected = np.where(used, random.reshape(-1)[places] if size else 0, 0) * factors
    if not np.allclose(np.asarray(apply(random)).reshape(-1), expected, rtol=1e-10, atol=0):
        return None
    (result_places,) = np.nonzero(used)
    return result_places, places[used]
