"""Rules of quad, quad_vec, fixed_quad, dblquad, tplquad and nquad."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import integrate

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shapes
from pullback.implicit.attach import constant_of
from pullback.interop.arguments import as_tensor
from pullback.scipy.quadrature import (
    beside_limit,
    disagreement,
    evaluate,
    gauss,
    require_agreement,
    rule_on,
    weighted_sum,
)
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.optimize_roots import as_tuple
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor, fresh

__all__: list[str] = []

_Function = Callable[..., Any]


def _is_infinite(limit: Any) -> bool:
    return not isinstance(limit, Tensor) and bool(np.isinf(limit))


def _transformed(f: _Function, a: Any, b: Any) -> tuple[_Function, Any, Any]:
    """The integrand on finite limits, by QUADPACK's transformation of infinite ones."""
    if not _is_infinite(a) and not _is_infinite(b):
        return f, constant_of(as_tensor(a)), constant_of(as_tensor(b))
    if _is_infinite(a) and _is_infinite(b):

        def inside(t: Tensor) -> Tensor:
            x = (1 - t) / t
            return (as_tensor(f(x)) + as_tensor(f(-x))) / t**2

        return inside, 0.0, 1.0
    start = constant_of(as_tensor(b if _is_infinite(a) else a))
    sign = -1.0 if _is_infinite(a) else 1.0
    return lambda t: as_tensor(f(start + sign * (1 - t) / t)) / t**2, 0.0, 1.0


def _breaks(intervals: list[Any], count: int = 1) -> Any:
    """The breakpoints of all samples on [0, 1], each interval divided into `count` parts."""
    ends = np.unique(np.concatenate([np.ravel(each) for each in intervals]).round(12))
    ends = np.unique(np.clip(np.concatenate([[0.0], ends, [1.0]]), 0.0, 1.0))
    parts = np.linspace(0, 1, count, endpoint=False)
    return np.append((ends[:-1, None] + np.diff(ends)[:, None] * parts).reshape(-1), 1.0)


def _integral(
    name: str, f: _Function, a: Any, b: Any, intervals: list[Any], runs: Any, samples: Samples
) -> Tensor:
    """SciPy's values with the derivatives of a fixed rule on the intervals that SciPy used."""
    inside, low, high = _transformed(f, a, b)
    values, errors = [run[0] for run in runs], [run[1] for run in runs]
    width = high - low
    for count in (1, 4):
        nodes, weights = rule_on(_breaks(intervals, count))
        points = fresh(nodes) * width + low
        found = weighted_sum(fresh(weights), evaluate(inside, points)) * width
        if not disagreement(found, values, errors):
            break
    require_agreement(name, found, values, errors)
    ours = found - constant_of(found) + beside_limit(f, b) - beside_limit(f, a)
    whole: Tensor = samples.join(values) + ours
    return whole


def _parts(ends: Any, a: Any, b: Any) -> Any:
    """The ends of subintervals in relation to the whole interval."""
    if np.isinf(a) or np.isinf(b):
        return ends
    return (ends - a) / (b - a) if b != a else ends * 0.0


@rule("scipy.integrate.quad", tensors="func a b args")
def _quad(full_output: Any, **given: Any) -> Any:
    name = "scipy.integrate.quad"
    weight = given["weight"]
    if weight not in (None, "cos", "sin"):
        raise option_without_rule(name, "weight", weight)
    if given["complex_func"]:
        raise option_without_rule(name, "complex_func", True)
    if weight and (_is_infinite(given["a"]) or _is_infinite(given["b"])):
        raise option_without_rule(name, f"infinite limits and weight={weight!r}, points", None)
    func, more = given["func"], as_tuple(given["args"])

    def solve(**plain: Any) -> Any:
        found = integrate.quad(**plain, full_output=1)
        count = found[2].get("last", 1)
        ends = np.concatenate([found[2]["alist"][:count], found[2]["blist"][:count]])
        return found, _parts(ends, plain["a"], plain["b"])

    def f(x: Tensor) -> Tensor:
        value = as_tensor(func(x, *more))
        if weight is None:
            return value
        turn = given["wvar"] * x
        return value * (pointwise.cos(turn) if weight == "cos" else pointwise.sin(turn))

    samples = Samples(**given)
    runs = samples.run(solve)
    intervals = [run[1] for run in runs]
    if weight:
        turns = abs(float(given["wvar"])) * max(1.0, float(np.ptp(runs[0][1])))
        intervals = [np.linspace(0, 1, 2 + int(turns))]
    results = [run[0] for run in runs]
    found = _integral(name, f, given["a"], given["b"], intervals, results, samples)
    return (found, *results[0][1:]) if full_output else (found, results[0][1])


@rule("scipy.integrate.quad_vec", tensors="f a b args")
def _quad_vec(full_output: Any, **given: Any) -> Any:
    name = "scipy.integrate.quad_vec"
    function, more = given["f"], as_tuple(given.get("args", ()))
    is_double = _is_infinite(given["a"]) and _is_infinite(given["b"])

    def solve(**plain: Any) -> Any:
        found = integrate.quad_vec(**plain, full_output=True)
        ends = np.abs(found[2].intervals) if is_double else found[2].intervals
        return found, _parts(ends, plain["a"], plain["b"])

    samples = Samples(**given)
    runs = samples.run(solve)
    results = [run[0] for run in runs]
    found = _integral(
        name,
        lambda x: as_tensor(function(x, *more)),
        given["a"],
        given["b"],
        [run[1] for run in runs],
        results,
        samples,
    )
    return (found, *results[0][1:]) if full_output else (found, results[0][1])


@rule("scipy.integrate.fixed_quad", tensors="func a b args")
def _fixed_quad(func: _Function, a: Any, b: Any, args: Any, n: int) -> Any:
    if _is_infinite(a) or _is_infinite(b):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    nodes, weights = gauss(n)
    start, stop = as_tensor(a), as_tensor(b)
    points = start + (stop - start) * fresh(nodes)
    values = as_tensor(func(points, *as_tuple(args)))
    return (stop - start) * (values * fresh(weights)).sum(-1), None


# --- several dimensions --------------------------------------------------------------------------


@rule("scipy.integrate.nquad", tensors="func ranges args")
def _nquad(func: _Function, ranges: Any, args: Any, opts: Any, full_output: bool) -> Any:
    if opts is not None and any("weight" in option for option in opts if isinstance(option, dict)):
        raise option_without_rule("scipy.integrate.nquad", "opts", opts)
    more = () if args is None else as_tuple(args)
    samples = Samples(func, ranges, more, opts)
    runs = samples.run(
        lambda func, ranges, args, opts: integrate.nquad(func, ranges, args, opts, full_output)
    )
    found = _several("scipy.integrate.nquad", func, list(ranges), more, runs, samples)
    return (found, *runs[0][1:])


@rule("scipy.integrate.dblquad", tensors="func a b gfun hfun args")
def _dblquad(
    func: _Function, a: Any, b: Any, gfun: Any, hfun: Any, args: Any, **options: Any
) -> Any:
    samples = Samples(func, a, b, gfun, hfun, args)
    runs = samples.run(partial(integrate.dblquad, **options))

    def inner(x: Any) -> Any:
        return _called(gfun, x), _called(hfun, x)

    found = _several("scipy.integrate.dblquad", func, [inner, (a, b)], args, runs, samples)
    return found, runs[0][1]


@rule("scipy.integrate.tplquad", tensors="func a b gfun hfun qfun rfun args")
def _tplquad(
    func: _Function, a: Any, b: Any, args: Any, epsabs: float, epsrel: float, **limits: Any
) -> Any:
    samples = Samples(func, a, b, args=args, **limits)
    runs = samples.run(partial(integrate.tplquad, epsabs=epsabs, epsrel=epsrel))

    def middle(x: Any) -> Any:
        return _called(limits["gfun"], x), _called(limits["hfun"], x)

    def inner(y: Any, x: Any) -> Any:
        return _called(limits["qfun"], x, y), _called(limits["rfun"], x, y)

    ranges = [inner, middle, (a, b)]
    found = _several("scipy.integrate.tplquad", func, ranges, args, runs, samples)
    return found, runs[0][1]


def _called(limit: Any, *values: Any) -> Any:
    return limit(*values) if callable(limit) else limit


def _several(
    name: str, func: _Function, ranges: list[Any], args: Any, runs: Any, samples: Samples
) -> Tensor:
    """SciPy's value with the derivatives of a product rule, whose nodes move with the limits."""
    more = as_tuple(args)
    values, errors = [run[0] for run in runs], [run[1] for run in runs]
    counts = (21, 40, 80) if len(ranges) < 3 else (15, 24)
    for count in counts:
        found = _product_rule(func, ranges, more, count)
        if not disagreement(found, values, errors):
            break
    require_agreement(name, found, values, errors)
    return samples.join(values) + (found - constant_of(found))


def _product_rule(func: _Function, ranges: list[Any], args: tuple[Any, ...], count: int) -> Tensor:
    """Gauss-Legendre quadrature in every variable, from the last one, which is the outermost."""
    nodes, weights = (fresh(part.copy()) for part in gauss(count))
    points: list[Tensor] = []
    total = fresh(np.ones(1))
    for limits in reversed(ranges):
        low, high = _limits(limits, points, args)
        size = total.shape[0]
        low, length = shapes.reshape(low, [-1, 1]), shapes.reshape(high - low, [-1, 1])
        new = shapes.reshape((low + length * nodes) * np.ones((size, 1)), [-1])
        total = shapes.reshape(shapes.reshape(total, [-1, 1]) * length * weights, [-1])
        ones = np.ones((1, count))
        spread = [shapes.reshape(shapes.reshape(each, [-1, 1]) * ones, [-1]) for each in points]
        points = [new, *spread]
    return weighted_sum(total, evaluate(lambda *at: func(*at, *args), *points))


def _limits(limits: Any, points: list[Tensor], args: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    if not callable(limits):
        low, high = limits
        if _is_infinite(low) or _is_infinite(high):
            raise option_without_rule("scipy.integrate", "ranges", limits)
        return as_tensor(low), as_tensor(high)

    def both(*at: Tensor) -> Tensor:
        wanted = len(inspect.signature(limits).parameters)
        found = limits(*(*at, *args)[:wanted])
        return shapes.stack([as_tensor(each) * 1.0 for each in found])

    found = evaluate(both, *points) if points else shapes.reshape(both(), [1, 2])
    return found[:, 0], found[:, 1]
