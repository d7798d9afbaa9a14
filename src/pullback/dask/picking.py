"""Rules of operators that pick elements by index, and of their adjoints."""

from __future__ import annotations

from pullback.dask.blocks import Call, Labels, Plan
from pullback.dask.plans import by_plan

__all__ = [
    "embedding",
    "embedding_backward",
    "index",
    "index_put",
    "picked",
    "picked_sum",
    "placed",
]


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


def _picked_labels(ndim: int) -> tuple[Labels, Labels]:
    """Labels of rows with classes, whose axis is whole, and of what is one number a row."""
    own = list(range(ndim))
    own[min(1, ndim - 1)] = -1
    return tuple(own), tuple(label for label in own if label >= 0)


@by_plan
def picked(call: Call) -> Plan:
    """The element of each row at its class."""
    own, rest = _picked_labels(call.tensors()[0].ndim)
    return Plan([own, rest], [rest], broadcasts=False)


@by_plan
def picked_sum(call: Call) -> Plan:
    """The sum of what `picked` gives."""
    own, rest = _picked_labels(call.tensors()[0].ndim)
    return Plan([own, rest], [()], summed=rest, broadcasts=False)


@by_plan
def placed(call: Call) -> Plan:
    """The adjoint of `picked`."""
    own, rest = _picked_labels(len(call.results[0].shape))
    return Plan([rest, rest], [own], broadcasts=False)
