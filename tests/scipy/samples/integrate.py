"""Samples of scipy.integrate: by parameters, limits, initial states, times and samples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
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

# --- initial value problems ----------------------------------------------------------------------


def predator(t: Any, z: Any, a: Any) -> Any:
    x, y = z
    return [a[0] * x - x * y * np.cos(0.1 * t), a[1] * x * y - y]


def predator_slope(t: Any, z: Any, a: Any) -> Any:
    x, y = z
    c = np.cos(0.1 * t)
    return [[a[0] - y * c, -x * c], [a[1] * y, a[1] * x - 1]]


def spin(t: Any, z: Any, a: Any) -> Any:
    return np.stack([1j * a[0] * z[0] * abs(z[0]) - 0.1 * z[1], 0.3 * z[0] - a[1] * z[1]])


def solve_ivp(*args: Any, adjoint: bool = False, **more: Any) -> Any:
    """SciPy's own function has no `adjoint`: arrays are solved without."""
    held = [
        *args,
        *more.get("args", ()),
        *(cell.cell_contents for cell in args[0].__closure__ or ()),
    ]
    has_tensor = any(isinstance(value, pb.Tensor) for value in held)
    extra = {"adjoint": True} if adjoint and has_tensor else {}
    return integrate.solve_ivp(*args, **more, **extra)


Z0 = np.array([1.0, 0.6])
SPAN = (0.0, 1.5)
TIMES = np.array([0.2, 0.9, 1.4])
FINE = {"rtol": 1e-10, "atol": 1e-11}
Solution = functools.partial(Sample, value_rtol=1e-8, rtol=2e-6, float32=0, step=3e-3)
Unmapped = functools.partial(Solution, vmap=False)  # by times and with events


def ends(result: Any) -> Any:
    return result.y[:, -1]


def every(result: Any) -> Any:
    return result.y


def halfway(result: Any) -> Any:
    return result.sol(np.array([0.3, 1.1]))


IVPS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "": (ends, {}),
    "method=RK23": (ends, {"method": "RK23", "rtol": 1e-8}),
    "method=DOP853": (ends, {"method": "DOP853"}),
    "method=Radau": (ends, {"method": "Radau"}),
    "method=BDF": (ends, {"method": "BDF"}),
    "method=LSODA": (ends, {"method": "LSODA"}),
    "t_eval": (every, {"t_eval": TIMES}),
    "dense_output=True": (halfway, {"dense_output": True}),
    "t_eval method=DOP853": (every, {"t_eval": TIMES, "method": "DOP853"}),
    "t_eval method=Radau": (every, {"t_eval": TIMES, "method": "Radau"}),
    "t_eval method=BDF": (every, {"t_eval": TIMES, "method": "BDF"}),
    "t_eval method=LSODA": (every, {"t_eval": TIMES, "method": "LSODA"}),
    "vectorized=True": (ends, {"vectorized": True}),
    "jac given method=Radau": (ends, {"method": "Radau", "jac": predator_slope}),
    "complex y0": (ends, {}),
    "adjoint=True": (ends, {"method": "DOP853", "adjoint": True}),
    "rtol": (ends, {"rtol": 1e-11}),
    "max_step": (ends, {"max_step": 0.05}),
}
for _option, (_get, _more) in IVPS.items():
    _f, _start = (spin, Z0 + 0.2j) if _option == "complex y0" else (predator, Z0)
    _named = {**FINE, **_more}
    _jac = _named.pop("jac", None)
    _checks: dict[str, Any] = {"rtol": 2e-5} if "RK23" in _option or "BDF" in _option else {}

    def _by_args(
        a: Any,
        f: Any = _f,
        z: Any = _start,
        get: Any = _get,
        jac: Any = _jac,
        more: Any = _named,
    ) -> Any:
        more = more if jac is None else {**more, "jac": jac}
        return get(solve_ivp(f, SPAN, z, args=(a,), **more))

    def _by_closure(
        a: Any,
        f: Any = _f,
        z: Any = _start,
        get: Any = _get,
        jac: Any = _jac,
        more: Any = _named,
    ) -> Any:
        more = more if jac is None else {**more, "jac": lambda t, z: jac(t, z, a)}
        return get(solve_ivp(lambda t, y: f(t, y, a), SPAN, z, **more))

    def _by_start(z: Any, f: Any = _f, get: Any = _get, jac: Any = _jac, more: Any = _named) -> Any:
        more = more if jac is None else {**more, "jac": jac}
        return get(solve_ivp(f, SPAN, z, args=(A,), **more))

    add("solve_ivp", "y0", _option, Solution(_by_start, _start, **_checks))
    add("solve_ivp", "args", _option, Solution(_by_args, A, **_checks))
    add("solve_ivp", "closure", _option, Solution(_by_closure, A, **_checks))

for _option in ("", "method=DOP853", "method=Radau", "method=LSODA"):
    _method = _option.removeprefix("method=") or "RK45"
    _solve = functools.partial(
        lambda method, t, **more: (
            integrate.solve_ivp(predator, (t[0], t[-1]), Z0, method, args=(A,), **FINE, **more).y
        ),
        _method,
    )
    add(
        "solve_ivp",
        "t_span",
        _option,
        Unmapped(functools.partial(lambda f, t: f(t)[:, -1], _solve), np.array([0.1, 1.5])),
    )
    _inner = functools.partial(
        lambda method, t: integrate.solve_ivp(predator, SPAN, Z0, method, t, args=(A,), **FINE).y,
        _method,
    )
    add("solve_ivp", "t_eval", _option, Unmapped(_inner, TIMES))


def crossing(t: Any, z: Any, a: Any) -> Any:
    return z[0] - 1.2 * a[0]


crossing.terminal = True  # type: ignore[attr-defined]


def passing(t: Any, z: Any, a: Any) -> Any:
    return z[0] - 1.2 * a[0]


add(
    "solve_ivp",
    "args",
    "terminal event",
    Unmapped(
        lambda a: integrate.solve_ivp(predator, SPAN, Z0, args=(a,), events=crossing, **FINE).y[
            :, -1
        ],
        A,
    ),
)
add(
    "solve_ivp",
    "args",
    "event times",
    Unmapped(
        lambda a: integrate.solve_ivp(
            predator, SPAN, Z0, args=(a,), events=[passing], **FINE
        ).t_events[0],
        A,
    ),
)
for _method in ("RK45", "DOP853", "Radau", "BDF", "LSODA"):
    add(
        "solve_ivp",
        "y0",
        f"event times method={_method}",
        Unmapped(
            lambda z, method=_method: integrate.solve_ivp(
                predator, SPAN, z, method, args=(A,), events=[passing], **FINE
            ).t_events[0],
            Z0,
            rtol=2e-5,
            value_rtol=1e-6,
        ),
    )
add(
    "solve_ivp",
    "y0",
    "event states",
    Unmapped(
        lambda z: integrate.solve_ivp(
            predator, SPAN, z, args=(A,), events=[passing], **FINE
        ).y_events[0],
        Z0,
    ),
)
add(
    "solve_ivp",
    "events",
    "event times",
    Unmapped(
        lambda level: integrate.solve_ivp(
            predator, SPAN, Z0, args=(A,), events=lambda t, z, a: z[0] - level, **FINE
        ).t_events[0],
        np.array(1.3),
    ),
)
add(
    "solve_ivp",
    "args",
    "dense_output=True at time",
    Solution(
        lambda a: integrate.solve_ivp(predator, SPAN, Z0, args=(a,), dense_output=True, **FINE).sol(
            0.7
        ),
        A,
    ),
)


def first_state(z: Any, t: Any, a: Any) -> Any:
    return predator(t, z, a)


def first_state_slope(z: Any, t: Any, a: Any) -> Any:
    return predator_slope(t, z, a)


GRID = np.array([0.0, 0.4, 0.9, 1.5])
ODEINTS: dict[str, dict[str, Any]] = {
    "": {},
    "Dfun given": {"Dfun": first_state_slope},
    "tfirst=True": {"tfirst": True},
    "full_output=True": {"full_output": True},
}
for _option, _more in ODEINTS.items():
    _f = predator if _option == "tfirst=True" else first_state
    _solve = functools.partial(integrate.odeint, rtol=1e-11, atol=1e-11)

    def _ode(z: Any, a: Any, f: Any = _f, solve: Any = _solve, more: Any = _more) -> Any:
        found = solve(f, z, GRID, args=(a,), **more)
        return found[0] if "full_output" in more else found

    def _captured_ode(a: Any, f: Any = _f, solve: Any = _solve, more: Any = _more) -> Any:
        slope = {"Dfun": lambda z, t: first_state_slope(z, t, a)} if "Dfun" in more else more
        found = solve(lambda z, t: f(z, t, a), Z0, GRID, **slope)
        return found[0] if "full_output" in more else found

    add("odeint", "y0", _option, Solution(functools.partial(lambda f, z: f(z, A), _ode), Z0))
    add("odeint", "args", _option, Solution(functools.partial(_ode, Z0), A))
    add("odeint", "closure", _option, Solution(_captured_ode, A))
add(
    "odeint",
    "t",
    "",
    Unmapped(
        lambda t: integrate.odeint(first_state, Z0, t, args=(A,), rtol=1e-11, atol=1e-11), GRID
    ),
)

# --- boundary value problems ---------------------------------------------------------------------

MESH = np.linspace(0.0, 1.0, 41)
GUESS = np.stack([MESH, 1.0 + 0 * MESH])
Boundary = functools.partial(Sample, value_rtol=1e-7, rtol=2e-5, float32=0, step=1e-2, vmap=False)


def beam(a: Any, y: Any = GUESS) -> Any:
    def f(x: Any, y: Any) -> Any:
        return np.stack([y[1], -a[0] * np.exp(0.5 * y[0]) + a[1] * x])

    def ends(start: Any, stop: Any) -> Any:
        return np.stack([start[0] - 0.1 * a[0], stop[0] - 1.0])

    return integrate.solve_bvp(f, ends, MESH, y, tol=1e-8, max_nodes=2000)


def mode(a: Any, y: Any = GUESS, p: Any = (3.0,)) -> Any:
    """An eigenvalue: the frequency of a string of uneven weight."""

    def f(x: Any, y: Any, p: Any) -> Any:
        return np.stack([y[1], -(p[0] ** 2) * (1 + 0.2 * a[0] * x) * y[0]])

    def ends(start: Any, stop: Any, p: Any) -> Any:
        return np.stack([start[0], stop[0], start[1] - a[1]])

    guess = np.stack([np.sin(3 * MESH), 3 * np.cos(3 * MESH)])
    start = guess if y is GUESS else y
    return integrate.solve_bvp(f, ends, MESH, start, p=p, tol=1e-7, max_nodes=2000)


SINGULAR = np.array([[0.0, 0.0], [0.0, -2.0]])


def sphere(a: Any, y: Any = GUESS) -> Any:
    """Emden's equation, with the singular term of a sphere."""

    def f(x: Any, y: Any) -> Any:
        return np.stack([y[1], -a[0] * y[0] ** 3])

    def ends(start: Any, stop: Any) -> Any:
        return np.stack([start[1], stop[0] - a[1]])

    guess = np.stack([0.7 + 0 * MESH, 0 * MESH])
    start = guess if y is GUESS else y
    return integrate.solve_bvp(f, ends, MESH, start, S=SINGULAR, tol=1e-8, max_nodes=2000)


def both_ends(result: Any) -> Any:
    return [result.y[:, 0], result.y[:, -1]]


add("solve_bvp", "closure", "", Boundary(lambda a: both_ends(beam(a)), A))
add("solve_bvp", "closure", "parameter", Boundary(lambda a: mode(a).p, A))
add("solve_bvp", "closure", "S term", Boundary(lambda a: both_ends(sphere(a)), A))
add(
    "solve_bvp",
    "closure",
    "sol at point",
    Boundary(lambda a: beam(a).sol(np.array([0.33, 0.71])), A),
)
add("solve_bvp", "y", "", Boundary(lambda y: both_ends(beam(A, y)), GUESS))
add(
    "solve_bvp",
    "y",
    "parameter",
    Boundary(
        lambda y: mode(A, y).p, np.stack([np.sin(3 * MESH), 3 * np.cos(3 * MESH)]), spread=0.001
    ),
)
add(
    "solve_bvp",
    "y",
    "S term",
    Boundary(lambda y: both_ends(sphere(A, y)), np.stack([0.7 + 0 * MESH, 0 * MESH])),
)
add("solve_bvp", "p", "", Boundary(lambda p: both_ends(mode(A, p=p)), np.array([3.0])))
add("solve_bvp", "p", "parameter", Boundary(lambda p: mode(A, p=p).p, np.array([3.0])))
