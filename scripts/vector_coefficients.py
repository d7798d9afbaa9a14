"""Derives the polynomials of pullback.compiled.llvm.vector by Remez's exchange algorithm.

It needs mpmath.

Each polynomial is the one of its degree with the least largest weighted error on an interval.
Prints the coefficients, the constant first, as they stand in the package, and the error in bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp

mp.mp.prec = 240
Real = Callable[[Any], Any]


class Approximation(NamedTuple):
    """A function on [low, high], the degree of its polynomial and the weight of its error."""

    function: Real
    weight: Real
    low: Any
    high: Any
    degree: int


def from_terms(term: Callable[[int], Any], count: int = 200) -> Real:
    """The sum of term(k) * z**k."""
    coefficients = [term(k) for k in range(count)]
    return lambda z: mp.polyval(coefficients[::-1], z)


def remez(target: Approximation, rounds: int = 12) -> tuple[list[Any], Any]:
    """Coefficients, the constant first, and the largest weighted error."""
    f, own_weight, low, high, n = target

    def weight(x: Any) -> Any:
        return own_weight(x) + mp.mpf(2) ** -10  # some are 0 at 0

    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * mp.cos(mp.pi * k / (n + 1)) for k in range(n + 2)]
    grid = [middle - half * mp.cos(mp.pi * k / (40 * n)) for k in range(40 * n + 1)]
    values = [(x, f(x), weight(x)) for x in grid]
    for _ in range(rounds):
        rows = mp.matrix(n + 2, n + 2)
        right = mp.matrix(n + 2, 1)
        for i, x in enumerate(points):
            for k in range(n + 1):
                rows[i, k] = x**k
            rows[i, n + 1] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[k] for k in range(n + 1)]
        errors = [w * (v - mp.polyval(coefficients[::-1], x)) for x, v, w in values]
        points = extrema(grid, errors, n + 2) or points
    return coefficients, max(map(abs, errors))


def extrema(grid: list[Any], errors: list[Any], count: int) -> list[Any]:
    """The points of largest error between changes of its sign, or nothing if there are too few."""
    best: list[int] = []
    for k, error in enumerate(errors):
        if best and mp.sign(error) == mp.sign(errors[best[-1]]):
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = k
        else:
            best.append(k)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    return [grid[k] for k in best] if len(best) == count else []


def erfc_scaled(t: Any) -> Any:
    """exp(x²) erfc(x) (1 + 2x) at x with t = (x - 2) / (x + 2)."""
    x = 2 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


LOG_LIMIT = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
QUARTER = (mp.pi / 4) ** 2
ATAN_LIMIT = (mp.sqrt(2) - 1) ** 2
APPROXIMATIONS = {
    # (exp(r) - 1 - r) / r**2
    "EXP": Approximation(
        from_terms(lambda k: 1 / mp.factorial(k + 2)),
        lambda r: r * r,
        -mp.log(2) / 2,
        mp.log(2) / 2,
        9,
    ),
    # (log((1 + s) / (1 - s)) - 2 s) / s**3 of z = s**2, and the same without its first term
    "LOG": Approximation(
        from_terms(lambda k: mp.mpf(2) / (2 * k + 3)), lambda z: z, mp.mpf(0), LOG_LIMIT, 6
    ),
    "LOG_REST": Approximation(
        from_terms(lambda k: mp.mpf(2) / (2 * k + 5)), lambda z: z * z, mp.mpf(0), LOG_LIMIT, 8
    ),
    # (sin(r) - r) / r**3 and (cos(r) - 1 + z / 2) / z**2 of z = r**2
    "SIN": Approximation(
        from_terms(lambda k: (-1) ** (k + 1) / mp.factorial(2 * k + 3)),
        lambda z: z,
        mp.mpf(0),
        QUARTER,
        5,
    ),
    "COS": Approximation(
        from_terms(lambda k: (-1) ** k / mp.factorial(2 * k + 4)),
        lambda z: z * z,
        mp.mpf(0),
        QUARTER,
        5,
    ),
    # (atan(t) - t) / t**3, (asin(t) - t) / t**3 and (sinh(t) - t) / t**3 of z = t**2
    "ATAN": Approximation(
        from_terms(lambda k: (-1) ** (k + 1) / mp.mpf(2 * k + 3)),
        lambda z: z,
        mp.mpf(0),
        ATAN_LIMIT,
        11,
    ),
    "ASIN": Approximation(
        from_terms(
            lambda k: mp.binomial(2 * k + 2, k + 1) / mp.mpf(4) ** (k + 1) / (2 * k + 3), 300
        ),
        lambda z: z,
        mp.mpf(0),
        mp.mpf(1) / 4,
        12,
    ),
    "SINH": Approximation(
        from_terms(lambda k: 1 / mp.factorial(2 * k + 3)), lambda z: z, mp.mpf(0), mp.mpf(1), 7
    ),
    # erf(x) / x - 2 / sqrt(pi) of z = x**2 without its factor z; exp(x**2) erfc(x) (1 + 2 x)
    "ERF": Approximation(
        from_terms(
            lambda k: 2 / mp.sqrt(mp.pi) * (-1) ** (k + 1) / (mp.factorial(k + 1) * (2 * k + 3))
        ),
        lambda z: z,
        mp.mpf(0),
        mp.mpf(1),
        11,
    ),
    "ERFC": Approximation(
        erfc_scaled, lambda t: mp.mpf(1) + 0 * t, -mp.mpf(2) / 3, mp.mpf(13) / 14, 25
    ),
}


def main() -> None:
    """Prints all polynomials."""
    for name, target in APPROXIMATIONS.items():
        coefficients, error = remez(target)
        print(f"# error 2**{mp.nstr(mp.log(error, 2), 4)}")
        print(f"{name} = (")
        for c in coefficients:
            print(f"    {float(c)!r},")
        print(")")


if __name__ == "__main__":
    main()
