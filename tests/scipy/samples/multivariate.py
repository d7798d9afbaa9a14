"""Samples of scipy.stats: distributions of matrices, directions and counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats as st

from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

RNG = np.random.default_rng(7)
HALF = np.array([[1.5, 0.3], [0.3, 0.9]])  # symmetrised: 2 * HALF is positive definite
POINT = np.array([[0.8, 0.2], [0.2, 1.1]])
ROW = np.array([[1.2, 0.2, 0.1], [0.2, 0.9, -0.1], [0.1, -0.1, 1.4]])
MEAN = RNG.standard_normal((3, 2))
X = MEAN + 0.5 * RNG.standard_normal((3, 2))
LOC = np.array([0.3, -0.5])
POINTS = RNG.standard_normal((4, 2))
SHARES = np.array([0.3, 0.3, 0.4])
COUNTS = np.array([2, 5, 3])
ALPHA = np.array([1.3, 2.1, 0.7])
MU = np.array([0.6, 0.0, 0.8])
DIRECTION = np.array([0.0, 0.6, 0.8])


def sym(a: Any) -> Any:
    return a + a.T


def unit(x: Any) -> Any:
    return x / (x * x).sum() ** 0.5


def wishart_samples(name: str) -> Iterator[tuple[str, Sample]]:
    law = getattr(st, name)
    df = np.array(6.5)
    for method in ("logpdf", "pdf"):
        call = getattr(law, method)
        yield f"{name}.{method} | x", Sample(lambda x, f=call: f(sym(x), 6.5, HALF), POINT)
        yield f"{name}.{method} | df", Sample(lambda d, f=call: f(POINT, 1.0 * d, HALF), df)
        yield f"{name}.{method} | scale", Sample(lambda s, f=call: f(POINT, 6.5, sym(s)), HALF)
        yield (
            f"{name}.{method} | scale | frozen",
            Sample(lambda s, m=method, law=law: getattr(law(6.5, sym(s)), m)(POINT), HALF),
        )
        yield (
            f"{name}.{method} | x | frozen",
            Sample(lambda x, m=method, law=law: getattr(law(6.5, HALF), m)(sym(x)), POINT),
        )
    yield (
        f"{name}.logpdf | x | several",
        Sample(
            lambda x, law=law: law.logpdf(x + np.swapaxes(x, 0, 1), 6.5, HALF),
            np.stack([POINT, 2 * POINT], -1),
        ),
    )
    yield (
        f"{name}.logpdf | x | numbers",
        Sample(lambda x, law=law: law.logpdf(x, 6.5, 1.3), np.array([0.7, 1.9])),
    )
    for method in ("mean", "mode", "var", "entropy"):
        if name == "wishart" and method == "mode":
            yield f"{name}.mode | scale", Sample(lambda s, law=law: law.mode(6.5, sym(s)), HALF)
            continue
        call = getattr(law, method)
        yield f"{name}.{method} | df", Sample(lambda d, f=call: f(1.0 * d, HALF), df)
        yield f"{name}.{method} | scale", Sample(lambda s, f=call: f(6.5, sym(s)), HALF)


def matrix_samples() -> Iterator[tuple[str, Sample]]:
    for name, more in (("matrix_normal", ()), ("matrix_t", (4.5,))):
        law = getattr(st, name, None)
        since = {"matrix_t": (1, 17)}.get(name, (0, 0))
        row, col = {"matrix_normal": ("rowcov", "colcov")}.get(name, ("row_spread", "col_spread"))
        for method in ("logpdf", "pdf"):

            def call(*args: Any, law: Any = law, method: str = method) -> Any:
                return getattr(law, method)(*args)

            yield (
                f"{name}.{method} | X",
                Sample(lambda x, f=call, m=more: f(x, MEAN, ROW, HALF, *m), X, since=since),
            )
            yield (
                f"{name}.{method} | X | several",
                Sample(
                    lambda x, f=call, m=more: f(x, MEAN, ROW, HALF, *m),
                    np.stack([X, MEAN + 0.3]),
                    since=since,
                ),
            )
            yield (
                f"{name}.{method} | mean",
                Sample(lambda m, f=call, r=more: f(X, m, ROW, HALF, *r), MEAN, since=since),
            )
            yield (
                f"{name}.{method} | {row}",
                Sample(lambda a, f=call, m=more: f(X, MEAN, sym(a), HALF, *m), ROW, since=since),
            )
            yield (
                f"{name}.{method} | {col}",
                Sample(lambda a, f=call, m=more: f(X, MEAN, ROW, sym(a), *m), HALF, since=since),
            )
            yield (
                f"{name}.{method} | {row} | frozen",
                Sample(
                    lambda a, law=law, method=method, m=more: getattr(
                        law(MEAN, sym(a), HALF, *m), method
                    )(X),
                    ROW,
                    since=since,
                ),
            )
        if more:
            yield (
                f"{name}.logpdf | df",
                Sample(
                    lambda d, law=law: law.logpdf(X, MEAN, ROW, HALF, 1.0 * d),
                    np.array(4.5),
                    since=since,
                ),
            )
    entropy = st.matrix_normal.entropy
    yield "matrix_normal.entropy | rowcov", Sample(lambda a: entropy(sym(a), HALF), ROW)
    yield "matrix_normal.entropy | colcov", Sample(lambda a: entropy(ROW, sym(a)), HALF)


def t_samples() -> Iterator[tuple[str, Sample]]:
    law = st.multivariate_t
    df = np.array(4.5)
    for method in ("logpdf", "pdf"):
        call = getattr(law, method)
        name = f"multivariate_t.{method}"
        yield f"{name} | x", Sample(lambda x, f=call: f(x, LOC, HALF, 4.5), POINTS[0])
        yield f"{name} | x | several", Sample(lambda x, f=call: f(x, LOC, HALF, 4.5), POINTS)
        yield f"{name} | loc", Sample(lambda m, f=call: f(POINTS, m, HALF, 4.5), LOC)
        yield f"{name} | shape", Sample(lambda a, f=call: f(POINTS, LOC, sym(a), 4.5), HALF)
        yield f"{name} | df", Sample(lambda d, f=call: f(POINTS, LOC, HALF, 1.0 * d), df)
        yield (
            f"{name} | shape | frozen",
            Sample(lambda a, m=method: getattr(law(LOC, sym(a), 4.5), m)(POINTS), HALF),
        )
        yield (
            f"{name} | x | frozen",
            Sample(lambda x, m=method: getattr(law(LOC, HALF, 4.5), m)(x), POINTS),
        )
    yield "multivariate_t.entropy | shape", Sample(lambda a: law.entropy(LOC, sym(a), 4.5), HALF)
    yield "multivariate_t.entropy | df", Sample(lambda d: law.entropy(LOC, HALF, 1.0 * d), df)


def direction_samples() -> Iterator[tuple[str, Sample]]:
    fisher, kappa = st.vonmises_fisher, np.array(2.3)
    smooth: dict[str, Any] = {"float32": 0}  # SciPy wants unit vectors to 1e-8
    for method in ("logpdf", "pdf"):
        call = getattr(fisher, method)
        name = f"vonmises_fisher.{method}"
        yield f"{name} | x", Sample(lambda x, f=call: f(unit(x), MU, 2.3), DIRECTION, **smooth)
        yield f"{name} | mu", Sample(lambda m, f=call: f(DIRECTION, unit(m), 2.3), MU, **smooth)
        yield f"{name} | kappa", Sample(lambda k, f=call: f(DIRECTION, MU, 1.0 * k), kappa)
        yield (
            f"{name} | kappa | frozen",
            Sample(lambda k, m=method: getattr(fisher(MU, 1.0 * k), m)(DIRECTION), kappa),
        )
    yield "vonmises_fisher.entropy | kappa", Sample(lambda k: fisher.entropy(MU, 1.0 * k), kappa)


def count_samples() -> Iterator[tuple[str, Sample]]:
    multinomial, counts = st.multinomial, st.dirichlet_multinomial
    exact: dict[str, Any] = {"float32": 0}
    for method in ("logpmf", "pmf"):
        yield (
            f"multinomial.{method} | p",
            Sample(
                lambda p, m=method: getattr(multinomial, m)(COUNTS, 10, p / p.sum()),
                SHARES,
                **exact,
            ),
        )
        yield (
            f"multinomial.{method} | p | frozen",
            Sample(
                lambda p, m=method: getattr(multinomial(10, p / p.sum()), m)(COUNTS),
                SHARES,
                **exact,
            ),
        )
        yield (
            f"dirichlet_multinomial.{method} | alpha",
            Sample(lambda a, m=method: getattr(counts, m)(COUNTS, a, 10), ALPHA),
        )
        yield (
            f"dirichlet_multinomial.{method} | alpha | frozen",
            Sample(lambda a, m=method: getattr(counts(a, 10), m)(COUNTS), ALPHA),
        )
    for method in ("mean", "cov"):
        yield (
            f"multinomial.{method} | p",
            Sample(lambda p, m=method: getattr(multinomial, m)(10, p / p.sum()), SHARES, **exact),
        )
    for method in ("mean", "cov", "var"):
        yield (
            f"dirichlet_multinomial.{method} | alpha",
            Sample(lambda a, m=method: getattr(counts, m)(a, 10), ALPHA),
        )


def inverse_gamma_samples() -> Iterator[tuple[str, Sample]]:
    start = {"x": 0.4, "s2": 1.2, "mu": 0.1, "lmbda": 1.5, "a": 2.5, "b": 0.8}
    for method in ("logpdf", "pdf"):
        for key, value in start.items():
            yield (
                f"normal_inverse_gamma.{method} | {key}",
                Sample(
                    lambda v, k=key, m=method: getattr(st.normal_inverse_gamma, m)(
                        **{**start, k: v}
                    ),
                    np.array(value),
                    since=(1, 15),
                ),
            )


SAMPLES = {
    **dict(wishart_samples("wishart")),
    **dict(wishart_samples("invwishart")),
    **dict(matrix_samples()),
    **dict(t_samples()),
    **dict(direction_samples()),
    **dict(count_samples()),
    **dict(inverse_gamma_samples()),
}
