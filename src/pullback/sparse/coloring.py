"""Colorings: columns (or rows) of a pattern that one pass can compute together.

For a Jacobian, columns of one color share no row; one forward pass along the sum of their unit
vectors then has each entry by itself. The same holds for rows and backward passes.

A Hessian is symmetric, so each entry may be read at either of its two places, and fewer colors
suffice: a *star coloring*, in which neighbors differ and every path of four vertices has three
colors. The method is that of Gebremedhin, Tarafdar, Manne and Pothen (2007). A star is a vertex,
its *hub*, with two or more neighbors of one color; a vertex may not get a color that would make a
path of four out of a star.

Sets of colors are ints with a bit for each color, so that an entry costs a few operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.errors import AutogradValueError
from pullback.inspector.html_repr import Picture, pattern_html, table_html
from pullback.sparse.scipy_sparse import Matrix, entries

__all__ = ["Coloring", "color_hessian", "color_jacobian"]

_MODES = ("auto", "forward", "reverse", "symmetric")


class Coloring(NamedTuple):
    """Colors of columns (of mode "forward" and "symmetric") or rows ("reverse").

    >>> import pullback as pb
    >>> import scipy.sparse
    >>> pb.sparse.color_jacobian(scipy.sparse.eye(3, format="csr")).mode
    'reverse'
    """

    mode: str
    colors: Any

    @property
    def passes(self) -> int:
        """The number of passes, which is the number of colors."""
        return int(self.colors.max(initial=-1)) + 1

    def picture(self, pattern: Matrix) -> Picture:
        """A picture of the pattern for notebooks, its entries in the colors of this coloring."""
        return Picture(pattern_html(pattern, self.colors, by_rows=self.mode == "reverse"))

    def _repr_html_(self) -> str:
        size = len(self.colors)
        return table_html((), [("mode", self.mode), ("colors", self.passes), ("size", size)])


def color_jacobian(pattern: Matrix, mode: str = "auto") -> Coloring:
    """Colors the columns or the rows of a pattern, whichever takes fewer colors.

    Args:
        pattern: a SciPy sparse array; its entries are the places that may be nonzero.
        mode: "forward" colors columns, "reverse" rows; "auto" tries both.

    >>> import pullback as pb
    >>> import scipy.sparse
    >>> pb.sparse.color_jacobian(scipy.sparse.eye(3, format="csr")).colors.tolist()
    [0, 0, 0]
    """
    if mode not in _MODES[:3]:
        raise AutogradValueError(
            f"color_jacobian: mode is {mode!r}; one of {list(_MODES[:3])} is expected"
        )
    found = []
    if mode != "forward":
        found.append(Coloring("reverse", _best_distance_two(pattern.T.tocsr())))
    if mode != "reverse":
        found.append(Coloring("forward", _best_distance_two(pattern)))
    return min(found, key=lambda coloring: coloring.passes)


def _best_distance_two(pattern: Matrix) -> Any:
    """Colors columns that share no row, in two orders: as they stand, and fullest first."""
    by_column = pattern.T.tocsr()
    counts = np.diff(by_column.indptr)
    orders = [np.arange(len(counts)), np.argsort(-counts, kind="stable")]
    tried = [_distance_two(by_column, order, pattern.shape[0]) for order in orders]
    return min(tried, key=lambda colors: colors.max(initial=-1))


def _distance_two(by_column: Matrix, order: Any, rows: int) -> Any:
    taken = [0] * rows  # for each row, the colors of its columns
    colors = np.zeros(by_column.shape[0], np.int64)
    starts, indices = by_column.indptr.tolist(), by_column.indices.tolist()
    for column in order.tolist():
        mine = indices[starts[column] : starts[column + 1]]
        forbidden = 0
        for row in mine:
            forbidden |= taken[row]
        bit = ~forbidden & (forbidden + 1)
        for row in mine:
            taken[row] |= bit
        colors[column] = bit.bit_length() - 1
    return colors


def color_hessian(pattern: Matrix) -> Coloring:
    """Colors the columns of a symmetric pattern, so that each entry stands alone somewhere.

    >>> import pullback as pb
    >>> import scipy.sparse
    >>> pb.sparse.color_hessian(scipy.sparse.eye(3, format="csr")).colors.tolist()
    [0, 0, 0]
    """
    rows, columns = entries(pattern)
    neighbors: list[list[int]] = [[] for _ in range(pattern.shape[0])]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if row != column:
            neighbors[row].append(column)
    counts = np.array([len(mine) for mine in neighbors])
    orders = [np.arange(len(counts)), np.argsort(-counts, kind="stable")]
    tried = [_star_coloring(neighbors, order.tolist()) for order in orders]
    return Coloring("symmetric", min(tried, key=lambda colors: colors.max(initial=-1)))


def _star_coloring(neighbors: list[list[int]], order: list[int]) -> Any:
    size = len(neighbors)
    colors = [-1] * size
    around = [0] * size  # colors of the neighbors
    hubs = [0] * size  # colors of neighbors that are hubs of a star with this vertex on its rim
    first: list[dict[int, int]] = [{} for _ in range(size)]  # color -> a neighbor that has it
    for vertex in order:
        colored = [n for n in neighbors[vertex] if colors[n] >= 0]
        rim: dict[int, list[int]] = {}
        for n in colored:
            rim.setdefault(colors[n], []).append(n)
        forbidden = 0
        for color, alike in rim.items():
            forbidden |= 1 << color
            for n in alike:
                forbidden |= hubs[n] if len(alike) == 1 else around[n]
        bit = ~forbidden & (forbidden + 1)
        mine = colors[vertex] = bit.bit_length() - 1
        for color, alike in rim.items():
            first[vertex][color] = alike[0]
            around[vertex] |= 1 << color
            for n in alike:
                if len(alike) > 1:
                    hubs[n] |= bit
                if mine in first[n]:  # n has a neighbor of this color already: n is a hub
                    hubs[first[n][mine]] |= 1 << color
                    hubs[vertex] |= 1 << color
                else:
                    first[n][mine] = vertex
                around[n] |= bit
    return np.array(colors, np.int64)
