"""Samples of scipy.interpolate: by data, by nodes and by evaluation points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback import scipy as sp
from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

Array = NDArray[Any]
Call = Callable[[Any], Any]
SAMPLES: dict[str, Sample] = {}

_rng = np.random.default_rng(3)
X = np.linspace(0.0, 4.0, 8) + 0.1 * np.sin(np.arange(8))
Y = np.sin(X) + 0.1 * X
PERIODIC = np.append(Y[:-1], Y[0])
TABLE = _rng.standard_normal((2, 8))
POINTS = np.array([0.3, 1.1, 2.4, 2.9, 3.5])
OUTSIDE = np.array([-0.6, 4.7])
NEAR = {"spread": 0.005}  # the nodes keep their order, the points their intervals
KNOTS = np.concatenate([[0.0] * 4, [0.9, 1.7, 2.8, 3.2], [4.2] * 4])
C = _rng.standard_normal(8)
PADDED = np.zeros(4)
inter = sp.interpolate


def add(line: str, call: Call, x: Any, **options: Any) -> None:
    SAMPLES[line] = Sample(call, x, **options)


def closed(y: Any) -> Any:
    """Data of a period from those of its open part."""
    return np.concatenate([y[:-1], y[:1]])


# --- piecewise cubics ---------------------------------------------------------------------------


def _cubic_splines() -> None:
    ends = ((1, 0.3), (2, -0.4))
    options: dict[str, tuple[dict[str, Any], Array]] = {
        "": ({}, POINTS),
        " | bc_type=natural": ({"bc_type": "natural"}, POINTS),
        " | bc_type=clamped": ({"bc_type": "clamped"}, POINTS),
        " | bc_type=derivatives": ({"bc_type": ends}, POINTS),
        " | extrapolate=True outside": ({"extrapolate": True}, OUTSIDE),
    }
    made = inter.CubicSpline
    for name, (given, points) in options.items():
        add(f"CubicSpline | y{name}", lambda y, o=given, q=points: made(X, y, **o)(q), Y)
        add(f"CubicSpline | x{name}", lambda x, o=given, q=points: made(x, Y, **o)(q), X, **NEAR)
        add(f"CubicSpline | points{name}", lambda q, o=given: made(X, Y, **o)(q), points)
    line = " | bc_type=periodic"
    given = {"bc_type": "periodic"}
    add(f"CubicSpline | y{line}", lambda y: made(X, closed(y), **given)(POINTS + 5), Y)
    add(f"CubicSpline | x{line}", lambda x: made(x, PERIODIC, **given)(POINTS), X, **NEAR)
    add(f"CubicSpline | points{line}", lambda q: made(X, PERIODIC, **given)(q), POINTS)
    line = " | axis=1"
    add(f"CubicSpline | y{line}", lambda y: made(X, y, axis=1)(POINTS), TABLE)
    add(f"CubicSpline | x{line}", lambda x: made(x, TABLE, axis=1)(POINTS), X, **NEAR)
    add(f"CubicSpline | points{line}", lambda q: made(X, TABLE, axis=1)(q), POINTS)
    line = " | derivative order 1"
    add(f"CubicSpline | y{line}", lambda y: made(X, y)(POINTS, 1), Y)
    add(f"CubicSpline | x{line}", lambda x: made(x, Y)(POINTS, 1), X, **NEAR)
    add(f"CubicSpline | points{line}", lambda q: made(X, Y)(q, 1), POINTS)


def _cubic_methods() -> None:
    made = inter.CubicSpline
    for name in ("derivative", "antiderivative"):

        def run(spline: Any, q: Any, name: str = name) -> Any:
            return getattr(spline, name)()(q)

        line = f"CubicSpline.{name}"
        add(f"{line} | y", lambda y, run=run: run(made(X, y), POINTS), Y)
        add(f"{line} | x", lambda x, run=run: run(made(x, Y), POINTS), X, **NEAR)
        add(f"{line} | points", lambda q, run=run: run(made(X, Y), q), POINTS)
    add("CubicSpline.integrate | y", lambda y: made(X, y).integrate(0.3, 2.2), Y)
    add("CubicSpline.integrate | x", lambda x: made(x, Y).integrate(0.3, 2.2), X, **NEAR)
    add("CubicSpline.integrate | a", lambda a: made(X, Y).integrate(a, 2.2), 0.3)
    add("CubicSpline.integrate | b", lambda b: made(X, Y).integrate(0.3, b), 2.2)
    add(
        "CubicSpline.solve | y",
        lambda y: made(X, y).solve(0.2, extrapolate=False),
        Y,
        vmap=False,
        spread=0.002,
    )
    add(
        "CubicSpline.roots | y",
        lambda y: made(X, y).roots(extrapolate=False),
        Y - 0.3,
        vmap=False,
        spread=0.002,
    )


def _hermite_splines() -> None:
    made, slopes = inter.CubicHermiteSpline, 0.5 * Y
    add("CubicHermiteSpline | y", lambda y: made(X, y, slopes)(POINTS), Y)
    add("CubicHermiteSpline | x", lambda x: made(x, Y, slopes)(POINTS), X, **NEAR)
    add("CubicHermiteSpline | dydx", lambda d: made(X, Y, d)(POINTS), slopes)
    add("CubicHermiteSpline | points", lambda q: made(X, Y, slopes)(q), POINTS)
    calls: dict[str, Call] = {
        "derivative": lambda spline: spline.derivative()(POINTS),
        "integrate": lambda spline: spline.integrate(0.3, 2.2),
    }
    for name, call in calls.items():
        line = f"CubicHermiteSpline.{name}"
        add(f"{line} | y", lambda y, call=call: call(made(X, y, slopes)), Y)
        add(f"{line} | dydx", lambda d, call=call: call(made(X, Y, d)), slopes)


def _shape_preserving() -> None:
    lines: list[tuple[str, Any, str, dict[str, Any], int]] = [
        ("PchipInterpolator", inter.PchipInterpolator, "", {}, 0),
        ("PchipInterpolator", inter.PchipInterpolator, " | axis=1", {"axis": 1}, 0),
        ("PchipInterpolator", inter.PchipInterpolator, " | derivative order 1", {}, 1),
        ("Akima1DInterpolator", inter.Akima1DInterpolator, "", {}, 0),
        (
            "Akima1DInterpolator",
            inter.Akima1DInterpolator,
            " | method=makima",
            {"method": "makima"},
            0,
        ),
        ("Akima1DInterpolator", inter.Akima1DInterpolator, " | axis=1", {"axis": 1}, 0),
    ]
    for name, kind, option, given, nu in lines:
        data = TABLE if "axis" in option else Y
        call: Any = lambda x, y, q, kind=kind, o=given, nu=nu: kind(x, y, **o)(q, nu)  # noqa: E731
        line = f"{name} | {{}}{option}"
        add(line.format("y"), lambda y, call=call: call(X, y, POINTS), data, spread=0.002)
        add(line.format("x"), lambda x, call=call, d=data: call(x, d, POINTS), X, spread=0.002)
        add(line.format("points"), lambda q, call=call, d=data: call(X, d, q), POINTS)
    few = {"spread": 0.002}
    pchip, akima = inter.PchipInterpolator, inter.Akima1DInterpolator
    add("PchipInterpolator.derivative | y", lambda y: pchip(X, y).derivative()(POINTS), Y, **few)
    add(
        "PchipInterpolator.antiderivative | y",
        lambda y: pchip(X, y).antiderivative()(POINTS),
        Y,
        **few,
    )
    add("PchipInterpolator.integrate | y", lambda y: pchip(X, y).integrate(0.3, 2.2), Y, **few)
    add("Akima1DInterpolator.derivative | y", lambda y: akima(X, y).derivative()(POINTS), Y, **few)
    add("Akima1DInterpolator.integrate | y", lambda y: akima(X, y).integrate(0.3, 2.2), Y, **few)
    add("pchip_interpolate | yi", lambda y: inter.pchip_interpolate(X, y, POINTS), Y, **few)
    add("pchip_interpolate | xi", lambda x: inter.pchip_interpolate(x, Y, POINTS), X, **few)
    add("pchip_interpolate | x", lambda q: inter.pchip_interpolate(X, Y, q), POINTS)


def _interp1d() -> None:
    options: dict[str, tuple[dict[str, Any], Array, Array]] = {"": ({}, Y, POINTS)}
    for kind in ("linear", "cubic", "quadratic", "slinear", "nearest", "previous"):
        options[f" | kind={kind}"] = ({"kind": kind}, Y, POINTS)
    options[" | fill_value=extrapolate"] = ({"fill_value": "extrapolate"}, Y, OUTSIDE)
    filled = {"fill_value": (1.0, 2.0), "bounds_error": False}
    options[" | fill_value bounds_error=False"] = (filled, Y, np.append(POINTS, OUTSIDE))
    options[" | axis=0"] = ({"axis": 0}, TABLE.T, POINTS)
    made = inter.interp1d
    for name, (given, data, points) in options.items():
        add(f"interp1d | y{name}", lambda y, o=given, q=points: made(X, y, **o)(q), data)
        add(
            f"interp1d | x{name}",
            lambda x, o=given, d=data, q=points: made(x, d, **o)(q),
            X,
            **NEAR,
        )
        add(
            f"interp1d | points{name}",
            lambda q, o=given, d=data: made(X, d, **o)(q),
            points,
            spread=0.002,
        )


# --- B-splines ----------------------------------------------------------------------------------


def _made_splines() -> None:
    options: dict[str, tuple[dict[str, Any], Array]] = {"": ({}, Y)}
    for k in (1, 2, 5):
        options[f" | k={k}"] = ({"k": k}, Y)
    for kind in ("natural", "clamped"):
        options[f" | bc_type={kind}"] = ({"bc_type": kind}, Y)
    knots = np.concatenate([[-0.1] * 4, KNOTS[4:-4], [4.3] * 4])
    options[" | t given"] = ({"t": knots}, Y)
    options[" | axis=1"] = ({"axis": 1}, TABLE)
    made = inter.make_interp_spline
    for name, (given, data) in options.items():
        add(f"make_interp_spline | y{name}", lambda y, o=given: made(X, y, **o)(POINTS), data)
        add(
            f"make_interp_spline | x{name}",
            lambda x, o=given, d=data: made(x, d, **o)(POINTS),
            X,
            **NEAR,
        )
        add(
            f"make_interp_spline | points{name}",
            lambda q, o=given, d=data: made(X, d, **o)(q),
            POINTS,
        )
    t = np.concatenate([[-0.1] * 4, [1.9], [4.3] * 4])
    fitted = inter.make_lsq_spline
    for name, given in {"": {}, " | w": {"w": np.linspace(0.5, 1.5, 8)}}.items():
        add(f"make_lsq_spline | y{name}", lambda y, o=given: fitted(X, y, t, **o)(POINTS), Y)
        add(
            f"make_lsq_spline | x{name}",
            lambda x, o=given: fitted(x, Y, t, **o)(POINTS),
            X,
            **NEAR,
        )
        add(f"make_lsq_spline | points{name}", lambda q, o=given: fitted(X, Y, t, **o)(q), POINTS)


def _bsplines() -> None:
    made = inter.BSpline
    options: dict[str, tuple[Any, Array, int]] = {
        "": (lambda c: made(KNOTS, c, 3), C, 0),
        " | k=1": (lambda c: made(KNOTS[2:-2], c, 1), C[:6], 0),
        " | derivative order 1": (lambda c: made(KNOTS, c, 3), C, 1),
        " | extrapolate=False": (lambda c: made(KNOTS, c, 3, extrapolate=False), C, 0),
        " | matrix c": (lambda c: made(KNOTS, c, 3), TABLE.T, 0),
        " | extrapolate=periodic": (lambda c: made(KNOTS, c, 3, extrapolate="periodic"), C, 0),
    }
    for name, (build, c, nu) in options.items():
        points = POINTS + 9.0 if "periodic" in name else POINTS
        add(f"BSpline | c{name}", lambda v, b=build, q=points, nu=nu: b(v)(q, nu), c)
        add(f"BSpline | points{name}", lambda q, b=build, c=c, nu=nu: b(c)(q, nu), points)
    simple = np.arange(12.0) * 0.45 - 1.0
    add("BSpline | t", lambda t: made(t, C, 3)(POINTS), simple, spread=0.002)
    for name in ("derivative", "antiderivative"):
        add(
            f"BSpline.{name} | c",
            lambda c, name=name: getattr(made(KNOTS, c, 3), name)()(POINTS),
            C,
        )
        add(
            f"BSpline.{name} | points",
            lambda q, name=name: getattr(made(KNOTS, C, 3), name)()(q),
            POINTS,
        )
    add("BSpline.integrate | c", lambda c: made(KNOTS, c, 3).integrate(0.2, 5.0), C)
    add("BSpline.integrate | a", lambda a: made(KNOTS, C, 3).integrate(a, 3.0), 0.4)
    add("BSpline.integrate | b", lambda b: made(KNOTS, C, 3).integrate(0.4, b), 3.0)


def _fitpack_functions() -> None:
    # With s=1 and these weights the fit needs no search for a smoothing parameter.
    options: dict[str, tuple[dict[str, Any], int]] = {
        "": ({}, 0),
        " | s=0": ({"s": 0}, 0),
        " | s=1": ({"s": 1}, 0),
        " | der=1": ({}, 1),
        " | w": ({"w": np.full(8, 0.2)}, 0),
        " | k=5": ({"k": 5}, 0),
    }
    for name, (given, der) in options.items():
        for function in ("splrep", "splev"):
            add(
                f"{function} | y{name}",
                lambda y, o=given, der=der: inter.splev(POINTS, inter.splrep(X, y, **o), der),
                Y,
            )
            add(
                f"{function} | points{name}",
                lambda q, o=given, der=der: inter.splev(q, inter.splrep(X, Y, **o), der),
                POINTS,
            )
    add("splrep | x | s=0", lambda x: inter.splev(POINTS, inter.splrep(x, Y, s=0)), X, **NEAR)

    def tck(c: Any) -> Any:
        return KNOTS, np.concatenate([c, PADDED]), 3

    add("splev | c", lambda c: inter.splev(POINTS, tck(c)), C)
    add("splev | c | der=1", lambda c: inter.splev(POINTS, tck(c), der=1), C)
    add("splint | c", lambda c: inter.splint(0.3, 2.0, tck(c)), C)
    add("splint | a", lambda a: inter.splint(a, 2.0, tck(C)), 0.3)
    add("splint | b", lambda b: inter.splint(0.3, b, tck(C)), 2.0)
    add("splder | c", lambda c: inter.splev(POINTS, inter.splder(tck(c))), C)
    add("splantider | c", lambda c: inter.splev(POINTS, inter.splantider(tck(c))), C)
    waves = np.array([1.0, -1.0] * 4)
    add("sproot | c", lambda c: inter.sproot(tck(c)), waves, vmap=False, spread=0.005)


def _fitpack_classes() -> None:
    weights = np.linspace(0.1, 0.3, 8)
    for name in ("UnivariateSpline", "InterpolatedUnivariateSpline"):
        made = getattr(inter, name)
        options: dict[str, tuple[dict[str, Any], int]] = {
            "": ({}, 0),
            " | k=4": ({"k": 4}, 0),
            " | w": ({"w": weights}, 0),
            " | derivative order 1": ({}, 1),
        }
        for option, (given, nu) in options.items():
            add(
                f"{name} | y{option}",
                lambda y, m=made, o=given, nu=nu: m(X, y, **o)(POINTS, nu),
                Y,
            )
            add(
                f"{name} | points{option}",
                lambda q, m=made, o=given, nu=nu: m(X, Y, **o)(q, nu),
                POINTS,
            )
    smoothed = inter.UnivariateSpline
    add("UnivariateSpline | y | s=0", lambda y: smoothed(X, y, s=0)(POINTS), Y)
    add("UnivariateSpline | y | s=1", lambda y: smoothed(X, y, s=1)(POINTS), Y)
    add("UnivariateSpline.derivative | y", lambda y: smoothed(X, y).derivative()(POINTS), Y)
    add("UnivariateSpline.integral | y", lambda y: smoothed(X, y).integral(0.3, 2.0), Y)
    add("UnivariateSpline.antiderivative | y", lambda y: smoothed(X, y).antiderivative()(POINTS), Y)
    fitted = inter.LSQUnivariateSpline
    add("LSQUnivariateSpline | y", lambda y: fitted(X, y, [1.5, 2.5])(POINTS), Y)
    add("LSQUnivariateSpline | points", lambda q: fitted(X, Y, [1.5, 2.5])(q), POINTS)


def _smoothing() -> None:
    made = inter.make_smoothing_spline
    add("make_smoothing_spline | y | lam", lambda y: made(X, y, lam=0.1)(POINTS), Y)
    add("make_smoothing_spline | x | lam", lambda x: made(x, Y, lam=0.1)(POINTS), X, **NEAR)
    add("make_smoothing_spline | points | lam", lambda q: made(X, Y, lam=0.1)(q), POINTS)


# --- grids --------------------------------------------------------------------------------------

AXES = (np.linspace(0.0, 1.0, 7) ** 1.2, np.linspace(0.0, 2.0, 6), np.linspace(-1.0, 1.0, 4))
# Along each axis it rises, so that monotonic interpolation has no corners near it.
VALUES = np.add.outer(np.cumsum(_rng.uniform(0.2, 1.0, 7)), np.cumsum(_rng.uniform(0.2, 1.0, 6)))
VALUES += 0.3 * np.outer(AXES[0], AXES[1] ** 2)
DEEP = _rng.standard_normal((7, 6, 4))
PLACES = np.array([[0.1, 0.3], [0.45, 1.3], [0.73, 0.68], [0.95, 1.9], [0.3, 0.9]])
DEEP_PLACES = np.column_stack([PLACES, [-0.5, 0.1, 0.5, -0.2, 0.8]])


def _grids() -> None:
    made, solver = inter.RegularGridInterpolator, sp.sparse.linalg.spsolve
    options: dict[str, dict[str, Any]] = {
        "": {},
        " | method=nearest": {"method": "nearest"},
        " | method=slinear": {"method": "slinear", "solver": solver},
        " | method=cubic": {"method": "cubic", "solver": solver},
        " | method=quintic": {"method": "quintic", "solver": solver},
        " | method=pchip": {"method": "pchip"},
        " | fill_value": {"bounds_error": False, "fill_value": 3.0},
    }
    line, flat = "RegularGridInterpolator", AXES[:2]
    for name, given in options.items():
        points = np.append(PLACES, [[9.0, 9.0]], 0) if "fill" in name else PLACES
        add(f"{line} | values{name}", lambda v, o=given, q=points: made(flat, v, **o)(q), VALUES)
        add(
            f"{line} | points{name}",
            lambda q, o=given: made(flat, VALUES, **o)(q),
            points,
            spread=0.001,
        )
    near = {"spread": 0.001}
    add(f"{line} | values | 3 dimensions", lambda v: made(AXES, v)(DEEP_PLACES), DEEP)
    add(f"{line} | points | 3 dimensions", lambda q: made(AXES, DEEP)(q), DEEP_PLACES, **near)
    add(f"{line} | values | vector values", lambda v: made(flat, v)(PLACES), DEEP)
    add(f"{line} | points | vector values", lambda q: made(flat, DEEP)(q), PLACES, **near)
    add(f"{line} | grid", lambda x: made((x, AXES[1]), VALUES)(PLACES), AXES[0], **near)
    for option in ("", " | method=nearest", " | method=splinef2d"):
        given = {"method": option.partition("=")[2]} if option else {}
        add(
            f"interpn | values{option}",
            lambda v, o=given: inter.interpn(flat, v, PLACES, **o),
            VALUES,
        )
        add(
            f"interpn | points{option}",
            lambda q, o=given: inter.interpn(flat, VALUES, q, **o),
            PLACES,
            **near,
        )


def _surfaces() -> None:
    made = inter.RectBivariateSpline
    x, y = np.array([0.2, 0.35, 0.9]), np.array([0.3, 0.9, 1.5])
    options: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "": ({}, {}),
        " | grid=False": ({}, {"grid": False}),
        " | dx=1": ({}, {"dx": 1}),
        " | s=1": ({"s": 1.0}, {}),
        " | kx=1 ky=1": ({"kx": 1, "ky": 1}, {}),
    }
    smooth = 0.1 * np.outer(np.sin(AXES[0]), np.cos(AXES[1]))  # s=1: one polynomial fits it
    for name, (given, called) in options.items():
        z = smooth if "s=1" in name else VALUES
        add(
            f"RectBivariateSpline | z{name}",
            lambda v, o=given, c=called: made(*AXES[:2], v, **o)(x, y, **c),
            z,
        )
        add(
            f"RectBivariateSpline | points{name}",
            lambda q, o=given, c=called, z=z: made(*AXES[:2], z, **o)(q, y, **c),
            x,
            **NEAR,
        )
    add("RectBivariateSpline.ev | z", lambda v: made(*AXES[:2], v).ev(x, y), VALUES)
    add(
        "RectBivariateSpline.integral | z",
        lambda v: made(*AXES[:2], v).integral(0.1, 0.8, 0.2, 1.5),
        VALUES,
    )


# --- polynomials --------------------------------------------------------------------------------


def _piecewise() -> None:
    c, made = _rng.standard_normal((3, 7, 2)), inter.PPoly
    turned = np.moveaxis(c, 2, 0)
    options: dict[str, tuple[Array, dict[str, Any], int]] = {
        "": (c, {}, 0),
        " | derivative order 1": (c, {}, 1),
        " | axis": (turned, {"axis": 1}, 0),
    }
    for name, (given, o, nu) in options.items():
        add(f"PPoly | c{name}", lambda v, o=o, nu=nu: made(v, X, **o)(POINTS, nu), given)
        add(
            f"PPoly | x{name}",
            lambda x, c=given, o=o, nu=nu: made(c, x, **o)(POINTS, nu),
            X,
            **NEAR,
        )
        add(f"PPoly | points{name}", lambda q, c=given, o=o, nu=nu: made(c, X, **o)(q, nu), POINTS)
    for name in ("derivative", "antiderivative"):
        call: Any = lambda p, q, name=name: getattr(p, name)()(q)  # noqa: E731
        add(f"PPoly.{name} | c", lambda v, call=call: call(made(v, X), POINTS), c)
        add(f"PPoly.{name} | x", lambda x, call=call: call(made(c, x), POINTS), X, **NEAR)
        add(f"PPoly.{name} | points", lambda q, call=call: call(made(c, X), q), POINTS)
    add("PPoly.integrate | c", lambda v: made(v, X).integrate(0.1, 3.0), c)
    add("PPoly.integrate | a", lambda a: made(c, X).integrate(a, 3.0), 0.1)
    add("PPoly.integrate | b", lambda b: made(c, X).integrate(0.1, b), 3.0)
    add(
        "PPoly.from_spline | c",
        lambda v: made.from_spline((KNOTS, np.concatenate([v, PADDED]), 3))(POINTS),
        C,
    )
    parabolas = np.repeat([[1.0], [-0.5], [-0.02]], 7, axis=1)
    add("PPoly.roots | c", lambda v: made(v, X).roots(False), parabolas, vmap=False, spread=1e-3)
    add(
        "PPoly.solve | c",
        lambda v: made(v, X).solve(0.1, False),
        parabolas,
        vmap=False,
        spread=1e-3,
    )
    add("BPoly | c", lambda v: inter.BPoly(v, X)(POINTS), c)
    add("BPoly | x", lambda x: inter.BPoly(c, x)(POINTS), X, **NEAR)
    add("BPoly | points", lambda q: inter.BPoly(c, X)(q), POINTS)


def _global_polynomials() -> None:
    x, y = X[:6], Y[:6]
    for name in ("Barycentric", "Krogh"):
        made = getattr(inter, f"{name}Interpolator")
        line = f"{name}Interpolator"
        for option, run in (
            ("", lambda p, q: p(q)),
            (" | derivative order 1", lambda p, q: p.derivative(q)),
        ):
            add(f"{line} | yi{option}", lambda v, m=made, run=run: run(m(x, v), POINTS), y)
            add(f"{line} | xi{option}", lambda v, m=made, run=run: run(m(v, y), POINTS), x, **NEAR)
            add(f"{line} | points{option}", lambda q, m=made, run=run: run(m(x, y), q), POINTS)
        call = getattr(inter, f"{name.lower()}_interpolate")
        line = f"{name.lower()}_interpolate"
        add(f"{line} | yi", lambda v, f=call: f(x, v, POINTS), y)
        add(f"{line} | xi", lambda v, f=call: f(v, y, POINTS), x, **NEAR)
        add(f"{line} | x", lambda q, f=call: f(x, y, q), POINTS)


# --- scattered data -----------------------------------------------------------------------------


def _radial() -> None:
    nodes, data, points = _rng.random((12, 2)), _rng.standard_normal(12), _rng.random((4, 2))
    made = inter.RBFInterpolator
    options: dict[str, dict[str, Any]] = {"": {}}
    for kernel in ("linear", "cubic", "quintic"):
        options[f" | kernel={kernel}"] = {"kernel": kernel}
    for kernel in ("gaussian", "multiquadric", "inverse_multiquadric", "inverse_quadratic"):
        options[f" | kernel={kernel} epsilon"] = {"kernel": kernel, "epsilon": 2.0}
    options[" | neighbors"] = {"neighbors": 6}
    options[" | smoothing"] = {"smoothing": 0.1}
    options[" | degree"] = {"degree": 2}
    # The systems have condition numbers up to 1e8, so that differences are less exact.
    exact = {"value_rtol": 1e-7, "rtol": 3e-5, "spread": 0.002, "step": 3e-4}
    for name, o in options.items():
        second = {"order": 1} if "quintic" in name or "gaussian" in name else {}
        add(f"RBFInterpolator | d{name}", lambda d, o=o: made(nodes, d, **o)(points), data, **exact)
        add(
            f"RBFInterpolator | y{name}",
            lambda y, o=o: made(y, data, **o)(points),
            nodes,
            **exact,
            **second,
        )
        add(
            f"RBFInterpolator | points{name}",
            lambda q, o=o: made(nodes, data, **o)(q),
            points,
            **exact,
        )
    add(
        "RBFInterpolator | smoothing",
        lambda s: made(nodes, data, smoothing=s)(points),
        np.full(12, 0.2),
    )
    add(
        "RBFInterpolator | epsilon",
        lambda e: made(nodes, data, kernel="gaussian", epsilon=e)(points),
        3.0,
        **exact,
        float32=0.0,  # SciPy takes epsilon as a Python float
    )
    inside = 0.35 + 0.1 * points
    grid = inter.griddata
    add("griddata | values", lambda v: grid(nodes, v, inside), data)
    add("griddata | points", lambda q: grid(nodes, data, q), inside, spread=1e-4, step=1e-5)
    add(
        "NearestNDInterpolator | values",
        lambda v: inter.NearestNDInterpolator(nodes, v)(points),
        data,
    )
    add("griddata | values | method=nearest", lambda v: grid(nodes, v, points, "nearest"), data)
    add(
        "griddata | points | method=nearest",
        lambda q: grid(nodes, data, q, "nearest"),
        points,
        spread=1e-4,
        step=1e-5,
    )


for _part in (
    _cubic_splines,
    _cubic_methods,
    _hermite_splines,
    _shape_preserving,
    _interp1d,
    _made_splines,
    _bsplines,
    _fitpack_functions,
    _fitpack_classes,
    _smoothing,
    _grids,
    _surfaces,
    _piecewise,
    _global_polynomials,
    _radial,
):
    _part()
