"""Calls of `scipy.special` and of small modules."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from .inputs import MATRIX, MIDDLE, POSITIVE, REAL, SORTED, Call, each, namespace

__all__ = ["CONSTANTS", "DIFFERENTIATE", "INTEGRATE", "LINALG", "OPTIMIZE", "SPECIAL"]

_ONE = "erf erfc erfcx expit exprel ndtr log_ndtr sinc exp2 exp10 i0 i0e i1 i1e j0 j1 cbrt cosm1 "
_ONE += "sindg cosdg tandg gammasgn"
_POSITIVE = "exp1 expi gamma gammaln loggamma psi digamma rgamma spence k0 k0e k1 k1e y0 y1 entr"


def _zeta(f, c):
    xp = namespace(c)
    ends = xp.asarray(1.0), xp.asarray(np.inf)
    return f(lambda k, c: k**-c, *ends, args=(c + 2,)).sum


def _halton():
    return import_module("scipy.stats.qmc").Halton(1, rng=np.random.default_rng(0))


SPECIAL: dict[str, Call] = {
    **each(_ONE, lambda f, x: f(x), REAL),
    **each(_POSITIVE, lambda f, x: f(x), POSITIVE),
    **each("cotdg", lambda f, x: f(40 * x), POSITIVE),
    **each("zetac", lambda f, x: f(x + 1), POSITIVE),
    **each("logit erfinv ndtri ellipk ellipkm1", lambda f, x: f(x), MIDDLE),
    **each("huber pseudo_huber", lambda f, d, r: f(d, r), POSITIVE, REAL),
    **each("kl_div rel_entr xlogy xlog1py binom betaln", lambda f, x, y: f(x, y), POSITIVE, MIDDLE),
    **each("boxcox boxcox1p", lambda f, x, y: f(x, y), POSITIVE, MIDDLE),
    **each("inv_boxcox inv_boxcox1p", lambda f, x, y: f(x, y), MIDDLE, POSITIVE),
    **each("gammainc gammaincc", lambda f, x: f(2.5, x), POSITIVE),
    **each("gammaincinv gammainccinv", lambda f, y: f(2.5, y), MIDDLE),
    **each("betainc betaincc betaincinv", lambda f, x: f(1.5, 2.5, x), MIDDLE),
    **each("chdtr chdtrc stdtr pdtr pdtrc", lambda f, x: f(3, x), POSITIVE),
    **each("chdtri stdtrit pdtri", lambda f, x: f(3, x), MIDDLE),
    **each("fdtr fdtrc gdtr gdtrc", lambda f, x: f(2.0, 3.0, x), POSITIVE),
    **each("fdtri", lambda f, x: f(2.0, 3.0, x), MIDDLE),
    **each("bdtr bdtrc bdtri", lambda f, p: f(2.0, 5, p), MIDDLE),
    **each("nbdtr nbdtrc nbdtri", lambda f, p: f(2, 5, p), MIDDLE),
    **each("expn yn", lambda f, x: f(2, x), POSITIVE),
    **each("hyp1f1", lambda f, x: f(1.5, 2.5, x), REAL),
    **each("lpmv", lambda f, x: f(1, 2.0, x), MIDDLE),
    **each("poch", lambda f, x, y: f(x, y), POSITIVE, MIDDLE),
    **each("radian", lambda f, x: f(x, x, x), POSITIVE),
    **each("polygamma", lambda f, x: f(1, x), POSITIVE),
    **each("zeta", lambda f, q: f(3.0, q), POSITIVE),
    **each("logsumexp softmax log_softmax", lambda f, x: f(x, axis=0), MATRIX),
    **each("multigammaln", lambda f, a: f(a + 2, 3), POSITIVE),
}

LINALG: dict[str, Call] = {
    **each("block_diag", lambda f, a, b: f(a[:3], b), MATRIX, MATRIX[:2]),
    **each("fiedler", lambda f, a: f(a), REAL),
    **each("orthogonal_procrustes", lambda f, a, b: f(a, b), MATRIX, MATRIX[::-1].copy()),
}
OPTIMIZE: dict[str, Call] = {
    **each("rosen rosen_der rosen_hess", lambda f, x: f(x), REAL),
    **each("rosen_hess_prod", lambda f, x, p: f(x, p), REAL, POSITIVE),
    **each(
        "elementwise.find_root",
        lambda f, a, c: f(lambda x, c: x**3 - c, (a * 0, a * 0 + 3), args=(c,)).x,
        POSITIVE,
        POSITIVE,
    ),
    **each(
        "elementwise.find_minimum",
        lambda f, a: f(lambda x, c: (x - c) ** 2, (a - 3, a + 1, a + 5), args=(a,)).x,
        POSITIVE,
    ),
    **each(
        "elementwise.bracket_root",
        lambda f, a: f(lambda x, c: x**3 - c, a * 0, args=(a,)).success,
        POSITIVE,
    ),
    **each(
        "elementwise.bracket_minimum",
        lambda f, a: f(lambda x, c: (x - c) ** 2, a * 0, args=(a,)).success,
        POSITIVE,
    ),
}
INTEGRATE: dict[str, Call] = {
    **each("trapezoid", lambda f, y, x: f(y, x=x), POSITIVE, SORTED[:6]),
    **each("cumulative_trapezoid", lambda f, y, x: f(y, x=x, initial=0), POSITIVE, SORTED[:6]),
    **each("cumulative_simpson", lambda f, y, x: f(y, x=x), POSITIVE, SORTED[:6]),
    **each("romb", lambda f, y: f(y[:5]), POSITIVE),
    **each("tanhsinh", lambda f, b: f(lambda x: x**3, b * 0, b).integral, POSITIVE),
    **each("nsum", _zeta, POSITIVE),
    **each("cubature", lambda f, b: f(lambda x: x[:, 0] ** 3, b[:1] * 0, b[:1]).estimate, POSITIVE),
    **each(
        "qmc_quad",
        lambda f, b: f(lambda x: x[0] ** 3, b[:1] * 0, b[:1], qrng=_halton()).integral,
        POSITIVE,
    ),
}
CONSTANTS: dict[str, Call] = {
    **each("convert_temperature", lambda f, x: f(x, "Celsius", "Fahrenheit"), REAL),
    **each("lambda2nu nu2lambda", lambda f, x: f(x) * 1e-8, POSITIVE),
}
DIFFERENTIATE: dict[str, Call] = {
    **each("derivative", lambda f, x: f(lambda t: t**3, x).df, REAL),
    **each("jacobian", lambda f, x: f(lambda t: t**3, x).df, REAL[:3]),
    **each("hessian", lambda f, x: f(lambda t: (t**3).sum(axis=0), x).ddf, REAL[:3]),
}
