"""SciPy's sparse matrices, which are needed here and nowhere else."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pullback.errors import MissingPackageError

__all__ = ["Matrix", "as_pattern", "entries", "matrix_of", "scipy_sparse"]

Matrix = Any  # a scipy.sparse.csr_array


def scipy_sparse() -> Any:
    """The module ``scipy.sparse``, or an error that says how to get it."""
    try:
        return importlib.import_module("scipy.sparse")
    except ImportError as error:
        raise MissingPackageError(
            "sparse derivatives are SciPy's sparse arrays, and SciPy is not installed; "
            "run: pip install scipy"
        ) from error


def matrix_of(rows: Any, columns: Any, shape: tuple[int, int], values: Any = None) -> Matrix:
    """A matrix with entries at these places; a pattern, unless there are values."""
    data = np.ones(len(rows), bool) if values is None else values
    matrix = scipy_sparse().coo_array((data, (rows, columns)), shape=shape).tocsr()
    if values is None:
        matrix.data[:] = True  # several entries in one place have been added up
    return matrix


def entries(matrix: Matrix) -> tuple[Any, Any]:
    """The rows and columns of a matrix's entries, row by row."""
    counts = np.diff(matrix.indptr)
    return np.repeat(np.arange(matrix.shape[0]), counts), matrix.indices


def as_pattern(pattern: Any, shape: tuple[int, int], name: str) -> Matrix:
    """A pattern that a user has given: sparse of any kind, or a dense array of truth values."""
    sparse = scipy_sparse()
    made = sparse.csr_array(pattern if sparse.issparse(pattern) else np.asarray(pattern))
    if made.shape != shape:
        raise ValueError(
            f"{name}: pattern has shape {made.shape}, but the derivative has shape {shape}"
        )
    made = made.astype(bool).tocsr()
    made.sum_duplicates()
    made.eliminate_zeros()
    return made
