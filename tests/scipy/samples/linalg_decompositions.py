"""Samples of scipy.linalg: decompositions."""

from __future__ import annotations

from functools import partial

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample
from tests.scipy.samples.linalg_solvers import BANDS, COMPLEX, HERMITIAN, MATRIX, POSITIVE

__all__ = ["SAMPLES"]

la = sp.linalg
RNG = np.random.default_rng(1)
TALL = RNG.standard_normal((5, 3))
STACK = np.stack([POSITIVE, POSITIVE * 2 + np.eye(4)])
SAMPLES: dict[str, Sample] = {}


def line(text, call, x, **options):
    SAMPLES[text] = Sample(call, x, **options)


line("cho_factor | a", la.cho_factor, POSITIVE)
line("cho_factor | a | lower=True", partial(la.cho_factor, lower=True), POSITIVE)
line("cholesky | a", la.cholesky, POSITIVE)
line("cholesky | a | lower=True", partial(la.cholesky, lower=True), POSITIVE)
line("cholesky | a | batch", la.cholesky, STACK, since=(1, 16))
line("cholesky | a | complex", la.cholesky, HERMITIAN)
line("cholesky_banded | ab", la.cholesky_banded, BANDS[:3])
line("cholesky_banded | ab | lower=True", partial(la.cholesky_banded, lower=True), BANDS[2:])
line("lu | a", la.lu, MATRIX[::-1])
line("lu | a | permute_l=True", partial(la.lu, permute_l=True), MATRIX[::-1])
line("lu | a | p_indices=True", partial(la.lu, p_indices=True), MATRIX[::-1])
line("lu | a | tall", la.lu, TALL)
line("lu | a | wide", la.lu, TALL.T)
line("lu | a | batch", la.lu, STACK[:, ::-1])
line("lu_factor | a", la.lu_factor, MATRIX[::-1])
line("qr | a", la.qr, MATRIX)
line("qr | a | mode=economic", partial(la.qr, mode="economic"), MATRIX)
line("qr | a | tall mode=economic", partial(la.qr, mode="economic"), TALL)
line("qr | a | mode=r", partial(la.qr, mode="r"), MATRIX)
line("qr | a | pivoting=True", partial(la.qr, pivoting=True), MATRIX)
line("qr | a | complex", la.qr, COMPLEX)
line("rq | a", la.rq, MATRIX)
line("rq | a | mode=economic", partial(la.rq, mode="economic"), TALL.T)
line("ldl | A", la.ldl, POSITIVE)
line("ldl | A | lower=False", partial(la.ldl, lower=False), POSITIVE)
line("inv | a", la.inv, MATRIX)
line("inv | a | batch", la.inv, STACK, since=(1, 16))
line("inv | a | complex", la.inv, COMPLEX)
line("pinv | a", la.pinv, MATRIX)
line("pinv | a | tall", la.pinv, TALL)
line("pinv | a | rtol", partial(la.pinv, rtol=1e-3), TALL)
line("pinv | a | return_rank=True", partial(la.pinv, return_rank=True), TALL)
line("pinvh | a", la.pinvh, POSITIVE)
line("pinvh | a | lower=False", partial(la.pinvh, lower=False), POSITIVE)


def squares(x):
    return x.real**2 + x.imag**2


def as_list(found):
    return found if isinstance(found, tuple | list) else [found]


def phases(call):
    """What does not depend on the signs and phases of vectors: squares of their elements."""

    def run(a):
        return [squares(part) for part in as_list(call(a))]

    return run


def projectors(call):
    """Values, and the products v_i v_j of each column v: eigenvectors without their signs, which
    LAPACK chooses by rounding, so that they change with the processor.
    """

    def run(a):
        values, vectors = call(a)
        return [values, vectors[:, None, :] * vectors[None, :, :]]

    return run


thin = partial(la.svd, full_matrices=False)
line("svd | a", la.svd, MATRIX)
line("svd | a | full_matrices=False", thin, MATRIX)
line("svd | a | compute_uv=False", partial(la.svd, compute_uv=False), MATRIX)
line("svd | a | tall full_matrices=False", phases(thin), TALL)
line("svd | a | wide full_matrices=False", thin, TALL.T)
line("svd | a | lapack_driver=gesvd", partial(la.svd, lapack_driver="gesvd"), MATRIX)


line("svd | a | complex", phases(la.svd), COMPLEX)
line("svdvals | a", la.svdvals, MATRIX)
line("svdvals | a | tall", la.svdvals, TALL)
line("diagsvd | s", lambda s: la.diagsvd(s, 5, 3), np.array([3.0, 2.0, 1.0]))

LESS = np.diag([1.0, 2.0, 4.0, 7.0]) + 0.2 * (MATRIX + MATRIX.T) / 2
line("eigh | a", projectors(la.eigh), LESS)
line("eigh | a | lower=False", phases(partial(la.eigh, lower=False)), LESS)
line("eigh | a | eigvals_only=True", partial(la.eigh, eigvals_only=True), LESS)
line("eigh | a | subset_by_index", projectors(partial(la.eigh, subset_by_index=[1, 2])), LESS)
upper = partial(la.eigh, subset_by_value=[1.9, np.inf])
line("eigh | a | subset_by_value", projectors(upper), LESS, vmap=False)
line("eigh | a | driver=ev", projectors(partial(la.eigh, driver="ev")), LESS)
line("eigh | a | complex", phases(la.eigh), HERMITIAN)
line("eigh | a | batch", phases(la.eigh), np.stack([LESS, LESS[::-1, ::-1]]), since=(1, 16))
for option, chosen in {
    "b": {},
    "b eigvals_only=True": {"eigvals_only": True},
    "b subset_by_index": {"subset_by_index": [0, 1]},
    "b type=2": {"type": 2},
    "b type=3": {"type": 3},
}.items():
    line(
        f"eigh | a | {option}",
        phases(lambda a, chosen=chosen: la.eigh(a, POSITIVE, **chosen)),
        LESS,
        step=2e-5,
    )
    line(
        f"eigh | b | {option}",
        phases(lambda b, chosen=chosen: la.eigh(LESS, b, **chosen)),
        POSITIVE,
        step=2e-5,
    )
line("eigvalsh | a", la.eigvalsh, LESS)
line("eigvalsh | a | lower=False", partial(la.eigvalsh, lower=False), LESS)
line("eigvalsh | a | subset_by_index", partial(la.eigvalsh, subset_by_index=[2, 3]), LESS)
line("eigvalsh | a | batch", la.eigvalsh, np.stack([LESS, 2 * LESS]), since=(1, 16))
line("eigvalsh | a | b", lambda a: la.eigvalsh(a, POSITIVE), LESS)
line("eigvalsh | b | b", lambda b: la.eigvalsh(LESS, b), POSITIVE)

D, E = np.array([1.0, 3.0, 6.0, 10.0]), np.array([0.5, -0.7, 0.3])
for option, chosen in {
    "": {},
    "eigvals_only=True": {"eigvals_only": True},
    "select=i": {"select": "i", "select_range": (1, 2)},
}.items():
    end = f" | {option}" if option else ""

    def sizes(d, e, chosen=chosen):
        """Squares of vectors' elements: SciPy's signs are those of another LAPACK routine."""
        found = la.eigh_tridiagonal(d, e, **chosen)
        return found if chosen.get("eigvals_only") else [found[0], squares(found[1])]

    line(f"eigh_tridiagonal | d{end}", lambda d, sizes=sizes: sizes(d, E), D)
    line(f"eigh_tridiagonal | e{end}", lambda e, sizes=sizes: sizes(D, e), E)
line("eigvalsh_tridiagonal | d", lambda d: la.eigvalsh_tridiagonal(d, E), D)
line("eigvalsh_tridiagonal | e", lambda e: la.eigvalsh_tridiagonal(D, e), E)
BAND = np.array([[0.1, 0.5, -0.7, 0.3], D])
line("eig_banded | a_band", phases(la.eig_banded), BAND)
line("eig_banded | a_band | lower=True", phases(partial(la.eig_banded, lower=True)), BAND[::-1])
line("eigvals_banded | a_band", la.eigvals_banded, BAND)
line("eigvals_banded | a_band | lower=True", partial(la.eigvals_banded, lower=True), BAND[::-1])

REAL = np.diag([1.0, 2.0, 4.0, 7.0]) + 0.2 * MATRIX
PAIRS = np.array([[1.0, 2.0, 0.3], [-2.0, 1.2, 0.1], [0.2, -0.4, 4.0]])
line("eig | a", phases(la.eig), REAL)
line("eig | a | left=True", phases(partial(la.eig, left=True)), REAL)
line("eig | a | right=False", partial(la.eig, right=False), REAL)
line("eig | a | homogeneous_eigvals=True", phases(partial(la.eig, homogeneous_eigvals=True)), REAL)
line("eig | a | complex pairs", lambda a: [la.eig(a)[0], squares(la.eig(a)[1])], PAIRS)


def generalized(a, b):
    values, vectors = la.eig(a, b)
    return [values, squares(vectors)]


line("eig | a | b", lambda a: generalized(a, MATRIX), REAL)
line("eig | b | b", lambda b: generalized(REAL, b), MATRIX)
line("eigvals | a", la.eigvals, REAL)
line("eigvals | a | complex pairs", la.eigvals, PAIRS)
line("eigvals | a | b", lambda a: la.eigvals(a, MATRIX), REAL)
line("eigvals | b | b", lambda b: la.eigvals(REAL, b), MATRIX)
line("schur | a", phases(la.schur), REAL)
line("schur | a | output=complex", phases(partial(la.schur, output="complex")), PAIRS)
line("hessenberg | a", la.hessenberg, MATRIX)
line("hessenberg | a | calc_q=True", partial(la.hessenberg, calc_q=True), MATRIX)
line("polar | a", la.polar, TALL)
line("polar | a | side=left", partial(la.polar, side="left"), TALL.T)
