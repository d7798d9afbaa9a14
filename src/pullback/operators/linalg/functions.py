"""``pullback.linalg``: linear algebra, under the names of NumPy and the array API standard.

Matrices are the last two axes, and all that is before them is a stack. Functions with several
results return named tuples.

>>> import pullback as pb
>>> a = pb.tensor([[2.0, 0.0], [0.0, 3.0]], requires_grad=True)
>>> pb.linalg.det(a).backward()
>>> a.grad.tolist()
[[3.0, 0.0], [0.0, 2.0]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.linalg import LinAlgError

from pullback._generated.functions_linalg import linalg_cholesky as cholesky
from pullback._generated.functions_linalg import linalg_cond as cond
from pullback._generated.functions_linalg import linalg_cross as cross
from pullback._generated.functions_linalg import linalg_det as det
from pullback._generated.functions_linalg import linalg_diagonal as diagonal
from pullback._generated.functions_linalg import (
    linalg_eig,
    linalg_eigh,
    linalg_qr,
    linalg_slogdet,
    linalg_svd,
)
from pullback._generated.functions_linalg import linalg_eigvals as eigvals
from pullback._generated.functions_linalg import linalg_eigvalsh as eigvalsh
from pullback._generated.functions_linalg import linalg_expm as expm
from pullback._generated.functions_linalg import linalg_inv as inv
from pullback._generated.functions_linalg import linalg_lstsq as lstsq
from pullback._generated.functions_linalg import linalg_matrix_norm as matrix_norm
from pullback._generated.functions_linalg import linalg_matrix_power as matrix_power
from pullback._generated.functions_linalg import linalg_matrix_rank as matrix_rank
from pullback._generated.functions_linalg import linalg_multi_dot as multi_dot
from pullback._generated.functions_linalg import linalg_norm as norm
from pullback._generated.functions_linalg import linalg_outer as outer
from pullback._generated.functions_linalg import linalg_pinv as pinv
from pullback._generated.functions_linalg import linalg_solve as solve
from pullback._generated.functions_linalg import linalg_svdvals as svdvals
from pullback._generated.functions_linalg import linalg_tensorinv as tensorinv
from pullback._generated.functions_linalg import linalg_tensorsolve as tensorsolve
from pullback._generated.functions_linalg import linalg_trace as trace
from pullback._generated.functions_linalg import linalg_vector_norm as vector_norm
from pullback._generated.functions_products import matmul, tensordot, vecdot
from pullback._generated.functions_shape import matrix_transpose
from pullback.tensor.tensor import Tensor

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


class EigResult(NamedTuple):
    """Result of `eig`.

    >>> import pullback as pb
    >>> pb.linalg.eig(pb.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Result of `eigh`.

    >>> import pullback as pb
    >>> pb.linalg.eigh(pb.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2., 3.])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Result of `qr`.

    >>> import pullback as pb
    >>> pb.linalg.qr(pb.eye(2)).R.shape
    (2, 2)
    """

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """Result of `slogdet`.

    >>> import pullback as pb
    >>> pb.linalg.slogdet(2 * pb.eye(2)).sign
    tensor(1.)
    """

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """Result of `svd`.

    >>> import pullback as pb
    >>> pb.linalg.svd(pb.eye(2)).S
    tensor([1., 1.])
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


def eig(x: Any, /) -> EigResult:
    """The eigenvalues and right eigenvectors of square matrices, complex whatever the values.

    Gradients are right for functions that do not depend on the phase of the vectors.

    >>> eig([[1.0, 0.0], [0.0, 2.0]]).eigenvalues.tolist()
    [(1+0j), (2+0j)]
    """
    return EigResult(*linalg_eig(x))


def eigh(x: Any, /, UPLO: str = "L") -> EighResult:  # noqa: N803 - NumPy's name
    """The eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read.

    Gradients are right for functions that do not depend on the phase of the vectors.

    >>> eigh([[2.0, 1.0], [1.0, 2.0]]).eigenvalues.tolist()
    [1.0, 3.0]
    """
    return EighResult(*linalg_eigh(x, UPLO))


def qr(x: Any, /, mode: str = "reduced") -> QRResult | Tensor:
    """The orthogonal and the upper triangular factor; only the latter with ``mode="r"``.

    >>> qr([[3.0], [4.0]], mode="r").tolist()
    [[-5.0]]
    """
    if mode == "r":
        return linalg_qr(x, "reduced")[1]
    return QRResult(*linalg_qr(x, mode))


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its absolute value.

    >>> slogdet([[1.0, 0.0], [0.0, -1.0]]).sign.item()
    -1.0
    """
    return SlogdetResult(*linalg_slogdet(x))


def svd(
    x: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Tensor:
    """The singular value decomposition; only the values without `compute_uv`.

    Gradients are right for functions that do not depend on the phase of the vectors.

    >>> svd([[0.0, 2.0], [1.0, 0.0]]).S.tolist()
    [2.0, 1.0]
    """
    if not compute_uv and not hermitian:
        return svdvals(x)
    result = SVDResult(*linalg_svd(x, full_matrices, hermitian))
    return result if compute_uv else result.S
