"""Samples of scipy.optimize: the solution by `args`, and by what the function captures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample

optimize = sp.optimize
A = np.array([1.3, 0.7])
TIGHT = {"value_rtol": 1e-8, "rtol": 3e-6}

# --- roots ---------------------------------------------------------------------------------------


def system(y: Any, a: Any) -> Any:
    first = y[0] + 0.3 * y[0] ** 3 + 0.2 * a[0] * y[1] - 2.0
    return np.stack([first, y[1] * np.exp(0.3 * y[1]) * a[1] + 0.3 * y[0] - 1.5])


def system_slope(y: Any, a: Any) -> Any:
    row = (1 + 0.3 * y[1]) * np.exp(0.3 * y[1]) * a[1]
    return np.array([[1 + 0.9 * y[0] ** 2, 0.2 * a[0]], [0.3, row]])


def both(
    solver: Callable[..., Any],
    function: Callable[..., Any],
    *rest: Any,
    get: Callable[[Any], Any],
    derivatives: dict[str, Callable[..., Any]] | None = None,
    **named: Any,
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The call with the parameter in `args`, and with the parameter captured."""
    derivatives = derivatives or {}

    def by_args(a: Any) -> Any:
        return get(solver(function, *rest, args=(a,), **derivatives, **named))

    def by_closure(a: Any) -> Any:
        captured = {key: functools.partial(_call, f, a) for key, f in derivatives.items()}
        return get(solver(lambda y: function(y, a), *rest, **captured, **named))

    return by_args, by_closure


def _call(function: Callable[..., Any], a: Any, y: Any) -> Any:
    return function(y, a)


SAMPLES: dict[str, Sample] = {}
CLOSURES = ("method=lm", "method=krylov")  # options of root that are also checked by closure


def add(name: str, option: str, calls: tuple[Any, Any], x: Any = A, **more: Any) -> None:
    """Adds the lines of one option, by `args` and by closure."""
    tail = f" | {option}" if option else ""
    for argument, call in zip(("args", "closure"), calls, strict=True):
        if name == "root" and argument == "closure" and option not in ("", *CLOSURES):
            continue
        SAMPLES[f"{name} | {argument}{tail}"] = Sample(call, x, **more)


def x_of(result: Any) -> Any:
    return result.x


START = np.array([1.0, 1.0])
add("root", "", both(optimize.root, system, START, get=x_of, tol=1e-13))
METHODS = {
    "hybr": {"tol": 1e-13},
    "lm": {"tol": 1e-13},
    "broyden1": {"tol": 1e-11},
    "anderson": {"tol": 1e-11, "options": {"jac_options": {"M": 2}}},
    "krylov": {"tol": 1e-11},
    "df-sane": {"options": {"ftol": 1e-13, "fatol": 1e-13}},
}
for _method, _options in METHODS.items():
    _calls = both(optimize.root, system, START, get=x_of, method=_method, **_options)
    add("root", f"method={_method}", _calls, **TIGHT)
add(
    "root",
    "jac given",
    both(optimize.root, system, START, get=x_of, tol=1e-13, derivatives={"jac": system_slope}),
)
add("root", "tol", both(optimize.root, system, START, get=x_of, tol=1e-13))
add("root", "vector parameter", both(optimize.root, system, START, get=x_of, tol=1e-13))
add("root", "system of 2", both(optimize.root, system, START, get=x_of, tol=1e-13))
SAMPLES["root | x0"] = Sample(
    lambda x0: optimize.root(lambda y: system(y, A), x0, tol=1e-13).x, START, value_rtol=1e-8
)


def large(a: Any) -> Any:
    n = 1200
    d = np.linspace(1.0, 2.0, n)

    def f(y: Any) -> Any:
        return d * y + 0.1 * np.roll(y, 1) ** 2 - a[0] - a[1] * d

    return optimize.root(f, np.ones(n), method="krylov", tol=1e-12).x[::100]


SAMPLES["root | closure | large system"] = Sample(large, A, vmap=False, **TIGHT)

add("fsolve", "", both(optimize.fsolve, system, START, get=lambda x: x, xtol=1e-13))
add(
    "fsolve",
    "fprime given",
    both(
        optimize.fsolve,
        system,
        START,
        get=lambda x: x,
        xtol=1e-13,
        derivatives={"fprime": system_slope},
    ),
)
add(
    "fsolve",
    "full_output=True",
    both(optimize.fsolve, system, START, get=lambda x: x[0], xtol=1e-13, full_output=True),
)
SAMPLES["fsolve | x0"] = Sample(
    lambda x0: optimize.fsolve(lambda y: system(y, A), x0, xtol=1e-13), START, value_rtol=1e-8
)


def scalar(y: Any, a: Any) -> Any:
    return y**3 + a[0] * y - 2.0 - a[1]


def scalar_slope(y: Any, a: Any) -> Any:
    return 3 * y**2 + a[0]


def scalar_curvature(y: Any, a: Any) -> Any:
    return 6 * y


BRACKET = [0.0, 3.0]
SLOPES = {"fprime": scalar_slope}
CURVED = {**SLOPES, "fprime2": scalar_curvature}
BY_METHOD: dict[str, tuple[dict[str, Any], Any]] = {
    "brentq": ({"bracket": BRACKET}, None),
    "bisect": ({"bracket": BRACKET}, None),
    "brenth": ({"bracket": BRACKET}, None),
    "ridder": ({"bracket": BRACKET}, None),
    "toms748": ({"bracket": BRACKET}, None),
    "newton": ({"x0": 1.0}, SLOPES),
    "secant": ({"x0": 1.0, "x1": 1.2}, None),
    "halley": ({"x0": 1.0}, CURVED),
}


def root_of(result: Any) -> Any:
    return result.root


add("root_scalar", "", both(optimize.root_scalar, scalar, bracket=BRACKET, get=root_of))
for _method, (_options, _slopes) in BY_METHOD.items():
    _calls = both(
        optimize.root_scalar,
        scalar,
        method=_method,
        get=root_of,
        xtol=1e-13,
        derivatives=_slopes,
        **_options,
    )
    add("root_scalar", f"method={_method}", _calls, value_rtol=1e-9)
for _method in ("brentq", "brenth", "bisect", "ridder", "toms748"):
    _solver = getattr(optimize, _method)
    add(_method, "", both(_solver, scalar, 0.0, 3.0, xtol=1e-13, get=lambda x: x), value_rtol=1e-9)
add(
    "brentq",
    "full_output=True",
    both(optimize.brentq, scalar, 0.0, 3.0, full_output=True, get=lambda x: x[0]),
)
SAMPLES["brentq | a"] = Sample(lambda a: optimize.brentq(lambda y: y**3 - 2, a, 3.0), 0.1)
SAMPLES["brentq | b"] = Sample(lambda b: optimize.brentq(lambda y: y**3 - 2, 0.0, b), 3.0)

NEWTON: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "": (1.0, None, {}),
    "fprime given": (1.0, SLOPES, {}),
    "fprime2 given": (1.0, CURVED, {}),
    "array x0": (np.array([1.0, 1.4, 0.8]), None, {}),
    "secant": (1.0, None, {"x1": 1.2}),
}
for _option, (_start, _slopes, _options) in NEWTON.items():
    _calls = both(
        optimize.newton, scalar, _start, get=lambda x: x, tol=1e-13, derivatives=_slopes, **_options
    )
    add("newton", _option, _calls, value_rtol=1e-9)
SAMPLES["newton | x0"] = Sample(
    lambda x0: optimize.newton(lambda y: y**3 - 2, x0, tol=1e-13), 1.0, value_rtol=1e-9
)


def fixed(y: Any, a: Any) -> Any:
    return np.sqrt(a[0] + y * a[1])


for _option, _start, _options in (
    ("", 1.0, {}),
    ("method=iteration", 1.0, {"method": "iteration"}),
    ("vector", np.array([1.0, 2.0]), {}),
):
    add(
        "fixed_point",
        _option,
        both(
            optimize.fixed_point,
            fixed,
            _start,
            get=lambda x: x,
            xtol=1e-13,
            maxiter=5000,
            **_options,
        ),
        value_rtol=1e-9,
    )
SAMPLES["fixed_point | x0"] = Sample(
    lambda x0: optimize.fixed_point(lambda y: fixed(y, A), x0, xtol=1e-13), 1.0, value_rtol=1e-9
)

# --- minima --------------------------------------------------------------------------------------


def cost(x: Any, a: Any) -> Any:
    return (x[0] - a[0]) ** 2 + 2 * (x[1] - a[1] * x[0]) ** 2 + 0.1 * x[0] ** 4 + 0.2 * x[1] ** 4


def cost_slope(x: Any, a: Any) -> Any:
    rest = x[1] - a[1] * x[0]
    first = 2 * (x[0] - a[0]) - 4 * a[1] * rest + 0.4 * x[0] ** 3
    return np.stack([first, 4 * rest + 0.8 * x[1] ** 3])


def cost_curvature(x: Any, a: Any) -> Any:
    mixed = -4 * a[1]
    return np.array([[2 + 4 * a[1] ** 2 + 1.2 * x[0] ** 2, mixed], [mixed, 4 + 2.4 * x[1] ** 2]])


def cost_and_slope(x: Any, a: Any) -> Any:
    return cost(x, a), cost_slope(x, a)


JAC: dict[str, Callable[..., Any]] = {"jac": cost_slope}
HESS: dict[str, Callable[..., Any]] = {**JAC, "hess": cost_curvature}
ROUGH = {"value_rtol": 1e-5, "rtol": 1e-4, "step": 1e-2, "order": 1, "float32": 0}
MINIMIZERS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "BFGS": (JAC, {"gtol": 1e-10}, {}),
    "L-BFGS-B": (JAC, {"gtol": 1e-12, "ftol": 1e-16}, {}),
    "CG": (JAC, {"gtol": 1e-10}, {}),
    "Newton-CG": (HESS, {"xtol": 1e-12}, {}),
    "trust-ncg": (HESS, {"gtol": 1e-10}, {}),
    "trust-exact": (HESS, {"gtol": 1e-10}, {}),
    "trust-krylov": (HESS, {"gtol": 1e-7}, {"rtol": 1e-5, "value_rtol": 1e-6}),
    "dogleg": (HESS, {"gtol": 1e-10}, {}),
    "Nelder-Mead": (None, {"xatol": 1e-10, "fatol": 1e-15}, ROUGH),
    "Powell": (None, {"xtol": 1e-10, "ftol": 1e-15}, ROUGH),
    "TNC": (JAC, {"gtol": 1e-12, "ftol": 1e-16, "xtol": 1e-14}, {"rtol": 1e-5}),
    "SLSQP": (JAC, {"ftol": 1e-16}, {}),
    "trust-constr": (HESS, {"gtol": 1e-10, "xtol": 1e-12}, {}),
    "COBYLA": (None, {"tol": 1e-9, "maxiter": 2000}, ROUGH),
}
minimize = functools.partial(both, optimize.minimize, cost, START, get=x_of)
add("minimize", "", minimize(derivatives=JAC, options={"gtol": 1e-10}), **TIGHT)
for _method, (_slopes, _options, _checks) in MINIMIZERS.items():
    _calls = minimize(method=_method, derivatives=_slopes, options=_options)
    add("minimize", f"method={_method}", _calls, **{**TIGHT, **_checks})
add("minimize", "jac given", minimize(derivatives=JAC, options={"gtol": 1e-10}), **TIGHT)
add(
    "minimize",
    "jac=True",
    both(optimize.minimize, cost_and_slope, START, get=x_of, jac=True, options={"gtol": 1e-10}),
    **TIGHT,
)
NARROW = {"gtol": 1e-12, "ftol": 1e-16}
add(
    "minimize",
    "bounds",
    minimize(derivatives=JAC, bounds=[(0.0, 5.0), (None, 5.0)], options=NARROW),
    **TIGHT,
)
add(
    "minimize",
    "bounds active",
    minimize(derivatives=JAC, bounds=[(0.0, 0.5), (None, 5.0)], options=NARROW),
    **TIGHT,
)
add(
    "minimize",
    "result fun",
    both(
        optimize.minimize,
        cost,
        START,
        get=lambda r: r.fun,
        derivatives=JAC,
        options={"gtol": 1e-10},
    ),
    **TIGHT,
)


def constrained(kind: str, captured: bool) -> Callable[[Any], Any]:
    def call(a: Any) -> Any:
        def constraint(x: Any, a: Any = a) -> Any:
            return 1.0 - x[0] - a[0] * x[1]

        given = {"type": kind, "fun": constraint}
        options = {"ftol": 1e-16}
        if captured:
            found = optimize.minimize(
                lambda x: cost(x, a),
                START,
                jac=lambda x: cost_slope(x, a),
                constraints=given,
                method="SLSQP",
                options=options,
            )
        else:
            found = optimize.minimize(
                cost,
                START,
                args=(a,),
                jac=cost_slope,
                constraints=[given],
                method="SLSQP",
                options=options,
            )
        return found.x

    return call


for _kind, _option in (("eq", "constraints eq"), ("ineq", "constraints ineq active")):
    add("minimize", _option, (constrained(_kind, False), constrained(_kind, True)), **TIGHT)
SAMPLES["minimize | x0"] = Sample(
    lambda x0: (
        optimize.minimize(
            lambda x: cost(x, A), x0, jac=lambda x: cost_slope(x, A), options={"gtol": 1e-10}
        ).x
    ),
    START,
    **TIGHT,
)


def valley(x: Any, a: Any) -> Any:
    return (x - a[0]) ** 2 + 0.3 * x**4 * a[1]


SCALAR: dict[str, dict[str, Any]] = {
    "": {"tol": 1e-10},
    "method=brent": {"method": "brent", "tol": 1e-10},
    "method=golden": {"method": "golden", "tol": 1e-10},
    "method=bounded": {"method": "bounded", "bounds": (-1.0, 3.0), "options": {"xatol": 1e-10}},
}
for _option, _options in SCALAR.items():
    _calls = both(optimize.minimize_scalar, valley, get=x_of, **_options)
    add("minimize_scalar", _option, _calls, **ROUGH)
add(
    "minimize_scalar",
    "result fun",
    both(optimize.minimize_scalar, valley, get=lambda r: r.fun, tol=1e-10),
    rtol=1e-5,
)

# --- least squares -------------------------------------------------------------------------------

T = np.linspace(0.0, 2.0, 15)
Y = 2.0 * np.exp(-1.1 * T) + 0.1 * np.sin(9 * T)


def misfit(p: Any, a: Any) -> Any:
    return p[0] * np.exp(-p[1] * T) - Y * a[0] - 0.1 * a[1] * T


def misfit_slope(p: Any, a: Any) -> Any:
    decay = np.exp(-p[1] * T)
    return np.stack([decay, -p[0] * T * decay], axis=1)


FIT = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
FITS: dict[str, dict[str, Any]] = {
    "": {},
    "method=trf": {"method": "trf"},
    "method=dogbox": {"method": "dogbox"},
    "method=lm": {"method": "lm"},
    "loss=soft_l1": {"loss": "soft_l1", "f_scale": 0.1},
    "loss=huber": {"loss": "huber", "f_scale": 0.1},
    "loss=cauchy": {"loss": "cauchy", "f_scale": 0.2},
    "bounds": {"bounds": ([0.0, 0.0], [9.0, 9.0])},
    "bounds active": {"bounds": ([0.0, 0.0], [9.0, 0.6])},
    "x_scale": {"x_scale": [1.0, 2.0]},
    "jac given": {},
}
LOOSE = {"value_rtol": 1e-6, "rtol": 3e-5, "float32": 5e-3}
INSIDE = np.array([0.5, 0.5])
for _option, _options in FITS.items():
    _slopes = {"jac": misfit_slope}
    _calls = both(
        optimize.least_squares, misfit, INSIDE, get=x_of, derivatives=_slopes, **FIT, **_options
    )
    _order = 1 if "huber" in _option else 2
    _step = 1e-4 if "huber" in _option else 5e-3  # within one set of outliers
    add("least_squares", _option, _calls, **LOOSE, order=_order, step=_step)
for _field in ("cost", "fun"):
    _get = functools.partial(lambda field, result: result[field], _field)
    _calls = both(
        optimize.least_squares,
        misfit,
        START,
        get=_get,
        derivatives={"jac": misfit_slope},
        **FIT,
    )
    add("least_squares", f"result {_field}", _calls, **LOOSE, step=5e-3)
SAMPLES["least_squares | x0"] = Sample(
    lambda x0: (
        optimize.least_squares(
            lambda p: misfit(p, A), x0, jac=lambda p: misfit_slope(p, A), **FIT
        ).x
    ),
    START,
    **LOOSE,
)
SAMPLES["leastsq | args"] = Sample(
    lambda a: optimize.leastsq(misfit, START, (a,), misfit_slope, xtol=1e-15, ftol=1e-15)[0],
    A,
    **LOOSE,
)
SAMPLES["leastsq | args | full_output=True"] = Sample(
    lambda a: optimize.leastsq(
        misfit, START, (a,), misfit_slope, full_output=True, xtol=1e-15, ftol=1e-15
    )[0],
    A,
    **LOOSE,
)


def decay(t: Any, p: Any, q: Any) -> Any:
    return p * np.exp(-q * t)


def decay_slope(t: Any, p: Any, q: Any) -> Any:
    return np.stack([np.exp(-q * t), -p * t * np.exp(-q * t)], axis=1)


SIGMA = 0.1 + 0.05 * np.arange(15) / 15
CURVE: dict[str, tuple[int, dict[str, Any]]] = {
    "": (0, {}),
    "absolute_sigma=True": (1, {"absolute_sigma": True}),
    "covariance": (1, {}),
    "bounds": (0, {"bounds": ([0.0, 0.0], [9.0, 9.0])}),
    "method=trf": (0, {"method": "trf"}),
}


def fit(argument: str, part: int, **options: Any) -> Callable[[Any], Any]:
    method = options.get("method", "trf" if "bounds" in options else "lm")
    narrow = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    named: dict[str, Any] = {"jac": decay_slope, "p0": [1.5, 1.0], **narrow, **options}
    if method == "lm":
        named.pop("gtol")

    def call(value: Any) -> Any:
        data: dict[str, Any] = {"xdata": T, "ydata": Y, "sigma": SIGMA, argument: value}
        return optimize.curve_fit(decay, **data, **named)[part]

    return call


for _argument, _x in (("ydata", Y), ("xdata", T), ("sigma", SIGMA)):
    for _option, (_part, _options) in CURVE.items():
        _tail = f" | {_option}" if _option else ""
        SAMPLES[f"curve_fit | {_argument}{_tail}"] = Sample(
            fit(_argument, _part, **_options), _x, spread=0.005, step=1e-4, **LOOSE
        )
MATRIX = np.diag(SIGMA**2) + 0.001
SAMPLES["curve_fit | ydata | sigma matrix"] = Sample(
    lambda y: optimize.curve_fit(
        decay, T, y, [1.5, 1.0], MATRIX, jac=decay_slope, xtol=1e-15, ftol=1e-15
    )[0],
    Y,
    spread=0.005,
    step=1e-4,
    **LOOSE,
)
SAMPLES["curve_fit | ydata | jac given"] = Sample(fit("ydata", 0), Y, spread=0.005, **LOOSE)
SAMPLES["curve_fit | ydata | p0"] = Sample(fit("ydata", 0, p0=[1.8, 1.2]), Y, spread=0.005, **LOOSE)

# --- linear problems -----------------------------------------------------------------------------

RANDOM = np.random.default_rng(5)
MATRIX_A = RANDOM.normal(size=(6, 3))
RIGHT = MATRIX_A @ np.array([1.0, -0.7, 0.4]) + 0.3 * RANDOM.normal(size=6)
SAMPLES["nnls | A"] = Sample(lambda a: optimize.nnls(a, RIGHT)[0], MATRIX_A)
SAMPLES["nnls | b"] = Sample(lambda b: optimize.nnls(MATRIX_A, b)[0], RIGHT)
SAMPLES["nnls | A | residual"] = Sample(lambda a: optimize.nnls(a, RIGHT)[1], MATRIX_A)
SAMPLES["nnls | b | residual"] = Sample(lambda b: optimize.nnls(MATRIX_A, b)[1], RIGHT)
LINEAR: dict[str, tuple[str, dict[str, Any]]] = {
    "": ("x", {}),
    "bounds": ("x", {"bounds": (-5.0, 5.0), "tol": 1e-14}),
    "bounds active": ("x", {"bounds": (-0.3, 0.6), "method": "bvls", "tol": 1e-14}),
    "method=bvls": ("x", {"bounds": (-0.3, 0.6), "method": "bvls", "tol": 1e-14}),
    "result cost": ("cost", {}),
}
for _option, (_field, _options) in LINEAR.items():
    _tail = f" | {_option}" if _option else ""

    def _linear(a: Any, b: Any, field: str = _field, options: Any = _options) -> Any:
        return optimize.lsq_linear(a, b, **options)[field]

    SAMPLES[f"lsq_linear | A{_tail}"] = Sample(
        functools.partial(lambda f, a: f(a, RIGHT), _linear), MATRIX_A, **TIGHT
    )
    SAMPLES[f"lsq_linear | b{_tail}"] = Sample(
        functools.partial(lambda f, b: f(MATRIX_A, b), _linear), RIGHT, **TIGHT
    )
PROGRAM: dict[str, Any] = {
    "c": np.array([-1.0, -2.0, -0.5]),
    "A_ub": np.array([[1.0, 1.0, 0.5], [1.0, 3.0, 1.0]]),
    "b_ub": np.array([4.0, 6.0]),
    "A_eq": np.array([[1.0, 0.0, -1.0]]),
    "b_eq": np.array([0.5]),
}
for _argument, _x in PROGRAM.items():
    SAMPLES[f"linprog | {_argument} | result fun"] = Sample(
        functools.partial(
            lambda argument, x: optimize.linprog(**{**PROGRAM, argument: x}).fun, _argument
        ),
        _x,
        **TIGHT,
    )
