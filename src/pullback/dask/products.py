"""Rules of products that sum over axes: blocks give parts of the sum."""

from __future__ import annotations

from pullback.dask.blocks import Call, Plan
from pullback.dask.plans import by_plan

__all__ = [
    "dot",
    "einsum",
    "euclidean",
    "linear",
    "matmul",
    "outer",
    "tensordot",
    "vecdot",
]


@by_plan
def matmul(call: Call) -> Plan | None:
    """`matmul`: the last axis of the left operand is summed."""
    a, b = call.tensors()
    n = max(a.ndim, b.ndim, 2) - 2
    i, j, k = n, n + 1, n + 2
    left = (*range(n - max(a.ndim - 2, 0), n), *((i, k) if a.ndim > 1 else (k,)))
    right = (*range(n - max(b.ndim - 2, 0), n), *((k, j) if b.ndim > 1 else (k,)))
    out = (*range(n), *((i,) if a.ndim > 1 else ()), *((j,) if b.ndim > 1 else ()))
    return Plan([left, right], [out], summed=(k,))


@by_plan
def dot(call: Call) -> Plan | None:
    """`dot`, as NumPy has it for any number of axes."""
    tensors = call.tensors()
    if len(tensors) != 2 or not all(t.ndim for t in tensors):
        return None
    a, b = tensors
    k = a.ndim + b.ndim
    left = (*range(a.ndim - 1), k)
    rest = tuple(range(a.ndim, a.ndim + b.ndim - 1))
    right = (k,) if b.ndim == 1 else (*rest[:-1], k, rest[-1])
    return Plan([left, right], [(*left[:-1], *rest)], summed=(k,))


@by_plan
def vecdot(call: Call) -> Plan | None:
    """`vecdot`: one axis of both operands is summed."""
    a, b = call.tensors()
    n = max(a.ndim, b.ndim)
    axis = call.argument("axis")
    axis = axis - n if axis >= 0 else axis
    if a.ndim != b.ndim or not -n <= axis < 0:
        return None
    labels = tuple(range(n))
    k = n + axis
    return Plan([labels, labels], [tuple(x for x in labels if x != k)], summed=(k,))


@by_plan
def outer(call: Call) -> Plan | None:
    """`outer` of two vectors."""
    return Plan([(0,), (1,)], [(0, 1)]) if all(t.ndim == 1 for t in call.tensors()) else None


@by_plan
def tensordot(call: Call) -> Plan | None:
    """`tensordot`: the axes of both lists are summed."""
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


@by_plan
def einsum(call: Call) -> Plan | None:
    """`einsum`: letters that the result lacks are summed."""
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


@by_plan
def linear(call: Call) -> Plan | None:
    """`linear`: the features of both operands are whole."""
    x, weight, *_ = call.tensors()
    if not isinstance(call.argument("self"), type(x)) or weight.ndim != 2:
        return None
    lead = tuple(range(x.ndim - 1))
    o = x.ndim
    inputs = [(*lead, -1), (o, -2), *([(o,)] if len(call.tensors()) > 2 else [])]
    return Plan(inputs, [(*lead, o)])


@by_plan
def euclidean(call: Call) -> Plan | None:
    """Distances of all pairs: coordinates are whole."""
    a, b = call.tensors()
    n = max(a.ndim, b.ndim) - 2
    left = (*range(n - (a.ndim - 2), n), n, -1)
    right = (*range(n - (b.ndim - 2), n), n + 1, -2)
    return Plan([left, right], [(*range(n), n, n + 1)])
