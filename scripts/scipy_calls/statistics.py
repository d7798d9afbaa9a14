"""Calls of `scipy.stats`."""

from __future__ import annotations

import numpy as np

from .inputs import MANY, MATRIX, MIDDLE, POSITIVE, REAL, Call, each, namespace

__all__ = ["STATS"]

_OF_ONE = "circmean circstd circvar describe differential_entropy iqr jarque_bera "
_OF_ONE += "kstat kstatvar kurtosis kurtosistest lmoment median_abs_deviation normaltest sem skew "
_OF_ONE += "skewtest tmax tmean tmin trim_mean tsem tstd tvar variation zscore"
_OF_POSITIVE = "gmean hmean gstd gzscore entropy"
_OF_TWO = (
    "ansari brunnermunzel cramervonmises_2samp epps_singleton_2samp mannwhitneyu mood ttest_ind "
)
_OF_TWO += "bartlett alexandergovern f_oneway fligner kruskal levene"
_PAIRED = "pearsonr spearmanrho chatterjeexi ttest_rel wilcoxon"
_A, _B = MANY[:28], MANY[28:] * 1.2 + 0.3


def _random() -> np.random.Generator:
    return np.random.default_rng(3)


def _mean(x, axis):
    return namespace(x).mean(x, axis=axis)


def _middle(f, x, y, **options):
    return f((x, y), lambda a, b, axis: _mean(a, axis) - _mean(b, axis), **options)


STATS: dict[str, Call] = {
    **each(_OF_ONE, lambda f, x: f(x), MANY),
    **each("moment", lambda f, x: f(x, 3), MANY),
    **each("trim_mean", lambda f, x: f(x, 0.1), MANY),
    **each("differential_entropy", lambda f, x: f(x, method="vasicek"), MANY),
    **each("sigmaclip", lambda f, x: f(x, 2.0, 2.0), MANY),
    **each(_OF_POSITIVE, lambda f, x: f(x), POSITIVE),
    **each("pmean", lambda f, x: f(x, 3), POSITIVE),
    **each("boxcox_llf yeojohnson_llf", lambda f, x: f(0.7, x), POSITIVE),
    **each("zmap", lambda f, x, y: f(x, y), REAL, MANY),
    **each("quantile", lambda f, x, p: f(x, p), MANY, MIDDLE),
    **each("mode rankdata", lambda f, x: f(x), MANY),
    **each(_OF_TWO, lambda f, x, y: f(x, y), _A, _B),
    **each(_PAIRED, lambda f, x, y: f(x, y), MANY, MANY[::-1] + 0.5 * MANY),
    **each("friedmanchisquare", lambda f, x, y: f(x[:20], x[20:40], y[:20]), MANY, _B),
    **each("ttest_1samp", lambda f, x: f(x, 0.1), MANY),
    **each("ttest_ind_from_stats", lambda f, x, y: f(x, y, 10, x + 0.3, y + 1, 12), REAL, POSITIVE),
    **each("chisquare power_divergence", lambda f, x: f(x), POSITIVE),
    **each("combine_pvalues false_discovery_control", lambda f, p: f(p**2), MIDDLE),
    **each("directional_stats", lambda f, x: f(x), MATRIX),
    **each(
        "ks_1samp cramervonmises",
        lambda f, x: f(x, lambda t: 1 / (1 + namespace(t).exp(-t))),
        MANY,
    ),
    **each(
        "bootstrap",
        lambda f, x: f((x,), _mean, n_resamples=50, method="percentile", rng=_random()),
        MANY,
    ),
    **each(
        "permutation_test", lambda f, x, y: _middle(f, x, y, n_resamples=50, rng=_random()), _A, _B
    ),
    **each(
        "monte_carlo_test",
        lambda f, x: f(
            x, lambda size: namespace(x).asarray(_random().normal(size=size)), _mean, n_resamples=50
        ),
        MANY,
    ),
    **each(
        "power",
        lambda f, x: f(
            _mean,
            lambda size: namespace(x).asarray(_random().uniform(size=size)),
            8,
            n_resamples=20,
        ),
        REAL,
    ),
}
