"""Rules of scipy.sparse.linalg: solvers by right side and by the values of the matrix.

The derivatives are those of the exact solution, even if an iteration stopped earlier.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as theirs
from numpy.typing import NDArray
from scipy.sparse import linalg

from pullback._generated.functions_shape import concatenate, stack
from pullback.func.primitive import Known, Primitive, all_values, apply_linear
from pullback.interop.arguments import as_tensor, plain, refusal
from pullback.operators.creation import functions as creation
from pullback.scipy.captures import captures_gradient
from pullback.scipy.factorization import Factorization
from pullback.scipy.registry import option_without_rule, refused, rule
from pullback.sparse import arrays
from pullback.sparse.arrays import SparseTensor, pattern_and_values
from pullback.sparse.products import Pattern, product, sample_outer, solve
from pullback.sparse.solvers import (
    DirectSolver,
    IterativeSolver,
    LeastSquaresSolver,
    TriangularSolver,
)
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_NAME = "scipy.sparse.linalg"


def _canonical(matrix: Any) -> Any:
    """A matrix in the format CSR or CSC with sorted entries, as SciPy's direct solvers need it."""
    if not arrays.is_sparse(matrix):
        matrix = _full(matrix)
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsc()
    if isinstance(matrix, SparseTensor) or not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix if matrix.dtype.kind in "fc" else matrix.astype(np.float64)


def _full(matrix: Any) -> Any:
    """A dense array or tensor as a sparse array with all places."""
    dense = as_tensor(matrix)
    rows, columns = np.indices(dense.shape)
    places = (rows.ravel(), columns.ravel())
    return arrays.coo_array((dense.reshape(-1), places), shape=dense.shape).tocsr()


def _require_square(matrix: Any, right: Any) -> None:
    rows, columns = matrix.shape
    if rows != columns:
        raise ValueError(f"matrix must be square (has shape {(rows, columns)})")
    if rows != right.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({matrix.shape} - {right.shape[0]})")


def _common(values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Both in their common dtype, with floating-point numbers."""
    dtype = np.result_type(values.dtype, right.dtype)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    return tuple(t if t.dtype == dtype else t.astype(dtype) for t in (values, right))  # type: ignore[return-value]


# --- direct solvers -----------------------------------------------------------------------------


class _ForgivingSolver(DirectSolver):
    """SuperLU; a singular matrix gives NaN and SciPy's warning, as in ``spsolve``."""

    def solve(self, matrix: Any, right: NDArray[Any], transposed: bool) -> NDArray[Any]:
        try:
            return super().solve(matrix, right, transposed)
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            warnings.warn("Matrix is exactly singular", linalg.MatrixRankWarning, stacklevel=2)
            return np.full(right.shape, np.nan, np.result_type(matrix.dtype, right.dtype))


@rule(f"{_NAME}.spsolve", tensors="A b")
def _spsolve(A: Any, b: Any, permc_spec: Any = None) -> Any:
    if arrays.is_sparse(b):
        raise refusal(f"{_NAME}.spsolve", "b is a sparse array", "Pass b.toarray().")
    if not (arrays.is_sparse(A) and A.format in ("csr", "csc")):
        warnings.warn(
            "spsolve requires A be CSC or CSR matrix format",
            theirs.SparseEfficiencyWarning,
            stacklevel=2,
        )
    matrix, right = _canonical(A), as_tensor(b)
    _require_square(matrix, right)
    if right.ndim == 2 and right.shape[1] == 1:
        right = right.reshape(-1)
    pattern, values, transposed = pattern_and_values(matrix)
    values, right = _common(values, right)
    return solve(values, right, pattern, _ForgivingSolver(permc_spec=permc_spec), transposed)


@rule(f"{_NAME}.splu", tensors="A")
def _splu(A: Any, **options: Any) -> Any:
    if not (arrays.is_sparse(A) and A.format == "csc"):
        warnings.warn(
            "splu converted its input to CSC format", theirs.SparseEfficiencyWarning, stacklevel=2
        )
    matrix = _canonical(A).tocsc()
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError("can only factor square matrices")
    return Factorization(None).with_values(*pattern_and_values(matrix), DirectSolver(**options))


refused(f"{_NAME}.spilu", "an incomplete factorisation has no derivative by the matrix")


@rule(f"{_NAME}.factorized", tensors="A")
def _factorized(A: Any) -> Any:
    return linalg.splu(A).solve


@rule(f"{_NAME}.spsolve_triangular", tensors="A b")
def _spsolve_triangular(A: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    matrix, right = _canonical(A), as_tensor(b)
    values, rows, columns = arrays.entries_of(matrix)
    rows, columns = rows.astype(np.intc), columns.astype(np.intc)
    places = theirs.csr_array((np.ones(len(rows)), (rows, columns)), shape=matrix.shape)
    linalg.spsolve_triangular(
        places, np.ones(right.shape[:1]), lower=lower, unit_diagonal=unit_diagonal
    )  # raises for shapes and patterns that SciPy refuses
    kept = rows > columns if lower else rows < columns
    if not unit_diagonal:
        kept |= rows == columns
    values, rows, columns = values[np.flatnonzero(kept)], rows[kept], columns[kept]
    if unit_diagonal:
        diagonal = np.arange(matrix.shape[0])
        values = concatenate([values, creation.ones(len(diagonal), dtype=values.dtype)])
        rows, columns = np.append(rows, diagonal), np.append(columns, diagonal)
    like = theirs.csr_array(matrix.shape)
    pattern, values, _ = pattern_and_values(arrays.from_entries(values, rows, columns, like))
    values, right = _common(values, right)
    return solve(values, right, pattern, TriangularSolver(linalg.spsolve_triangular, lower))


# --- iterations ---------------------------------------------------------------------------------


class _OperatorPattern(Pattern):
    """Stands for a matrix that is given by its products: it has no values."""

    def __init__(self, operator: Any):
        self.operator = operator

    def matrix(self, values: NDArray[Any]) -> Any:  # noqa: ARG002 - there are none
        return self.operator


def _iterate(function: Callable[..., Any], A: Any, b: Any, options: dict[str, Any]) -> Any:
    """The solution of ``A x = b`` by an iteration of SciPy, and its ``info``."""
    options = {key: plain(value) for key, value in options.items()}
    right = as_tensor(b)
    right = right.reshape(-1) if right.ndim == 2 and right.shape[1] == 1 else right
    solver = IterativeSolver(function, options, derivative=False)
    if isinstance(A, linalg.LinearOperator):
        _require_constant(A, function.__name__)
        dtype = np.result_type(A.dtype, right.dtype)
        right = right.astype(dtype) if right.dtype != dtype else right
        none = creation.zeros(0, dtype=right.dtype)
        return solve(none, right, _OperatorPattern(A), solver), solver.info
    matrix = _canonical(A)
    pattern, values, transposed = pattern_and_values(matrix)
    values, right = _common(values, right)
    if transposed:  # the iteration itself must not count as a transposed system
        pattern, values, _ = pattern_and_values(matrix.tocsr())
        values = values.astype(right.dtype) if values.dtype != right.dtype else values
    found = solve(values, right, pattern, solver)
    return found, solver.info


def _declare_iteration(name: str) -> None:
    function = getattr(linalg, name)

    def apply(A: Any, b: Any, **options: Any) -> Any:
        return _iterate(function, A, b, options)

    rule(f"{_NAME}.{name}", tensors="A b x0")(apply)


for _iteration in (
    "bicg",
    "bicgstab",
    "cg",
    "cgs",
    "gcrotmk",
    "gmres",
    "lgmres",
    "minres",
    "qmr",
    "tfqmr",
):
    _declare_iteration(_iteration)


def _least_squares(name: str, A: Any, b: Any, damp: Any, options: dict[str, Any]) -> Any:
    """The solution of a least-squares problem, and what SciPy returns beside it."""
    if isinstance(A, linalg.LinearOperator):
        raise refusal(f"{_NAME}.{name}", "A is a LinearOperator", "Pass a sparse array.")
    function = getattr(linalg, name)
    matrix = _canonical(A)
    matrix = matrix if isinstance(matrix, SparseTensor) else arrays.csr_array(matrix.tocsr())
    right = as_tensor(b).reshape(-1)
    rows, columns = matrix.shape
    size = rows + columns
    small, large = (rows, columns) if rows < columns else (columns, rows)
    block = matrix.tocsr() if rows >= columns else matrix.T.tocsr()
    damping = as_tensor(damp).astype(matrix.dtype)
    values, i, j = arrays.entries_of(block)
    diagonal = concatenate(
        [
            creation.ones(large, dtype=values.dtype),
            -(damping**2) * creation.ones(small, dtype=values.dtype),
        ]
    )
    every = np.arange(size)
    augmented = arrays.from_entries(
        concatenate([values, values, diagonal]),
        np.concatenate([i, j + large, every]),
        np.concatenate([j + large, i, every]),
        theirs.csr_array((size, size)),
    )
    pattern, values, _ = pattern_and_values(augmented)

    def run(a: Any, c: NDArray[Any]) -> Any:
        return function(a, c, damp=float(plain(damping)), **plain(options))

    solver = LeastSquaresSolver(run, (rows, columns))
    none = creation.zeros(columns, dtype=right.dtype)
    whole = [right, none] if rows >= columns else [none, right]
    values, whole_right = _common(values, concatenate(whole))
    found = solve(values, whole_right, pattern, solver)
    solution = found[rows:] if rows >= columns else found[:columns]
    return (solution, *solver.info)


def _declare_least_squares(name: str) -> None:
    @rule(f"{_NAME}.{name}", tensors="A b damp")
    def apply(A: Any, b: Any, damp: Any, **options: Any) -> Any:
        return _least_squares(name, A, b, damp, options)


_declare_least_squares("lsqr")
_declare_least_squares("lsmr")

# --- eigenvalues --------------------------------------------------------------------------------


# Eigenvectors of a symmetric matrix as columns, with the eigenvalues as the last row. A pair is the
# solution of ``A v - w M v = 0`` and ``v.T M v = 1``; its derivatives solve the linear system with
# the bordered Jacobian of these equations.


def _eigen_pairs(values: Any, pattern: Pattern, mass: Any, run: Callable[[Any], Any]) -> Any:
    del mass
    eigenvalues, vectors = run(pattern.matrix(values))
    return np.concatenate([vectors, eigenvalues[None]])


def _eigen_pairs_vjp(known: Known, grad: Tensor) -> Any:
    (values,), (pairs,) = known.inputs, known.outputs
    pattern, mass = known.options["pattern"], known.options["mass"]
    terms = []
    for number in range(pairs.shape[1]):
        pair = pairs[:, number]
        pulled = _solve_bordered(values, pair, grad[:, number], pattern, mass)
        terms.append(-sample_outer(pulled[:-1], pair[:-1], pattern))
    return sum(terms[1:], terms[0])


def _eigen_pairs_jvp(known: Known, tangent: Any) -> Any:
    (values,), (pairs,) = known.inputs, known.outputs
    pattern, mass = known.options["pattern"], known.options["mass"]
    columns = []
    for number in range(pairs.shape[1]):
        pair = pairs[:, number]
        change = product(tangent, pair[:-1], pattern)
        right = concatenate([-change, creation.zeros(1, dtype=change.dtype)])
        columns.append(_solve_bordered(values, pair, right, pattern, mass))
    return stack(columns, axis=1)


_EIGEN_PAIRS = Primitive("eigenpairs", _eigen_pairs, _eigen_pairs_jvp, _eigen_pairs_vjp)


def _solve_bordered(
    values: Tensor, pair: Tensor, right: Tensor, pattern: Pattern, mass: Any
) -> Tensor:
    """Solves with the Jacobian ``[[A - w M, -M v], [-(M v).T, 0]]`` of the equations of a pair."""
    size = pattern.shape[0]
    heavy = apply_linear(pair[:-1], lambda v: mass @ v, lambda v: mass.T @ v)
    weights, i, j = arrays.entries_of(mass)
    places, last = np.arange(size), np.full(size, size)
    bordered = arrays.from_entries(
        concatenate([values, -pair[-1] * weights, -heavy, -heavy]),
        np.concatenate([pattern.rows, i, places, last]),
        np.concatenate([pattern.indices, j, last, places]),
        theirs.csr_array((size + 1, size + 1)),
    )
    where, entries, _ = pattern_and_values(bordered)
    return solve(entries, right, where, DirectSolver())


@rule(f"{_NAME}.eigsh", tensors="A")
def _eigsh(A: Any, k: int, M: Any, mode: str, return_eigenvectors: bool, **options: Any) -> Any:
    if mode != "normal":
        raise option_without_rule(f"{_NAME}.eigsh", "mode", mode)
    options = plain(options)

    def run(array: Any) -> Any:
        found, vectors = linalg.eigsh(array, k, M, **options)
        if return_eigenvectors:
            return found, vectors
        alone = linalg.eigsh(array, k, M, return_eigenvectors=False, **options)
        order = np.argsort(found)[np.argsort(np.argsort(alone))]  # SciPy's, without vectors
        return found[order], vectors[:, order]

    pairs = _pairs("eigsh", A, M, run)
    return (pairs[-1], pairs[:-1]) if return_eigenvectors else pairs[-1]


@rule(f"{_NAME}.lobpcg", tensors="A")
def _lobpcg(A: Any, X: Any, B: Any, **options: Any) -> Any:
    for name in ("retLambdaHistory", "retResidualNormsHistory", "Y"):
        if options.get(name):
            raise option_without_rule(f"{_NAME}.lobpcg", name, options[name])
    options = plain(options)
    pairs = _pairs("lobpcg", A, B, lambda array: linalg.lobpcg(array, X, B, **options))
    return pairs[-1], pairs[:-1]


@rule(f"{_NAME}.svds", tensors="A")
def _svds(A: Any, k: int, return_singular_vectors: Any, **options: Any) -> Any:
    """Singular triples, as the eigenpairs ``s, [u, v] / sqrt(2)`` of ``[[0, A], [A.T, 0]]``."""
    if return_singular_vectors not in (True, False):
        raise option_without_rule(
            f"{_NAME}.svds", "return_singular_vectors", return_singular_vectors
        )
    # None is a default: SciPy refuses its two names of the random state together.
    options = {key: plain(value) for key, value in options.items() if value is not None}
    rows, columns = A.shape
    values, i, j = arrays.entries_of(_canonical(A))
    whole = arrays.from_entries(
        concatenate([values, values]),
        np.concatenate([i, j + rows]),
        np.concatenate([j + rows, i]),
        theirs.csr_array((rows + columns, rows + columns)),
    )

    def run(array: Any) -> Any:
        u, s, vt = linalg.svds(array[:rows, rows:], k, **options)
        return s, np.concatenate([u, vt.T]) / np.sqrt(2)

    pairs = _pairs("svds", whole, None, run)
    left, right = pairs[:rows] * np.sqrt(2), pairs[rows:-1] * np.sqrt(2)
    return (left, pairs[-1], right.T) if return_singular_vectors else pairs[-1]


def _pairs(name: str, A: Any, M: Any, run: Callable[[Any], Any]) -> Tensor:
    if isinstance(A, linalg.LinearOperator):
        raise refusal(f"{_NAME}.{name}", "A is a LinearOperator", "Pass a sparse array.")
    matrix = _canonical(A).tocsr()
    pattern, values, _ = pattern_and_values(matrix)
    mass = theirs.eye_array(matrix.shape[0], format="csr") if M is None else theirs.csr_array(M)
    found: Tensor = _EIGEN_PAIRS(values, pattern=pattern, mass=mass, run=run)
    return found


# --- functions of matrices ----------------------------------------------------------------------

_TAYLOR_DEGREE = 24  # 1/25! is below the precision of float64; each step has norm 1 at most


def _exponential(matrix: Any, start: Tensor, time: Any = 1.0) -> Tensor:
    """``expm(time * matrix) @ start``, by Taylor's series of each of several equal steps."""
    pattern, values, transposed = pattern_and_values(matrix)
    values, found = _common(values, start)
    columns = pattern.rows if transposed else pattern.indices
    sizes = np.abs(all_values(values)).reshape(-1, len(columns)) * abs(float(time))
    norms = [np.bincount(columns, size).max(initial=0.0) for size in sizes]
    steps = max(1, int(np.ceil(max(norms, default=0.0))))
    values = values * (time / steps)
    for _ in range(steps):
        term = found
        for degree in range(1, _TAYLOR_DEGREE + 1):
            term = product(values, term, pattern, transposed) / degree
            found = found + term
    return found


@rule(f"{_NAME}.expm_multiply", tensors="A B")
def _expm_multiply(A: Any, B: Any, start: Any, stop: Any, num: Any, endpoint: Any) -> Any:
    if isinstance(A, linalg.LinearOperator):
        raise refusal(f"{_NAME}.expm_multiply", "A is a LinearOperator", "Pass a sparse array.")
    matrix, vectors = _canonical(A), as_tensor(B)
    if all(option is None for option in (start, stop, num, endpoint)):
        return _exponential(matrix, vectors)
    given = {"num": num, "endpoint": endpoint}
    given = {name: value for name, value in given.items() if value is not None}
    times = np.linspace(start or 0.0, 1.0 if stop is None else stop, **given)
    found = [
        _exponential(matrix, vectors, times[0])
        if times[0]
        else _common(as_tensor(matrix.data), vectors)[1]
    ]
    for step in np.diff(times):
        found.append(_exponential(matrix, found[-1], step))
    return stack(found)


@rule(f"{_NAME}.expm", tensors="A")
def _expm(A: Any) -> Any:
    matrix = _canonical(A)
    identity = as_tensor(np.eye(matrix.shape[0], dtype=matrix.dtype))
    return _full(_exponential(matrix, identity)).asformat(matrix.format)


@rule(f"{_NAME}.inv", tensors="A")
def _inv(A: Any) -> Any:
    matrix = _canonical(A)
    identity = np.eye(matrix.shape[0], dtype=matrix.dtype)
    return _full(_spsolve(matrix, identity)).asformat(matrix.format)


@rule(f"{_NAME}.norm", tensors="x")
def _norm(x: Any, ord: Any, axis: Any) -> Any:
    matrix = _canonical(x)
    ones = matrix._with(np.ones(matrix.data.shape, matrix.dtype))
    dtype = np.asarray(linalg.norm(ones, ord, axis)).dtype  # SciPy's choice, after its checks
    return _norm_of(matrix, ord, axis).astype(dtype)


def _norm_of(matrix: Any, ord: Any, axis: Any) -> Any:
    if axis is None:
        if ord in (None, "fro", "f"):
            return (abs(matrix.data) ** 2).sum() ** 0.5
        sums = {1: 0, -1: 0, np.inf: 1, -np.inf: 1}
        if ord not in sums:
            raise option_without_rule(f"{_NAME}.norm", "ord", ord)
        found = abs(matrix).sum(axis=sums[ord]).reshape(-1)
        return found.max() if ord > 0 else found.min()
    if not isinstance(axis, int | np.integer) or ord not in (None, 2, 1):
        raise option_without_rule(f"{_NAME}.norm", "ord", ord)
    if ord == 1:
        return abs(matrix).sum(axis=axis).reshape(-1)
    return abs(matrix).power(2).sum(axis=axis).reshape(-1) ** 0.5


# --- linear operators ---------------------------------------------------------------------------


def _require_constant(operator: Any, name: str) -> None:
    """Raises if the functions of an operator capture a gradient: only x is differentiated."""
    if captures_gradient(operator):
        raise refusal(
            f"{_NAME}.{name}",
            "the functions of a LinearOperator are constants here, and they capture a gradient",
            "Pass a sparse array, or use pb.implicit.custom_linear_solve.",
        )


@rule(f"{_NAME}.LinearOperator.matvec", tensors="x")
def _operator_matvec(self: Any, x: Any) -> Any:
    _require_constant(self, "LinearOperator.matvec")
    return apply_linear(as_tensor(x), self.matvec, self.T.matvec)


@rule(f"{_NAME}.LinearOperator.rmatvec", tensors="x")
def _operator_rmatvec(self: Any, x: Any) -> Any:
    return _operator_matvec(self.H, x)


@rule(f"{_NAME}.LinearOperator.matmat", tensors="X")
def _operator_matmat(self: Any, X: Any) -> Any:
    _require_constant(self, "LinearOperator.matmat")
    return apply_linear(as_tensor(X), self.matmat, self.T.matmat)


@rule(f"{_NAME}.LinearOperator.dot", tensors="x")
def _operator_dot(self: Any, *x: Any, **named: Any) -> Any:
    (vector,) = map(as_tensor, (*x, *named.values()))
    return _operator_matvec(self, vector) if vector.ndim == 1 else _operator_matmat(self, vector)


for _method in ("__call__", "__matmul__", "__mul__"):
    rule(f"{_NAME}.LinearOperator.{_method}", tensors="x other")(_operator_dot)
