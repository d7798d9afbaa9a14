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

from pullback.autograd.function.array_function import ArrayFunction, conjugate, cotangent_for
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


class _Product(ArrayFunction):
    @staticmethod
    def kernel(values: _Array, dense: _Array, pattern: Pattern, transposed: bool) -> Any:
        matrix = pattern.matrix(values)
        return (matrix.T if transposed else matrix) @ dense

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (values, dense), (pattern, transposed) = ctx.saved_tensors, ctx.constants
        by_values = by_dense = None
        if ctx.needs_input_grad[0]:
            factors = (conjugate(dense), grad) if transposed else (grad, conjugate(dense))
            by_values = cotangent_for(values, _SampledOuter.apply(*factors, pattern))
        if ctx.needs_input_grad[1]:
            pulled = _Product.apply(conjugate(values), grad, pattern, not transposed)
            by_dense = cotangent_for(dense, pulled)
        return by_values, by_dense, None, None

    @staticmethod
    def jvp(ctx: Any, values_tangent: Any, dense_tangent: Any, *_: Any) -> Any:
        (values, dense), constants = ctx.saved_tensors, ctx.constants
        terms = []
        if values_tangent is not None:
            terms.append(_Product.apply(values_tangent, dense, *constants))
        if dense_tangent is not None:
            terms.append(_Product.apply(values, dense_tangent, *constants))
        return sum(terms[1:], terms[0])


class _SampledOuter(ArrayFunction):
    @staticmethod
    def kernel(left: _Array, right: _Array, pattern: Pattern) -> Any:
        found = left[pattern.rows] * right[pattern.indices]
        return found if found.ndim == 1 else found.sum(-1)

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (left, right), (pattern,) = ctx.saved_tensors, ctx.constants
        by_left = by_right = None
        if ctx.needs_input_grad[0]:
            by_left = cotangent_for(left, _Product.apply(grad, conjugate(right), pattern, False))
        if ctx.needs_input_grad[1]:
            by_right = cotangent_for(right, _Product.apply(grad, conjugate(left), pattern, True))
        return by_left, by_right, None

    @staticmethod
    def jvp(ctx: Any, left_tangent: Any, right_tangent: Any, _: Any) -> Any:
        (left, right), (pattern,) = ctx.saved_tensors, ctx.constants
        terms = []
        if left_tangent is not None:
            terms.append(_SampledOuter.apply(left_tangent, right, pattern))
        if right_tangent is not None:
            terms.append(_SampledOuter.apply(left, right_tangent, pattern))
        return sum(terms[1:], terms[0])


class _Solve(ArrayFunction):
    @staticmethod
    def kernel(
        values: _Array, right: _Array, pattern: Pattern, transposed: bool, solver: Solver
    ) -> Any:
        return solver.solve(pattern.matrix(values), right, transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ArrayFunction.setup_context(ctx, inputs, output)
        ctx.save_for_backward(inputs[0], inputs[1], output)

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        values, right, solution = ctx.saved_tensors
        pattern, transposed, solver = ctx.constants
        solver = solver.for_derivatives()
        pulled = _Solve.apply(values, conjugate(grad), pattern, not transposed, solver)
        pulled = conjugate(pulled)
        by_values = None
        if ctx.needs_input_grad[0]:
            known = conjugate(solution)
            factors = (known, pulled) if transposed else (pulled, known)
            by_values = cotangent_for(values, -_SampledOuter.apply(*factors, pattern))
        return by_values, cotangent_for(right, pulled), None, None, None

    @staticmethod
    def jvp(ctx: Any, values_tangent: Any, right_tangent: Any, *_: Any) -> Any:
        (values, right), (pattern, transposed, solver) = ctx.saved_tensors, ctx.constants
        constants = (pattern, transposed, solver.for_derivatives())
        change = right_tangent
        if values_tangent is not None:
            solution = _Solve.apply(values, right, *constants)
            moved = _Product.apply(values_tangent, solution, pattern, transposed)
            change = -moved if change is None else change - moved
        return _Solve.apply(values, change, *constants)


def product(values: Tensor, dense: Tensor, pattern: Pattern, transposed: bool = False) -> Tensor:
    """The matrix with these values, or its transpose, times a vector or the columns of a matrix."""
    return _Product.apply(values, dense, pattern, transposed)  # type: ignore[no-any-return]


def sample_outer(left: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
    """The entries of ``left @ right.T`` at the places of the pattern."""
    return _SampledOuter.apply(left, right, pattern)  # type: ignore[no-any-return]


def solve(
    values: Tensor, right: Tensor, pattern: Pattern, solver: Solver, transposed: bool = False
) -> Tensor:
    """The solution of the linear system with the matrix, or its transpose."""
    return _Solve.apply(values, right, pattern, transposed, solver)  # type: ignore[no-any-return]
