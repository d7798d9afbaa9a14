"""Layers on arrays: linear maps, embeddings, dropout and the softmax of attention."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pullback.kernels.masked_select import add_at
from pullback.kernels.random import source_of_numbers

__all__ = [
    "Array",
    "check_linear",
    "dropout",
    "embedding",
    "embedding_backward",
    "linear",
    "masked_scale",
    "one_hot",
    "random_like",
    "safe_softmax",
    "uniform_like",
]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias``, as one product of matrices."""
    check_linear(x, weight)
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1]) if x.ndim > 2 else x
    result = np.matmul(rows, weight.T)
    if bias is not None:
        same = np.result_type(result, bias) == result.dtype
        result = np.add(result, bias, out=result if same else None)
    return result.reshape(*x.shape[:-1], weight.shape[0])


def check_linear(x: Array, weight: Array) -> None:
    """Refuses a weight that is no matrix, or not one for such an input."""
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: the last axis of the input of shape {list(x.shape)} does not fit the weight "
            f"of shape {list(weight.shape)}, which has to be (outputs, inputs)"
        )


def embedding(indices: Array, weight: Array, padding_idx: int | None = None) -> Array:  # noqa: ARG001
    """Rows of a matrix; the padding only matters for the gradient."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"embedding: the numbers of rows have dtype {indices.dtype}, not integers")
    if indices.size and not 0 <= indices.min() <= indices.max() < weight.shape[0]:
        raise IndexError(
            f"embedding: the numbers of rows lie between {indices.min()} and {indices.max()}, but "
            f"the weight of shape {list(weight.shape)} has rows 0 to {weight.shape[0] - 1}"
        )
    return np.take(weight, indices, axis=0)


def embedding_backward(
    grad: Array, indices: Array, rows: int, padding_idx: int | None = None
) -> Array:
    """Adds rows to those that they were taken from."""
    result = np.zeros((rows, *grad.shape[indices.ndim :]), grad.dtype)
    flat = indices.reshape(-1)
    sources = grad.reshape(flat.size, *result.shape[1:])
    add_at(result, flat, sources, np.argsort(flat, kind="stable"))
    if padding_idx is not None:
        result[padding_idx] = 0
    return result


def one_hot(indices: Array, num_classes: int = -1) -> Array:
    """Zeros with a one at each number's place along a new last axis."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"one_hot: the classes have dtype {indices.dtype}, not integers")
    if num_classes < 0:
        if not indices.size:
            raise ValueError("one_hot: give num_classes; it cannot be guessed without elements")
        num_classes = int(indices.max()) + 1
    if indices.size and not 0 <= indices.min() <= indices.max() < num_classes:
        raise ValueError(
            f"one_hot: the classes lie between {indices.min()} and {indices.max()}, but "
            f"num_classes is {num_classes}"
        )
    return (indices[..., np.newaxis] == np.arange(num_classes)).astype(np.int64)


def dropout(x: Array, p: float, generator: Any = None) -> tuple[Array, Array]:
    """The elements that a random mask keeps, enlarged; and the mask."""
    source = source_of_numbers(generator)
    # Half as many bits are plenty; NumPy's global state has no choice.
    drawn = source.random(x.shape) if generator is None else source.random(x.shape, np.float32)
    mask = drawn >= p
    return masked_scale(x, mask, 0.0 if p == 1 else 1 / (1 - p)), np.asarray(mask)


def masked_scale(x: Array, mask: Array, scale: float) -> Array:
    """The elements under a mask, times a number."""
    return x * mask * scale


def safe_softmax(x: Array, axis: int = -1) -> Array:
    """Softmax, with zeros along a row of minus infinities."""
    if not x.size:
        return x.copy()
    top = x.max(axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = powers.sum(axis=axis, keepdims=True)
    powers /= np.where(total == 0, 1, total)
    return powers


def random_like(x: Array, kind: str, low: int = 0, high: int = 0, generator: Any = None) -> Array:
    """Random numbers of the shape and dtype of an array.

    `kind` is "normal", "integers" from `low` to less than `high`, or "permutation".
    """
    source = source_of_numbers(generator)
    if kind == "normal":
        drawn = source.normal(size=x.shape)
    elif kind == "permutation":
        drawn = source.permutation(x.size)
    else:
        draw = source.integers if isinstance(source, np.random.Generator) else source.randint
        drawn = draw(low, high, x.shape)
    return np.asarray(drawn).astype(x.dtype)


def uniform_like(x: Array, low: float, high: float, generator: Any = None) -> Array:
    """Random numbers between two bounds, of the shape and dtype of an array."""
    return np.asarray(source_of_numbers(generator).uniform(low, high, x.shape)).astype(x.dtype)
