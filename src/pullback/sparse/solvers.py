"""Solvers of sparse linear systems, as `products.solve` calls them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import AutogradError, DerivativeMissingError
from pullback.sparse.products import Solver
from pullback.sparse.scipy_sparse import Matrix, scipy_sparse

__all__ = ["DirectSolver", "IterativeSolver", "LeastSquaresSolver", "TriangularSolver"]

_Array = NDArray[Any]
_TOLERANCE = 1e-12  # of the systems that derivatives need, solved by iteration
_ACCEPTED_RESIDUAL = 1e-8  # beyond it a derivative raises
_FOR_HERMITIAN_MATRICES = ("cg", "minres")


class DirectSolver:
    """Solver by SuperLU. Keeps a factorisation for each matrix that it has met."""

    def __init__(self, **options: Any):
        self._options = options
        self._known: list[tuple[_Array, Any]] = []

    def solve(self, matrix: Matrix, right: _Array, transposed: bool) -> _Array:
        """The solution by SuperLU."""
        factors = self.factor(matrix)
        if right.size == 0:
            return np.zeros(right.shape, np.result_type(matrix.dtype, right.dtype))
        # The factors are those of the transpose, whose columns are the rows of the matrix.
        trans = "N" if transposed else "T"
        if right.dtype.kind == "c" and matrix.dtype.kind != "c":
            parts = [
                factors.solve(np.ascontiguousarray(p), trans) for p in (right.real, right.imag)
            ]
            return np.asarray(parts[0] + 1j * parts[1])
        return np.asarray(factors.solve(right.astype(matrix.dtype), trans))

    def factor(self, matrix: Matrix) -> Any:
        """The factorisation of the transpose of a matrix (CSR, sorted)."""
        for values, factors in self._known:
            if np.array_equal(values, matrix.data):
                return factors
        columns = scipy_sparse().csc_array(
            (matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape[::-1]
        )
        factors = import_module("scipy.sparse.linalg").splu(columns, **self._options)
        self._known.append((matrix.data.copy(), factors))
        return factors

    def for_derivatives(self) -> Solver:
        """The same solver, which has the factorisation."""
        return self


class TriangularSolver:
    """Solver by ``spsolve_triangular``."""

    def __init__(self, function: Callable[..., Any], lower: bool):
        self._function, self._lower = function, lower

    def solve(self, matrix: Matrix, right: _Array, transposed: bool) -> _Array:
        """The solution by substitution."""
        given = matrix.T.tocsr() if transposed else matrix.copy()
        # SciPy 1.14 takes no other integers.
        given.indices, given.indptr = (i.astype(np.intc) for i in (given.indices, given.indptr))
        return np.asarray(self._function(given, right, lower=self._lower != transposed))

    def for_derivatives(self) -> Solver:
        """The same solver."""
        return self


class IterativeSolver:
    """Solver by one of SciPy's iterations; derivatives solve to 1e-12 by the same iteration.

    `info` is what SciPy has returned beside the last solution.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], derivative: bool):
        self._function, self._options, self._derivative = function, options, derivative
        self.info: Any = 0

    def solve(self, matrix: Any, right: _Array, transposed: bool) -> _Array:
        """The solution by iteration."""
        options = dict(self._options)
        if transposed and self._is_hermitian_operator(matrix):  # its transpose is its conjugate
            return np.conj(self.solve(matrix, np.conj(right), False))
        if transposed:
            matrix = matrix.T
            for name in {"M", "M1", "M2"} & options.keys():
                options[name] = None if options[name] is None else options[name].T
        if right.ndim == 2:
            columns = [self._run(matrix, column, options) for column in right.T]
            return np.stack(columns, -1)
        return self._run(matrix, right, options)

    def _is_hermitian_operator(self, matrix: Any) -> bool:
        """Whether the iteration is one for Hermitian matrices, given by its products alone."""
        is_sparse = scipy_sparse().issparse(matrix)
        return not is_sparse and self._function.__name__ in _FOR_HERMITIAN_MATRICES

    def _run(self, matrix: Any, right: _Array, options: dict[str, Any]) -> _Array:
        try:
            found, self.info = self._function(matrix, right, **options)
        except NotImplementedError as error:
            if not self._derivative:
                raise
            raise DerivativeMissingError(
                f"scipy.sparse.linalg.{self._function.__name__}: its derivative needs the products "
                f"of the adjoint, which the LinearOperator does not have. Give it rmatvec=."
            ) from error
        if not self._derivative or self.info == 0:
            return np.asarray(found)
        shift = options.get("shift", 0.0)
        residual = np.linalg.norm(matrix @ found - shift * found - right)
        if not residual <= _ACCEPTED_RESIDUAL * np.linalg.norm(right):
            raise AutogradError(
                f"scipy.sparse.linalg.{self._function.__name__}: the linear system of its "
                f"derivative did not converge (info={self.info}, residual {residual:.1e}). Give a "
                f"preconditioner M, or use spsolve."
            )
        return np.asarray(found)

    def for_derivatives(self) -> Solver:
        """The same iteration with a small tolerance, started at zero."""
        dropped = ("x0", "rtol", "atol", "maxiter", "callback", "callback_type", "show", "check")
        options = {key: value for key, value in self._options.items() if key not in dropped}
        return IterativeSolver(self._function, options | {"rtol": _TOLERANCE}, derivative=True)


class LeastSquaresSolver:
    """Solver of an augmented system by ``lsqr`` or ``lsmr``; derivatives solve it directly.

    The matrix is ``[[I, A], [A.T, -damp**2 I]]``, the right side ``[b, 0]`` and the solution
    ``[b - A x, x]``. If A has fewer rows than columns, x has the least norm: the matrix is
    ``[[I, A.T], [A, -damp**2 I]]``, the right side ``[0, b]``, and the solution ``[x, ...]``.
    """

    def __init__(self, run: Callable[[Matrix, _Array], Any], shape: tuple[int, int]):
        self._run, self._shape = run, shape
        self.info: tuple[Any, ...] = ()

    def solve(self, matrix: Matrix, right: _Array, transposed: bool) -> _Array:  # noqa: ARG002 - symmetric
        """The solution by iteration."""
        rows, columns = self._shape
        if rows >= columns:
            a, b = matrix[:rows, rows:], right[:rows]
            x, *self.info = self._run(a, b)
            return np.concatenate([b - a @ x, x])
        a, b = matrix[columns:, :columns], right[columns:]
        x, *self.info = self._run(a, b)
        # x = -A.T z: the multipliers z complete the solution.
        z = np.linalg.lstsq(a.toarray().T, -x, rcond=None)[0]
        return np.concatenate([x, z])

    def for_derivatives(self) -> Solver:
        """SuperLU on the augmented matrix."""
        return DirectSolver()
