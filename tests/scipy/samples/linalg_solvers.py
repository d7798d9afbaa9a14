"""Samples of scipy.linalg: systems of equations."""

from __future__ import annotations

from functools import partial

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample

__all__ = ["COMPLEX", "MATRIX", "POSITIVE", "RIGHT", "SAMPLES", "VECTOR"]

la = sp.linalg
N = 4
RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((N, N)) + N * np.eye(N)
COMPLEX = MATRIX + 1j * RNG.standard_normal((N, N))
POSITIVE = MATRIX @ MATRIX.T / N
HERMITIAN = COMPLEX @ COMPLEX.conj().T / N
VECTOR = RNG.standard_normal(N)
RIGHT = RNG.standard_normal((N, 2))
SAMPLES: dict[str, Sample] = {}


def pair(name, option, call, a, b, names="a b", **options):
    """A line for each of the two arguments."""
    first, second = names.split()
    end = f" | {option}" if option else ""
    SAMPLES[f"{name} | {first}{end}"] = Sample(lambda x: call(x, b), a, **options)
    SAMPLES[f"{name} | {second}{end}"] = Sample(lambda x: call(a, x), b, **options)


pair("solve", "", la.solve, MATRIX, VECTOR)
NEW = ("diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular")
for kind in ("gen", "sym", "her", "pos", *NEW):
    pair(
        "solve",
        f"assume_a={kind}",
        partial(la.solve, assume_a=kind),
        POSITIVE,
        VECTOR,
        since=(1, 15) if kind in NEW else (0, 0),
    )
pair(
    "solve",
    "assume_a=pos lower=True",
    partial(la.solve, assume_a="pos", lower=True),
    POSITIVE,
    VECTOR,
)
pair(
    "solve",
    "assume_a=sym lower=True",
    partial(la.solve, assume_a="sym", lower=True),
    POSITIVE,
    VECTOR,
)
pair("solve", "transposed=True", partial(la.solve, transposed=True), MATRIX, VECTOR)
pair("solve", "b matrix", la.solve, MATRIX, RIGHT)
pair("solve", "complex", la.solve, COMPLEX, VECTOR + 1j)
pair(
    "solve",
    "batch",
    la.solve,
    np.stack([MATRIX, MATRIX.T]),
    np.stack([RIGHT, -RIGHT]),
    since=(1, 16),
)

tri = la.solve_triangular
pair("solve_triangular", "", tri, MATRIX, VECTOR)
pair("solve_triangular", "lower=True", partial(tri, lower=True), MATRIX, VECTOR)
pair("solve_triangular", "trans=T", partial(tri, trans="T"), MATRIX, VECTOR)
pair("solve_triangular", "trans=C lower=True", partial(tri, trans="C", lower=True), MATRIX, VECTOR)
pair("solve_triangular", "unit_diagonal=True", partial(tri, unit_diagonal=True), MATRIX, VECTOR)
pair("solve_triangular", "b matrix", tri, MATRIX, RIGHT)
pair("solve_triangular", "complex", partial(tri, trans="T"), COMPLEX, VECTOR + 1j)

BANDS = RNG.standard_normal((4, 6))
BANDS[2] += 5
LONG = RNG.standard_normal(6)
pair("solve_banded", "", lambda a, b: la.solve_banded((1, 1), a, b), BANDS[1:], LONG, "ab b")
pair(
    "solve_banded", "l=0 u=1", lambda a, b: la.solve_banded((0, 1), a, b), BANDS[1:3], LONG, "ab b"
)
pair(
    "solve_banded",
    "l=2 u=1",
    lambda a, b: la.solve_banded((2, 1), a, b),
    BANDS[[1, 2, 3, 0]],
    LONG,
    "ab b",
)
pair(
    "solve_banded",
    "b matrix",
    lambda a, b: la.solve_banded((1, 1), a, b),
    BANDS[1:],
    RNG.standard_normal((6, 2)),
    "ab b",
)
pair("solveh_banded", "", la.solveh_banded, BANDS[:3], LONG, "ab b")
pair("solveh_banded", "lower=True", partial(la.solveh_banded, lower=True), BANDS[2:], LONG, "ab b")
pair(
    "solveh_banded", "b matrix", la.solveh_banded, BANDS[:3], np.stack([LONG, -LONG + 1], 1), "ab b"
)

COLUMN = np.array([4.0, 1.0, 0.5, -0.3])
ROW = np.array([4.0, -0.7, 0.2, 0.1])
pair("solve_toeplitz", "", la.solve_toeplitz, COLUMN, VECTOR, "c_or_cr b")
pair(
    "solve_toeplitz",
    "row and column",
    lambda cr, b: la.solve_toeplitz((cr[0], cr[1]), b),
    np.stack([COLUMN, ROW]),
    VECTOR,
    "c_or_cr b",
)
pair("matmul_toeplitz", "", la.matmul_toeplitz, COLUMN, VECTOR, "c_or_cr x")
pair(
    "matmul_toeplitz",
    "row and column",
    lambda cr, x: la.matmul_toeplitz((cr[0], cr[1]), x),
    np.stack([COLUMN, ROW]),
    RIGHT,
    "c_or_cr x",
)
pair("solve_circulant", "", la.solve_circulant, COLUMN, VECTOR, "c b")


def by_factor(option, lower, a, b):
    pair(
        "cho_solve",
        option,
        lambda a, b: la.cho_solve(la.cho_factor(a, lower=lower), b),
        a,
        b,
    )


by_factor("", False, POSITIVE, VECTOR)
by_factor("lower=True", True, POSITIVE, VECTOR)
by_factor("b matrix", True, POSITIVE, RIGHT)
by_factor("complex", False, HERMITIAN, VECTOR + 1j)
for option, trans in {"": 0, "trans=1": 1, "trans=2": 2}.items():
    pair(
        "lu_solve",
        option,
        lambda a, b, trans=trans: la.lu_solve(la.lu_factor(a), b, trans=trans),
        MATRIX[::-1],
        VECTOR,
    )
pair("lu_solve", "b matrix", lambda a, b: la.lu_solve(la.lu_factor(a), b), MATRIX[::-1], RIGHT)
pair(
    "cho_solve_banded", "", lambda c, b: la.cho_solve_banded((c, False), b), BANDS[:3], LONG, "cb b"
)
pair(
    "cho_solve_banded",
    "lower=True",
    lambda c, b: la.cho_solve_banded((c, True), b),
    BANDS[2:],
    LONG,
    "cb b",
)

pair("lstsq", "", la.lstsq, RNG.standard_normal((6, 3)), LONG)
pair("lstsq", "b matrix", la.lstsq, RNG.standard_normal((6, 3)), RNG.standard_normal((6, 2)))
pair(
    "lstsq",
    "lapack_driver=gelsy",
    partial(la.lstsq, lapack_driver="gelsy"),
    RNG.standard_normal((6, 3)),
    LONG,
)
pair("lstsq", "wide", la.lstsq, RNG.standard_normal((3, 5)), VECTOR[:3])
pair("lstsq", "cond", partial(la.lstsq, cond=1e-6), RNG.standard_normal((6, 3)), LONG)
