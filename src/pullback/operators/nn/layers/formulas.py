"""Formulas of layers."""

from __future__ import annotations

from math import prod
from typing import Any

from pullback.operators.pointwise.formulas import conj

__all__ = ["dropout_scale", "embedding_rows", "linear_weight", "sum_of_channels"]


def linear_weight(xp: Any, grad: Any, x: Any) -> Any:
    """The gradient of the matrix of a linear map: products of outputs and inputs, summed."""
    rows = prod(x.shape[:-1])
    outputs = xp.reshape(grad, (rows, grad.shape[-1]))
    inputs = xp.reshape(conj(xp, x), (rows, x.shape[-1]))
    return xp.linear(xp.matrix_transpose(outputs), xp.matrix_transpose(inputs))


def embedding_rows(xp: Any, grad: Any, indices: Any, padding_idx: int | None) -> Any:
    """The rows that an embedding takes, with zeros for those that have no gradient."""
    rows = xp.embedding(indices, grad)
    if padding_idx is None:
        return rows
    kept = indices != padding_idx % grad.shape[0]
    return xp.where(xp.reshape(kept, (*kept.shape, *[1] * (grad.ndim - 1))), rows, 0)


def dropout_scale(xp: Any, p: float) -> float:  # noqa: ARG001
    """The factor of the elements that dropout keeps."""
    return 0.0 if p == 1 else 1 / (1 - p)


def sum_of_channels(xp: Any, grad: Any) -> Any:
    """One sum for each channel, which is axis 1."""
    return xp.sum(grad, (0, *range(2, grad.ndim)))
