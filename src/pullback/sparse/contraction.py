"""Links of products: sums of products over shared axes.

Every axis of an operand has a label, as in an Einstein sum. An output element depends on the
elements of an operand that agree with it in the labels they share, whatever the other labels are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["PRODUCTS", "Pairs", "Shape", "contracted"]

Shape = tuple[int, ...]
Pairs = tuple[Any, Any] | None


def contracted(out_labels: str, out_shape: Shape, in_labels: str, in_shape: Shape) -> Pairs:
    """The pairs of an output and one operand; an axis of length 1 is stretched."""
    if len(out_labels) != len(out_shape) or len(in_labels) != len(in_shape):
        return None
    if len(set(out_labels)) != len(out_labels) or len(set(in_labels)) != len(in_labels):
        return None  # a diagonal
    summed = [label for label in in_labels if label not in out_labels]
    sizes = dict(zip(in_labels, in_shape, strict=True))
    shape = (*out_shape, *(sizes[label] for label in summed))
    order = [*out_labels, *summed]
    strides = dict(zip(out_labels, _strides(out_shape), strict=True))
    results = _numbered(order, shape, strides)
    stretched = {label for label in in_labels if sizes[label] == 1}
    steps = dict(zip(in_labels, _strides(in_shape), strict=True))
    sources = _numbered(order, shape, {k: 0 if k in stretched else v for k, v in steps.items()})
    return results, sources


def _strides(shape: Shape) -> list[int]:
    return [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]


def _numbered(order: list[str], shape: Shape, steps: dict[str, int]) -> Any:
    """For each combination of indices, the place that it stands for."""
    total = np.zeros(shape, np.int64)
    for axis, label in enumerate(order):
        index = np.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - axis - 1))
        total += index * steps.get(label, 0)
    return total


def _letters(count: int, first: str = "A") -> str:
    return "".join(chr(ord(first) + n) for n in range(count))


def _matmul(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number
    first, second = len(node.self_shape), len(node.other_shape)
    batch = _letters(max(first, second) - 2)
    left = batch[len(batch) - (first - 2) :] + "ik" if first > 2 else "ik"[-first:]
    right = batch[len(batch) - (second - 2) :] + "kj" if second > 2 else "kj"[:second]
    out = batch + ("i" if first > 1 else "") + ("j" if second > 1 else "")
    return contracted(out, out_shape, (left, right)[edge], in_shape)


def _dot(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number
    first, second = len(node.self_shape), len(node.other_shape)
    if not first or not second:
        return contracted(_letters(len(out_shape)), out_shape, _letters(len(in_shape)), in_shape)
    left = _letters(first - 1) + "k"
    right = _letters(second - 1, "a")
    right = right[: second - 2] + "k" + right[second - 2 :] if second > 1 else "k"
    out = left.replace("k", "") + right.replace("k", "")
    return contracted(out, out_shape, (left, right)[edge], in_shape)


def _tensordot(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number
    labels = [list(_letters(len(node.self_shape))), list(_letters(len(node.other_shape), "a"))]
    for place, (mine, other) in enumerate(zip(node.axes_self, node.axes_other, strict=True)):
        labels[0][mine] = labels[1][other] = chr(ord("0") + place)
    out = "".join(label for part in labels for label in part if not label.isdigit())
    return contracted(out, out_shape, "".join(labels[edge]), in_shape)


def _einsum(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number
    text = node.subscripts.replace(" ", "")
    if "." in text or "->" not in text:
        return None
    terms, _, out = text.partition("->")
    return contracted(out, out_shape, terms.split(",")[edge], in_shape)


def _linear(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del node, number
    rows = _letters(len(out_shape) - 1)
    return contracted(rows + "o", out_shape, (rows + "i", "oi", "o")[edge], in_shape)


def _outer(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del node, number
    flat = (int(np.prod(in_shape)),)
    return contracted("ij", out_shape, "ij"[edge], flat)


def _vecdot(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number, edge
    axis = node.axis if node.axis < 0 else node.axis - len(in_shape)
    if node.self_ndim != node.other_ndim and axis != -1:
        return None
    letters = _letters(len(out_shape))
    rest = letters[len(letters) - (len(in_shape) - 1) :]
    place = len(in_shape) + axis
    return contracted(letters, out_shape, rest[:place] + "k" + rest[place:], in_shape)


PRODUCTS = {
    "matmul": _matmul,
    "dot": _dot,
    "_tensordot": _tensordot,
    "_einsum": _einsum,
    "linear": _linear,
    "outer": _outer,
    "vecdot": _vecdot,
}
