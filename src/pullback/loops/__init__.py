"""Loops as functions: ``scan``, ``fori_loop`` and ``while_loop``, with the semantics of JAX's."""

from __future__ import annotations

from pullback.loops.conditional import while_loop
from pullback.loops.counted import fori_loop, scan

__all__ = ["fori_loop", "scan", "while_loop"]
