"""Samples of scipy.linalg: functions of matrices, equations, norms, special matrices."""

from __future__ import annotations

from functools import partial

import numpy as np

import pullback as pb
from pullback import scipy as sp
from tests.scipy.sample import Sample
from tests.scipy.samples.linalg_decompositions import REAL, TALL
from tests.scipy.samples.linalg_solvers import COMPLEX, MATRIX, POSITIVE, RIGHT

__all__ = ["SAMPLES"]

la = sp.linalg
RNG = np.random.default_rng(2)
SMALL = RNG.standard_normal((3, 3)) / 2
STABLE = SMALL - 2 * np.eye(3)
SAMPLES: dict[str, Sample] = {}


def line(text, call, x, **options):
    SAMPLES[text] = Sample(call, x, **options)


def arguments(name, names, call, values, option="", **options):
    """A line for each argument, with the others fixed."""
    for place, argument in enumerate(names.split()):

        def run(x, place=place):
            return call(*values[:place], x, *values[place + 1 :])

        text = f"{name} | {argument}" + (f" | {option}" if option else "")
        line(text, run, values[place], **options)


SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
line("det | a", la.det, MATRIX)
line("det | a | batch", la.det, np.stack([MATRIX, POSITIVE]))
line("det | a | complex", la.det, COMPLEX)
line("det | a | singular", la.det, SINGULAR)
line("expm | a", la.expm, SMALL)
line("expm | a | batch", la.expm, np.stack([SMALL, SMALL.T]))
line("expm | a | large norm", la.expm, 8 * SMALL)
line("expm | a | complex", la.expm, SMALL + 0.3j)
arguments("expm_frechet", "A E", la.expm_frechet, [SMALL, STABLE])
arguments(
    "expm_frechet",
    "A E",
    partial(la.expm_frechet, compute_expm=False),
    [SMALL, STABLE],
    "compute_expm=False",
)
line("logm | A", la.logm, POSITIVE, value_rtol=1e-9, float32=0)  # SciPy warns
line("sqrtm | A", la.sqrtm, POSITIVE)
line("sqrtm | A | negative eigenvalues", lambda a: la.sqrtm(a + a.T), SMALL - np.diag([2, 0, 0]))
line("sqrtm | A | batch", la.sqrtm, np.stack([POSITIVE, POSITIVE.T * 2]), since=(1, 16))
for power in (0.5, -1, 2):
    line(
        f"fractional_matrix_power | A | t={power}",
        partial(la.fractional_matrix_power, t=power),
        REAL,
        float32=0 if power == 0.5 else 2e-3,
    )
for name in ["signm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"]:
    line(f"{name} | A", getattr(la, name), REAL if name == "signm" else SMALL)
line(
    "funm | A | exp",
    lambda a: la.funm(a, lambda w: pb.exp(w) if isinstance(w, pb.Tensor) else np.exp(w)),
    REAL,
)
for option in ("fro", "nuc", 1, -1, 2, -2, np.inf):
    kinked = option in (1, -1, np.inf)
    line(
        f"norm | a | ord={option}",
        partial(la.norm, ord=option),
        TALL,
        order=1 if kinked else 2,
        spread=0.001,
    )
line("norm | a", la.norm, TALL)
line("norm | a | vector", la.norm, RIGHT[:, 0])
line("norm | a | vector ord=1", partial(la.norm, ord=1), RIGHT[:, 0])
line("norm | a | vector ord=3", partial(la.norm, ord=3), RIGHT[:, 0])
line("norm | a | vector ord=inf", partial(la.norm, ord=np.inf), RIGHT[:, 0])
line("norm | a | axis", partial(la.norm, axis=0), TALL)
line("norm | a | axis keepdims=True", partial(la.norm, axis=1, keepdims=True), TALL)
line("norm | a | matrix axis", partial(la.norm, axis=(0, 2)), RNG.standard_normal((3, 2, 4)))

arguments("block_diag", "first second", lambda a, b: la.block_diag(a, [1.0], b), [SMALL, TALL])
line("toeplitz | c", la.toeplitz, RIGHT[:, 0])
arguments("toeplitz", "c r", la.toeplitz, [RIGHT[:, 0], TALL[0]], "row")
line("circulant | c", la.circulant, RIGHT[:, 0])
line("circulant | c | batch", la.circulant, SMALL, since=(1, 16))
line("hankel | c", la.hankel, RIGHT[:, 0])
arguments("hankel", "c r", la.hankel, [RIGHT[:, 0], TALL[0]], "row")
try:
    kron = la.kron
except AttributeError:  # removed from SciPy; NumPy has it
    kron = np.kron
arguments("kron", "a b", kron, [SMALL, TALL])
arguments("khatri_rao", "a b", la.khatri_rao, [SMALL, TALL])
line("companion | a", la.companion, np.array([2.0, -1.0, 0.5, 3.0]))
line("fiedler_companion | a", la.fiedler_companion, np.array([2.0, -1.0, 0.5, 3.0, 0.7]))
line("fiedler | a", la.fiedler, np.array([2.0, -1.0, 0.5, 3.0]))
line("convolution_matrix | a", partial(la.convolution_matrix, n=4, mode="same"), TALL[0])
arguments("leslie", "f s", la.leslie, [np.array([0.1, 2.0, 1.0]), np.array([0.3, 0.6])])

arguments("solve_sylvester", "a b q", la.solve_sylvester, [MATRIX, SMALL, RNG.random((4, 3))])
arguments(
    "solve_sylvester",
    "a b q",
    la.solve_sylvester,
    [COMPLEX, SMALL + 0.2j, RNG.random((4, 3)) + 0.1j],
    "complex",
)
for name in ("solve_continuous_lyapunov", "solve_lyapunov"):
    arguments(name, "a q", getattr(la, name), [STABLE, SMALL])
arguments("solve_discrete_lyapunov", "a q", la.solve_discrete_lyapunov, [SMALL / 2, TALL.T @ TALL])
for method in ("bilinear", "direct"):
    arguments(
        "solve_discrete_lyapunov",
        "a q",
        partial(la.solve_discrete_lyapunov, method=method),
        [SMALL / 2, TALL.T @ TALL],
        f"method={method}",
    )


def riccati(solve):
    """SciPy refuses weights that are not symmetric."""
    return lambda a, b, q, r: solve(a, b, (q + q.T) / 2, (r + r.T) / 2)


for name in ("solve_continuous_are", "solve_discrete_are"):
    arguments(
        name,
        "a b q r",
        riccati(getattr(la, name)),
        [SMALL, SMALL[:, :2] + np.eye(3, 2), np.eye(3) + 0.1, np.eye(2)],
        value_rtol=1e-9,
        rtol=1e-5,
        float32=0,
    )


def generalized(solve):
    return lambda a, b, q, r, e, s: solve(a, b, (q + q.T) / 2, (r + r.T) / 2, e, s)


for name in ("solve_continuous_are", "solve_discrete_are"):
    arguments(
        name,
        "a b q r e s",
        generalized(getattr(la, name)),
        [
            SMALL,
            SMALL[:, :2] + np.eye(3, 2),
            np.eye(3) + 0.1,
            np.eye(2),
            np.eye(3) + 0.2 * SMALL.T,
            0.1 * SMALL[:, 1:],
        ],
        "e s",
        value_rtol=1e-8,
        rtol=1e-5,
        float32=0,
    )
TARGET = TALL @ np.array([[0.0, -1.0, 0.1], [1.0, 0.2, 0.0], [0.0, 0.0, 1.0]])
arguments("orthogonal_procrustes", "A B", la.orthogonal_procrustes, [TALL, TARGET])
arguments("subspace_angles", "A B", la.subspace_angles, [TALL[:, :2], RNG.random((5, 2))])
