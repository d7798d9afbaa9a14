"""Records of matrix decompositions.

Factors that are not unique are tested through functions that do not depend on the choice, such as
projections onto eigenvectors; Hermitian input is made of what is given. These functions serve
arrays and the tensors of either library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.samples.linalg import rectangles, square, squares
from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

Function = Callable[..., Any]


def _with(samples: Function, **kwargs: Any) -> Function:
    """The same samples with keyword arguments."""

    def more(make: Make) -> Iterator[Sample]:
        for sample in samples(make):
            yield Sample(sample.args, {**sample.kwargs, **kwargs})

    return more


def _both(first: Function, second: Function) -> Function:
    """Two lists of samples in one."""

    def more(make: Make) -> Iterator[Sample]:
        yield from first(make)
        yield from second(make)

    return more


def _wide(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3), "complete")
    yield call(make(2, 4), mode="complete")


def _tall(make: Make) -> Iterator[Sample]:
    yield call(make(4, 2), "complete")
    yield call(make(2, 3, 1), mode="complete")


def _few(make: Make) -> Iterator[Sample]:
    yield call(square(make, 3))
    yield call(square(make, 2, 2))


def _uneven(make: Make) -> Iterator[Sample]:
    yield call(make(4, 2))
    yield call(make(2, 2, 3), True)
    yield call(make(3, 3), full_matrices=True)


def _apart(make: Make) -> Iterator[Sample]:
    """Matrices whose eigenvalues are real for real matrices, then such with a complex pair."""
    yield call(square(make, 3) + np.diag([0, 4, 8]).astype(make.dtype))
    yield call(square(make, 2, 2) + np.diag([0, 4]).astype(make.dtype))
    turn = np.array([[1, -5, 0], [5, 1, 0], [0, 0, 9]]).astype(make.dtype)
    yield call(make(3, 3) / 2 + turn)


def _mh(x: Any) -> Any:
    return x.mT.conj()


def _hermitian(function: Function, positive: bool = False) -> Function:
    """A function of a Hermitian matrix that is made of any, and positive definite if need be."""

    def of_any(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not positive:
            return function(x + _mh(x), *args, **kwargs)
        one: Any = np.eye(x.shape[-1], dtype=bool)
        if not isinstance(x, np.ndarray) and hasattr(x, "new_tensor"):
            one = x.new_tensor(one)
        return function(x @ _mh(x) + one, *args, **kwargs)

    return of_any


def _projections(vectors: Any) -> Any:
    """The sum of projections onto columns, each with another weight."""
    columns = [vectors[..., i : i + 1] for i in range(vectors.shape[-1])]
    parts = [weight * column @ _mh(column) for weight, column in enumerate(columns, 1)]
    return sum(parts, 0 * vectors @ _mh(vectors))


def _spectrum(function: Function) -> Function:
    """Eigenvalues, and projections onto eigenvectors."""

    def invariant(*args: Any, **kwargs: Any) -> Any:
        values, vectors = function(*args, **kwargs)
        return values, _projections(vectors)

    return invariant


def _singular(function: Function) -> Function:
    """Singular values, products of vectors that belong together, and projections."""

    def invariant(*args: Any, **kwargs: Any) -> Any:
        u, s, vh = function(*args, **kwargs)
        k = s.shape[-1]
        parts = [i * u[..., i : i + 1] @ vh[..., i : i + 1, :] for i in range(1, k)]
        both = sum(parts, u[..., :1] @ vh[..., :1, :])
        return s, both, _projections(u[..., :k]), _projections(_mh(vh[..., :k, :]))

    return invariant


def _rest(function: Function) -> Function:
    """Projections onto the singular vectors that have no singular value."""

    def invariant(*args: Any, **kwargs: Any) -> Any:
        u, s, vh = function(*args, **kwargs)
        k = s.shape[-1]
        extra, extra_h = u[..., k:], vh[..., k:, :]
        return extra @ _mh(extra), _mh(extra_h) @ extra_h, u[..., :k] @ vh[..., :k, :]

    return invariant


def _complete(function: Function) -> Function:
    """What is unique in a complete QR of a tall matrix, and the projection onto the rest."""

    def invariant(*args: Any, **kwargs: Any) -> Any:
        q, r = function(*args, **kwargs)
        n = r.shape[-1]
        return q[..., :n], r, q[..., n:] @ _mh(q[..., n:])

    return invariant


def _complex_eig(x: Any) -> Any:
    """Eigenvalues and eigenvectors, complex whatever the values."""
    values, vectors = np.linalg.eig(x)
    kind = np.result_type(values, np.complex64)
    return values.astype(kind), vectors.astype(kind)


OPS = [
    OpInfo(
        "linalg.cholesky",
        _both(squares, _with(_few, upper=True)),
        _hermitian(np.linalg.cholesky, positive=True),
        lambda t, x, **options: _hermitian(t.linalg.cholesky, positive=True)(x, **options),
        through=lambda f: _hermitian(f, positive=True),
    ),
    OpInfo(
        "linalg.qr",
        _both(rectangles, _wide),
        np.linalg.qr,
        lambda t, x, mode="reduced": t.linalg.qr(x, mode),
    ),
    OpInfo("linalg.qr", _with(rectangles, mode="r"), np.linalg.qr),
    OpInfo("linalg.qr", _tall, _complete(np.linalg.qr), through=_complete),
    OpInfo(
        "linalg.svd",
        _both(_with(rectangles, full_matrices=False), _uneven),
        _singular(np.linalg.svd),
        lambda t, x, full_matrices=True: _singular(t.linalg.svd)(x, full_matrices=full_matrices),
        through=_singular,
    ),
    OpInfo("linalg.svd", _uneven, _rest(np.linalg.svd), through=_rest),
    OpInfo(
        "linalg.svd",
        _with(_few, hermitian=True),
        _hermitian(_singular(np.linalg.svd)),
        through=lambda f: _hermitian(_singular(f)),
    ),
    OpInfo("linalg.svd", _with(rectangles, compute_uv=False), lambda x, **_: np.linalg.svdvals(x)),
    OpInfo("linalg.svdvals", rectangles, np.linalg.svdvals, lambda t, x: t.linalg.svdvals(x)),
    OpInfo(
        "linalg.eigh",
        _both(squares, _with(_few, UPLO="U")),
        _hermitian(_spectrum(np.linalg.eigh)),
        lambda t, x, **options: _hermitian(_spectrum(t.linalg.eigh))(x, **options),
        through=lambda f: _hermitian(_spectrum(f)),
    ),
    OpInfo(
        "linalg.eigvalsh",
        _both(squares, _with(_few, UPLO="U")),
        _hermitian(np.linalg.eigvalsh),
        lambda t, x, **options: _hermitian(t.linalg.eigvalsh)(x, **options),
        through=_hermitian,
    ),
    OpInfo(
        "linalg.eig",
        _apart,
        _spectrum(_complex_eig),
        lambda t, x: _spectrum(t.linalg.eig)(x),
        through=_spectrum,
    ),
    OpInfo(
        "linalg.eigvals", _apart, lambda x: _complex_eig(x)[0], lambda t, x: t.linalg.eigvals(x)
    ),
    OpInfo(
        "linalg.pinv",
        _with(_few, hermitian=True),
        _hermitian(np.linalg.pinv),
        through=_hermitian,
    ),
]
