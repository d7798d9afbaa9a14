"""Where each of SciPy's special functions is differentiated: for each argument its values.

One entry a function, with a list of values for each argument; the values stand beside each other.
"""

from __future__ import annotations

_MIDDLE = [[0.2, 0.55, 0.8]]
_POSITIVE = [[0.4, 1.3, 3.2]]
_REAL = [[-1.2, 0.3, 1.7]]
_WITH_ZERO = [[-1.2, 0.0, 0.04, 1.7]]
_ORDERS = [[0.0, 1.0, 2.5]]
_INTEGERS = [[0, 1, 3]]
_POLYNOMIAL = [*_INTEGERS, [-0.6, 0.3, 0.8]]
_THREE = [[0.5, 1.0, 2.0], [1.5, 1.0, 0.7]]
_SPHEROIDAL = [[0, 1, 1], [1, 1, 2], [2.0, 3.0, 2.5]]
_INSIDE, _OUTSIDE = [-0.4, 0.2, 0.5], [2.5, 3.0, 4.0]
# The characteristic values of these.
_PROLATE = [4.287128543955807, 3.5047958675879745, 8.531032243203587]
_OBLATE = [-0.5052439808809177, -0.2694208048311827, 3.166988559031134]


def _each(names: list[str], points: list[list[float]]) -> dict[str, list[list[float]]]:
    """The same points for several functions."""
    return dict.fromkeys(names, points)


POINTS: dict[str, list[list[float]]] = {
    **_each(["exp10", "cosm1", "expit", "log_expit", "wrightomega"], _REAL),
    **_each(["erf", "erfc", "erfcx", "erfi", "dawsn", "wofz"], _REAL),
    **_each(["fresnel", "ndtr", "log_ndtr", "gammasgn"], _REAL),
    **_each(["j0", "j1", "i0", "i0e", "i1", "i1e", "itstruve0"], _REAL),
    **_each(["exprel", "ber", "bei", "berp", "beip", "airy"], _WITH_ZERO),
    **_each(["cosdg", "sindg", "tandg", "cotdg"], [[20.0, 55.0, 130.0]]),
    **_each(["logit", "entr", "erfinv", "ndtri", "kolmogi", "ellipkm1"], _MIDDLE),
    **_each(["gamma", "gammaln", "loggamma", "psi", "expi", "exp1", "airye"], _POSITIVE),
    **_each(["y0", "y1", "k0", "k0e", "k1", "k1e", "ker", "kei", "kerp"], _POSITIVE),
    **_each(["keip", "kelvin", "itj0y0", "it2j0y0", "iti0k0", "it2i0k0"], _POSITIVE),
    **_each(["it2struve0", "itmodstruve0", "itairy", "sici", "shichi"], _POSITIVE),
    **_each(["modfresnelp", "modfresnelm"], _POSITIVE),
    **_each(["jv", "jve", "yv", "yve", "iv", "ive", "kv", "kve"], [*_ORDERS, *_POSITIVE]),
    **_each(["hankel1", "hankel1e", "hankel2", "hankel2e"], [*_ORDERS, *_POSITIVE]),
    **_each(["struve", "modstruve"], [*_ORDERS, *_POSITIVE]),
    **_each(["yn", "kn"], [*_INTEGERS, *_POSITIVE]),
    **{
        f"spherical_{kind}{suffix}": [*_INTEGERS, *_POSITIVE]
        for kind in ("jn", "yn", "in", "kn")
        for suffix in ("", "_d")
    },
    **_each(
        [f"eval_{name}" for name in ("chebyt", "chebyu", "chebyc", "chebys", "legendre")],
        _POLYNOMIAL,
    ),
    **_each(
        [f"eval_{name}" for name in ("sh_chebyt", "sh_chebyu", "sh_legendre", "laguerre")],
        _POLYNOMIAL,
    ),
    **_each(["eval_hermite", "eval_hermitenorm"], _POLYNOMIAL),
    **_each(["eval_gegenbauer", "eval_genlaguerre"], [[0, 2, 3], [0.7, 1, 2], _INSIDE]),
    "eval_jacobi": [[0, 2, 3], [0.7, 1, 2], [0.3, 0.5, 1], _INSIDE],
    "eval_sh_jacobi": [[0, 2, 3], [2.7, 3, 2], [1.3, 1.5, 1], [0.2, 0.4, 0.7]],
    "erfcinv": [[0.3, 1.1, 1.7]],
    "rgamma": [[-2.0, -0.5, 0.0, 1.7]],
    "spence": [[0.4, 1.0, 1.004, 2.7]],
    "ndtri_exp": [[-3.0, -0.5, -0.1]],
    "kolmogorov": [[0.5, 0.9, 1.4]],
    "radian": [[10.0, 20.0], [3.0, 4.0], [5.0, 6.0]],
    "powm1": [[0.5, 1.2, 3.0], [2.0, -0.5, 0.3]],
    "agm": _THREE,
    "xlogy": _THREE,
    "xlog1py": _THREE,
    "rel_entr": _THREE,
    "kl_div": _THREE,
    "huber": [[0.5, 1.0, 2.0], [0.3, -1.7, 3.0]],
    "pseudo_huber": [[0.5, 1.0, 2.0], [0.3, -1.7, 3.0]],
    "boxcox": [[0.5, 1.2, 3.0, 2.0], [0.5, 0.0, -1.5, 0.01]],
    "boxcox1p": [[0.5, 1.2, 3.0, 2.0], [0.5, 0.0, -1.5, 0.01]],
    "inv_boxcox": [[0.5, 1.2, 0.3], [0.5, 0.02, -1.5]],
    "inv_boxcox1p": [[0.5, 1.2, 0.3], [0.5, 0.02, -1.5]],
    "lambertw": [[0.3, 1.0, 4.0], [0, 0, 0], [1e-12] * 3],
    "voigt_profile": [[-0.4, 0.3, 1.5], [0.5, 1.0, 0.7], [0.3, 0.8, 1.4]],
    **_each(["gammainc", "gammaincc"], [[0.5, 1.5, 3.0], [0.4, 1.3, 2.5]]),
    **_each(["gammaincinv", "gammainccinv"], [[0.5, 1.5, 3.0], [0.2, 0.5, 0.7]]),
    **_each(["beta", "betaln", "poch"], _THREE),
    **_each(["betainc", "betaincc"], [*_THREE, [0.2, 0.5, 0.7]]),
    **_each(["betaincinv", "betainccinv"], [*_THREE, [0.2, 0.5, 0.7]]),
    "binom": [[4.5, 3.2, 7.0], [1.5, 0.7, 2.0]],
    "zeta": [[1.5, 2.0, 3.5], [0.4, 1.0, 2.2]],
    "expn": [[0, 1, 3], [0.4, 1.3, 2.2]],
    "besselpoly": [[0.4, 1.0, 1.7], [1.0, 2.0, 0.5], [1.0, 1.5, 2.0]],
    "wright_bessel": [[0.5, 1.0, 1.5], [1.0, 1.5, 2.0], [0.3, 1.0, 2.0]],
    "log_wright_bessel": [[0.5, 1.0, 1.5], [1.0, 1.5, 2.0], [0.3, 1.0, 2.0]],
    "pbdv": [[0.5, 1.0, 2.5], [0.4, 1.0, 2.0]],
    "pbvv": [[0.5, 1.0, 2.5], [0.4, 1.0, 2.0]],
    "pbwa": [[0.5, 1.0, 2.5], [0.4, 1.0, 2.0]],
    "ellipk": [[-1.3, 0.0, 0.4, 0.9]],
    "ellipe": [[-1.3, 0.0, 0.4, 0.9]],
    "ellipkinc": [[0.4, 1.2, 2.5, -4.0], [0.3, 0.0, 0.8, -0.5]],
    "ellipeinc": [[0.4, 1.2, 2.5, -4.0], [0.3, 0.0, 0.8, -0.5]],
    "ellipj": [[0.4, 1.2, 2.5], [0.3, 0.5, 0.8]],
    "elliprc": _THREE,
    "elliprd": [[0.5, 1.0, 2.0, 1.0], [1.5, 1.0, 0.7, 3.0], [0.9, 1.0, 0.7, 1.0]],
    "elliprf": [[0.5, 1.0, 2.0], [1.5, 1.0, 0.7], [0.9, 1.2, 0.7]],
    "elliprg": [[0.5, 1.0, 2.0], [1.5, 1.0, 0.7], [0.9, 1.2, 0.7]],
    "elliprj": [[0.5, 1.0, 2.0], [1.5, 1.2, 0.7], [0.9, 1.2, 0.8], [0.4, 1.0, 3.0]],
    "hyp0f1": [[0.5, 1.5, 2.5], [-0.7, 0.4, 2.0]],
    "hyp1f1": [[0.5, 1.5, 2.5], [1.5, 0.7, 2.0], [-0.7, 0.4, 2.0]],
    "hyp2f1": [[0.5, 1.5, 2.5], [1.5, 0.7, 2.0], [2.5, 1.2, 3.0], [-0.7, 0.4, 0.6]],
    "hyperu": [[0.5, 1.5, 2.5], [1.5, 0.7, 2.0], [0.7, 1.4, 2.0]],
    "lpmv": [[0, 1, 2], [1.0, 2.0, 2.5], _INSIDE],
    "mathieu_a": [[0, 1, 2], [0.5, 1.0, 2.0]],
    "mathieu_b": [[1, 1, 2], [0.5, 1.0, 2.0]],
    "mathieu_cem": [[0, 1, 2], [0.5, 1.0, 2.0], [20.0, 50.0, 70.0]],
    "mathieu_sem": [[1, 1, 2], [0.5, 1.0, 2.0], [20.0, 50.0, 70.0]],
    **{
        f"mathieu_mod{kind}{number}": [[1, 1, 2], [0.5, 1.0, 2.0], [0.3, 0.6, 0.9]]
        for kind in ("cem", "sem")
        for number in "12"
    },
    **_each(["pro_ang1", "obl_ang1"], [*_SPHEROIDAL, _INSIDE]),
    "pro_ang1_cv": [*_SPHEROIDAL, _PROLATE, _INSIDE],
    "obl_ang1_cv": [*_SPHEROIDAL, _OBLATE, _INSIDE],
    **_each(["pro_rad1", "pro_rad2", "obl_rad1", "obl_rad2"], [*_SPHEROIDAL, _OUTSIDE]),
    **_each(["pro_rad1_cv", "pro_rad2_cv"], [*_SPHEROIDAL, _PROLATE, _OUTSIDE]),
    **_each(["obl_rad1_cv", "obl_rad2_cv"], [*_SPHEROIDAL, _OBLATE, _OUTSIDE]),
    "nrdtrimn": [[0.3, 0.6, 0.8], [0.5, 1.0, 2.0], [0.3, 1.0, -0.4]],
    "nrdtrisd": [[0.5, 0.2, 0.0], [0.3, 0.6, 0.8], [-0.3, 1.0, 0.4]],
    "owens_t": [[-0.5, 0.3, 1.2], [0.4, 1.3, -0.6]],
    "stdtr": [[1.5, 3.0, 700.0], _REAL[0]],
    "stdtrit": [[1.5, 3.0, 700.0], [0.3, 0.6, 0.8]],
    "nctdtr": [[1.5, 3.0, 8.0], [0.5, -0.3, 1.0], [-0.7, 0.0, 1.5]],
    "nctdtrit": [[1.5, 3.0, 8.0], [0.5, -0.3, 1.0], [0.3, 0.6, 0.8]],
    **_each(["chdtr", "chdtrc"], [[1.5, 3.0, 8.0], [0.7, 2.0, 5.0]]),
    "chdtri": [[1.5, 3.0, 8.0], [0.3, 0.6, 0.8]],
    "chndtr": [[0.7, 2.0, 5.0], [1.5, 3.0, 4.0], [0.4, 1.0, 2.0]],
    "chndtrix": [[0.3, 0.6, 0.8], [1.5, 3.0, 4.0], [0.4, 1.0, 2.0]],
    "chndtrinc": [[0.7, 2.0, 5.0], [1.5, 3.0, 4.0], [0.3, 0.3, 0.5]],
    **_each(["fdtr", "fdtrc"], [[1.5, 3.0, 8.0], [2.5, 4.0, 5.0], [0.7, 1.3, 2.0]]),
    "fdtri": [[1.5, 3.0, 8.0], [2.5, 4.0, 5.0], [0.3, 0.6, 0.8]],
    "ncfdtr": [[1.5, 3.0, 8.0], [2.5, 4.0, 5.0], [0.4, 1.0, 2.0], [0.7, 1.3, 2.0]],
    "ncfdtri": [[1.5, 3.0, 8.0], [2.5, 4.0, 5.0], [0.4, 1.0, 2.0], [0.3, 0.6, 0.8]],
    "ncfdtrinc": [[1.5, 3.0, 8.0], [2.5, 4.0, 5.0], [0.2, 0.3, 0.4], [0.7, 1.3, 2.0]],
    **_each(["gdtr", "gdtrc"], [[0.5, 1.0, 2.0], [1.5, 2.0, 0.7], [0.4, 1.3, 0.9]]),
    "gdtria": [[0.3, 0.6, 0.8], [1.5, 2.0, 0.7], [0.4, 1.3, 0.9]],
    "gdtrix": [[0.5, 1.0, 2.0], [1.5, 2.0, 0.7], [0.3, 0.6, 0.8]],
    **_each(["bdtr", "bdtrc", "bdtri"], [[0.0, 1.0, 2.5], [3, 4, 6], [0.2, 0.5, 0.7]]),
    **_each(["nbdtr", "nbdtrc", "nbdtri"], [[0, 1, 2], [3, 4, 6], [0.2, 0.5, 0.7]]),
    **_each(["pdtr", "pdtrc"], [[0.0, 1.0, 2.5], [0.4, 1.3, 2.0]]),
    "pdtri": [[0, 1, 2], [0.2, 0.5, 0.7]],
    "tklmbda": [[-0.4, 0.3, 0.7, 3.0], [0.5, 0.02, -1.5, 1.5]],
    "smirnov": [[3, 5, 8], [0.2, 0.33, 0.41]],
    "smirnovi": [[3, 5, 8], [0.2, 0.5, 0.7]],
}
