"""Samples of scipy.stats: multivariate distributions, descriptive statistics, tests."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.stats as st

from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

SAMPLES: dict[str, Sample] = {}
RNG = np.random.default_rng(0)
MEAN = np.array([0.3, -0.2, 0.5])
ROOT = RNG.standard_normal((3, 3)) / 2 + np.eye(3)
COV = ROOT @ ROOT.T + np.eye(3)
POINT = np.array([0.7, 0.1, -0.4])
POINTS = RNG.standard_normal((4, 3))
TABLE = RNG.standard_normal((6, 3))
A, B = RNG.standard_normal(8), RNG.standard_normal(8)
POSITIVE = RNG.random((5, 3)) + 0.5


def line(text, call, x, **options):
    SAMPLES[text] = Sample(call, np.asarray(x), **options)


def arguments(name, names, call, values, option="", **options):
    """A line for each argument, with the others fixed."""
    for place, argument in enumerate(names.split()):

        def run(x, place=place):
            return call(*values[:place], x, *values[place + 1 :])

        line(
            f"{name} | {argument}" + (f" | {option}" if option else ""),
            run,
            values[place],
            **options,
        )


normal = st.multivariate_normal
for method in ("logpdf", "pdf"):
    name, call = f"multivariate_normal.{method}", getattr(normal, method)
    three = "x mean cov"
    arguments(name, three, call, [POINT, MEAN, COV])
    arguments(name, three, call, [POINTS, MEAN, COV], "many points")
    arguments(name, three, call, [POINT, MEAN, np.diag(COV)], "diagonal cov")
    arguments(name, three, call, [POINT, MEAN, 1.7], "scalar cov")
    arguments(
        name,
        three,
        lambda x, mean, cov, method=method: getattr(normal(mean, cov), method)(x),
        [POINT, MEAN, COV],
        "frozen",
    )
SINGULAR = np.diag([1.0, 2.0, 0.0])
line(
    "multivariate_normal.logpdf | x | allow_singular=True",
    lambda x: normal.logpdf(x * np.array([1.0, 1.0, 0.0]), None, SINGULAR, allow_singular=True),
    POINT,
)
line("multivariate_normal.entropy | cov", lambda c: normal.entropy(MEAN, c), COV)
line("multivariate_normal.entropy | cov | frozen", lambda c: normal(MEAN, c).entropy(), COV)

ALPHA = np.array([1.4, 2.3, 0.8])


def simplex(x):
    """Points of the simplex, on which SciPy insists."""
    return x / x.sum(0)


for method in ("logpdf", "pdf"):
    name, call = f"dirichlet.{method}", getattr(st.dirichlet, method)
    for option, x in {
        "": np.array([0.2, 0.5, 0.3]),
        "many points": RNG.random((3, 4)) + 0.2,
    }.items():
        arguments(
            name,
            "x alpha",
            lambda x, a, call=call: call(simplex(x), a),
            [x, ALPHA],
            option,
            float32=0,
        )
    arguments(
        name,
        "x alpha",
        lambda x, a, method=method: getattr(st.dirichlet(a), method)(simplex(x)),
        [np.array([0.2, 0.5, 0.3]), ALPHA],
        "frozen",
        float32=0,
    )
for method in ("mean", "var", "entropy"):
    line(f"dirichlet.{method} | alpha", getattr(st.dirichlet, method), ALPHA, float32=0)
    line(
        f"dirichlet.{method} | alpha | frozen",
        lambda a, method=method: getattr(st.dirichlet(a), method)(),
        ALPHA,
        float32=0,
    )
line("dirichlet.cov | alpha", st.dirichlet.cov, ALPHA, float32=0)

WEIGHTS = RNG.random(8) + 0.3
AT = np.array([-0.4, 0.3, 1.2])
for option, chosen in {
    "": {},
    "bw_method=silverman": {"bw_method": "silverman"},
    "bw_method number": {"bw_method": 0.4},
    "weights": {"weights": WEIGHTS},
}.items():
    arguments(
        "gaussian_kde",
        "dataset points",
        lambda d, x, chosen=chosen: st.gaussian_kde(d, **chosen)(x),
        [A, AT],
        option,
        float32=0,
    )
arguments(
    "gaussian_kde",
    "dataset points",
    lambda d, x: st.gaussian_kde(d)(x),
    [TABLE.T[:2], POINTS.T[:2]],
    "2 dimensions",
    float32=0,
)
arguments(
    "gaussian_kde",
    "dataset points",
    lambda d, x: st.gaussian_kde(d).logpdf(x),
    [A, AT],
    "logpdf",
    float32=0,
)
for method in ("evaluate", "pdf", "logpdf"):
    line(
        f"gaussian_kde.{method} | points",
        lambda x, method=method: getattr(st.gaussian_kde(A), method)(x),
        AT,
        float32=0,
    )
arguments(
    "gaussian_kde.integrate_box_1d",
    "dataset low high",
    lambda d, low, high: st.gaussian_kde(d).integrate_box_1d(low, high),
    [A, -0.5, 1.1],
    float32=0,
)
arguments(
    "gaussian_kde.integrate_gaussian",
    "dataset mean",
    lambda d, mean: st.gaussian_kde(d).integrate_gaussian(mean, 0.5),
    [A, np.array([0.3])],
    float32=0,
)
line("gaussian_kde | weights", lambda w: st.gaussian_kde(A, weights=w)(AT), WEIGHTS, float32=0)

line("describe | a", st.describe, TABLE)
line("describe | a | axis=None", partial(st.describe, axis=None), TABLE)
line("describe | a | ddof=0", partial(st.describe, ddof=0), TABLE)
line("describe | a | bias=False", partial(st.describe, bias=False), TABLE)
line("zscore | scores", st.zscore, TABLE)
line("zscore | scores | axis=1", partial(st.zscore, axis=1), TABLE)
line("zscore | scores | ddof=1", partial(st.zscore, ddof=1), TABLE)
line("zmap | scores", lambda s: st.zmap(s, B), A)
line("gzscore | scores", st.gzscore, POSITIVE)
line("skew | a", st.skew, TABLE)
line("skew | a | bias=False", partial(st.skew, bias=False), TABLE)
line("skew | a | axis=None", partial(st.skew, axis=None), TABLE)
line("skew | a | keepdims=True", partial(st.skew, keepdims=True), TABLE)
line("kurtosis | a", st.kurtosis, TABLE)
line("kurtosis | a | fisher=False", partial(st.kurtosis, fisher=False), TABLE)
line("kurtosis | a | bias=False", partial(st.kurtosis, bias=False), TABLE)
line("kurtosis | a | axis=None", partial(st.kurtosis, axis=None), TABLE)
line("moment | a | order=3", partial(st.moment, order=3), TABLE)
line("moment | a | order=2 axis=1", partial(st.moment, order=2, axis=1), TABLE)
line("moment | a | center", partial(st.moment, order=2, center=0.3), TABLE)
line("variation | a", st.variation, POSITIVE)
line("variation | a | ddof=0", partial(st.variation, ddof=0), POSITIVE)
line("sem | a", st.sem, TABLE)
line("sem | a | ddof=0", partial(st.sem, ddof=0), TABLE)
arguments("pearsonr", "x y", lambda x, y: st.pearsonr(x, y).statistic, [A, B])
arguments("pearsonr", "x y", lambda x, y: st.pearsonr(x, y).pvalue, [A, B], "pvalue")
arguments(
    "pearsonr",
    "x y",
    lambda x, y: st.pearsonr(x, y, axis=1).statistic,
    [TABLE.T, TABLE.T[::-1] ** 2],
    "axis=1",
)
arguments("entropy", "pk qk", st.entropy, [POSITIVE[:, 0], POSITIVE[:, 1]])
arguments(
    "entropy", "pk qk", partial(st.entropy, base=2), [POSITIVE[:, 0], POSITIVE[:, 1]], "base=2"
)
arguments("entropy", "pk qk", partial(st.entropy, axis=1), [POSITIVE, POSITIVE[::-1]], "axis=1")
line("entropy | pk | without qk", st.entropy, POSITIVE)
for name in ("gmean", "hmean"):
    call = getattr(st, name)
    line(f"{name} | a", call, POSITIVE)
    line(f"{name} | a | axis=1", partial(call, axis=1), POSITIVE)
    line(f"{name} | a | weights", lambda a, call=call: call(a, weights=WEIGHTS[:5]), POSITIVE[:, 0])
    line(f"{name} | weights", lambda w, call=call: call(POSITIVE[:, 0], weights=w), WEIGHTS[:5])
line("pmean | a | p=3", partial(st.pmean, p=3), POSITIVE)
line("pmean | a | p=3 weights", lambda a: st.pmean(a, 3, weights=WEIGHTS[:5]), POSITIVE[:, 0])
for name in ("tmean", "tvar", "tstd"):
    line(f"{name} | a", getattr(st, name), A)
    line(f"{name} | a | limits", partial(getattr(st, name), limits=(-0.55, 1.9)), A, spread=0.001)
line(
    "trim_mean | a | proportiontocut=0.1",
    partial(st.trim_mean, proportiontocut=0.2),
    A,
    spread=0.001,
)


def regression(*fields):
    return lambda x, y: [getattr(st.linregress(x, y), field) for field in fields]


arguments("linregress", "x y", regression("slope", "intercept", "rvalue"), [A, B])
arguments("linregress", "x y", regression("pvalue"), [A, B], "pvalue")
arguments("linregress", "x y", regression("stderr", "intercept_stderr"), [A, B], "stderr")
for option in ("statistic", "pvalue"):
    line(
        f"ttest_1samp | a | {option}",
        lambda a, option=option: getattr(st.ttest_1samp(a, 0.1), option),
        A,
    )
    arguments(
        "ttest_ind",
        "a b",
        lambda a, b, option=option: getattr(st.ttest_ind(a, b), option),
        [A, B[:6]],
        option,
    )
arguments(
    "ttest_ind",
    "a b",
    lambda a, b: list(st.ttest_ind(a, b, equal_var=False))[:2],
    [A, B[:6]],
    "equal_var=False",
)
arguments("ttest_rel", "a b", lambda a, b: st.ttest_rel(a, b).statistic, [A, B], "statistic")
line("f_oneway | sample | statistic", lambda a: st.f_oneway(a, B, TABLE[:, 0]).statistic, A)
for name in ("wasserstein_distance", "energy_distance"):
    arguments(name, "u_values v_values", getattr(st, name), [A, B[:6]], spread=0.001, order=1)
line("boxcox | x | lmbda", partial(st.boxcox, lmbda=0.4), POSITIVE[:, 0])
arguments("boxcox_llf", "lmb data", st.boxcox_llf, [0.4, POSITIVE[:, 0]])
arguments("yeojohnson_llf", "lmb data", st.yeojohnson_llf, [0.4, A])
line("yeojohnson | x | lmbda", partial(st.yeojohnson, lmbda=0.4), A)
line(
    "differential_entropy | values | method=vasicek",
    partial(st.differential_entropy, method="vasicek"),
    A,
    spread=0.001,
)
for name in ("circmean", "circvar", "circstd"):
    line(f"{name} | samples", getattr(st, name), np.array([0.4, 1.2, 0.9, 2.0]))


def expected(f):
    """Frequencies whose sum is that of the observed ones, on which SciPy insists."""
    return f / f.sum() * 60.0


OBSERVED = np.array([12.0, 20.0, 16.0, 12.0])
for name in ("power_divergence", "chisquare"):
    line(f"{name} | f_obs", getattr(st, name), OBSERVED)
    line(
        f"{name} | f_exp",
        lambda e, name=name: getattr(st, name)(OBSERVED, expected(e)),
        OBSERVED + 2,
        float32=0,
    )
