"""Samples of scipy.integrate: by parameters, limits, initial states, times and samples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample

integrate = sp.integrate
A = np.array([1.3, 0.7])
SAMPLES: dict[str, Sample] = {}


def add(name: str, argument: str, option: str, sample: Sample) -> None:
    """Adds one line."""
    SAMPLES[" | ".join(part for part in (name, argument, option) if part)] = sample


# --- sampled functions ---------------------------------------------------------------------------

X = np.cumsum(0.2 + np.abs(np.cos(np.arange(9.0))))
Y = np.sin(X) + 0.1 * X
Y2 = np.stack([Y, Y[::-1] * 0.5], axis=1)
for _name in ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"):
    _f = getattr(integrate, _name)
    _by_y = functools.partial(lambda f, y: f(y, x=X), _f)
    _by_x = functools.partial(lambda f, x: f(Y, x=x), _f)
    add(_name, "y", "", Sample(_by_y, Y))
    add(_name, "x", "", Sample(_by_x, X))
    _columns = functools.partial(lambda f, y: f(y, x=X, axis=0), _f)
    _nodes = functools.partial(lambda f, x: f(Y2, x=x, axis=0), _f)
    add(_name, "y", "axis=0", Sample(_columns, Y2))
    add(_name, "x", "axis=0", Sample(_nodes, X))
    add(_name, "y", "dx", Sample(functools.partial(_f, dx=0.3), Y))
    add(_name, "y", "axis=0 dx", Sample(functools.partial(_f, dx=0.3, axis=0), Y2))
    add(_name, "dx", "", Sample(functools.partial(lambda f, dx: f(Y, dx=dx), _f), 0.3))
for _option, _stop in (("even number of intervals", 9), ("odd number of intervals", 8)):
    _by_y = functools.partial(lambda stop, y: integrate.simpson(y, x=X[:stop]), _stop)
    _by_x = functools.partial(lambda stop, x: integrate.simpson(Y[:stop], x=x), _stop)
    add("simpson", "y", _option, Sample(_by_y, Y[:_stop]))
    add("simpson", "x", _option, Sample(_by_x, X[:_stop]))
add(
    "cumulative_trapezoid",
    "y",
    "initial",
    Sample(lambda y: integrate.cumulative_trapezoid(y, X, initial=0), Y),
)
add(
    "cumulative_simpson",
    "y",
    "initial",
    Sample(lambda y: integrate.cumulative_simpson(y, x=X, initial=0.5), Y),
)
add(
    "cumulative_simpson",
    "initial",
    "initial",
    Sample(lambda start: integrate.cumulative_simpson(Y, x=X, initial=start), 0.5),
)
add("romb", "y", "", Sample(lambda y: integrate.romb(y), Y))
add("romb", "y", "dx", Sample(lambda y: integrate.romb(y, dx=0.3), Y))
add("romb", "y", "axis=0 dx", Sample(lambda y: integrate.romb(y, dx=0.3, axis=0), Y2))
add("romb", "dx", "", Sample(lambda dx: integrate.romb(Y, dx=dx), 0.3))

# --- quadrature ----------------------------------------------------------------------------------

# The tolerances below are out of reach in single precision.
Quadrature = functools.partial(Sample, float32=0)


def wave(x: Any, a: Any) -> Any:
    return np.sin(a[0] * x) * np.exp(-a[1] * x) + a[0] * x**2


def bell(x: Any, a: Any) -> Any:
    return np.exp(-a[0] * x * x) * (1 + a[1] * np.cos(x))


NARROW = {"epsabs": 1e-13, "epsrel": 1e-13}
QUADS: dict[str, tuple[Callable[..., Any], float, float, dict[str, Any]]] = {
    "": (wave, 0.2, 1.5, {}),
    "infinite limit": (bell, 0.2, np.inf, {}),
    "points": (wave, 0.2, 1.5, {"points": [0.5, 1.0]}),
    "full_output=True": (wave, 0.2, 1.5, {"full_output": True}),
    "weight=cos": (wave, 0.2, 1.5, {"weight": "cos", "wvar": 3.0}),
}
for _option, (_f, _low, _high, _more) in QUADS.items():
    _quad = functools.partial(integrate.quad, **NARROW, **_more)
    _args = functools.partial(
        lambda q, f, s, e, a: q(f, s, e, args=(a,))[0], _quad, _f, _low, _high
    )
    add("quad", "args", _option, Quadrature(_args, A))
    _captured = functools.partial(
        lambda q, f, s, e, a: q(lambda x: f(x, a), s, e)[0], _quad, _f, _low, _high
    )
    add("quad", "closure", _option, Quadrature(_captured, A))
    _from = functools.partial(lambda q, f, e, s: q(f, s, e, args=(A,))[0], _quad, _f, _high)
    add("quad", "a", _option, Quadrature(_from, _low))
    if _option == "infinite limit":
        _to = functools.partial(lambda q, f, e: q(f, -np.inf, e, args=(A,))[0], _quad, _f)
    else:
        _to = functools.partial(lambda q, f, s, e: q(f, s, e, args=(A,))[0], _quad, _f, _low)
    add("quad", "b", _option, Quadrature(_to, 1.5))


def waves(x: Any, a: Any) -> Any:
    return np.stack([wave(x, a), bell(x, a)])


VECS: dict[str, tuple[Callable[..., Any], float, float, dict[str, Any]]] = {
    "": (wave, 0.2, 1.5, {}),
    "vector result": (waves, 0.2, 1.5, {}),
    "infinite limit": (bell, 0.2, np.inf, {}),
    "points": (wave, 0.2, 1.5, {"points": (0.5, 1.0)}),
}
for _option, (_f, _low, _high, _more) in VECS.items():
    _quad = functools.partial(integrate.quad_vec, epsabs=1e-13, epsrel=1e-13, **_more)
    _captured = functools.partial(
        lambda q, f, s, e, a: q(lambda x: f(x, a), s, e)[0], _quad, _f, _low, _high
    )
    add("quad_vec", "closure", _option, Quadrature(_captured, A))
    _from = functools.partial(lambda q, f, e, s: q(lambda x: f(x, A), s, e)[0], _quad, _f, _high)
    add("quad_vec", "a", _option, Quadrature(_from, _low))
    _start = -np.inf if _option == "infinite limit" else _low
    _to = functools.partial(lambda q, f, s, e: q(lambda x: f(x, A), s, e)[0], _quad, _f, _start)
    add("quad_vec", "b", _option, Quadrature(_to, 1.5))


def plane(y: Any, x: Any, a: Any) -> Any:
    return np.exp(-a[0] * x * y) * (1 + a[1] * x)


def space(z: Any, y: Any, x: Any, a: Any) -> Any:
    return np.exp(-a[0] * x * y) * (z + a[1] * x)


def double(f: Any, a: Any, b: Any, g: Any, h: Any, **more: Any) -> Any:
    return integrate.dblquad(f, a, b, g, h, epsabs=1e-12, epsrel=1e-12, **more)[0]


def triple(f: Any, a: Any, b: Any, **more: Any) -> Any:
    return integrate.tplquad(f, a, b, 0.0, 1.0, 0.0, lambda x, y: x + y, **more)[0]


EDGE = functools.partial(lambda c, x: c + x * x, 1.0)
add("dblquad", "args", "", Quadrature(lambda a: double(plane, 0, 1, 0, EDGE, args=(a,)), A))
add(
    "dblquad",
    "closure",
    "",
    Quadrature(lambda a: double(lambda y, x: plane(y, x, a), 0, 1, 0, 1), A),
)
add("dblquad", "a", "", Quadrature(lambda a: double(plane, a, 1, 0, EDGE, args=(A,)), 0.1))
add("dblquad", "b", "", Quadrature(lambda b: double(plane, 0, b, 0, EDGE, args=(A,)), 1.1))
add(
    "dblquad",
    "gfun",
    "",
    Quadrature(lambda c: double(plane, 0, 1, lambda x: c * x, EDGE, args=(A,)), 0.3),
)
add(
    "dblquad",
    "hfun",
    "",
    Quadrature(lambda c: double(plane, 0, 1, 0, lambda x: c + x, args=(A,)), 0.9),
)
add("tplquad", "args", "", Quadrature(lambda a: triple(space, 0, 1, args=(a,)), A, vmap=False))
add(
    "tplquad",
    "closure",
    "",
    Quadrature(lambda a: triple(lambda z, y, x: space(z, y, x, a), 0, 1), A, vmap=False),
)
add("tplquad", "a", "", Quadrature(lambda a: triple(space, a, 1, args=(A,)), 0.1, vmap=False))
add("tplquad", "b", "", Quadrature(lambda b: triple(space, 0, b, args=(A,)), 1.1, vmap=False))


def many(f: Any, ranges: Any, **more: Any) -> Any:
    return integrate.nquad(f, ranges, opts={"epsabs": 1e-12, "epsrel": 1e-12}, **more)[0]


def edge_range(x: Any, a: Any = None) -> Any:
    return (0.0, 1.0 + x * x)


add("nquad", "args", "", Quadrature(lambda a: many(plane, [(0, 1), (0, 1)], args=(a,)), A))
add(
    "nquad",
    "args",
    "ranges of functions",
    Quadrature(lambda a: many(plane, [edge_range, (0, 1)], args=(a,)), A),
)
add(
    "nquad",
    "closure",
    "",
    Quadrature(lambda a: many(lambda y, x: plane(y, x, a), [(0, 1), (0, 1)]), A),
)
add(
    "nquad",
    "closure",
    "ranges of functions",
    Quadrature(lambda a: many(lambda y, x: plane(y, x, a), [edge_range, (0, 1)]), A),
)
add(
    "nquad",
    "ranges",
    "",
    Quadrature(lambda b: many(lambda y, x: plane(y, x, A), [(0.0, b), (0.0, 1.0)]), 1.1),
)
add(
    "nquad",
    "ranges",
    "ranges of functions",
    Quadrature(
        lambda b: many(lambda y, x: plane(y, x, A), [lambda x: (0.0, b + x), (0.0, 1.0)]), 1.1
    ),
)
for _option, _n in (("", 5), ("n=9", 9)):
    _fixed = functools.partial(integrate.fixed_quad, n=_n)
    _by = functools.partial(lambda q, a: q(wave, 0.2, 1.5, args=(a,))[0], _fixed)
    add("fixed_quad", "args", _option, Sample(_by, A))
    _by = functools.partial(lambda q, a: q(lambda x: wave(x, a), 0.2, 1.5)[0], _fixed)
    add("fixed_quad", "closure", _option, Sample(_by, A))
    _by = functools.partial(lambda q, s: q(wave, s, 1.5, args=(A,))[0], _fixed)
    add("fixed_quad", "a", _option, Sample(_by, 0.2))
    _by = functools.partial(lambda q, e: q(wave, 0.2, e, args=(A,))[0], _fixed)
    add("fixed_quad", "b", _option, Sample(_by, 1.5))
