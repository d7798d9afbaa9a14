"""Statistics of directions in ``scipy.stats``."""

from __future__ import annotations

from math import pi
from typing import Any

from pullback.autograd.namespaces import tensors as xp
from pullback.scipy.rules.stats_functions import statistic

__all__: list[str] = []


def _resultant(samples: Any, axis: int, high: float, low: float) -> tuple[Any, Any]:
    """The means of sine and cosine."""
    angle = (samples - low) * (2 * pi / (high - low))
    return xp.mean(xp.sin(angle), axis, True), xp.mean(xp.cos(angle), axis, True)


@statistic("circmean", "samples")
def _circmean(samples: Any, axis: int, high: float, low: float) -> Any:
    angle = xp.atan2(*_resultant(samples, axis, high, low))
    angle = xp.where(angle < 0, angle + 2 * pi, angle)
    return angle * ((high - low) / (2 * pi)) + low


@statistic("circvar", "samples")
def _circvar(samples: Any, axis: int, high: float, low: float) -> Any:
    sine, cosine = _resultant(samples, axis, high, low)
    return 1 - xp.sqrt(sine**2 + cosine**2)


@statistic("circstd", "samples")
def _circstd(samples: Any, axis: int, high: float, low: float, normalize: bool) -> Any:
    sine, cosine = _resultant(samples, axis, high, low)
    value = xp.sqrt(-xp.log(sine**2 + cosine**2))
    return value if normalize else value * ((high - low) / (2 * pi))
