"""Sparsity patterns: which outputs of a recorded computation depend on which inputs.

One walk through the graph, from the input to the results. Every tensor on the way has a pattern, a
sparse matrix of truth values with a row for each of its elements and a column for each input
element. The pattern of a result is the sum, over its inputs, of their patterns taken through the
operation's link (``local.py``). Whatever depends on the input differentiably has an edge in the
graph, and links claim too much rather than too little, so no entry is missed; writes and views are
in the graph like everything else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.autograd.graph.inplace import CopySlices
from pullback.autograd.graph.node import Edge, Node, edge_to, node_of, output_of
from pullback.autograd.graph.setitem import CopyItem
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.namespaces import arrays
from pullback.errors import AutogradError
from pullback.sparse.local import Link, link_of
from pullback.sparse.scipy_sparse import Matrix, matrix_of, scipy_sparse
from pullback.tensor.tensor import Tensor

__all__ = ["dependencies"]

_MOST_ENTRIES = 200_000_000


def dependencies(result: Tensor, source: Tensor) -> Matrix:
    """The pattern of the derivative of one tensor with respect to another, a leaf."""
    columns = source.size
    if not requires_grad(result):
        return _empty(result.size, columns)
    start = node_of(edge_of(source))
    end = edge_of(result)
    assert start is not None
    known: dict[Edge, Matrix] = {start: _identity(columns)}
    for node in _in_order(node_of(end), start):
        for number in range(node._outputs):
            found = _through(node, number, known, columns)
            if found is not None:
                known[edge_to(node, number)] = found
    pattern = known.get(end)
    return _empty(result.size, columns) if pattern is None else pattern


def _identity(size: int) -> Matrix:
    return scipy_sparse().eye_array(size, dtype=bool, format="csr")


def _empty(rows: int, columns: int) -> Matrix:
    return scipy_sparse().csr_array((rows, columns), dtype=bool)


def _in_order(end: Node | None, start: Node) -> list[Node]:
    """The nodes between two, each after those that its inputs come from."""
    order: list[Node] = []
    seen: set[Node | None] = {start, None}
    stack: list[tuple[Node, bool]] = [] if end in seen or end is None else [(end, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(target, False) for target in map(node_of, node._edges) if target not in seen]  # type: ignore[misc]
    return order


def _through(node: Node, number: int, known: dict[Edge, Matrix], columns: int) -> Matrix | None:
    """The pattern of an output of a node; None if it does not depend on the input at all."""
    rows = int(np.prod(output_of(node, number)[0]))
    total: Matrix | None = None
    for place, edge in enumerate(node._edges):
        pattern = known.get(edge)
        if pattern is None or not pattern.nnz:
            continue
        if isinstance(node, CopySlices | CopyItem):
            part = _written(node, place, pattern, rows)
        else:
            part = _taken(link_of(node, number, place), pattern, rows)
        total = part if total is None else total + part
        if total.nnz > _MOST_ENTRIES:
            raise _too_dense(node, total.nnz, (rows, columns))
    return total


def _taken(link: Link, pattern: Matrix, rows: int) -> Matrix:
    """A pattern through a link."""
    if link is None:
        return _everywhere(pattern, rows)
    results, sources = link
    if rows == pattern.shape[0] == len(results) and np.array_equal(results, sources):
        return pattern  # element by element; the most frequent link of all
    return matrix_of(results, sources, (rows, pattern.shape[0])) @ pattern


def _everywhere(pattern: Matrix, rows: int) -> Matrix:
    """Every element depends on all that any element depended on."""
    columns = np.unique(pattern.indices)
    if rows * len(columns) > _MOST_ENTRIES:
        raise _too_dense(None, rows * len(columns), (rows, pattern.shape[1]))
    indptr = np.arange(rows + 1) * len(columns)
    data = np.ones(rows * len(columns), bool)
    shape = (rows, pattern.shape[1])
    return scipy_sparse().csr_array((data, np.tile(columns, rows), indptr), shape=shape)


def _written(node: CopySlices | CopyItem, place: int, pattern: Matrix, rows: int) -> Matrix:
    """The pattern of a base after a write to a view of it."""
    numbered = np.arange(rows).reshape(node._output_metadata.shape)
    part = np.asarray(node.replay(arrays, numbered)).reshape(-1)
    if place != node.place:
        return _spread(part, rows) @ _taken(
            link_of(node.fn, node.number, place), pattern, len(part)
        )
    kept = np.setdiff1d(numbered, part)
    rest = matrix_of(kept, kept, (rows, rows)) @ pattern
    if node.fn._erases:
        return rest
    # The written value depends on what stood there before: that part of the base.
    before = matrix_of(np.arange(len(part)), part, (len(part), rows)) @ pattern
    return rest + _spread(part, rows) @ _taken(
        link_of(node.fn, node.number, place), before, len(part)
    )


def _spread(part: Any, rows: int) -> Matrix:
    """Puts the elements of a view in their place in the base."""
    return matrix_of(part, np.arange(len(part)), (rows, len(part)))


def _too_dense(node: Node | None, count: int, shape: tuple[int, int]) -> AutogradError:
    where = "an operation" if node is None else node.name()
    return AutogradError(
        f"sparse derivatives: {where} makes {count} of {shape[0]} x {shape[1]} elements depend on "
        f"the input, which is not sparse; use jacobian or hessian, or give a pattern"
    )
