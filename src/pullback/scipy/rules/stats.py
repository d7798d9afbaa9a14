"""Rules of ``scipy.stats``; its parts declare them."""

from __future__ import annotations

from pullback.scipy.rules import (
    stats_directions,
    stats_distributions,
    stats_functions,
    stats_multivariate,
)

__all__ = ["stats_directions", "stats_distributions", "stats_functions", "stats_multivariate"]
