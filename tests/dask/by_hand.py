"""Two losses, and their gradients written by hand in dask."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

import pullback as pb


def logistic(x: Any, y: Any, w: Any) -> Any:
    """The negative log likelihood of a logistic regression."""
    z = x @ w
    return pb.sum(pb.logaddexp(pb.zeros_like(z), z) - y * z)


def logistic_by_hand(x: Any, y: Any, w: Any) -> tuple[Any, Any]:
    """Its value and gradient."""
    z = x @ w
    value = (da.logaddexp(0.0, z) - y * z).sum()
    return value, x.T @ (1 / (1 + da.exp(-z)) - y)


def mixture(x: Any, means: Any, logits: Any) -> Any:
    """The negative log likelihood of a mixture of Gaussians with unit variance."""
    gaps = pb.expand_dims(x, 1) - pb.expand_dims(means, 0)
    energy = logits - pb.sum(gaps * gaps, axis=2) / 2
    return -pb.sum(pb.logsumexp(energy, axis=1))


def mixture_by_hand(x: Any, means: Any, logits: Any) -> tuple[Any, Any, Any]:
    """Its value and gradients."""
    gaps = x[:, None, :] - means[None]
    energy = logits - (gaps * gaps).sum(axis=2) / 2
    top = energy.max(axis=1, keepdims=True)
    total = da.exp(energy - top).sum(axis=1, keepdims=True)
    value = -(da.log(total) + top).sum()
    share = da.exp(energy - top) / total
    slope = -(share[:, :, None] * gaps).sum(axis=0)
    return value, slope, -share.sum(axis=0)


def data(rows: int, columns: int, chunk: int) -> tuple[Any, Any]:
    """Rows and labels as dask arrays that are made in tasks."""
    state = da.random.default_rng(3)
    x = state.normal(size=(rows, columns), chunks=(chunk, columns))
    return x, (x[:, 0] > 0).astype(np.float64)
