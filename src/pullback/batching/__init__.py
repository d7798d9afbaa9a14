"""Operators on many samples at once: the kernels for tensors that hold a ``BatchedArray``."""

from __future__ import annotations

from pullback.batching.kernels import batched_kernel
from pullback.batching.random import random_kernel
from pullback.batching.rules import declare, is_random, set_rule
from pullback.batching.tensor_rules import VmapInfo, apply_rule

__all__ = [
    "VmapInfo",
    "apply_rule",
    "batched_kernel",
    "declare",
    "is_random",
    "random_kernel",
    "set_rule",
]
