"""Formulas of products. All are linear in each factor, so each gradient is again a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.operators.pointwise.formulas import conj

__all__ = [
    "cross_grad",
    "dot_to_first",
    "dot_to_second",
    "einsum_grad",
    "einsum_jvp",
    "full_window",
    "matmul_to_first",
    "matmul_to_second",
    "tensordot_to_first",
    "tensordot_to_second",
    "trace_grad",
    "vecdot_grad",
]

Shape = tuple[int, ...]
Axes = Sequence[int]


def matmul_to_first(xp: Any, grad: Any, shape: Shape, other: Any) -> Any:
    """The gradient of ``self @ other`` in `self`, which has the given shape."""
    other = conj(xp, other)
    if len(shape) == 2 == other.ndim:
        return xp.matmul(grad, other.mT)
    if other.ndim == 1:
        return grad * other if len(shape) == 1 else xp.expand_dims(grad, -1) * other
    batch = list(range(other.ndim - 2))
    if len(shape) == 1 and not batch:
        return xp.matmul(other, grad)
    if len(shape) == 1:
        columns = other.ndim - 1
        return xp._tensordot(other, grad, [*batch, columns], [*batch, columns - 1])
    if len(shape) == 2 and batch:  # one large product instead of a sum of small ones
        axes = [*batch, other.ndim - 1]
        return xp._tensordot(grad, other, axes, axes)
    return xp.matmul(grad, xp.matrix_transpose(other))


def matmul_to_second(xp: Any, grad: Any, self: Any, shape: Shape) -> Any:
    """The gradient of ``self @ other`` in `other`, which has the given shape."""
    self = conj(xp, self)
    if len(shape) == 2 == self.ndim:
        return xp.matmul(self.mT, grad)
    if self.ndim == 1:
        return (
            self * grad if len(shape) == 1 else xp.expand_dims(self, -1) * xp.expand_dims(grad, -2)
        )
    if len(shape) == 1 and self.ndim == 2:
        return xp.matmul(grad, self)
    if len(shape) == 1 or (len(shape) == 2 and self.ndim > 2):
        rows = list(range(self.ndim - 1))
        return xp._tensordot(self, grad, rows, rows)
    return xp.matmul(xp.matrix_transpose(self), grad)


def _kept(ndim: int, axes: Axes) -> list[int]:
    """The axes that are not among `axes`."""
    gone = {axis % ndim for axis in axes}
    return [axis for axis in range(ndim) if axis not in gone]


def _in_place(xp: Any, grad: Any, kept: list[int], summed: Axes, order: Axes) -> Any:
    """Moves the axes of a gradient to where they belong.

    They stand as `kept`, followed by the `summed` in ascending order of their partners `order`.
    """
    partners = sorted(range(len(order)), key=lambda i: order[i])
    places = kept + [summed[i] for i in partners]
    return xp.permute_dims(grad, sorted(range(len(places)), key=lambda i: places[i]))


def tensordot_to_first(
    xp: Any, grad: Any, shape: Shape, other: Any, axes_self: Axes, axes_other: Axes
) -> Any:
    """The gradient of a sum over pairs of axes in the first factor."""
    own = [axis % len(shape) for axis in axes_self]
    ndim = np.ndim(other)  # which may be a number
    partner = [axis % ndim for axis in axes_other]
    kept, free = _kept(len(shape), own), _kept(ndim, partner)
    tail = list(range(len(kept), len(kept) + len(free)))
    return _in_place(xp, xp._tensordot(grad, conj(xp, other), tail, free), kept, own, partner)


def tensordot_to_second(
    xp: Any, grad: Any, self: Any, shape: Shape, axes_self: Axes, axes_other: Axes
) -> Any:
    """The gradient of a sum over pairs of axes in the second factor."""
    ndim = np.ndim(self)  # which may be a number
    partner = [axis % ndim for axis in axes_self]
    own = [axis % len(shape) for axis in axes_other]
    free, kept = _kept(ndim, partner), _kept(len(shape), own)
    head = list(range(len(free)))
    return _in_place(xp, xp._tensordot(grad, conj(xp, self), head, free), kept, own, partner)


def dot_to_first(xp: Any, grad: Any, shape: Shape, other: Any) -> Any:
    """The gradient of ``dot(self, other)`` in `self`."""
    if np.ndim(other) == 0 or len(shape) == 0 or other.ndim == len(shape) == 1:
        return grad * conj(xp, other)
    return tensordot_to_first(xp, grad, shape, other, [-1], [max(other.ndim - 2, 0)])


def dot_to_second(xp: Any, grad: Any, self: Any, shape: Shape) -> Any:
    """The gradient of ``dot(self, other)`` in `other`."""
    if np.ndim(self) == 0 or len(shape) == 0 or self.ndim == len(shape) == 1:
        return grad * conj(xp, self)
    return tensordot_to_second(xp, grad, self, shape, [-1], [max(len(shape) - 2, 0)])


def einsum_grad(
    xp: Any, grad: Any, subscripts: str, operands: list[Any], optimize: bool, mask: Sequence[bool]
) -> list[Any]:
    """The gradients of an Einstein sum: the same sum, with the result in an operand's place.

    Labels that the other factors lack come in with factors of ones. Where an operand has a label
    twice, the sum is that of a diagonal, and is written to one of zeros: products with zeros would
    spread NaN beside an infinite gradient.
    """
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for label, n in zip(term, operand.shape, strict=True):
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    factors = [conj(xp, operand) for operand in operands]
    results: list[Any] = []
    for place, needed in enumerate(mask):
        if not needed:
            results.append(None)
            continue
        others = [i for i in range(len(terms)) if i != place]
        target = "".join(dict.fromkeys(terms[place]))
        known = set(output)
        for i in others:
            known |= {c for c, n in zip(terms[i], operands[i].shape, strict=True) if n == sizes[c]}
        missing = [c for c in target if c not in known]
        names = [output, *(terms[i] for i in others), *missing]
        ones = [np.ones(sizes[c], bool) for c in missing]
        values = [grad, *(factors[i] for i in others), *ones]
        part = xp._einsum(f"{','.join(names)}->{target}", values, optimize=optimize)
        results.append(_onto_diagonals(xp, part, target, terms[place], sizes))
    return results


def _onto_diagonals(xp: Any, part: Any, labels: str, term: str, sizes: dict[str, int]) -> Any:
    """A value with one axis for each label, among zeros where a term has a label again."""
    if labels == term:
        return part
    for label in labels:
        for _ in range(term.count(label) - 1):
            axis = labels.rindex(label)
            labels = labels[:axis] + labels[axis + 1 :] + label + label
            shape, last = [sizes[c] for c in labels], len(labels) - 1
            part = xp.diagonal_backward(xp.moveaxis(part, axis, -1), shape, 0, last - 1, last)
    # All axes of one label are alike, so that each place takes the next one.
    places = [i for _, i in sorted((c, i) for i, c in enumerate(labels))]
    order = sorted(range(len(term)), key=lambda i: (term[i], i))
    return xp.permute_dims(part, [places[order.index(i)] for i in range(len(term))])


def einsum_jvp(
    xp: Any, subscripts: str, operands: list[Any], tangents: list[Any], optimize: bool
) -> Any:
    """The tangent of an Einstein sum: one sum for each operand that changes."""
    total = None
    for place, tangent in enumerate(tangents):
        factors = [*operands[:place], tangent, *operands[place + 1 :]]
        part = xp._einsum(subscripts, factors, optimize=optimize)
        total = part if total is None else total + part
    return total


def vecdot_grad(xp: Any, grad: Any, factor: Any, ndim: int, axis: int) -> Any:
    """The gradient of a sum of products over one axis, which each argument counts by itself."""
    if axis == -1:
        return xp.expand_dims(grad, -1) * factor
    product = xp.expand_dims(grad, -1) * xp.moveaxis(factor, axis, -1)
    return xp.moveaxis(product, -1, axis % ndim - ndim)


def cross_grad(xp: Any, first: Any, second: Any, shape: Shape, axis: int) -> Any:
    """A cross product whose axis is put where it is in an argument of the given shape.

    The axis counts from the front of each argument by itself, so they are first moved to the end.
    """
    if axis < 0:
        return xp.linalg_cross(first, second, axis=axis)
    product = xp.linalg_cross(xp.moveaxis(first, axis, -1), xp.moveaxis(second, axis, -1), axis=-1)
    return xp.moveaxis(product, -1, product.ndim - len(shape) + axis)


def trace_grad(xp: Any, grad: Any, shape: Shape, offset: int, axis1: int, axis2: int) -> Any:
    """Puts the gradient of a sum of diagonals onto the diagonals."""
    first, second = axis1 % len(shape), axis2 % len(shape)
    length = np.eye(shape[first], shape[second], offset, dtype=bool).sum()
    spread = xp.broadcast_to(xp.expand_dims(grad, -1), [*grad.shape, int(length)])
    return xp.diagonal_backward(spread, list(shape), offset, first, second)


def full_window(xp: Any, grad: Any, n: int, m: int, mode: str, correlates: bool) -> Any:
    """A gradient of a convolution among zeros, as if the convolution had been the full one."""
    if mode == "full":
        return grad
    short = min(n, m)
    if mode == "valid":
        start = short - 1
    else:
        # NumPy turns a correlation round where the second vector is longer, and the middle moves.
        start = short // 2 if correlates and n < m else (short - 1) // 2
    return xp.getitem_backward(grad, [n + m - 1], (slice(start, start + grad.shape[0]),))
