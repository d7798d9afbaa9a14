"""Compiled mode: a function is traced once for each signature, and its graph is run."""

from __future__ import annotations

from pullback.compiled.function import CacheInfo, CompiledFunction, compile

__all__ = ["CacheInfo", "CompiledFunction", "compile"]
