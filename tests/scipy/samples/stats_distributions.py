"""Samples of scipy.stats: methods of distributions, generated from their parameters."""

from __future__ import annotations

import numpy as np
import scipy.stats as st

from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

SAMPLES: dict[str, Sample] = {}
X = np.array([0.35, 0.8, 0.6])
Q = np.array([0.2, 0.55, 0.9])
# name -> shape parameters, points (in the support, smooth there)
CONTINUOUS = {
    "norm": ({}, X),
    "lognorm": ({"s": 0.7}, X),
    "t": ({"df": 3.5}, np.array([-2.2, 0.1, 1.7])),
    "gamma": ({"a": 2.3}, np.array([0.4, 1.9, 7.0])),
    "invgamma": ({"a": 4.6}, np.array([0.2, 0.4, 1.3])),
    "beta": ({"a": 2.3, "b": 1.4}, X),
    "expon": ({}, X),
    "weibull_min": ({"c": 1.7}, X),
    "laplace": ({}, np.array([-0.7, 0.4, 1.2])),
    "cauchy": ({}, X),
    "logistic": ({}, X),
    "chi2": ({"df": 3.4}, np.array([0.4, 2.9, 9.0])),
    "f": ({"dfn": 3.4, "dfd": 7.2}, X),
    "uniform": ({}, X),
    "pareto": ({"b": 4.3}, X + 1),
    "vonmises": ({"kappa": 1.6}, np.array([-1.2, 0.1, 2.0])),
}
BOUNDED = [
    "lognorm",
    "gamma",
    "invgamma",
    "beta",
    "expon",
    "weibull_min",
    "chi2",
    "f",
    "uniform",
    "pareto",
]
LOC, SCALE = 0.1, 1.3
MOMENTS = ("mean", "var", "std", "entropy")


def line(text, call, x, **options):
    SAMPLES[text] = Sample(call, np.asarray(x), **options)


def with_parameter(values, name, value):
    return {**values, name: value}


def at_points(name, method, first, points, parameters):
    """Lines for one method, by its points and by each parameter."""
    d = getattr(st, name)
    line(
        f"{name}.{method} | {first}",
        lambda x: getattr(d, method)(x, **parameters),
        points,
        spread=0.01,
    )
    for parameter, value in parameters.items():

        def call(p, parameter=parameter):
            return getattr(d, method)(points, **with_parameter(parameters, parameter, p))

        line(f"{name}.{method} | {parameter}", call, value, spread=0.01)


for name, (shapes, points) in CONTINUOUS.items():
    d, parameters = getattr(st, name), {**shapes, "loc": LOC, "scale": SCALE}
    x = points * SCALE + LOC
    for method in ("logpdf", "pdf", "logcdf", "cdf", "sf", "logsf"):
        at_points(name, method, "x", x, parameters)
    for method in ("ppf", "isf"):
        at_points(name, method, "q", Q, parameters)
    for method in ("logpdf", "cdf"):
        line(
            f"{name}.{method} | x | frozen",
            lambda x, d=d, method=method, p=parameters: getattr(d(**p), method)(x),
            x,
            spread=0.01,
        )
        for parameter, value in parameters.items():
            line(
                f"{name}.{method} | {parameter} | frozen",
                lambda v, d=d, method=method, p=parameters, parameter=parameter, x=x: getattr(
                    d(**with_parameter(p, parameter, v)), method
                )(x),
                value,
                spread=0.01,
            )
    if name in BOUNDED:
        line(
            f"{name}.logpdf | x | outside the support",
            lambda x, d=d, p=parameters: [d.logpdf(x, **p)[:3], d.pdf(x, **p)],
            np.append(x, -5.0),
            spread=0.01,
        )
    for method in MOMENTS:
        if name == "cauchy" and method != "entropy":
            continue
        if name == "vonmises" and method in ("var", "std"):
            continue
        for parameter, value in parameters.items():
            if parameter == "loc" and method != "mean":
                continue
            line(
                f"{name}.{method} | {parameter}",
                lambda v, d=d, method=method, p=parameters, parameter=parameter: getattr(d, method)(
                    **with_parameter(p, parameter, v)
                ),
                value,
                spread=0.01,
                # SciPy raises for the variance of t in single precision.
                float32=0 if (name, parameter) == ("t", "df") else 2e-3,
            )

K = np.array([0, 2, 5])
DISCRETE = {
    "poisson": {"mu": 2.3},
    "binom": {"n": 7, "p": 0.4},
    "nbinom": {"n": 3.4, "p": 0.4},
}
for name, parameters in DISCRETE.items():
    d = getattr(st, name)
    for parameter in parameters:
        if (name, parameter) == ("binom", "n"):
            continue
        methods = ["logpmf", "pmf", "logcdf", "cdf", "sf", "logsf"]
        if (name, parameter) == ("nbinom", "n"):
            methods = ["logpmf", "pmf", "cdf", "sf"]
        for method in methods:
            line(
                f"{name}.{method} | {parameter}",
                lambda v, d=d, method=method, p=parameters, parameter=parameter: getattr(d, method)(
                    K, **with_parameter(p, parameter, v)
                ),
                parameters[parameter],
                spread=0.01,
            )
            if method in ("logpmf", "cdf") and parameter != "n":
                line(
                    f"{name}.{method} | {parameter} | frozen",
                    lambda v, d=d, method=method, p=parameters, parameter=parameter: getattr(
                        d(**with_parameter(p, parameter, v)), method
                    )(K),
                    parameters[parameter],
                    spread=0.01,
                )

                def outside(v, d=d, method=method, p=parameters, parameter=parameter):
                    found = getattr(d, method)(
                        np.array([1, -3, 2.5]), **with_parameter(p, parameter, v)
                    )
                    return found[0], found[2] if method == "cdf" else 1.0 + found[0]

                line(
                    f"{name}.{method} | {parameter} | outside the support",
                    outside,
                    parameters[parameter],
                    spread=0.01,
                )
        for method in ("mean", "var", "std"):
            if (parameter, method) == ("n", "std"):
                continue
            line(
                f"{name}.{method} | {parameter}",
                lambda v, d=d, method=method, p=parameters, parameter=parameter: getattr(d, method)(
                    **with_parameter(p, parameter, v)
                ),
                parameters[parameter],
                spread=0.01,
            )
