"""The functions that workloads call, for libraries that are shaped like NumPy.

A namespace has: exp, log, log1p, tanh, sin, cos, sqrt, sigmoid, relu, logaddexp, sum, mean,
logsumexp, cross, concatenate, stack, cross_entropy (mean over a batch), conv2d (3x3, a border of
zeros), scan (a loop that carries values along sequences), long_scan (the same, for a loop that no
compiler should unroll), copy, set_row (x[i] = row), custom_tanh, formula_tanh
(the same, for a peer that has two ways to define it) and numpy_sin.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

SHARED = (
    "exp log log1p tanh sin cos sqrt logaddexp sum mean cross concatenate stack".split()  # noqa: SIM905
)


def loop(step: Any, carry: Any, *sequences: Any) -> Any:
    for i in range(len(sequences[0])):
        carry = step(carry, *(sequence[i] for sequence in sequences))
    return carry


def numpy_like(module: ModuleType, **special: Any) -> SimpleNamespace:
    """The functions of `module`, and the rest made of them where `special` has nothing better."""

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + module.exp(-x))

    def relu(x: Any) -> Any:
        return module.maximum(x, 0.0)

    def logsumexp(x: Any, axis: int) -> Any:
        top = module.max(x, axis=axis, keepdims=True)
        total = module.sum(module.exp(x - top), axis=axis)
        return module.log(total) + module.squeeze(top, axis=axis)

    def cross_entropy(logits: Any, labels: Any) -> Any:
        chosen = logits[np.arange(len(labels)), labels]
        return module.mean(namespace.logsumexp(logits, axis=1) - chosen)

    def set_row(x: Any, i: int, row: Any) -> Any:
        x[i] = row
        return x

    def copy(x: Any) -> Any:
        return x.copy()

    made = {
        "sigmoid": sigmoid,
        "relu": relu,
        "logsumexp": logsumexp,
        "cross_entropy": cross_entropy,
        "set_row": set_row,
        "copy": copy,
        "scan": loop,
        "long_scan": special.get("scan", loop),
        "custom_tanh": getattr(module, "tanh", None),
        "formula_tanh": special.get("custom_tanh", getattr(module, "tanh", None)),
        "numpy_sin": getattr(module, "sin", None),
    }
    shared = {name: getattr(module, name) for name in SHARED if hasattr(module, name)}
    namespace = SimpleNamespace(**{**shared, **made, **special})
    return namespace
