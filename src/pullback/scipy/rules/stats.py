"""Rules of ``scipy.stats``; its parts declare them."""

from __future__ import annotations

from pullback.scipy.registry import refused
from pullback.scipy.rules import (
    stats_directions,
    stats_distributions,
    stats_functions,
    stats_multivariate,
    stats_multivariate_laws,
)

__all__ = ["stats_directions", "stats_distributions", "stats_functions", "stats_multivariate"]
__all__ += ["stats_multivariate_laws"]

for _name in ("kendalltau", "mannwhitneyu", "rankdata", "spearmanr", "wilcoxon"):
    refused(f"scipy.stats.{_name}", "ranks are piecewise constant")
