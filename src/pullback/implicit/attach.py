"""Implicit differentiation: derivatives of a solution from its residual.

A solver computes y with F(y, θ) = 0 on arrays, in any way. `attach` gives y its derivatives by
chord steps ``y ← y - J⁻¹ F(y, θ)`` that are recorded, with the constant Jacobian J of F by y. Each
step leaves the value unchanged and makes one more order of derivatives exact, in every mode.
Tensors that the residual captures take part, because it is recorded; they need not be listed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_shape as shapes
from pullback.autograd.forward.tangents import carries_gradient, tangents_of
from pullback.autograd.levels import current_level, process_levels
from pullback.autograd.modes import no_grad
from pullback.errors import AutogradError, AutogradTypeError, AutogradValueError
from pullback.func.forward import jvp
from pullback.func.jacobians import jacfwd
from pullback.func.reverse import vjp
from pullback.implicit.krylov import gmres
from pullback.implicit.linear_map import (
    ArrayMap,
    LinearMap,
    MatrixMap,
    skip_first_order,
    solve_map,
)
from pullback.linalg import inv
from pullback.operators.creation import functions as creation
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, fresh

__all__ = [
    "attach",
    "constant_of",
    "dense_inverse",
    "inverse_jacobian",
    "steps_needed",
]

_MATRIX_FREE_SIZE = 1000  # unknowns beyond which the Jacobian is not made

_Residual = Callable[[Tensor], Tensor]
_SolverOf = Callable[[_Residual, Tensor], LinearMap]


def attach(
    y: Tensor,
    residual: _Residual,
    solve: LinearMap | _SolverOf | None = None,
    *,
    order: int = 2,
    name: str = "attach",
) -> Tensor:
    """Gives a solution y of ``residual(y) = 0`` its derivatives by what the residual uses.

    Args:
        y: the solution, a constant; its value is returned unchanged.
        residual: a function of y with as many results as y has elements.
        solve: the inverse of the residual's Jacobian at y, for a flat vector; by default it is
            made, from the Jacobian or without it if the system is large.
        order: the highest derivative that is exact; transforms that are active are counted, too.
        name: of the solver, for error messages.

    >>> import pullback as pb
    >>> a = pb.tensor(4.0, requires_grad=True)
    >>> y = attach(pb.tensor(2.0), lambda y: y * y - a)
    >>> y.backward()
    >>> y.item(), a.grad.item()
    (2.0, 0.25)
    """
    y = constant_of(y)
    residual = _with_tensor_result(name, residual)
    first = _flat_residual(name, residual, y)
    if not carries_gradient(first):
        return y
    operator = solve if isinstance(solve, LinearMap) else (solve or inverse_jacobian)(residual, y)
    steps = steps_needed(order)
    limit = steps - len(tangents_of(first))
    shape = list(y.shape)
    solution = y
    for step in range(steps):
        if step:
            if not tangents_of(first):
                solution = skip_first_order(solution)
            first = _flat_residual(name, residual, solution)
        offset = solve_map(first - constant_of(first), operator, limit, name)
        solution = solution - shapes.reshape(offset, shape)
    return solution


def steps_needed(order: int) -> int:
    """The number of chord steps: the given order, or that of the transforms around if higher."""
    active = len(process_levels)
    level: Any = current_level()
    while level is not None:
        active += 1
        level = level._outer
    return max(order, active)


def constant_of(tensor: Tensor) -> Tensor:
    """A tensor of the same values without history and tangents."""
    held = tensor._array
    return fresh(held.view() if type(held) is np.ndarray else held)


def inverse_jacobian(residual: _Residual, y: Tensor) -> LinearMap:
    """The inverse of the residual's Jacobian at y.

    Small systems get the inverse matrix; large ones are solved by GMRES with products of the
    Jacobian, each a forward or reverse pass of the residual.
    """
    if y.size > _MATRIX_FREE_SIZE and type(y._array) is np.ndarray:
        return _matrix_free(residual, y)
    return dense_inverse(residual, y)


def dense_inverse(residual: _Residual, y: Tensor) -> LinearMap:
    """The inverse matrix of the residual's Jacobian at y."""
    matrix = constant_of(_jacobian(residual, y))
    inverse = inv(shapes.reshape(matrix, [y.size, y.size]))
    if type(inverse._array) is np.ndarray:
        _require_regular(np.asarray(matrix._array).reshape(y.size, -1), inverse._array)
    return MatrixMap(inverse)


def _jacobian(residual: _Residual, y: Tensor) -> Tensor:
    with no_grad():
        try:
            return jacfwd(residual)(y)  # type: ignore[no-any-return]
        except AutogradError:  # the residual reads values, which a batched one cannot
            if type(y._array) is BatchedArray:
                raise
        columns = []
        for place in range(y.size):
            unit = np.zeros(y.size, y.dtype)
            unit[place] = 1
            columns.append(_jvp_array(residual, y, unit))
        return fresh(np.stack(columns, axis=1))


def _jvp_array(residual: _Residual, y: Tensor, direction: Any) -> Any:
    tangent = fresh(direction.reshape(y.shape).astype(y.dtype))
    return np.asarray(jvp(residual, (y,), (tangent,))[1]._array).reshape(-1)


def _matrix_free(residual: _Residual, y: Tensor) -> LinearMap:
    size = y.size
    _, pull = vjp(residual, y)

    def forward(vector: Any) -> Any:
        with no_grad():
            return _jvp_array(residual, y, vector)

    def backward(vector: Any) -> Any:
        with no_grad():
            (found,) = pull(fresh(vector.reshape(y.shape).astype(y.dtype)))
        return np.asarray(found._array).reshape(size)

    return ArrayMap(
        lambda rows: np.stack([gmres(forward, row) for row in rows]),
        lambda rows: np.stack([gmres(backward, row) for row in rows]),
    )


def _require_regular(matrix: Any, inverse: Any) -> None:
    size = np.linalg.norm(matrix, 1) * np.linalg.norm(inverse, 1) if matrix.size else 1.0
    if not size < 1 / np.finfo(matrix.dtype).eps:
        raise np.linalg.LinAlgError(
            f"the Jacobian of the residual is singular at the solution (condition {size:.1e}), so "
            f"the solution has no derivative by the implicit function theorem"
        )


def _flat_residual(name: str, residual: _Residual, y: Tensor) -> Tensor:
    found = residual(y)
    if found.size != y.size:
        raise AutogradValueError(
            f"{name}: the residual has {found.size} elements and the solution {y.size}; they must "
            f"have the same number"
        )
    return shapes.reshape(found, [y.size])


def _with_tensor_result(name: str, residual: Callable[[Tensor], Any]) -> _Residual:
    """The residual with a tensor as its result; an array is constant, a list may hold tensors."""

    def run(y: Tensor) -> Tensor:
        found = residual(y)
        if isinstance(found, Tensor):
            return found
        if isinstance(found, np.ndarray | np.generic | list | tuple | float | complex):
            return creation.asarray(found)
        raise AutogradTypeError(
            f"{name}: the residual must return a tensor, an array or a list of them, not "
            f"{type(found).__name__}"
        )

    return run
