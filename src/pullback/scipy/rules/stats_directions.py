"""Statistics of directions in ``scipy.stats``."""

from __future__ import annotations

from math import pi
from typing import Any

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import rule
from pullback.scipy.rules.stats_functions import bind_axis, reduce_axis

__all__: list[str] = []


def _resultant(name: str, samples: Any, high: float, low: float, axis: Any, policy: str) -> Any:
    x, along = bind_axis(name, samples, axis, policy)
    angle = (x - low) * (2 * pi / (high - low))
    return x, along, xp.mean(xp.sin(angle), along, True), xp.mean(xp.cos(angle), along, True)


@rule("scipy.stats.circmean", tensors="samples")
def _circmean(
    samples: Any,
    high: float = 2 * pi,
    low: float = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    x, along, sine, cosine = _resultant(
        "scipy.stats.circmean", samples, high, low, axis, nan_policy
    )
    angle = xp.atan2(sine, cosine)
    angle = xp.where(angle < 0, angle + 2 * pi, angle)
    value = angle * ((high - low) / (2 * pi)) + low
    return reduce_axis(value, x, along, keepdims, as_tensor(samples))


@rule("scipy.stats.circvar", tensors="samples")
def _circvar(
    samples: Any,
    high: float = 2 * pi,
    low: float = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    x, along, sine, cosine = _resultant("scipy.stats.circvar", samples, high, low, axis, nan_policy)
    value = 1 - xp.sqrt(sine**2 + cosine**2)
    return reduce_axis(value, x, along, keepdims, as_tensor(samples))


@rule("scipy.stats.circstd", tensors="samples")
def _circstd(
    samples: Any,
    high: float = 2 * pi,
    low: float = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Any:
    x, along, sine, cosine = _resultant("scipy.stats.circstd", samples, high, low, axis, nan_policy)
    value = xp.sqrt(-xp.log(sine**2 + cosine**2))
    value = value if normalize else value * ((high - low) / (2 * pi))
    return reduce_axis(value, x, along, keepdims, as_tensor(samples))
