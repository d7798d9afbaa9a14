"""Samples of scipy.stats."""

from __future__ import annotations

from tests.scipy.samples import stats_distributions, stats_functions

__all__ = ["SAMPLES"]

SAMPLES = {**stats_distributions.SAMPLES, **stats_functions.SAMPLES}
