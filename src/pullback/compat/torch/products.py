"""Products and linear algebra under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback._generated import functions_nn_distance as distances
from pullback._generated import functions_products as operators
from pullback.compat.torch import linalg
from pullback.compat.torch.spelling import spell

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "baddbmm",
    "bmm",
    "cdist",
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cosine_similarity",
    "cross",
    "det",
    "dot",
    "einsum",
    "ger",
    "inner",
    "inverse",
    "kron",
    "logdet",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "mm",
    "mv",
    "outer",
    "pairwise_distance",
    "pdist",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "tensordot",
    "trace",
    "vdot",
]

matmul = spell(operators.matmul)
inner, kron = spell(operators.inner), spell(operators.kron)
det, slogdet, inverse = linalg.det, linalg.slogdet, linalg.inv
matrix_power, matrix_exp = linalg.matrix_power, linalg.matrix_exp
cosine_similarity = spell(distances.cosine_similarity, first=("x1", "x2"))
pairwise_distance = spell(distances.pairwise_distance, first=("x1", "x2"))
pdist = spell(distances.pdist)


def _product(name: str, axes: tuple[int, int], second: str) -> Any:
    """A product of tensors that have exactly as many axes as said."""

    def call(input: Any, other: Any) -> Any:
        for place, (tensor, wanted) in enumerate(zip((input, other), axes, strict=True)):
            if tensor.ndim != wanted:
                raise RuntimeError(
                    f"{name}: argument {place} must have {wanted} axes, but its shape is "
                    f"{tuple(tensor.shape)}; matmul takes others"
                )
        return operators.matmul(input, other)

    call.__name__ = name
    return spell(call, first=("input", second))


mm = _product("mm", (2, 2), "mat2")
bmm = _product("bmm", (3, 3), "mat2")
mv = _product("mv", (2, 1), "vec")
dot = _product("dot", (1, 1), "tensor")


def outer(input: Any, vec2: Any) -> Any:
    """The products of all pairs of elements of two vectors."""
    return operators.outer(input, vec2)


ger = outer


def _sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """``beta * input + alpha * product``; with ``beta=0`` the input is not read."""
    scaled = product if alpha == 1 else product * alpha
    if not beta:
        return scaled
    return (input if beta == 1 else input * beta) + scaled


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)``."""
    return _sum(input, mm(mat1, mat2), beta, alpha)


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat @ vec)``."""
    return _sum(input, mv(mat, vec), beta, alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return _sum(input, outer(vec1, vec2), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (batch1 @ batch2)``."""
    return _sum(input, bmm(batch1, batch2), beta, alpha)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (batch1 @ batch2).sum(0)``."""
    return _sum(input, pb.sum(bmm(batch1, batch2), 0), beta, alpha)


def vdot(input: Any, other: Any) -> Any:
    """The product of two vectors, the first one conjugated."""
    return operators.vdot(input, other)


def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """The product over several axes: the last and first `dims` ones, or those that are listed."""
    axes = (
        dims
        if isinstance(dims, int)
        else tuple([x] if isinstance(x, int) else list(x) for x in dims)
    )
    return operators.tensordot(a, b, axes)


def einsum(equation: str, *operands: Any) -> Any:
    """The products and sums that an equation says: ``einsum("ij,jk->ik", x, y)``."""
    given = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    )
    return pb.einsum(equation, *given)


def cross(input: Any, other: Any, dim: Any = None) -> Any:
    """The cross product along an axis of length 3, the first one if none is named."""
    if dim is None:
        dim = next(place for place, length in enumerate(input.shape) if length == 3)
    return linalg.cross(input, other, dim=dim)


def chain_matmul(*matrices: Any) -> Any:
    """The product of several matrices."""
    return linalg.multi_dot(list(matrices))


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """The distances of all pairs of rows; there is one way to compute them."""
    del compute_mode
    return distances.cdist(x1, x2, p)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse."""
    return linalg.pinv(input, rtol=rcond)


def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    return operators.trace(input)


def adjoint(input: Any) -> Any:
    """The conjugated transpose of the last two axes."""
    return pb.conj(pb.matrix_transpose(input))


def logdet(input: Any) -> Any:
    """The logarithm of the determinant."""
    sign, value = linalg.slogdet(input)
    return pb.where(sign < 0, float("nan"), value)


def cholesky(input: Any, upper: bool = False) -> Any:
    """The triangular factor of a positive definite matrix."""
    return linalg.cholesky(input, upper=upper)


def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """The solution of a system whose matrix has the triangular factor `L`."""
    other = pb.conj(pb.matrix_transpose(L))
    return linalg.solve(other @ L if upper else L @ other, input)


def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of the matrix that has the triangular factor `L`."""
    other = pb.conj(pb.matrix_transpose(L))
    return linalg.inv(other @ L if upper else L @ other)


def qr(input: Any, some: bool = True) -> Any:
    """An orthogonal and an upper triangular factor."""
    return linalg.qr(input, "reduced" if some else "complete")


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Singular values and vectors; the last part is V, not its transpose."""
    if not compute_uv:
        values = linalg.svdvals(input)
        rows, columns = input.shape[-2:]
        return (
            pb.zeros((rows, rows), input.dtype),
            values,
            pb.zeros((columns, columns), input.dtype),
        )
    left, values, right = linalg.svd(input, full_matrices=not some)
    return (
        left,
        values,
        np.conj(pb.matrix_transpose(right))
        if input.dtype.kind == "c"
        else pb.matrix_transpose(right),
    )
