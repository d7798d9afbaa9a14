"""Prints the largest errors of compiled elementary functions, in units in the last place.

    python scripts/elementary_errors.py [--count 400000] [--only tanh exp]

Arguments are drawn evenly, over all exponents (subnormal ones, too), near 0, near the zeros of the
functions and near the ends of their domains. The reference is NumPy's long double, with 11 bits
more than float64, and mpmath for the error function. Beside each error stands that of the function
as it is, and the argument. The exit code is 1 if an elementary function is beyond the bounds of
docs/compile.md: 1.5 units, and 2 for float32. Composites and complex numbers have no bound; errors
of complex numbers are units in the last place of their absolute value.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pullback as pb
from pullback.nn import functional

BIG = float(np.finfo(float).max)
POINTS = (0.0, 0.5, 1.0, 2.0, np.pi / 2, np.pi, 1.5 * np.pi, 2 * np.pi, 10 * np.pi, np.log(2))
BOUNDS = {"float64": 1.5, "float32": 2.0}


class Function(NamedTuple):
    """A function with the ends of its domain; its reference takes and returns long doubles."""

    function: Callable[..., Any]
    low: float
    high: float
    reference: Callable[..., Any]


def _logistic(x: Any) -> Any:
    power = np.exp(-np.abs(x))
    return np.where(x > 0, 1 / (1 + power), power / (1 + power))


def _softplus(x: Any) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def _exact(name: str) -> Callable[[Any], Any]:
    """A function of mpmath, element by element."""
    import mpmath

    def reference(x: Any) -> Any:
        with mpmath.workprec(120):
            texts = [mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(float(v))), 25) for v in x]
        return np.array([np.longdouble(text) for text in texts])

    return reference


def _numpy(names: str, low: float, high: float) -> dict[str, Function]:
    return {n: Function(getattr(np, n), low, high, getattr(np, n)) for n in names.split()}


ELEMENTARY = {
    **_numpy("exp expm1", -750, 715),
    **_numpy("exp2", -1080, 1030),
    **_numpy("log log2 log10 sqrt", 0, BIG),
    **_numpy("log1p", -1, BIG),
    **_numpy("sin cos tan tanh arctan arcsinh cbrt reciprocal deg2rad rad2deg", -BIG, BIG),
    **_numpy("sinh cosh", -715, 715),
    **_numpy("arcsin arccos arctanh", -1, 1),
    **_numpy("arccosh", 1, BIG),
    "sigmoid": Function(pb.sigmoid, -760, 760, _logistic),
    "x**3": Function(lambda x: x**3, -BIG, BIG, lambda x: x**3),
    "x**-2": Function(lambda x: x**-2, -BIG, BIG, lambda x: x**-2),
    "2.5**x": Function(lambda x: 2.5**x, -1200, 1200, lambda x: np.longdouble(2.5) ** x),
    "erf": Function(pb.erf, -30, 30, _exact("erf")),
    "erfc": Function(pb.erfc, -6, 30, _exact("erfc")),
}
PAIRS = {
    **_numpy("arctan2 hypot", -BIG, BIG),
    "power": Function(lambda x, y: np.power(np.abs(x), y), -40, 40,
                      lambda x, y: np.power(np.abs(x), y)),
    **_numpy("logaddexp", -800, 800),
    **_numpy("logaddexp2", -1200, 1200),
}  # fmt: skip
COMPOSITES = {
    "logsigmoid": Function(functional.logsigmoid, -700, 700, lambda x: -_softplus(-x)),
    "softplus": Function(functional.softplus, -700, 20, _softplus),
    "silu": Function(functional.silu, -80, 700, lambda x: x * _logistic(x)),
    "mish": Function(functional.mish, -80, 700, lambda x: x * np.tanh(_softplus(x))),
    "softsign": Function(functional.softsign, -BIG, BIG, lambda x: x / (1 + np.abs(x))),
    "gelu": Function(functional.gelu, -30, 30,
                     lambda x: x * _exact("ncdf")(x)),
    "softmax": Function(lambda x: functional.softmax(x.reshape(-1, 4), 1).reshape(-1), -100, 100,
                        lambda x: _rows(x, lambda p: p / p.sum(1, keepdims=True))),
}  # fmt: skip
COMPLEX = (
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "reciprocal",
    "square",
)
SLOW = ("erf", "erfc", "gelu")


def _rows(x: Any, function: Callable[[Any], Any]) -> Any:
    rows = x.reshape(-1, 4)
    return function(np.exp(rows - rows.max(1, keepdims=True))).reshape(-1)


def numbers(dtype: Any, low: float, high: float, count: int, rng: Any) -> Any:
    """Arguments of a domain, a multiple of four of them."""
    info = np.finfo(dtype)
    exponents = rng.uniform(
        np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)), count
    )
    sizes = np.ldexp(rng.uniform(1, 2, count), np.floor(exponents).astype(int))
    near = 2.0 ** -rng.uniform(0, 55, count) * rng.choice([-1, 1], count)
    parts = [
        rng.uniform(max(low, -1e300), min(high, 1e300), count),
        sizes * rng.choice([-1, 1], count),
        rng.uniform(-40, 40, count),
        rng.uniform(-3, 3, count),
        rng.choice([*POINTS, *(-p for p in POINTS)], count) + near,
        [0.0, -0.0, float(info.smallest_subnormal), float(info.tiny), low, high],
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate(parts).astype(dtype)
    x = x[np.isfinite(x) & (x >= low) & (x <= high)]
    return rng.permutation(x)[: x.size // 4 * 4]


def errors(found: Any, exact: Any) -> Any:
    """Errors in units in the last place; infinite where only one is infinite or NaN."""
    dtype = found.real.dtype
    rounded = np.abs(exact).astype(dtype)
    is_number = np.isfinite(rounded) & np.isfinite(found)
    unit = np.spacing(np.where(is_number, rounded, 1).astype(dtype)).astype(np.longdouble)
    apart = np.abs(np.where(is_number, found, 0) - np.where(is_number, exact, 0)) / unit
    both = np.isnan(found) & np.isnan(exact) | (np.isinf(found) & ~np.isfinite(rounded))
    is_last = np.abs(exact) >= np.longdouble(np.finfo(dtype).max)  # may be rounded to infinity
    return np.where(is_number, apart, np.where(both | is_last, 0, np.inf))


def measure(name: str, function: Any, reference: Any, arguments: list[Any]) -> float:
    """Prints the line of a function; its largest error."""
    compiled = pb.compile(lambda *x: function(*x))
    with np.errstate(all="ignore"):
        for _ in range(2):  # traced, then run
            found = np.asarray(compiled(*arguments))
        assert compiled.stats["hits"] == 1
        kind = np.longdouble if found.dtype.kind == "f" else np.clongdouble
        exact = reference(*[x.astype(kind) for x in arguments])
        ours, theirs = errors(found, exact), errors(np.asarray(function(*arguments)), exact)
    place = int(np.argmax(ours))
    step = arguments[0].size // ours.size
    where = ", ".join(f"{x[place * step]:.17g}" for x in arguments)
    print(f"{name:12} {found.dtype!s:10} {ours[place]:10.3f} {theirs.max():14.4g}   {where}")
    return float(ours[place])


def main() -> int:
    """Measures all functions; 1 if one is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000, help="arguments of a function")
    parser.add_argument("--only", nargs="+", default=[], help="names of functions")
    options = parser.parse_args()
    beyond = []
    print(f"{'function':12} {'dtype':10} {'compiled':>10} {'as it is':>14}   at")
    for dtype, bound in BOUNDS.items():
        for table in (ELEMENTARY, PAIRS, COMPOSITES):
            for name, (function, low, high, reference) in table.items():
                if options.only and name not in options.only:
                    continue
                rng = np.random.default_rng(1)
                count = min(options.count // 5, 500 if name in SLOW else options.count)
                arguments = [numbers(dtype, low, high, count, rng)]
                if table is PAIRS:
                    arguments.append(rng.permutation(arguments[0]))
                worst = measure(name, function, reference, arguments)
                if table is not COMPOSITES and worst > bound and not name.startswith("logadd"):
                    beyond.append(f"{name} of {dtype}: {worst:.3f}")
    for name in [n for n in COMPLEX if not options.only or n in options.only]:
        rng = np.random.default_rng(1)
        real = numbers(float, -30, 30, options.count // 5, rng)
        imag = rng.permutation(real)
        measure(name, getattr(np, name), getattr(np, name), [real + 1j * imag])
    print("\n".join(["Beyond the bound:", *beyond] if beyond else ["All within the bounds."]))
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
