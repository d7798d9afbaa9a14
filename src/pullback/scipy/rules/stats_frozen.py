"""Frozen distributions: ``norm(mu, sigma)`` keeps tensors, and its methods pass them on."""

from __future__ import annotations

from typing import Any

from pullback.interop.arguments import plain
from pullback.scipy.registry import rule
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_AT_POINTS = ("cdf", "isf", "logcdf", "logpdf", "logpmf", "logsf", "pdf", "pmf", "ppf", "sf")
_MOMENTS = ("entropy", "mean", "std", "var")


def _value(given: Any) -> Any:
    """An array in the place of a tensor; 1 if vmap hides its values: only the support reads it."""
    return 1.0 if isinstance(given, Tensor) and levels_of(given) else plain(given)


@rule("scipy.stats.rv_generic.freeze", tensors="args kwds")
def _freeze(self: Any, *args: Any, **kwds: Any) -> Any:
    frozen = self.freeze(*map(_value, args), **{name: _value(v) for name, v in kwds.items()})
    frozen.args, frozen.kwds = args, kwds
    return frozen


@rule("scipy.stats.rv_generic.__call__", tensors="args kwds")
def _call(self: Any, *args: Any, **kwds: Any) -> Any:
    return _freeze(self, *args, **kwds)


def _declare(method: str, tensors: str) -> None:
    @rule(f"scipy.stats.rv_frozen.{method}", tensors=tensors)
    def apply(self: Any, *points: Any) -> Any:
        return getattr(self.dist, method)(*points, *self.args, **self.kwds)


for _method in _AT_POINTS:
    _declare(_method, "x q k")
for _method in _MOMENTS:
    _declare(_method, "")
