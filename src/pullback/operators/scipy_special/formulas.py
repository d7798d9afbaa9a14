"""Formulas of SciPy's special functions: densities, quotients that are finite at 0, integrals.

The operators ``special_*`` that they call exist once this family is loaded.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.pointwise.formulas import not_implemented

__all__ = [
    "bend_of_oblate",
    "bend_of_spheroidal",
    "bend_of_voigt",
    "by_outputs",
    "by_parameter",
    "by_parameter_above",
    "by_parameter_of_poles",
    "density_of_beta",
    "density_of_chi2",
    "density_of_f",
    "density_of_gamma",
    "density_of_t",
    "is_above",
    "kelvin_quotient",
    "log_quotient",
    "minus_one_quotient",
    "of_real",
    "one_below",
    "sine_quotient",
    "slope_of_agm",
    "slope_of_boxcox",
    "slope_of_ellipeinc",
    "slope_of_ellipkinc",
    "slope_of_elliprd",
    "slope_of_elliprd_last",
    "slope_of_elliprj",
    "slope_of_elliprj_last",
    "slope_of_exprel",
    "slope_of_gammainc",
    "slope_of_kolmogorov",
    "slope_of_ncfdtr",
    "slope_of_rgamma",
    "slope_of_stdtr",
    "slope_of_tail",
    "slope_of_tklmbda",
    "slope_of_voigt",
    "unless_clipped",
]

_ROOT_PI = math.sqrt(math.pi)


def of_real(xp: Any, x: Any, name: str) -> Any:
    """The argument of a function whose derivative is implemented for real numbers only."""
    if getattr(x, "dtype", None) is not None and x.dtype.kind == "c":
        not_implemented(xp, f"{name} of complex numbers")
    return x


def by_outputs(xp: Any, *grads_and_slopes: Any) -> Any:
    """The sum over outputs of gradient times slope; a slope does not count if no gradient came.

    So the infinite slope of an output that is not used makes no NaN of those that are.
    """
    pairs = zip(grads_and_slopes[::2], grads_and_slopes[1::2], strict=True)
    terms = [grad * xp.conj(slope) for grad, slope in pairs if grad is not None]
    return sum(terms[1:], terms[0])


def one_below(xp: Any, n: Any) -> Any:
    """The degree of a polynomial's derivative, which for degree 0 does not matter."""
    return xp.where(n == 0, 1, n) - 1


def is_above(xp: Any, n: Any) -> Any:
    """1 for a degree that leaves a derivative, 0 for degree 0."""
    return xp.where(n == 0, 0.0, 1.0)


def unless_clipped(xp: Any, result: Any, slope: Any) -> Any:
    """The slope, and 0 where no solution was found and the result is the end of the search."""
    return xp.where(result > 1e-300, slope, 0)


def _series(x: Any, *factors: float) -> Any:
    """A polynomial, from its lowest coefficient on."""
    total = factors[-1]
    for factor in reversed(factors[:-1]):
        total = total * x + factor
    return total


def _near(xp: Any, x: Any, radius: float, series: Any, far: Any) -> Any:
    """`series(x)` near 0 and `far(x)` elsewhere; neither sees what is meant for the other."""
    is_near = xp.abs(x) < radius
    return xp.where(is_near, series(xp.where(is_near, x, 0)), far(xp.where(is_near, 1, x)))


# --- derivatives by parameters ---

# Nodes of Chebyshev in (0, 1], of which the negative ones are the mirror images, and the weights of
# the derivative at 0 of the polynomial of degree 13 through the values at all 14 of them.
_NODES = [math.cos((2 * k + 1) * math.pi / 28) for k in range(7)]
_NODE_WEIGHTS = [
    (-1) ** k * math.sin((2 * k + 1) * math.pi / 28) / (14 * x * x) for k, x in enumerate(_NODES)
]
_RADIUS = 0.25  # of the nodes at most


def by_parameter(xp: Any, name: str, place: int, *args: Any, distance: Any = None) -> Any:
    """The derivative of an analytic function by a parameter, from 14 values at Chebyshev nodes.

    The nodes lie within a quarter of the `distance` to the nearest singularity, and so near that
    the function changes there by a factor of ten at most. The derivative has the digits of the
    values but two or three. It is made of the function itself, so that derivatives of it exist.
    """
    function = getattr(xp, f"special_{name}")

    def at(step: Any) -> Any:
        return function(*args[:place], args[place] + step, *args[place + 1 :])

    widest = _RADIUS if distance is None else xp.where(distance < 1, distance / 4, _RADIUS)
    radius = _radius(xp, at, widest)
    pairs = zip(_NODES, _NODE_WEIGHTS, strict=True)
    terms = [(at(x * radius) - at(-x * radius)) * w for x, w in pairs]
    return sum(terms[1:], terms[0]) / radius


def _radius(xp: Any, at: Any, widest: Any) -> Any:
    """The radius of the nodes, a constant: smaller where the function grows fast."""
    step = widest / 32
    growth = xp.abs(xp.log(xp.abs(at(step))) - xp.log(xp.abs(at(-step)))) / (2 * step)
    growth = xp.where(growth < math.inf, growth, 0.0)  # also of NaN
    radius = widest / xp.where(growth * widest > 1, growth * widest, 1.0)
    return radius.detach() if hasattr(radius, "detach") else radius


def by_parameter_above(xp: Any, name: str, place: int, limit: float, *args: Any) -> Any:
    """The same for a parameter whose function is analytic above a limit."""
    return by_parameter(xp, name, place, *args, distance=args[place] - limit)


def by_parameter_of_poles(xp: Any, name: str, place: int, *args: Any) -> Any:
    """The same for a parameter whose function has poles at 0, -1, -2, ..."""
    parameter = args[place]
    distance = xp.where(parameter > 0.5, parameter, xp.abs(parameter - xp.round(parameter)))
    return by_parameter(xp, name, place, *args, distance=distance)


def slope_of_tail(xp: Any, lower: str, upper: str, place: int, *args: Any) -> Any:
    """The derivative of a distribution function by a positive parameter, from the smaller tail."""
    is_low = getattr(xp, f"special_{lower}")(*args) < 0.5
    below = by_parameter_above(xp, lower, place, 0, *args)
    return xp.where(is_low, below, -by_parameter_above(xp, upper, place, 0, *args))


def slope_of_gammainc(xp: Any, a: Any, x: Any) -> Any:
    """The derivative of the lower incomplete gamma function by its parameter."""
    return slope_of_tail(xp, "gammainc", "gammaincc", 0, a, x)


def slope_of_stdtr(xp: Any, df: Any, x: Any) -> Any:
    """The derivative of the distribution function of Student's t by its degrees of freedom."""
    below = by_parameter_above(xp, "stdtr", 0, 0, df, -xp.abs(x))
    return xp.where(x < 0, below, -below)


# --- densities of distributions ---


def density_of_gamma(xp: Any, a: Any, x: Any) -> Any:
    """The slope of the regularized incomplete gamma function."""
    return xp.exp(xp.special_xlogy(a - 1, x) - x - xp.special_gammaln(a))


def density_of_beta(xp: Any, a: Any, b: Any, x: Any) -> Any:
    """The slope of the regularized incomplete beta function."""
    power = xp.special_xlogy(a - 1, x) + xp.special_xlog1py(b - 1, -x)
    return xp.exp(power - xp.special_betaln(a, b))


def density_of_t(xp: Any, df: Any, nc: Any, x: Any) -> Any:
    """The density of Student's t, not central for an `nc` other than 0."""
    square = x * x
    scale = xp.special_gammaln(df + 1) - xp.special_gammaln(df / 2) - nc * nc / 2
    scale = scale - df * math.log(2) - df / 2 * xp.log1p(square / df)
    z = nc * nc * square / (2 * (df + square))
    odd = math.sqrt(2) * nc * x / (df + square) * xp.special_hyp1f1(df / 2 + 1, 1.5, z)
    even = xp.special_hyp1f1((df + 1) / 2, 0.5, z) / xp.sqrt(df + square)
    odd = odd * xp.exp(scale - xp.special_gammaln((df + 1) / 2))
    return odd + even * xp.exp(scale - xp.special_gammaln(df / 2 + 1))


def density_of_chi2(xp: Any, x: Any, df: Any, nc: Any) -> Any:
    """The density of the chi-square distribution, not central for an `nc` other than 0."""
    central = density_of_gamma(xp, df / 2, x / 2) / 2
    return central * xp.exp(-nc / 2) * xp.special_hyp0f1(df / 2, nc * x / 4)


def density_of_f(xp: Any, dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    """The density of the F distribution, not central for an `nc` other than 0."""
    a, b, below = dfn / 2, dfd / 2, dfd + dfn * x
    ratio = dfn * x / below
    central = density_of_beta(xp, a, b, ratio) * dfn * dfd / (below * below)
    return central * xp.exp(-nc / 2) * xp.special_hyp1f1(a + b, a, nc / 2 * ratio)


def slope_of_ncfdtr(xp: Any, dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    """The derivative of the noncentral F distribution in its `nc`."""
    a, b = dfn / 2, dfd / 2
    ratio = dfn * x / (dfd + dfn * x)
    term = density_of_beta(xp, a + 1, b + 1, ratio) * b / ((a + b) * (a + b + 1))
    return -term / 2 * xp.exp(-nc / 2) * xp.special_hyp1f1(a + b, a + 1, nc / 2 * ratio)


def slope_of_kolmogorov(xp: Any, x: Any) -> Any:
    """The derivative of Kolmogorov's distribution, by one of two series that each end soon."""
    is_flat, is_small = x < 0.04, x < 1  # flat to the last digit, and for negative numbers
    small, large = xp.where(is_small & ~is_flat, x, 1), xp.where(is_small, 1, x)
    square = small * small
    left, right = 0, 0
    for k in range(1, 6):
        root = ((2 * k - 1) * math.pi) ** 2
        left = left + (root / (4 * square) - 1) / square * xp.exp(-root / (8 * square))
        right = right + (-1) ** k * 8 * k * k * large * xp.exp(-2 * k * k * large * large)
    return xp.where(is_flat, 0, xp.where(is_small, -math.sqrt(2 * math.pi) * left, right))


def _voigt(xp: Any, x: Any, sigma: Any, gamma: Any, near: Any, factors: list[float]) -> Any:
    """A function of the Faddeeva function w(z); far from 0 a series in 1 / z^2, times i / z."""
    z = (x + 1j * gamma) / (sigma * math.sqrt(2))
    is_far = xp.abs(z) > 15
    inner, outer = xp.where(is_far, 0, z), xp.where(is_far, z, 1)
    far = 1j / (_ROOT_PI * outer) * _series(1 / (outer * outer), *factors)
    return xp.where(is_far, far, near(inner, xp.special_wofz(inner)))


_ODD = [math.prod(range(1, 2 * k, 2)) / 2**k for k in range(9)]  # of the series of w itself


def slope_of_voigt(xp: Any, x: Any, sigma: Any, gamma: Any) -> Any:
    """The complex slope of the Faddeeva function that a Voigt profile is a part of."""
    z = (x + 1j * gamma) / (sigma * math.sqrt(2))
    times_z = [-(2 * k + 1) * factor for k, factor in enumerate(_ODD)]
    far = xp.where(xp.abs(z) > 15, z, 1)
    slope = _voigt(xp, x, sigma, gamma, lambda z, w: -2 * z * w + 2j / _ROOT_PI, times_z)
    return slope / far


def bend_of_voigt(xp: Any, x: Any, sigma: Any, gamma: Any) -> Any:
    """w(z) + z w'(z), where large terms cancel."""
    factors = [-2 * k * factor for k, factor in enumerate(_ODD)]

    def near(z: Any, w: Any) -> Any:
        return w + z * (-2 * z * w + 2j / _ROOT_PI)

    return _voigt(xp, x, sigma, gamma, near, factors)


# --- quotients that are finite where their denominator is 0 ---


def sine_quotient(xp: Any, z: Any, sign: int) -> Any:
    """sin(z) / z for the sign -1, sinh(z) / z for 1."""
    function = xp.sin if sign < 0 else xp.sinh

    def series(z: Any) -> Any:
        return _series(sign * z * z, 1, 1 / 6, 1 / 120, 1 / 5040, 1 / 362880)

    return _near(xp, z, 0.1, series, lambda z: function(z) / z)


def log_quotient(xp: Any, z: Any) -> Any:
    """log(z) / (1 - z), which is -1 at 1."""
    return _near(
        xp,
        z - 1,
        0.01,
        lambda u: _series(-u, *(-1 / k for k in range(1, 9))),
        lambda u: -xp.log(1 + u) / u,
    )


def minus_one_quotient(xp: Any, x: Any, sign: int) -> Any:
    """(1 - J0(x)) / x for the sign -1, (I0(x) - 1) / x for 1."""
    function = xp.special_j0 if sign < 0 else xp.special_i0

    def series(x: Any) -> Any:
        return x * _series(sign * x * x, 1 / 4, 1 / 64, 1 / 2304, 1 / 147456)

    return _near(xp, x, 0.1, series, lambda x: sign * (function(x) - 1) / x)


def kelvin_quotient(xp: Any, x: Any, imaginary: bool) -> Any:
    """ber'(x) / x, or bei'(x) / x."""
    if imaginary:
        return _near(
            xp,
            x,
            0.2,
            lambda x: _series(x**4, 1 / 2, -1 / 384, 1 / 1474560),
            lambda x: xp.special_beip(x) / x,
        )
    return _near(
        xp,
        x,
        0.2,
        lambda x: x * x * _series(x**4, -1 / 16, 1 / 18432, -1 / 176947200),
        lambda x: xp.special_berp(x) / x,
    )


def slope_of_exprel(xp: Any, u: Any) -> Any:
    """((u - 1) exp(u) + 1) / u^2, the slope of (exp(u) - 1) / u."""
    factors = [1 / (math.factorial(k) * (k + 2)) for k in range(8)]
    return _near(
        xp,
        u,
        0.05,
        lambda u: _series(u, *factors),
        lambda u: ((u - 1) * xp.exp(u) + 1) / (u * u),
    )


def slope_of_boxcox(xp: Any, logarithm: Any, lmbda: Any) -> Any:
    """The derivative of (x^lmbda - 1) / lmbda in lmbda, from the logarithm of x."""
    is_zero = (logarithm == -math.inf) & (lmbda > 0)
    inside, above = xp.where(is_zero, 1, logarithm), xp.where(is_zero, lmbda, 1)
    slope = inside * inside * slope_of_exprel(xp, lmbda * inside)
    return xp.where(is_zero, 1 / (above * above), slope)


def slope_of_rgamma(xp: Any, z: Any, result: Any) -> Any:
    """The derivative of 1 / gamma(z); below 1/2 by reflection, as gamma has poles there."""
    if z.dtype.kind == "c":
        return -xp.special_psi(z) * result
    is_low = z < 0.5
    low, high = xp.where(is_low, z, 0), xp.where(is_low, 1, z)
    angle = math.pi * low
    wave = xp.cos(angle) - xp.special_psi(1 - low) * xp.sin(angle) / math.pi
    slope = -xp.special_psi(high) * xp.special_rgamma(high)
    return xp.where(is_low, xp.special_gamma(1 - low) * wave, slope)


def slope_of_tklmbda(xp: Any, lmbda: Any, result: Any, by_shape: bool) -> Any:
    """The derivative of Tukey's distribution, 0 where it has none of its mass."""
    is_inside = (result > 0) & (result < 1)
    p = xp.where(is_inside, result, 0.5)
    slope = 1 / (p ** (lmbda - 1) + (1 - p) ** (lmbda - 1))
    if by_shape:
        right = slope_of_boxcox(xp, xp.log1p(-p), lmbda)
        slope = slope * (right - slope_of_boxcox(xp, xp.log(p), lmbda))
    return xp.where(is_inside, slope, 0)


# --- elliptic integrals ---


def slope_of_agm(xp: Any, a: Any, b: Any, result: Any) -> Any:
    """The derivative of the arithmetic-geometric mean in its first argument."""
    total = a + b
    form = xp.special_elliprd(0.0, 1.0, 4 * a * b / (total * total))
    bend = 8 / (3 * math.pi) * b * (a - b) * form * (result / (total * total)) ** 2
    return result / total - bend


def _reduced(xp: Any, phi: Any) -> tuple[Any, Any, Any]:
    """The number of half turns of an angle, and sine and cosine of the rest."""
    turns = xp.rint(phi / math.pi)
    rest = phi - turns * math.pi
    return turns, xp.sin(rest), xp.cos(rest)


def slope_of_ellipkinc(xp: Any, phi: Any, m: Any) -> Any:
    """The derivative of the incomplete elliptic integral of the first kind in m."""
    turns, sine, cosine = _reduced(xp, phi)
    form = xp.special_elliprd(cosine * cosine, 1.0, 1 - m * sine * sine)
    whole = xp.special_elliprd(0.0, 1.0, 1 - xp.where(turns == 0, 0.5, m))
    return sine**3 * form / 6 + turns * whole / 3


def slope_of_ellipeinc(xp: Any, phi: Any, m: Any) -> Any:
    """The derivative of the incomplete elliptic integral of the second kind in m."""
    turns, sine, cosine = _reduced(xp, phi)
    form = xp.special_elliprd(cosine * cosine, 1 - m * sine * sine, 1.0)
    whole = xp.special_elliprd(0.0, 1 - xp.where(turns == 0, 0.5, m), 1.0)
    return -(sine**3) * form / 6 - turns * whole / 3


def slope_of_elliprd(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """The derivative of Carlson's R_D in its first argument, also where that equals the last."""
    equal = _is_close(xp, x, z, 1e-8)
    other = xp.where(equal, z + 1, x)
    slope = (xp.special_elliprd(y, z, other) - xp.special_elliprd(other, y, z)) / (2 * (other - z))
    same = equal & _is_close(xp, y, z, 1e-5)
    beside = xp.where(same, z + 1, y)
    form, gap = xp.special_elliprc(beside, z), z - beside
    first = (xp.sqrt(beside) - z * form) / (2 * z * gap)
    second = (z * form - xp.sqrt(beside)) * (z + gap) - (form + z * first) * z * gap
    at_equal = -3 / 4 * second / (2 * z * z * gap * gap)
    at_equal = xp.where(same, -3 / 10 * z**-2.5, at_equal) + _without_slope(xp, equal, x - z)
    return xp.where(equal, at_equal, slope)


def _without_slope(xp: Any, here: Any, gap: Any) -> Any:
    """Zeros whose derivative is NaN where `here` holds: no derivative is implemented there."""
    return xp.sqrt(0 * xp.where(here, gap, 0))


def _is_close(xp: Any, x: Any, y: Any, distance: float) -> Any:
    """Whether a quotient of differences would have few right digits, or none."""
    return xp.abs(x - y) <= distance * xp.abs(y)


def slope_of_elliprd_last(xp: Any, x: Any, y: Any, z: Any, result: Any) -> Any:
    """The derivative of R_D in its last argument: all three add up to that of a power."""
    rest = _times_slope(xp, x, y, z) + _times_slope(xp, y, x, z)
    return -(3 / 2 * result + rest) / z


def _times_slope(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """The first argument of R_D times the slope in it, which is 0 at 0."""
    is_zero = x == 0
    inside = xp.where(is_zero, 1, x)
    return xp.where(is_zero, 0, inside * slope_of_elliprd(xp, inside, y, z))


def slope_of_elliprj(xp: Any, x: Any, y: Any, z: Any, p: Any, result: Any) -> Any:
    """The derivative of Carlson's R_J in its first argument, also where that equals the last."""
    equal = _is_close(xp, x, p, 1e-8)
    form = xp.special_elliprd(y, z, x)
    at_equal = slope_of_elliprd_last(xp, y, z, x, form) / 3 + _without_slope(xp, equal, x - p)
    gap = xp.where(equal, 1, x - p)
    return xp.where(equal, at_equal, (form - result) / (2 * gap))


def slope_of_elliprj_last(xp: Any, x: Any, y: Any, z: Any, p: Any, result: Any) -> Any:
    """The derivative of R_J in its last argument: all four add up to that of a power."""
    rest = x * slope_of_elliprj(xp, x, y, z, p, result)
    rest = rest + y * slope_of_elliprj(xp, y, x, z, p, result)
    rest = rest + z * slope_of_elliprj(xp, z, x, y, p, result)
    return -(3 / 2 * result + rest) / p


# --- spheroidal wave functions, by their differential equation ---


def bend_of_spheroidal(xp: Any, m: Any, square: Any, cv: Any, x: Any, s: Any, sp: Any) -> Any:  # noqa: ARG001 - the interface of formulas
    """The second derivative of a prolate function; of an angular oblate one for -c^2."""
    rest = 1 - x * x
    return (2 * x * sp - (cv - square * x * x - m * m / rest) * s) / rest


def bend_of_oblate(xp: Any, m: Any, c: Any, cv: Any, x: Any, s: Any, sp: Any) -> Any:  # noqa: ARG001 - the interface of formulas
    """The second derivative of a radial oblate function."""
    rest = 1 + x * x
    return ((cv - c * c * x * x - m * m / rest) * s - 2 * x * sp) / rest
