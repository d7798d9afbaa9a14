"""Batching rules: how an operator computes many samples at once. Arrays in, arrays out."""

from __future__ import annotations

from pullback.kernels.batching.axes import Rule
from pullback.kernels.batching.table import RULES, rule_of_class

__all__ = ["RULES", "Rule", "rule_of_class"]
