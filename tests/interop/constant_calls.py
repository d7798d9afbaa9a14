"""Calls of SciPy's public functions on constants, one for each function that takes arrays.

Most are found: the first of some usual argument lists that a function accepts, outside of any mode.
`WRITTEN` has the calls that no such list fits. ``find_calls("linalg")`` returns those of a
subpackage.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SUBPACKAGES", "Call", "find_calls", "public_functions"]

SUBPACKAGES = [
    "linalg",
    "signal",
    "fft",
    "ndimage",
    "interpolate",
    "integrate",
    "optimize",
    "sparse",
    "stats",
    "special",
    "spatial",
]
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

_random = np.random.default_rng(7)
V = np.array([0.3, 0.9, 1.4, 2.2, 2.9])
W = np.array([0.8, 0.1, 0.5, 0.7, 0.4])
INTEGERS = np.array([1, 2, 3, 2, 1])
SQUARE = _random.normal(size=(4, 4))
POSITIVE = SQUARE @ SQUARE.T + 4 * np.eye(4)
IMAGE = _random.normal(size=(6, 7))
POINTS = _random.normal(size=(12, 2))
SIGNAL = _random.normal(size=64)
COUNTS = np.array([[8, 4], [3, 9]])
START = np.array([0.4, -0.3])

# The usual argument lists, in the order in which they are tried.
LISTS: tuple[tuple[Any, ...], ...] = (
    (POSITIVE,),
    (V,),
    (POSITIVE, V[:4]),
    (V, W),
    (IMAGE,),
    (SIGNAL,),
    (POSITIVE, SQUARE),
    (V, V, W),
    (1, V),
    (2, 0.5),
    (0.4,),
    (3,),
    (4, 0.3),
    (V, 2),
    (IMAGE, 2),
    (IMAGE, np.ones((3, 3))),
    (2.0, W),
    (1.5, 2.0, W),
    (1.5, 2.0, 0.7, W),
    (1, 2, W),
    (1, 0.5, 0.3, W),
    (V, W, W),
    (SIGNAL, np.array([0.2, 0.5, 0.3])),
    (np.array([0.2, 0.5]), np.array([1.0, -0.3]), SIGNAL),
    (np.array([0.2, 0.5]), np.array([1.0, -0.3])),
    (POINTS,),
    (POINTS, POINTS),
    (COUNTS,),
    (INTEGERS,),
    (3, 40),
    (5, 10, 0.4),
    (SIGNAL, 8),
    (POSITIVE, 2),
    (V[:3], V[:3], V[:3]),
    (np.eye(3)[None].repeat(2, 0),),
    (V > 1,),
    (IMAGE > 0,),
)


def _quadratic(x: Any) -> Any:
    return ((x - 1.0) ** 2).sum() + x[0] * x[1]


def _residuals(x: Any) -> Any:
    return np.array([x[0] - 1.0, x[1] + 2.0, x[0] * x[1]])


def _system(x: Any) -> Any:
    return np.array([x[0] + 0.5 * x[1] - 1.0, x[1] - 0.3 * x[0] ** 2])


def _cubic(x: Any) -> Any:
    return x**3 - x - 1.0


def _model(t: Any, a: Any, b: Any) -> Any:
    return a * np.exp(-b * t)


def _decay(t: Any, y: Any) -> Any:
    return np.array([-y[0] + 0.1 * y[1], -0.5 * y[1]])


def _boundary(a: Any, b: Any) -> Any:
    return np.array([a[0], b[0] - 1.0])


try:
    import scipy.sparse as _scipy_sparse

    _SPARSE: Any = _scipy_sparse.csc_array(POSITIVE)
except ImportError:  # then the tests are skipped
    _SPARSE = None
_SOS = np.array([[0.3, 0.5, 0.2, 1.0, -0.6, 0.25], [0.4, 0.1, 0.2, 1.0, -0.3, 0.1]])
_TIMES = np.linspace(0.0, 1.0, 6)
_BOUNDS = [(-2.0, 2.0), (-2.0, 2.0)]
_EXP = (lambda x: np.exp(-x), 0.0, 1.0)
WRITTEN: dict[str, tuple[Any, ...] | tuple[tuple[Any, ...], dict[str, Any]]] = {
    "integrate.quad": _EXP,
    "integrate.quad_vec": _EXP,
    "integrate.fixed_quad": _EXP,
    "integrate.dblquad": (lambda y, x: x * y, 0, 1, 0, 1),
    "integrate.tplquad": (lambda z, y, x: x * y * z, 0, 1, 0, 1, 0, 1),
    "integrate.nquad": (lambda x, y: x * y, [[0, 1], [0, 1]]),
    "integrate.cubature": (lambda x: x[:, 0] ** 2, [0.0], [1.0]),
    "integrate.tanhsinh": _EXP,
    "integrate.nsum": (lambda k: 1 / k**2, 1, 50),
    "integrate.odeint": (lambda y, t: -y, START, _TIMES),
    "integrate.solve_ivp": (_decay, (0.0, 1.0), START),
    "integrate.solve_bvp": (
        lambda x, y: np.vstack([y[1], -y[0]]),
        _boundary,
        _TIMES,
        np.zeros((2, 6)),
    ),
    "optimize.minimize": (_quadratic, START),
    "optimize.fmin": ((_quadratic, START), {"disp": False}),
    "optimize.fmin_bfgs": ((_quadratic, START), {"disp": False}),
    "optimize.fmin_cg": ((_quadratic, START), {"disp": False}),
    "optimize.fmin_powell": ((_quadratic, START), {"disp": False}),
    "optimize.fmin_l_bfgs_b": ((_quadratic, START), {"approx_grad": True}),
    "optimize.least_squares": (_residuals, START),
    "optimize.leastsq": (_residuals, START),
    "optimize.curve_fit": (_model, V, np.exp(-0.7 * V)),
    "optimize.root": (_system, START),
    "optimize.fsolve": (_system, START),
    "optimize.broyden1": (_system, START),
    "optimize.newton_krylov": (_system, START),
    "optimize.anderson": (_system, START),
    "optimize.root_scalar": ((_cubic,), {"bracket": (1.0, 2.0)}),
    "optimize.brentq": (_cubic, 1.0, 2.0),
    "optimize.brenth": (_cubic, 1.0, 2.0),
    "optimize.bisect": (_cubic, 1.0, 2.0),
    "optimize.ridder": (_cubic, 1.0, 2.0),
    "optimize.toms748": (_cubic, 1.0, 2.0),
    "optimize.newton": (_cubic, 1.5),
    "optimize.fixed_point": (np.cos, 0.5),
    "optimize.minimize_scalar": (lambda x: (x - 2.0) ** 2,),
    "optimize.fminbound": (lambda x: (x - 2.0) ** 2, 0.0, 5.0),
    "optimize.golden": (lambda x: (x - 2.0) ** 2,),
    "optimize.brent": (lambda x: (x - 2.0) ** 2,),
    "optimize.bracket": (lambda x: (x - 2.0) ** 2,),
    "optimize.brute": (_quadratic, ((-1, 1), (-1, 1))),
    "optimize.differential_evolution": ((_quadratic, _BOUNDS), {"rng": 0, "maxiter": 3}),
    "optimize.dual_annealing": ((_quadratic, _BOUNDS), {"rng": 0, "maxiter": 5}),
    "optimize.shgo": (_quadratic, _BOUNDS),
    "optimize.direct": (_quadratic, _BOUNDS),
    "optimize.basinhopping": ((_quadratic, START), {"rng": 0, "niter": 2}),
    "optimize.approx_fprime": (START, _quadratic),
    "optimize.check_grad": (_quadratic, lambda x: 2 * (x - 1) + x[::-1], START),
    "optimize.linprog": (np.array([1.0, 2.0]), -np.eye(2), -np.ones(2)),
    "optimize.milp": (np.array([1.0, 2.0]),),
    "optimize.nnls": (IMAGE, IMAGE[:, 0]),
    "optimize.lsq_linear": (IMAGE, IMAGE[:, 0]),
    "optimize.linear_sum_assignment": (POSITIVE,),
    "optimize.isotonic_regression": (W,),
    "signal.butter": (3, 0.2),
    "signal.cheby1": (3, 1.0, 0.2),
    "signal.cheby2": (3, 30.0, 0.2),
    "signal.ellip": (3, 1.0, 30.0, 0.2),
    "signal.firwin": (7, 0.3),
    "signal.firwin2": (7, [0, 0.5, 1], [1, 1, 0]),
    "signal.firls": (7, [0, 0.4, 0.5, 1], [1, 1, 0, 0]),
    "signal.remez": (9, [0, 0.2, 0.3, 0.5], [1, 0]),
    "signal.resample": (SIGNAL, 20),
    "signal.resample_poly": (SIGNAL, 2, 3),
    "signal.decimate": (SIGNAL, 2),
    "signal.savgol_filter": (SIGNAL, 7, 2),
    "signal.lsim": (([1.0], [1.0, 1.0]), SIGNAL[:10], np.linspace(0, 1, 10)),
    "signal.step": (([1.0], [1.0, 1.0]),),
    "signal.impulse": (([1.0], [1.0, 1.0]),),
    "linalg.cho_solve": ((np.linalg.cholesky(POSITIVE), True), V[:4]),
    "linalg.cho_solve_banded": ((np.ones((2, 4)), False), V[:4]),
    "linalg.cdf2rdf": (np.array([1 + 1j, 1 - 1j]), np.array([[1, 1], [1j, -1j]])),
    "linalg.diagsvd": (V, 5, 6),
    "linalg.eigh_tridiagonal": (V, W[:4]),
    "linalg.eigvalsh_tridiagonal": (V, W[:4]),
    "linalg.funm": (POSITIVE, np.exp),
    "linalg.hadamard": (4,),
    "linalg.leslie": (V, W[:4]),
    "linalg.lu_solve": ((POSITIVE, np.arange(4)), V[:4]),
    "linalg.qr_delete": (np.eye(4), np.triu(POSITIVE), 1),
    "linalg.qr_insert": (np.eye(4), np.triu(POSITIVE), V[:4], 1),
    "linalg.qr_update": (np.eye(4), np.triu(POSITIVE), V[:4], V[:4]),
    "linalg.solve_banded": ((1, 1), np.ones((3, 4)) + np.diag(V[:3], 1)[:3], V[:4]),
    "linalg.solve_continuous_are": (SQUARE, np.eye(4), np.eye(4), np.eye(4)),
    "linalg.solve_discrete_are": (SQUARE, np.eye(4), np.eye(4), np.eye(4)),
    "linalg.solve_sylvester": (POSITIVE, POSITIVE, SQUARE),
    "ndimage.affine_transform": (IMAGE, np.eye(2) * 0.9),
    "ndimage.generic_filter": (IMAGE, np.mean, 3),
    "ndimage.generic_filter1d": (IMAGE, lambda line, out: out.__setitem__(..., line[1:-1]), 3),
    "ndimage.geometric_transform": (IMAGE, lambda place: (place[0] * 0.9, place[1])),
    "ndimage.histogram": (IMAGE, -1.0, 1.0, 5),
    "ndimage.labeled_comprehension": (IMAGE, None, None, np.mean, float, 0.0),
    "ndimage.map_coordinates": (IMAGE, POINTS.T * 0.1 + 2.0),
    "ndimage.rank_filter": (IMAGE, 2, 3),
    "ndimage.watershed_ift": (np.ones((4, 4), np.uint8), np.eye(4, dtype=np.int8)),
    "fft.fht": (SIGNAL, 0.1, 0.5),
    "fft.ifht": (SIGNAL, 0.1, 0.5),
    "optimize.broyden2": (_system, START),
    "optimize.diagbroyden": (_system, START),
    "optimize.fmin_cobyla": (_quadratic, START, [lambda x: 1 - x[0]]),
    "optimize.fmin_ncg": (
        (_quadratic, START, lambda x: 2 * (x - 1) + x[::-1]),
        {"disp": False},
    ),
    "optimize.fmin_slsqp": ((_quadratic, START), {"disp": False}),
    "optimize.fmin_tnc": ((_quadratic, START), {"approx_grad": True, "disp": 0}),
    "optimize.line_search": (_quadratic, lambda x: 2 * (x - 1) + x[::-1], START, START * -1),
    "sparse.bmat": ([[_SPARSE, None], [None, _SPARSE]],),
    "sparse.block_array": ([[_SPARSE, None], [None, _SPARSE]],),
    "sparse.hstack": ([_SPARSE, _SPARSE],),
    "sparse.vstack": ([_SPARSE, _SPARSE],),
    "sparse.spdiags": (IMAGE[:2], [0, 1], 5, 5),
    "sparse.linalg.spsolve": (_SPARSE, V[:4]),
    "sparse.linalg.splu": (_SPARSE,),
    "sparse.linalg.factorized": (_SPARSE,),
    "sparse.linalg.cg": (_SPARSE, V[:4]),
    "sparse.linalg.gmres": (_SPARSE, V[:4]),
    "sparse.linalg.expm": (_SPARSE,),
    "sparse.linalg.norm": (_SPARSE,),
    "signal.argrelextrema": (SIGNAL, np.greater),
    "signal.bilinear_zpk": (V[:1], V[1:3], 1.0, 2.0),
    "signal.buttord": (0.2, 0.3, 3, 40),
    "signal.cheb1ord": (0.2, 0.3, 3, 40),
    "signal.cheb2ord": (0.2, 0.3, 3, 40),
    "signal.ellipord": (0.2, 0.3, 3, 40),
    "signal.check_COLA": ("hann", 8, 4),
    "signal.check_NOLA": ("hann", 8, 4),
    "signal.chirp": (V, 1.0, 2.0, 3.0),
    "signal.findfreqs": ([1.0], [1.0, 0.3], 5),
    "signal.gammatone": (440, "iir", 4, 9, 16000),
    "signal.iircomb": (0.25, 20.0),
    "signal.iirdesign": (0.2, 0.3, 1.0, 40.0),
    "signal.iirfilter": (3, [0.2, 0.4]),
    "signal.iirnotch": (0.3, 20.0),
    "signal.iirpeak": (0.3, 20.0),
    "signal.kaiserord": (40.0, 0.2),
    "signal.order_filter": (IMAGE, np.ones((3, 3)), 2),
    "signal.peak_prominences": (SIGNAL, [int(SIGNAL.argmax())]),
    "signal.peak_widths": (SIGNAL, [int(SIGNAL.argmax())]),
    "signal.place_poles": (SQUARE, np.eye(4)[:, :2], np.array([-1.0, -2.0, -3.0, -4.0])),
    "signal.savgol_coeffs": (7, 2),
    "signal.sepfir2d": (IMAGE, np.array([1.0, 2.0, 1.0]), np.array([1.0, 2.0, 1.0])),
    "signal.sosfilt": (_SOS, SIGNAL),
    "signal.sosfiltfilt": (_SOS, SIGNAL),
    "signal.sosfilt_zi": (_SOS,),
    "signal.freqz_sos": (_SOS,),
    "signal.ss2tf": (SQUARE, SQUARE[:, :1], SQUARE[:1], SQUARE[:1, :1]),
    "signal.ss2zpk": (SQUARE, SQUARE[:, :1], SQUARE[:1], SQUARE[:1, :1]),
    "signal.zpk2sos": (V[:1], V[1:2] * 0.3, 1.0),
    "interpolate.interpn": ((np.arange(6.0), np.arange(7.0)), IMAGE, [[1.5, 2.5]]),
    "interpolate.make_lsq_spline": (
        np.linspace(0, 1, 64),
        SIGNAL,
        np.r_[[0.0] * 4, 0.5, [1.0] * 4],
    ),
    "interpolate.splder": ((np.r_[[0.0] * 4, [1.0] * 4], np.arange(8.0), 3),),
    "interpolate.splantider": ((np.r_[[0.0] * 4, [1.0] * 4], np.arange(8.0), 3),),
    "interpolate.CubicSpline": (V, W),
    "interpolate.interp1d": (V, W),
    "interpolate.griddata": (POINTS, POINTS[:, 0], POINTS[:3] * 0.1),
    "interpolate.splev": (0.5, (np.r_[[0.0] * 4, [1.0] * 4], np.arange(8.0), 3)),
    "interpolate.RegularGridInterpolator": ((np.arange(6.0), np.arange(7.0)), IMAGE),
    "stats.norm.logpdf": (V, 0.2, 1.1),
    "stats.gamma.cdf": (V, 2.0),
    "stats.multivariate_normal.logpdf": (POINTS, np.zeros(2)),
    "stats.gaussian_kde": (SIGNAL,),
    "stats.bootstrap": (((SIGNAL,), np.mean), {"rng": 0, "n_resamples": 20}),
    "stats.linregress": (V, W),
    "sparse.diags": ([1.0, 2.0, 3.0],),
    "sparse.eye": (3,),
    "sparse.kron": (POSITIVE, np.eye(2)),
    "sparse.block_diag": ([POSITIVE, np.eye(2)],),
    "spatial.ConvexHull": (POINTS,),
    "spatial.Delaunay": (POINTS,),
    "spatial.Voronoi": (POINTS,),
    "spatial.KDTree": (POINTS,),
    "spatial.distance.cdist": (POINTS, POINTS),
    "spatial.distance.pdist": (POINTS,),
}


def _named(subpackage: str, names: str) -> list[str]:
    return [f"{subpackage}.{name}" for name in names.split(" ")]


# Functions that draw numbers, print, open files or take a second and more.
_LEFT_OUT = frozenset(
    [
        *_named("fft", "register_backend set_backend set_global_backend set_workers skip_backend"),
        *_named("linalg", "find_best_blas_type"),
        *_named("optimize", "rosen_hess_prod show_options"),
        *_named("sparse", "load_npz rand random random_array save_npz"),
        *_named("special", "comb errstate factorial2 factorialk geterr"),
        *_named("special", "seterr stirling2"),
        *_named("stats", "bws_test dunnett false_discovery_control fit goodness_of_fit"),
        *_named("stats", "monte_carlo_test page_trend_test permutation_test power sobol_indices"),
        *_named("stats", "tukey_hsd"),
    ]
)


def public_functions(subpackage: str) -> dict[str, Any]:
    """The public functions of a subpackage, and of ``sparse.linalg``, ``spatial.distance`` …"""
    module = importlib.import_module(f"scipy.{subpackage}")
    found = {}
    for name in module.__all__:
        value = getattr(module, name, None)
        if callable(value) and not inspect.isclass(value) and not name.startswith("_"):
            found[f"{subpackage}.{name}"] = value
    return found


def find_calls(subpackage: str) -> dict[str, Call]:
    """A call that works for each public function, by name."""
    found: dict[str, Call] = {}
    for name, given in WRITTEN.items():
        if name.startswith(subpackage + "."):
            args, options = given, {}
            if len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict):
                args, options = given
            found[name] = (_resolve(name), tuple(args), options)
    for name, function in public_functions(subpackage).items():
        if name in found or name in _LEFT_OUT:
            continue
        for args in LISTS:
            if _works(function, args):
                found[name] = (function, args, {})
                break
    return found


def _resolve(name: str) -> Any:
    parts = name.split(".")
    value: Any = importlib.import_module(f"scipy.{parts[0]}")
    for part in parts[1:]:
        if not hasattr(value, part):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value


def _works(function: Any, args: tuple[Any, ...]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args)
        except Exception:
            return False
    return True
