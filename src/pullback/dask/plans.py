"""Plans of operators that are computed block by block: which axes are whole, looped or summed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.lib.array_utils import normalize_axis_tuple

from pullback.dask.array import DaskArray
from pullback.dask.blocks import Call, Labels, Plan, run_plan

__all__ = [
    "Rule",
    "along",
    "axes_of",
    "batch",
    "by_plan",
    "contraction",
    "elementwise",
    "embedding",
    "embedding_backward",
    "index",
    "index_put",
    "picked",
    "placed",
    "trailing",
    "whole_second",
]

Rule = Callable[[Call], "list[DaskArray] | None"]
_Planner = Callable[[Call], "Plan | None"]


def by_plan(planner: _Planner) -> Rule:
    """A rule that runs the plan which `planner` makes of a call."""

    def rule(call: Call) -> list[DaskArray] | None:
        plan = planner(call)
        return None if plan is None else run_plan(call, plan)

    return rule


class _Whole:
    """Gives out labels of whole axes."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last -= 1
        return self._last

    def some(self, count: int) -> Labels:
        """Several labels."""
        return tuple(self() for _ in range(count))


@by_plan
def elementwise(call: Call) -> Plan:
    """All axes are looped; operands broadcast."""
    n = max((len(result.shape) for result in call.results), default=0)
    labels = tuple(range(n))
    inputs = [labels[n - tensor.ndim :] for tensor in call.tensors()]
    return Plan(inputs, [labels[n - len(r.shape) :] for r in call.results])


def along(*names: str) -> Rule:
    """Whole are the axes that arguments name; None names all of them, and is gathered."""

    def planner(call: Call) -> Plan | None:
        tensors = call.tensors()
        n = tensors[0].ndim
        axes: set[int] = set()
        for name in names:
            given = call.argument(name)
            if given is None or n == 0:
                return None
            numbers = normalize_axis_tuple(given, n, allow_duplicate=True)
            if len(set(numbers)) != len(numbers):
                return None
            axes |= set(numbers)
        whole = _Whole()
        inputs = []
        for tensor in tensors:
            if tensor.ndim > n:
                return None
            places = range(n - tensor.ndim, n)
            inputs.append(tuple(whole() if axis in axes else axis for axis in places))
        outputs: list[Labels] = []
        for result in call.results:
            count = len(result.shape)
            if count == n:  # the first operand's labels: see `run_plan`
                outputs.append(inputs[0])
            elif count == n - len(axes):
                outputs.append(tuple(axis for axis in range(n) if axis not in axes))
            elif count > n:  # windows: new axes at the end
                outputs.append((*inputs[0], *whole.some(count - n)))
            else:
                return None
        return Plan(inputs, outputs, broadcasts=False)

    return by_plan(planner)


def trailing(count: int | str) -> Rule:
    """Whole are the last axes: a number of them, or as many as a list argument has numbers."""

    def planner(call: Call) -> Plan | None:
        last = count if isinstance(count, int) else len(call.argument(count))
        tensors = call.tensors()
        lead = max(max(tensor.ndim - last, 0) for tensor in tensors)
        whole = _Whole()
        inputs = []
        for tensor in tensors:
            own = max(tensor.ndim - last, 0)
            inputs.append((*range(lead - own, lead), *whole.some(tensor.ndim - own)))
        if any(len(result.shape) < lead for result in call.results):
            return None
        outputs = [(*range(lead), *whole.some(len(r.shape) - lead)) for r in call.results]
        return Plan(inputs, outputs, broadcasts=False)

    return by_plan(planner)


def batch(*names: str, summed: bool = False) -> Rule:
    """The first axis of some arguments is looped, or summed over; all else is whole."""

    def planner(call: Call) -> Plan | None:
        batched = [call.argument(name) for name in names]
        whole = _Whole()
        inputs = []
        for tensor in call.tensors():
            if any(tensor is b for b in batched):
                inputs.append((0, *whole.some(tensor.ndim - 1)))
            else:
                inputs.append(whole.some(tensor.ndim))
        first = () if summed else (0,)
        outputs = [
            (*first, *whole.some(len(r.shape) - len(first))) for r in call.results
        ]  # fmt: skip
        return Plan(inputs, outputs, summed=(0,) if summed else (), broadcasts=False)

    return by_plan(planner)


@by_plan
def whole_second(call: Call) -> Plan:
    """The first operand is looped element by element; all others are whole."""
    whole = _Whole()
    first, *rest = call.tensors()
    labels = tuple(range(first.ndim))
    inputs = [labels, *(whole.some(tensor.ndim) for tensor in rest)]
    outputs = [(*labels, *whole.some(len(r.shape) - first.ndim)) for r in call.results]
    return Plan(inputs, outputs)


# --- products -------------------------------------------------------------------------------------


def contraction(call: Call) -> list[DaskArray] | None:
    """Products that sum over axes: blocks give parts of the sum."""
    plan = _CONTRACTIONS[call.name](call)
    return None if plan is None else run_plan(call, plan)


def _matmul(call: Call) -> Plan | None:
    a, b = call.tensors()
    n = max(a.ndim, b.ndim, 2) - 2
    i, j, k = n, n + 1, n + 2
    left = (*range(n - max(a.ndim - 2, 0), n), *((i, k) if a.ndim > 1 else (k,)))
    right = (*range(n - max(b.ndim - 2, 0), n), *((k, j) if b.ndim > 1 else (k,)))
    out = (*range(n), *((i,) if a.ndim > 1 else ()), *((j,) if b.ndim > 1 else ()))
    return Plan([left, right], [out], summed=(k,))


def _dot(call: Call) -> Plan | None:
    tensors = call.tensors()
    if len(tensors) != 2 or not all(t.ndim for t in tensors):
        return None
    a, b = tensors
    k = a.ndim + b.ndim
    left = (*range(a.ndim - 1), k)
    rest = tuple(range(a.ndim, a.ndim + b.ndim - 1))
    right = (k,) if b.ndim == 1 else (*rest[:-1], k, rest[-1])
    return Plan([left, right], [(*left[:-1], *rest)], summed=(k,))


def _vecdot(call: Call) -> Plan | None:
    a, b = call.tensors()
    n = max(a.ndim, b.ndim)
    axis = call.argument("axis")
    axis = axis - n if axis >= 0 else axis
    if a.ndim != b.ndim or not -n <= axis < 0:
        return None
    labels = tuple(range(n))
    k = n + axis
    return Plan([labels, labels], [tuple(x for x in labels if x != k)], summed=(k,))


def _outer(call: Call) -> Plan | None:
    return Plan([(0,), (1,)], [(0, 1)]) if all(t.ndim == 1 for t in call.tensors()) else None


def _tensordot(call: Call) -> Plan | None:
    a, b = call.tensors()
    left = list(range(a.ndim))
    right = list(range(a.ndim, a.ndim + b.ndim))
    first = [axis % a.ndim for axis in call.argument("axes_self")]
    second = [axis % b.ndim for axis in call.argument("axes_other")]
    for p, q in zip(first, second, strict=True):
        right[q] = left[p]
    out = [x for p, x in enumerate(left) if p not in first]
    out += [x for q, x in enumerate(right) if q not in second]
    return Plan([tuple(left), tuple(right)], [tuple(out)], tuple(left[p] for p in first), False)


def _einsum(call: Call) -> Plan | None:
    subscripts = call.argument("subscripts").replace(" ", "")
    given, arrow, wanted = subscripts.partition("->")
    terms = given.split(",")
    if not arrow or "." in subscripts or any(len(set(t)) != len(t) for t in (*terms, wanted)):
        return None
    if any(len(t) != x.ndim for t, x in zip(terms, call.tensors(), strict=True)):
        return None
    number = {letter: place for place, letter in enumerate(sorted(set("".join(terms))))}
    inputs = [tuple(number[letter] for letter in term) for term in terms]
    summed = tuple(number[letter] for letter in number if letter not in wanted)
    return Plan(inputs, [tuple(number[letter] for letter in wanted)], summed, False)


def _linear(call: Call) -> Plan | None:
    x, weight, *_ = call.tensors()
    if not isinstance(call.argument("self"), type(x)) or weight.ndim != 2:
        return None
    lead = tuple(range(x.ndim - 1))
    o = x.ndim
    inputs = [(*lead, -1), (o, -2), *([(o,)] if len(call.tensors()) > 2 else [])]
    return Plan(inputs, [(*lead, o)])


def _euclidean(call: Call) -> Plan | None:
    a, b = call.tensors()
    n = max(a.ndim, b.ndim) - 2
    left = (*range(n - (a.ndim - 2), n), n, -1)
    right = (*range(n - (b.ndim - 2), n), n + 1, -2)
    return Plan([left, right], [(*range(n), n, n + 1)])


_CONTRACTIONS: dict[str, _Planner] = {
    "matmul": _matmul,
    "dot": _dot,
    "vecdot": _vecdot,
    "outer": _outer,
    "_tensordot": _tensordot,
    "_einsum": _einsum,
    "linear": _linear,
    "_euclidean": _euclidean,
}


# --- picking by index -----------------------------------------------------------------------------


def _indexed_labels(call: Call) -> tuple[Labels, Labels, int] | None:
    """Labels of the indexed operand and of what an index picks, with the index's axes negative."""
    x, indices = call.argument("self"), call.argument("indices")
    arrays = [i for i in indices if i is not None]
    if not arrays or any(i.dtype.kind not in "iu" for i in arrays):
        return None
    is_picked = [i is not None for i in indices] + [False] * (x.ndim - len(indices))
    places = [axis for axis, chosen in enumerate(is_picked) if chosen]
    own = tuple(-1 - axis if chosen else axis for axis, chosen in enumerate(is_picked))
    n = max(i.ndim for i in arrays)
    adjacent = places == list(range(places[0], places[-1] + 1))
    first = places[0] if adjacent else 0
    kept = [label for label in own if label >= 0]
    picked_axes = tuple(-100 - axis for axis in range(n))
    return own, (*kept[:first], *picked_axes, *kept[first:]), n


@by_plan
def index(call: Call) -> Plan | None:
    """Axes that are indexed by integers are whole; those of the index arrays are looped."""
    found = _indexed_labels(call)
    if found is None:
        return None
    own, out, n = found
    looped = {-100 - axis: 100 + axis for axis in range(n)}
    arrays = [i for i in call.argument("indices") if i is not None]
    inputs = [own, *(tuple(100 + a for a in range(n - i.ndim, n)) for i in arrays)]
    return Plan(inputs, [tuple(looped.get(label, label) for label in out)])


@by_plan
def index_put(call: Call) -> Plan | None:
    """As `index`, but every block needs all index arrays and the values for them."""
    found = _indexed_labels(call)
    if found is None:
        return None
    own, out, _ = found
    values = call.argument("values")
    arrays = [i for i in call.argument("indices") if i is not None]
    if values.ndim > len(out) or not isinstance(values.shape, tuple):
        return None
    whole = [tuple(-200 - 10 * m - a for a in range(i.ndim)) for m, i in enumerate(arrays)]
    inputs = [own, *whole]
    if any(value is values for value in call.tensors()):
        inputs.append(out[len(out) - values.ndim :])
    result = tuple(label if label >= 0 else label - 300 for label in own)
    return Plan(inputs, [result], broadcasts=False)


@by_plan
def embedding(call: Call) -> Plan:
    """Rows of a table, which is whole."""
    numbers, _ = call.tensors()
    labels = tuple(range(numbers.ndim))
    return Plan([labels, (-1, -2)], [(*labels, -3)])


@by_plan
def embedding_backward(call: Call) -> Plan:
    """Blocks give parts of the table's gradient."""
    _, numbers = call.tensors()
    labels = tuple(range(numbers.ndim))
    return Plan([(*labels, -1), labels], [(-2, -3)], summed=labels, broadcasts=False)


def _class_axis(ndim: int) -> int:
    return min(1, ndim - 1)


def picked(summed: bool) -> Rule:
    """The element of each row at its class: the axis of classes is whole."""

    def planner(call: Call) -> Plan:
        x, _ = call.tensors()
        own = list(range(x.ndim))
        own[_class_axis(x.ndim)] = -1
        rest = tuple(label for label in own if label >= 0)
        if summed:
            return Plan([tuple(own), rest], [()], summed=rest, broadcasts=False)
        return Plan([tuple(own), rest], [rest], broadcasts=False)

    return by_plan(planner)


@by_plan
def placed(call: Call) -> Plan:
    """The adjoint of `picked`."""
    (result,) = call.results
    own = list(range(len(result.shape)))
    own[_class_axis(len(own))] = -1
    rest = tuple(label for label in own if label >= 0)
    return Plan([rest, rest], [tuple(own)], broadcasts=False)


def axes_of(given: Any, ndim: int) -> tuple[int, ...]:
    """Axes as numbers from 0; None are all."""
    if given is None:
        return tuple(range(ndim))
    if not ndim:
        return ()
    listed: Iterable[int] = (given,) if isinstance(given, int) else given
    return normalize_axis_tuple(tuple(listed), ndim)
