"""Methods of SciPy's distributions: location and scale, support, bad parameters.

A method of a distribution without formulas raises with its name. Outside of the support values are
SciPy's and derivatives are zero; where a parameter is not allowed, values are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats as st

from pullback.autograd.namespaces import tensors as xp
from pullback.func.forward import jvp as func_jvp
from pullback.func.primitive import Known, Primitive
from pullback.kernels.errstate import errstate
from pullback.scipy.conversions import as_double
from pullback.scipy.messages import refuse
from pullback.scipy.registry import rule
from pullback.scipy.rules.linalg_tools import Array
from pullback.scipy.rules.stats_formulas import CONTINUOUS, DISCRETE, Continuous, Discrete
from pullback.scipy.traced import decided
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_MIDDLE: dict[tuple[float, float], float] = {
    (0, 1): 0.5,
    (1, np.inf): 2.0,
}  # a point of the support; 1 of the others


def _parameters(self: Any, args: Any, kwds: Any) -> tuple[list[Tensor], Tensor, Tensor, Any]:
    """Shape parameters, loc, scale, and where all of them are allowed (None: everywhere)."""
    shapes, loc, scale = self._parse_args(*args, **kwds)[:3]
    values = [as_double(value) for value in (*shapes, loc, scale)]
    if any(map(levels_of, values)):
        return values[:-2], values[-2], values[-1], None

    def check(*arrays: Any) -> Any:
        return self._argcheck(*arrays[:-2]) & (arrays[-1] > 0) & ~np.isnan(arrays[-2])

    if decided(lambda *arrays: np.all(check(*arrays)), *shapes, loc, scale):
        return values[:-2], values[-2], values[-1], None
    allowed = decided(check, *shapes, loc, scale)
    # Sound parameters in the place of those that are not, so that no NaN reaches a gradient.
    values = [xp.where(allowed, value, 0.5 if value is not values[-1] else 1.0) for value in values]
    return values[:-2], values[-2], values[-1], allowed


def _formulas(table: Any, self: Any, method: str, args: Any, kwds: Any) -> Any:
    found = table.get(self.name)
    if found is not None and type(self) is type(getattr(st, self.name)):
        return found
    original = getattr(type(self), method)
    raise refuse(
        f"scipy.stats.{self.name}.{method}",
        original,
        (self, *args),
        kwds,
        "it has no derivative here",
    )


def _result(value: Any, allowed: Any) -> Any:
    return value if allowed is None else xp.where(allowed, value, np.nan)


def _inside(formulas: Continuous, y: Tensor, shapes: list[Tensor]) -> tuple[Any, Tensor, Any]:
    """Mask of the support (None: everywhere), points in it, and the density at singular ends."""
    low, high = formulas.support
    inside = ~((y < low) | (y > high))
    ends = None
    if not any(map(levels_of, (y, *shapes))):
        if decided(lambda y: not np.any((y <= low) | (y >= high)), y):
            return None, y, None
        fixed = xp.where(inside, y, _MIDDLE.get(formulas.support, 1.0)).detach()
        with errstate(all="ignore"):
            at_ends = formulas.logpdf(fixed, *(s.detach() for s in shapes))
        is_end = (y == low) | (y == high)
        found = decided(lambda v, end: np.where(np.isinf(v) & end, v, 0.0), at_ends, is_end)
        inside = inside & (found == 0)
        ends = np.where(found == 0, -np.inf, found)
    safe = xp.where(inside, y, _MIDDLE.get(formulas.support, 1.0))
    return inside, safe, -np.inf if ends is None else ends


def _logpdf(formulas: Continuous, y: Tensor, shapes: list[Tensor]) -> Any:
    inside, safe, ends = _inside(formulas, y, shapes)
    value = formulas.logpdf(safe, *shapes)
    return value if inside is None else xp.where(inside, value, ends)


def _pdf(formulas: Continuous, y: Tensor, shapes: list[Tensor]) -> Any:
    inside, safe, ends = _inside(formulas, y, shapes)
    value = xp.exp(formulas.logpdf(safe, *shapes))
    return value if inside is None else xp.where(inside, value, np.exp(ends))


def _probability(formulas: Continuous, y: Tensor, shapes: list[Tensor], name: str) -> Any:
    """``cdf`` or ``sf``, or the logarithm of one."""
    low, high = formulas.support
    below, above = y <= low, y >= high
    safe = xp.where(below | above, _MIDDLE.get(formulas.support, 1.0), y)
    value = _inner_probability(formulas, safe, shapes, name)
    ends = (0.0, 1.0) if name.endswith("cdf") else (1.0, 0.0)
    if name.startswith("log"):
        ends = (-np.inf, 0.0) if name == "logcdf" else (0.0, -np.inf)
    return xp.where(below, ends[0], xp.where(above, ends[1], value))


def _inner_probability(formulas: Continuous, y: Any, shapes: list[Tensor], name: str) -> Any:
    if (given := getattr(formulas, name)) is not None:
        return given(y, *shapes)
    return xp.log(getattr(formulas, name.removeprefix("log"))(y, *shapes))


def _declare_points(method: str, evaluate: Any) -> None:
    """Declares a method that is evaluated at points."""

    @rule(f"scipy.stats.rv_continuous.{method}", tensors="x args kwds kwargs")
    def apply(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        formulas = _formulas(CONTINUOUS, self, method, (x, *args), kwds)
        shapes, loc, scale, allowed = _parameters(self, args, kwds)
        y = (as_double(x) - loc) / scale
        value = evaluate(formulas, y, shapes)
        if method == "logpdf":
            value = value - xp.log(scale)
        elif method == "pdf":
            value = value / scale
        return _result(value, allowed)


_declare_points("logpdf", _logpdf)
_declare_points("pdf", _pdf)
for _name in ("cdf", "sf", "logcdf", "logsf"):
    _declare_points(
        _name, lambda formulas, y, shapes, name=_name: _probability(formulas, y, shapes, name)
    )


# --- quantiles ---


def _quantile(q: Array, *shapes: Array, name: str, method: str) -> Array:
    return np.asarray(getattr(getattr(st, name), method)(q, *shapes))


def _quantile_jvp(known: Known, q_t: Tensor | None, *shapes_t: Tensor | None) -> Any:
    """By the implicit function theorem: F(y, shapes) = q."""
    (_, *shapes), (y,) = known.inputs, known.outputs
    formulas = CONTINUOUS[known.options["name"]]
    is_upper = known.options["method"] == "isf"
    change: Any = 0 if q_t is None else q_t
    if any(t is not None for t in shapes_t):
        given = [
            xp.zeros_like(s) if t is None else t for s, t in zip(shapes, shapes_t, strict=True)
        ]
        function = formulas.sf if is_upper else formulas.cdf
        _, moved = func_jvp(lambda *s: function(y, *s), tuple(shapes), tuple(given))
        change = change - moved
    slope = xp.exp(-formulas.logpdf(y, *shapes))
    return -change * slope if is_upper else change * slope


_QUANTILE = Primitive("quantile", _quantile, _quantile_jvp)


def _declare_quantile(method: str) -> None:
    @rule(f"scipy.stats.rv_continuous.{method}", tensors="q args kwds kwargs")
    def apply(self: Any, q: Any, *args: Any, **kwds: Any) -> Any:
        formulas = _formulas(CONTINUOUS, self, method, (q, *args), kwds)
        shapes, loc, scale, allowed = _parameters(self, args, kwds)
        q = as_double(q)
        closed = getattr(formulas, method)
        low, high = formulas.support
        at_low, at_high = (q == 0, q == 1) if method == "ppf" else (q == 1, q == 0)
        outside = (q < 0) | (q > 1)
        safe = xp.where(at_low | at_high | outside, 0.5, q)
        if closed is None:
            y = _QUANTILE(*_together(safe, shapes), name=self.name, method=method)
        else:
            y = closed(safe, *shapes)
        y = xp.where(at_low, low, xp.where(at_high, high, y))
        return _result(xp.where(outside, np.nan, y * scale + loc), allowed)


def _together(q: Tensor, shapes: list[Tensor]) -> list[Tensor]:
    """Quantiles and shape parameters, broadcast together."""
    shape = list(np.broadcast_shapes(*(value.shape for value in (q, *shapes))))
    return [xp.broadcast_to(value, shape) for value in (q, *shapes)]


_declare_quantile("ppf")
_declare_quantile("isf")


# --- moments ---


def _moment(name: str, self: Any, method: str, args: Any, kwds: Any) -> tuple[Any, Any, Any, Any]:
    is_discrete = isinstance(self, st.rv_discrete)
    formulas = _formulas(DISCRETE if is_discrete else CONTINUOUS, self, method, args, kwds)
    shapes, loc, scale, allowed = _parameters(self, args, kwds)
    formula = getattr(formulas, name, None)
    if formula is None:
        original = getattr(type(self), method)
        why = "it has no derivative here"
        raise refuse(f"scipy.stats.{self.name}.{method}", original, (self, *args), kwds, why)
    return formula(*shapes), loc, scale, allowed


def _mean(self: Any, *args: Any, **kwds: Any) -> Any:
    value, loc, scale, allowed = _moment("mean", self, "mean", args, kwds)
    return _result(value * scale + loc, allowed)


def _var(self: Any, *args: Any, **kwds: Any) -> Any:
    value, _, scale, allowed = _moment("var", self, "var", args, kwds)
    return _result(value * scale**2, allowed)


def _std(self: Any, *args: Any, **kwds: Any) -> Any:
    value, _, scale, allowed = _moment("var", self, "std", args, kwds)
    return _result(xp.sqrt(value * scale**2), allowed)


def _entropy(self: Any, *args: Any, **kwds: Any) -> Any:
    value, _, scale, allowed = _moment("entropy", self, "entropy", args, kwds)
    return _result(value + xp.log(scale), allowed)


for _method, _apply in (("mean", _mean), ("var", _var), ("std", _std), ("entropy", _entropy)):
    for _kind in ("rv_continuous", "rv_discrete"):
        rule(f"scipy.stats.{_kind}.{_method}", tensors="args kwds kwargs")(_apply)


# --- discrete distributions ---


def _discrete(self: Any, method: str, k: Any, args: Any, kwds: Any) -> tuple[Any, ...]:
    formulas: Discrete = _formulas(DISCRETE, self, method, (k, *args), kwds)
    shapes, loc, _, allowed = _parameters(self, args, kwds)
    return formulas, shapes, (as_double(k) - loc).detach(), allowed


def _declare_mass(method: str) -> None:
    @rule(f"scipy.stats.rv_discrete.{method}", tensors="args kwds kwargs")
    def apply(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        formulas, shapes, k, allowed = _discrete(self, method, k, args, kwds)
        inside = (k >= 0) & (k <= formulas.last(*shapes)) & (k == xp.floor(k))
        value = formulas.logpmf(xp.where(inside, k, 0.0), *shapes)
        if method == "logpmf":
            return _result(xp.where(inside, value, -np.inf), allowed)
        return _result(xp.where(inside, xp.exp(value), 0.0), allowed)


def _declare_sum(method: str) -> None:
    @rule(f"scipy.stats.rv_discrete.{method}", tensors="args kwds kwargs")
    def apply(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        formulas, shapes, k, allowed = _discrete(self, method, k, args, kwds)
        k = xp.floor(k)
        below, above = k < 0, k >= formulas.last(*shapes)
        value = getattr(formulas, method.removeprefix("log"))(
            xp.where(below | above, 0.0, k), *shapes
        )
        ends = (0.0, 1.0) if method.endswith("cdf") else (1.0, 0.0)
        if method.startswith("log"):
            value = xp.log(value)
            ends = (-np.inf, 0.0) if method == "logcdf" else (0.0, -np.inf)
        value = xp.where(below, ends[0], xp.where(above, ends[1], value))
        return _result(value, allowed)


for _method in ("logpmf", "pmf"):
    _declare_mass(_method)
for _method in ("cdf", "sf", "logcdf", "logsf"):
    _declare_sum(_method)
