"""``sparse_jacobian`` and ``sparse_hessian``: as many passes as colors, never a dense matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.api import grad
from pullback.autograd.graph.escapes import end_inputs
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.modes import enable_grad
from pullback.errors import AutogradError, AutogradTypeError, AutogradValueError
from pullback.func import jvp
from pullback.sparse.coloring import Coloring, color_hessian, color_jacobian
from pullback.sparse.pattern import dependencies
from pullback.sparse.scipy_sparse import Matrix, as_pattern, entries, matrix_of, scipy_sparse
from pullback.tensor.tensor import Tensor, as_operand, wrap

if TYPE_CHECKING:
    from pullback.interop import mode
else:
    mode = lazy_module("pullback.interop.mode")

__all__ = [
    "Function",
    "hessian_pattern",
    "jacobian_pattern",
    "sparse_hessian",
    "sparse_jacobian",
]

Function = Callable[[Any], Any]


def sparse_jacobian(
    f: Function,
    x: Any,
    *,
    pattern: Any = None,
    coloring: Coloring | None = None,
    mode: str = "auto",
    verify: bool = True,
    numpy_mode: bool = True,
) -> Matrix:
    """The Jacobian of a function at a point, as a ``scipy.sparse.csr_array``.

    Its sparsity is found from the recorded operations; then columns or rows that do not meet are
    computed together, in as many passes as it takes colors. Elements are counted in C order.

    Args:
        f: takes a tensor of the shape of `x` and returns a tensor.
        x: the point, a tensor or an array of real numbers.
        pattern: places that may be nonzero, if they are known: a sparse array, or a dense one of
            truth values; see ``jacobian_pattern``.
        coloring: a coloring of the pattern, if it is known; see ``color_jacobian``.
        mode: "forward" or "reverse" passes, or whichever are fewer.
        verify: compare with a product with a random vector, and raise if an entry is missing.
        numpy_mode: run the function in `numpy_mode`, as ``pb.grad`` does.

    >>> import pullback as pb
    >>> found = sparse_jacobian(lambda x: x[1:] * x[:-1], pb.tensor([1.0, 2.0, 3.0]))
    >>> found.toarray().tolist()
    [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]]
    """
    scipy_sparse()
    with _Recorded("sparse_jacobian", f, x, numpy_mode) as run:
        places = run.pattern(pattern)
        if coloring is None:
            coloring = color_jacobian(places, mode)
        run.check_coloring(coloring, places, ("forward", "reverse"))
        found = run.forward(coloring) if coloring.mode == "forward" else run.reverse(coloring)
        rows, columns = entries(places)
        if coloring.mode == "forward":
            values = found[coloring.colors[columns], rows]
        else:
            values = found[coloring.colors[rows], columns]
        return run.finished(matrix_of(rows, columns, places.shape, values), verify)


def sparse_hessian(
    f: Function,
    x: Any,
    *,
    pattern: Any = None,
    coloring: Coloring | None = None,
    verify: bool = True,
    numpy_mode: bool = True,
) -> Matrix:
    """The Hessian of a function at a point, as a ``scipy.sparse.csr_array``.

    Like ``sparse_jacobian`` of the gradient, but symmetric: fewer colors suffice.

    Args:
        f: takes a tensor of the shape of `x` and returns a tensor with one element.
        x: the point, a tensor or an array of real numbers.
        pattern: places that may be nonzero, if they are known; see ``hessian_pattern``.
        coloring: a coloring of the pattern, if it is known; see ``color_hessian``.
        verify: compare with a product with a random vector, and raise if an entry is missing.
        numpy_mode: run the function in `numpy_mode`, as ``pb.grad`` does.

    >>> import pullback as pb
    >>> found = sparse_hessian(lambda x: (x[1:] * x[:-1]).sum(), pb.tensor([1.0, 2.0, 3.0]))
    >>> found.toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    scipy_sparse()
    with _RecordedGradient("sparse_hessian", f, x, numpy_mode) as run:
        places = run.pattern(pattern)
        places = (places + places.T).tocsr()
        if coloring is None:
            coloring = color_hessian(places)
        run.check_coloring(coloring, places, ("symmetric",))
        found = run.reverse(coloring)
        rows, columns = entries(places)
        colors, size = coloring.colors, max(coloring.passes, 1)
        # An entry is read where it is the only one of its row and color: there, or mirrored.
        keys = rows * size + colors[columns]
        counts = np.bincount(keys, minlength=1)
        alone = counts[keys] == 1 if len(keys) else np.zeros(0, bool)
        values = np.where(alone, found[colors[columns], rows], found[colors[rows], columns])
        return run.finished(matrix_of(rows, columns, places.shape, values), verify)


def jacobian_pattern(f: Function, x: Any, *, numpy_mode: bool = True) -> Matrix:
    """The sparsity pattern of the Jacobian of a function, as a ``scipy.sparse.csr_array`` of bools.

    It holds at other points too if the function runs through the same operations there, with the
    same indices.

    >>> import pullback as pb
    >>> jacobian_pattern(lambda x: x[1:] * x[:-1], pb.zeros(3)).toarray().astype(int).tolist()
    [[1, 1, 0], [0, 1, 1]]
    """
    scipy_sparse()
    with _Recorded("jacobian_pattern", f, x, numpy_mode) as run:
        return run.pattern(None)


def hessian_pattern(f: Function, x: Any, *, numpy_mode: bool = True) -> Matrix:
    """The sparsity pattern of the Hessian of a function, as a ``scipy.sparse.csr_array`` of bools.

    >>> import pullback as pb
    >>> hessian_pattern(lambda x: (x * x).sum(), pb.ones(2)).toarray().astype(int).tolist()
    [[1, 0], [0, 1]]
    """
    scipy_sparse()
    with _RecordedGradient("hessian_pattern", f, x, numpy_mode) as run:
        return run.pattern(None)


class _Recorded:
    """A function that runs once, with its history, when the block is entered.

    At the end of the block the graph is released, and tensors that have escaped from the function
    become constants.
    """

    def __init__(self, name: str, f: Function, x: Any, numpy_mode: bool):
        self.name = name
        array = np.array(as_operand(x)._array)
        if array.dtype.kind != "f":
            raise AutogradValueError(
                f"{name}: x has dtype {array.dtype}; an array of real numbers is expected"
            )
        self.f = mode.run_in_mode(f) if numpy_mode and callable(f) else f
        self.x = wrap(array)
        self.x.requires_grad = True
        self.y: Any = None

    def __enter__(self) -> Self:
        try:
            with enable_grad():
                self.y = self._run()
            if not isinstance(self.y, Tensor) or self.y.dtype.kind != "f":
                kind = self.y.dtype if isinstance(self.y, Tensor) else type(self.y).__name__
                raise AutogradTypeError(
                    f"{self.name}: f returns {kind}; a tensor of real numbers is expected"
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.y = None
        self.x.requires_grad = False
        end_inputs([self.x])

    def _run(self) -> Any:
        return self.f(self.x)

    def pattern(self, given: Any) -> Matrix:
        """Returns the pattern given by the user, or else the detected one."""
        if given is None:
            return dependencies(self.y, self.x)
        return as_pattern(given, (self.y.size, self.x.size), self.name)

    def check_coloring(self, coloring: Coloring, places: Matrix, modes: tuple[str, ...]) -> None:
        """Raises for a coloring whose mode or length does not fit the pattern."""
        length = places.shape[0] if coloring.mode == "reverse" else places.shape[1]
        if coloring.mode not in modes or len(coloring.colors) != length:
            raise AutogradValueError(
                f"{self.name}: coloring is of mode {coloring.mode!r} with {len(coloring.colors)} "
                f"colors; one of {list(modes)} for a pattern of shape {places.shape} is expected"
            )

    def reverse(self, coloring: Coloring) -> Any:
        """For each color, the sum of the rows that have it: one backward pass each."""
        shape = (coloring.passes, self.x.size)
        found = np.zeros(shape, self.x.dtype)
        for color in range(coloring.passes):
            found[color] = self.pulled(coloring.colors == color)
        return found

    def forward(self, coloring: Coloring) -> Any:
        """For each color, the sum of the columns that have it: one forward pass each."""
        found = np.zeros((coloring.passes, self.y.size), self.y.dtype)
        for color in range(coloring.passes):
            direction = (coloring.colors == color).astype(self.x.dtype)
            tangent = wrap(direction.reshape(self.x.shape))
            _, pushed = jvp(self.f, (self.x.detach(),), (tangent,))
            found[color] = pushed.detach()._array.reshape(-1)
        return found

    def pulled(self, weights: Any) -> Any:
        """The sum of all rows with weights: one backward pass."""
        if not requires_grad(self.y):
            return np.zeros(self.x.size, self.x.dtype)
        seed = wrap(weights.astype(self.y.dtype).reshape(self.y.shape))
        (found,) = grad(self.y, self.x, seed, retain_graph=True, materialize_grads=True)
        return found._array.reshape(-1)

    def finished(self, matrix: Matrix, verify: bool) -> Matrix:
        """Returns the matrix; `verify` compares it with a product computed without the pattern."""
        if verify:
            rng = np.random.default_rng(0)
            weights = rng.uniform(0.5, 1.0, matrix.shape[0]) * rng.choice(
                [-1.0, 1.0], matrix.shape[0]
            )
            exact = self.pulled(weights)
            found = matrix.T @ weights
            bound = abs(matrix).T @ abs(weights)
            eps = float(np.sqrt(np.finfo(self.x.dtype).eps))
            allowed = eps * (bound + 1e-3 * np.max(bound, initial=0.0))
            wrong = np.isfinite(exact) & ~(abs(found - exact) <= allowed)
            if np.any(wrong):
                column = int(np.argmax(wrong))
                raise AutogradError(
                    f"{self.name}: the pattern or the coloring lacks an entry in column {column}: "
                    f"a product with a random vector gives {exact[column]!r} there, and "
                    f"{found[column]!r} by the sparse matrix. Leave out pattern= and coloring=, or "
                    f"compute them at this point."
                )
        return matrix


class _RecordedGradient(_Recorded):
    """The gradient of a function, with its history."""

    def _run(self) -> Any:
        y = self.f(self.x)
        if not isinstance(y, Tensor) or y.size != 1:
            given = f"shape {list(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
            raise AutogradError(
                f"{self.name}: f returns {given}; a tensor with one element is expected"
            )
        if not requires_grad(y):
            return wrap(np.zeros(self.x.shape, self.x.dtype))
        (found,) = grad(y.reshape(()), self.x, create_graph=True, materialize_grads=True)
        return found
