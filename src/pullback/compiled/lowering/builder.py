"""``Builder``: makes nodes of a graph, and simplifies while it makes them.

Simplifications are exact, but for the sign of a zero in sums with zeros that a gradient is padded
with: constants are folded with NumPy, views of views become one view, ``x * 1``, ``x / 1`` and
``-(-x)`` are ``x``, and zeros with a part added to an array become an ``update`` of that part.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from pullback.compiled.lowering.elementwise import ARRAY_FUNCTIONS, result_dtype
from pullback.compiled.lowering.ir import (
    Graph,
    Loop,
    Node,
    Place,
    c_strides,
    is_number,
    whole_place,
)
from pullback.kernels.errstate import errstate

__all__ = ["INT64", "Builder", "LoopMaker", "compose"]

INT64 = np.dtype(np.int64)
_BOOL = np.dtype(bool)
_LEAVES = frozenset(["input", "const", "view", "iota"])  # would be copied
_COMMUTATIVE = frozenset(["add", "multiply", "maximum", "minimum"])
_LARGE = 1 << 12  # elements of a value in memory
_MOST_CELLS = 4096  # positions that are compared to find out whether parts overlap


class Builder:
    """Adds nodes to a graph."""

    def __init__(self, graph: Graph):
        self.graph = graph

    # --- constants --------------------------------------------------------------------------------

    def const(self, value: Any, dtype: Any = None) -> Node:
        """A constant; one number in all elements is a view of a scalar."""
        array = np.asarray(value, dtype)
        if array.size > 1:
            flat = array.reshape(-1)
            if flat[0] == flat[-1] and flat.tobytes() == flat[:1].tobytes() * flat.size:
                return self.full(flat[0], array.shape, array.dtype)
        return self.graph.const(array)

    def full(self, value: Any, shape: tuple[int, ...], dtype: Any) -> Node:
        """One number in all elements."""
        scalar = self.graph.const(np.asarray(value, dtype).reshape(()))
        return self.broadcast(scalar, shape)

    def value_of(self, node: Node) -> Any:
        """The number that all elements are, as a scalar array; None if it is not known."""
        while node.op == "view":
            node = node.inputs[0]
        return node.value.reshape(()) if node.op == "const" and node.size == 1 else None

    # --- views ------------------------------------------------------------------------------------

    def view(self, x: Node, place: Place, index: Node | None = None) -> Node:
        """The elements at a place."""
        place, shape = place.normalized, place.shape
        if is_number(x):  # all its elements are equal: one view, also of a view
            base = x.inputs[0] if x.op == "view" else x
            x = self.graph.const(base.value.reshape(())) if base.shape else base
            place = Place(0, (0,) * len(shape), shape)
        if place.step and index is not None:
            return self.graph.add("view", (x, index), (place,), shape)
        place = place._replace(step=0)
        if place == whole_place(x.shape):
            return x
        if x.op == "view" and len(x.inputs) == 1:
            inner = x.place
            if place == whole_place(shape) and 0 in shape:
                return self.graph.add("view", x.inputs, (place,), shape)
            joined = compose(inner, place)
            if joined is not None:
                return self.view(x.inputs[0], joined)
        return self.graph.add("view", (x,), (place,), shape)

    def reshape(self, x: Node, shape: tuple[int, ...]) -> Node:
        """The same elements in C order with another shape."""
        return self.view(x, Place(0, c_strides(shape), shape))

    def broadcast(self, x: Node, shape: tuple[int, ...]) -> Node:
        """``np.broadcast_to(x, shape)``."""
        if x.shape == shape:
            return x
        lead = len(shape) - len(x.shape)
        return self.view(x, Place(0, (0,) * lead + c_strides(x.shape), shape))

    def permute(self, x: Node, axes: tuple[int, ...]) -> Node:
        """``np.transpose(x, axes)``."""
        strides = c_strides(x.shape)
        shape = tuple(x.shape[a] for a in axes)
        return self.view(x, Place(0, tuple(strides[a] for a in axes), shape))

    def along(self, x: Node, axis: int, ndim: int) -> Node:
        """A vector as an array of `ndim` axes, all of length 1 but one."""
        shape = [1] * ndim
        shape[axis] = x.size
        return self.reshape(x, tuple(shape))

    # --- element-wise functions -------------------------------------------------------------------

    def cast(self, x: Node, dtype: np.dtype[Any]) -> Node:
        """``x.astype(dtype)``; of complex numbers to real ones the real part."""
        if x.dtype == dtype:
            return x
        known = self.value_of(x)
        if known is not None:
            with errstate(all="ignore"):
                return self.full(_convert(known, dtype), x.shape, dtype)
        if x.dtype.kind == "c" and dtype.kind not in "cb":
            return self.cast(self.elementwise("real", x), dtype)
        if dtype == _BOOL:
            return self.elementwise("not_equal", x, self.full(0, (), x.dtype))
        return self.graph.add("elementwise", (x,), ("cast",), x.shape, dtype)

    def require(self, condition: Node) -> None:
        """Adds a check that all elements are true."""
        check = self.reduce("all", condition, tuple(range(len(condition.shape))))
        known = self.value_of(check)
        if check not in self.graph.checks and (known is None or not known):
            self.graph.checks.append(check)

    def require_range(self, x: Node, dtype: np.dtype[Any]) -> None:
        """Adds a check that an integer fits into a dtype, where NumPy raises if it does not."""
        if dtype.kind not in "iu" or dtype == x.dtype:
            return
        limits = np.iinfo(dtype)
        low = self.full(max(limits.min, np.iinfo(x.dtype).min), (), x.dtype)
        high = self.full(min(limits.max, np.iinfo(x.dtype).max), (), x.dtype)
        for smaller, larger in ((low, x), (x, high)):
            self.require(self.elementwise("less_equal", smaller, larger))

    def elementwise(self, function: str, *operands: Node) -> Node:
        """A function of ``elementwise.py``; operands are broadcast, and have the right dtypes."""
        shape = operands[0].shape
        if any(x.shape != shape for x in operands):
            shape = np.broadcast_shapes(*(x.shape for x in operands))
        known = [self.value_of(x) for x in operands]
        dtype = result_dtype(function, tuple(x.dtype for x in operands))
        if all(v is not None for v in known):
            with errstate(all="ignore"):
                return self.full(ARRAY_FUNCTIONS[function](*known), shape, dtype)
        wide = tuple(self.broadcast(x, shape) for x in operands)
        simpler = self._simplify(function, wide, known)
        if simpler is not None:
            return simpler
        attrs = (function,)
        if function in _COMMUTATIVE and wide[0].id > wide[1].id:
            # Equal sums are found either way round, but operands keep their order: the search for
            # loops compares them.
            found = self.graph.find("elementwise", wide[::-1], attrs, shape, dtype)
            if found is not None:
                return found
        return self.graph.add("elementwise", wide, attrs, shape, dtype)

    def _simplify(self, function: str, wide: tuple[Node, ...], known: list[Any]) -> Node | None:
        dtype = wide[0].dtype
        if function in ("real", "conjugate") and dtype.kind != "c":
            return wide[0]
        if function == "negative" and wide[0].function == "negative":
            return wide[0].inputs[0]
        if function == "multiply" and dtype.kind != "c":  # 1 + 0j changes signs of zeros
            for a, b in ((0, 1), (1, 0)):
                if known[a] is not None and known[a] == 1:
                    return wide[b]
        if function == "divide" and dtype.kind != "c" and known[1] is not None and known[1] == 1:
            return wide[0]
        if function == "subtract" and _is_zero(known[1], is_negative=False):
            return wide[0]
        if function == "add" and dtype.kind != "b":
            for a, b in ((0, 1), (1, 0)):
                if _is_zero(known[a], is_negative=True):
                    return wide[b]
                part = self._add_part(wide[a], wide[b])
                if part is not None:
                    return part
        if function == "where" and known[0] is not None:
            return wide[1] if known[0] else wide[2]
        return None

    def _add_part(self, x: Node, y: Node) -> Node | None:
        """``x + y`` where `x` is zeros with parts: only the parts are added.

        Gradients of reads of rows are such sums: time for rows, and not for the whole in each step.
        Large shifts, which have two parts, are in no memory of their own then. (Four steps of a
        stencil of four shifts, with their gradient: 24 instead of 48 MB, 15 instead of 31 ms.)
        """
        if x.op == "put" and x.attrs == ("add",) and _is_zero(self.value_of(x.inputs[0])):
            return self.put("add", y, *x.inputs[1:])
        if x.op != "assemble":
            return None
        if y.op == "assemble" and _are_disjoint((*x.attrs[0], *y.attrs[0])):
            places = (*x.attrs[0], *y.attrs[0])
            return self.graph.add("assemble", x.inputs + y.inputs, (places,), x.shape)
        if y.op == "assemble" and len(y.inputs) < len(x.inputs):
            x, y = y, x
        if len(x.inputs) > 1 and (x.size < _LARGE or y.op in _LEAVES):
            return None
        for place, part in zip(x.attrs[0], x.inputs, strict=True):  # in the memory of y
            y = self.update("add", y, place, part)
        return y

    # --- other operations -------------------------------------------------------------------------

    def reduce(self, combiner: str, x: Node, axes: tuple[int, ...]) -> Node:
        """A reduction over axes (not negative, increasing), which vanish."""
        shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        count = prod(x.shape[a] for a in axes)
        known = self.value_of(x)
        if count == 1:
            return self.reshape(x, shape)
        is_product = x.dtype.kind in "iuf" or (x.dtype.kind == "c" and np.isfinite(known or 0))
        if known is not None and combiner == "sum" and is_product:
            total = known * known.dtype.type(count) if count else 0  # not NaN, not -0.0
            return self.full(total, shape, x.dtype)
        if known is not None and count and combiner in ("max", "min", "all", "any"):
            return self.full(known, shape, x.dtype)
        return self.graph.add("reduce", (x,), (combiner, axes), shape)

    def matmul(self, a: Node, b: Node) -> Node:
        """``a @ b`` of arrays with two axes or more, with broadcasting of the others."""
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        (m, k), n = a.shape[-2:], b.shape[-1]
        if k == 0 or a.dtype.kind not in "fc":
            product = self.elementwise(
                "multiply",
                self.reshape(a, (*a.shape, 1)),
                self.reshape(b, (*b.shape[:-2], 1, k, n)),
            )
            return self.reduce("sum", product, (len(lead) + 1,))
        a = self.broadcast(a, (*lead, m, k))
        b = self.broadcast(b, (*lead, k, n))
        return self.graph.add("matmul", (a, b), (), (*lead, m, n))

    def update(
        self, kind: str, base: Node, place: Place, part: Node, index: Node | None = None
    ) -> Node:
        """A copy of `base` with a part that is set or added to."""
        part = self.broadcast(part, place.shape)
        if 0 in place.shape:
            return base
        if index is None and place == whole_place(place.shape) and part.size == base.size:
            whole = self.reshape(part, base.shape)
            return whole if kind == "set" else self.elementwise("add", base, whole)
        if kind == "set" and index is None and _holds(base, place, part):
            return base  # u[::2] *= 2 ends with u[::2] = u[::2]
        operands = (base, part) if index is None else (base, part, index)
        return self.graph.add("update", operands, (kind, place), base.shape)

    def assemble(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], parts: list[tuple[Place, Node]]
    ) -> Node:
        """Zeros with parts at places that do not overlap."""
        parts = [(place, part) for place, part in parts if part.size]
        if not parts:
            return self.full(0, shape, dtype)
        place, part = parts[0]
        if place == whole_place(part.shape) and part.size == prod(shape):
            return self.reshape(part, shape)
        places = tuple(place for place, _ in parts)
        return self.graph.add("assemble", tuple(p for _, p in parts), (places,), shape, dtype)

    def take(self, x: Node, positions: Node) -> Node:
        """The elements at flat positions."""
        return self.graph.add("take", (x, positions), (), positions.shape)

    def put(self, kind: str, base: Node, positions: Node, values: Node) -> Node:
        """A copy of `base` with elements at flat positions that are set or added to."""
        values = self.broadcast(values, positions.shape)
        if positions.size == 0:
            return base
        return self.graph.add("put", (base, positions, values), (kind,), base.shape)

    def iota(self, length: int) -> Node:
        """0, 1, ..., length - 1."""
        return self.graph.add("iota", (), (), (length,), INT64)

    def pick(self, node: Node, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Node:
        """An item of the tuple of a node."""
        return self.graph.add("pick", (node,), (index,), shape, dtype)


class LoopMaker:
    """The body of a loop that is being made, and the values outside that it reads.

    Attributes:
        body: the graph of one iteration.
        inner: adds nodes to it.
        index: the iteration.
    """

    def __init__(self) -> None:
        self.body = Graph()
        self.inner = Builder(self.body)
        self.index = self.body.input((), INT64)
        self._invariants: dict[int, tuple[Node, Node]] = {}  # by id: outside, inside

    def invariant(self, outside: Node) -> Node:
        """A value from outside, in the body."""
        if outside.op == "const" and outside.size == 1:
            return self.body.const(outside.value)
        if outside.id not in self._invariants:
            inside = self.body.input(outside.shape, outside.dtype)
            self._invariants[outside.id] = (outside, inside)
        return self._invariants[outside.id][1]

    def add_to(
        self, graph: Graph, length: int | None, firsts: list[Node], outputs: list[Node]
    ) -> Node:
        """Adds the ``loop`` node, which carries as many values as it has first ones."""
        self.body.outputs = outputs
        loop = Loop(length, self.body, len(firsts))
        inputs = [*firsts, *(outside for outside, _ in self._invariants.values())]
        return graph.add("loop", inputs, (loop,), (), _BOOL, unique=True)


def _holds(node: Node, place: Place, part: Node) -> bool:
    """Whether a part is what a value has at a place already."""
    return part.op == "view" and part.inputs == (node,) and part.place == place.normalized


def _convert(value: Any, dtype: np.dtype[Any]) -> Any:
    return (value.real if value.dtype.kind == "c" and dtype.kind not in "cb" else value).astype(
        dtype
    )


def _is_zero(known: Any, *, is_negative: bool = False) -> bool:
    """Whether a constant is zero; all parts of a floating-point one with this sign."""
    if known is None or known.dtype.kind not in "iufc" or known != 0:
        return False
    if known.dtype.kind in "iu":
        return True
    parts = (known.real, known.imag) if known.dtype.kind == "c" else (known,)
    return all(bool(np.signbit(part)) == is_negative for part in parts)


def compose(inner: Place, outer: Place) -> Place | None:
    """A view of a view as one view; None where it is none.

    >>> compose(Place(0, (1, 4), (4, 3)), Place(3, (3, 1), (3, 3)))
    Place(offset=1, strides=(1, 4), shape=(3, 3), step=0)
    """
    order = c_strides(inner.shape)
    if inner.strides == order:
        return outer._replace(offset=outer.offset + inner.offset)
    if 0 in inner.shape or 0 in outer.shape:
        return None
    low = high = _split(outer.offset, inner.shape)
    strides = []
    for length, stride in zip(outer.shape, outer.strides, strict=True):
        sign = -1 if stride < 0 else 1
        steps = [sign * n for n in _split(abs(stride), inner.shape)]
        strides.append(sum(n * s for n, s in zip(steps, inner.strides, strict=True)))
        low = [a + min(0, n * (length - 1)) for a, n in zip(low, steps, strict=True)]
        high = [a + max(0, n * (length - 1)) for a, n in zip(high, steps, strict=True)]
    inside = all(a >= 0 and b < n for a, b, n in zip(low, high, inner.shape, strict=True))
    if not inside:
        return None
    start = _split(outer.offset, inner.shape)
    offset = inner.offset + sum(n * s for n, s in zip(start, inner.strides, strict=True))
    return Place(offset, tuple(strides), outer.shape)


def _split(position: int, shape: tuple[int, ...]) -> list[int]:
    """The index of a flat position; what is beyond the shape stays in the first axis."""
    found = []
    for length in reversed(shape[1:]):
        position, at = divmod(position, length)
        found.append(at)
    return [position, *reversed(found)] if shape else []


def _are_disjoint(places: tuple[Place, ...]) -> bool:
    """Whether no position stands in two places (false where that would take long to find out)."""
    if sum(prod(place.shape) for place in places) > _MOST_CELLS:
        ends = sorted(place.extent for place in places)
        return all(a[1] < b[0] for a, b in pairwise(ends))
    cells = np.concatenate([place.positions().ravel() for place in places])
    cells.sort()  # np.unique imports numpy.ma: 5 ms of a first call
    return bool((cells[1:] != cells[:-1]).all())
