"""Operators on the values of a sparse matrix whose pattern is constant.

The matrix is given by the tensor of its values and by a `Pattern`. Each operator's derivatives are
made of the same three operators, so they exist to any order:

- `product`: the matrix, or its transpose, times a dense tensor;
- `sample_outer`: the entries of an outer product at the places of the pattern;
- `solve`: the inverse, or the inverse of the transpose, times a dense tensor. The solver keeps its
  factorisation, which the backward pass uses again.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pullback.func.bilinear import Bilinear
from pullback.func.primitive import Known, Primitive, conjugate
from pullback.sparse.scipy_sparse import Matrix, scipy_sparse
from pullback.tensor.tensor import Tensor

__all__ = ["Pattern", "Solver", "product", "sample_outer", "solve"]

_Array = NDArray[Any]


class Pattern:
    """The places of a matrix's entries, row by row (CSR); they may be unsorted or repeated."""

    def __init__(self, indptr: _Array, indices: _Array, shape: tuple[int, int]):
        self.indptr, self.indices, self.shape = indptr, indices, shape

    @cached_property
    def rows(self) -> _Array:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def matrix(self, values: _Array) -> Matrix:
        """SciPy's array with these values."""
        return scipy_sparse().csr_array((values, self.indices, self.indptr), shape=self.shape)


class Solver(Protocol):
    """Solves linear systems with the matrix of a pattern; keeps what it can use again."""

    def solve(self, matrix: Matrix, right: _Array, transposed: bool) -> _Array:
        """The solution of ``matrix @ x = right``, or of ``matrix.T @ x = right``."""

    def for_derivatives(self) -> Solver:
        """The solver of the systems that derivatives need, with the same matrix."""


def _product(values: _Array, dense: _Array, pattern: Pattern, transposed: bool) -> Any:
    matrix = pattern.matrix(values)
    return (matrix.T if transposed else matrix) @ dense


def _sample_outer(dense: _Array, y: _Array, pattern: Pattern, transposed: bool) -> Any:
    left, right = (dense, y) if transposed else (y, dense)
    found = left[pattern.rows] * right[pattern.indices]
    return found if found.ndim == 1 else found.sum(-1)


def _transposed_product(values: _Array, y: _Array, pattern: Pattern, transposed: bool) -> Any:
    return _product(values, y, pattern, not transposed)


_PRODUCT = Bilinear("sparse product", _product, _sample_outer, _transposed_product)


def _solve(
    values: _Array, right: _Array, pattern: Pattern, transposed: bool, solver: Solver
) -> Any:
    return solver.solve(pattern.matrix(values), right, transposed)


def _solve_vjp(known: Known, grad: Tensor) -> tuple[Any, ...]:
    (values, _), (solution,) = known.inputs, known.outputs
    pattern, transposed = known.options["pattern"], known.options["transposed"]
    solver = known.options["solver"].for_derivatives()
    pulled = conjugate(solve(values, conjugate(grad), pattern, solver, not transposed))
    by_values = None
    if known.needs[0]:
        factors = (pulled, conjugate(solution))
        by_values = -sample_outer(*(factors[::-1] if transposed else factors), pattern)
    return by_values, pulled


def _solve_jvp(known: Known, values_tangent: Any, right_tangent: Any) -> Any:
    (values, _), (solution,) = known.inputs, known.outputs
    pattern, transposed = known.options["pattern"], known.options["transposed"]
    change = right_tangent
    if values_tangent is not None:
        moved = product(values_tangent, solution, pattern, transposed)
        change = -moved if change is None else change - moved
    return solve(values, change, pattern, known.options["solver"].for_derivatives(), transposed)


_SOLVE = Primitive("sparse solve", _solve, _solve_jvp, _solve_vjp)


def product(values: Tensor, dense: Tensor, pattern: Pattern, transposed: bool = False) -> Tensor:
    """The matrix with these values, or its transpose, times a vector or the columns of a matrix."""
    found: Tensor = _PRODUCT(values, dense, pattern=pattern, transposed=transposed)
    return found


def sample_outer(left: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
    """The entries of ``left @ right.T`` at the places of the pattern."""
    found: Tensor = _PRODUCT.to_left(right, left, pattern=pattern, transposed=False)
    return found


def solve(
    values: Tensor, right: Tensor, pattern: Pattern, solver: Solver, transposed: bool = False
) -> Tensor:
    """The solution of the linear system with the matrix, or its transpose."""
    found: Tensor = _SOLVE(values, right, pattern=pattern, transposed=transposed, solver=solver)
    return found
