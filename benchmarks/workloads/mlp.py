"""Training a network of three layers: loss, gradients, and a step of gradient descent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workloads.base import (
    LEARNING_RATE,
    Array,
    Arrays,
    Problem,
    Target,
    Workload,
    generator,
)


def mlp(sizes: tuple[int, ...], batch: int) -> Problem:
    def fn(xp: Any, params: Any, consts: Any) -> Any:
        w0, b0, w1, b1, w2, b2 = params
        x, labels = consts
        x = xp.relu(x @ w0 + b0)
        x = xp.relu(x @ w1 + b1)
        return xp.cross_entropy(x @ w2 + b2, labels)

    rng = generator()
    params: list[Array] = []
    for rows, columns in pairwise(sizes):
        params += [rng.normal(size=(rows, columns)) / np.sqrt(rows), np.zeros(columns)]
    x = rng.normal(size=(batch, sizes[0]))
    labels = rng.integers(sizes[-1], size=batch)
    return Problem(fn, tuple(params), (x, labels), train_by_hand)


def train_by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    """One step; the parameters are updated in place."""
    w0, b0, w1, b1, w2, b2 = params
    x, labels = consts
    rows = np.arange(len(x))
    h0 = np.maximum(x @ w0 + b0, 0.0)
    h1 = np.maximum(h0 @ w1 + b1, 0.0)
    logits = h1 @ w2 + b2
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    total = p.sum(axis=1, keepdims=True)
    loss = np.mean(np.log(total[:, 0]) - logits[rows, labels])
    p /= total
    p[rows, labels] -= 1.0
    p /= len(x)
    g1 = (p @ w2.T) * (h1 > 0)
    g0 = (g1 @ w1.T) * (h0 > 0)
    for inputs, g, w, b in ((h1, p, w2, b2), (h0, g1, w1, b1), (x, g0, w0, b0)):
        w -= LEARNING_RATE * (inputs.T @ g)
        b -= LEARNING_RATE * g.sum(axis=0)
    return [loss, *params]


WORKLOADS = tuple(
    Workload(
        f"mlp_train_b{batch}",
        f"64-128-128-10, batch {batch}, with the update",
        mlp,
        {"sizes": (64, 128, 128, 10), "batch": batch},
        {"sizes": (4, 5, 6, 3), "batch": 7},
        task="train",
        target=Target(0.95, 0.75),
        saved=Target(1.0, 0.9),
    )
    for batch in (64, 1024)
)
