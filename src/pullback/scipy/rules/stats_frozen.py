"""Frozen distributions: ``norm(mu, sigma)`` keeps tensors, and its methods pass them on."""

from __future__ import annotations

from typing import Any

from pullback.interop.arguments import plain
from pullback.scipy.registry import rule

__all__: list[str] = []


@rule("scipy.stats.rv_generic.freeze", tensors="args kwds")
def _freeze(self: Any, *args: Any, **kwds: Any) -> Any:
    frozen = self.freeze(*plain(args), **plain(kwds))
    frozen.args, frozen.kwds = args, kwds
    return frozen


@rule("scipy.stats.rv_generic.__call__", tensors="args kwds")
def _call(self: Any, *args: Any, **kwds: Any) -> Any:
    return _freeze(self, *args, **kwds)
