"""The steps of a Runge-Kutta method as one system of equations, with all stages as the unknown.

The derivatives K of all stages of all steps satisfy ``K = f(T, Y(K))``, where the stage points Y
are linear in K and in the initial state. `StageSystem` evaluates that residual with one vmapped
call of f, and inverts its Jacobian by substitution from step to step, vectorised over steps where
they are independent. Explicit methods and Radau's collocation differ in the matrix A only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback._generated import functions_reduction as reductions
from pullback._generated import functions_shape as shapes
from pullback.autograd.modes import no_grad
from pullback.dispatch.modes import MAPPING, TRANSFORM, get_state
from pullback.errors import AutogradError
from pullback.func.forward import jvp
from pullback.func.jacobians import jacfwd
from pullback.func.reverse import vjp
from pullback.func.vmap import vmap
from pullback.implicit.linear_map import ArrayMap
from pullback.tensor.tensor import Tensor, fresh
from pullback.utils.checkpoint import checkpoint

__all__ = ["Mesh", "StageSystem", "Steps", "Tableau", "inverse_of_stages", "map_points"]

_CHECKPOINT_ENTRIES = 20_000  # components of the states of one chunk

_Array = NDArray[Any]
_Function = Callable[[Tensor, Tensor], Tensor]


class Tableau(NamedTuple):
    """Coefficients of a Runge-Kutta method; A is lower triangular for an explicit one."""

    a: _Array  # (s, s)
    b: _Array  # (s,)
    c: _Array  # (s,)
    is_explicit: bool


class Steps(NamedTuple):
    """The accepted steps of a solver; stages are tensors where there is one set for each sample."""

    times: _Array  # (n + 1,)
    stages: Any  # (n, s, d), derivatives at the stages
    last: Any  # (d,), the derivative at the end


class Mesh(NamedTuple):
    """Times and step sizes, as tensors where the times carry a gradient."""

    times: Tensor  # (n + 1,)
    sizes: Tensor  # (n,)


def map_points(f: _Function, t: Tensor, y: Tensor) -> Tensor:
    """Evaluates f at many points: in one vmapped call, or one by one if f reads values."""
    try:
        return vmap(f)(t, y)  # type: ignore[no-any-return]
    except AutogradError:
        return shapes.stack([f(t[place], y[place]) for place in range(t.shape[0])])


def _map_checkpointed(f: _Function, t: Tensor, y: Tensor) -> Tensor:
    """Evaluates f at many points in chunks, of which the graph saves the points only.

    Inside transforms of ``pullback.func``, which allow no hooks of saved tensors, all is saved.
    """
    if get_state().modes & (TRANSFORM | MAPPING):
        return map_points(f, t, y)
    size = max(1, _CHECKPOINT_ENTRIES // y.shape[1])
    chunks = [
        checkpoint(
            lambda t, y: map_points(f, t, y),
            t[begin : begin + size],
            y[begin : begin + size],
            use_reentrant=False,
        )
        for begin in range(0, t.shape[0], size)
    ]
    return shapes.concatenate(chunks)


class StageSystem:
    """The equations of all stages.

    Args:
        f: the right-hand side on tensors, recorded.
        tableau: the coefficients.
        mesh: times and step sizes.
        y0: the initial state.
        is_checkpointed: whether f is evaluated again in backward passes instead of being saved.
    """

    def __init__(
        self, f: _Function, tableau: Tableau, mesh: Mesh, y0: Tensor, is_checkpointed: bool = False
    ):
        self._evaluate = _map_checkpointed if is_checkpointed else map_points
        self._f = f
        self._tableau = tableau
        self._mesh = mesh
        self._y0 = y0
        n, s = mesh.sizes.shape[0], len(tableau.b)
        c = fresh(np.array(tableau.c, y0.dtype))
        starts = shapes.reshape(mesh.times[:-1], [n, 1])
        points = starts + shapes.reshape(mesh.sizes, [n, 1]) * c
        self.points = shapes.concatenate([shapes.reshape(points, [n * s]), mesh.times[-1:]])

    def stages(self, unknown: Tensor) -> Tensor:
        """The unknown as an array of shape (steps, stages, components)."""
        n, s = self._mesh.sizes.shape[0], len(self._tableau.b)
        return shapes.reshape(unknown[: n * s], [n, s, self._y0.size])

    def states(self, unknown: Tensor) -> Tensor:
        """The states at all times of the mesh."""
        n, d = self._mesh.sizes.shape[0], self._y0.size
        weights = fresh(np.array(self._tableau.b[None], self._y0.dtype))
        slopes = shapes.reshape(weights @ self.stages(unknown), [n, d])
        changes = shapes.reshape(self._mesh.sizes, [n, 1]) * slopes
        start = shapes.reshape(self._y0, [1, d])
        return reductions.cumsum(shapes.concatenate([start, changes]), 0)

    def residual(self, unknown: Tensor) -> Tensor:
        """``K - f(T, Y(K))``; the last row is the derivative at the end."""
        n, s, d = self._mesh.sizes.shape[0], len(self._tableau.b), self._y0.size
        states = self.states(unknown)
        matrix = fresh(np.array(self._tableau.a, self._y0.dtype))
        inner = shapes.reshape(self._mesh.sizes, [n, 1, 1]) * (matrix @ self.stages(unknown))
        points = shapes.reshape(states[:-1], [n, 1, d]) + inner
        everything = shapes.concatenate([shapes.reshape(points, [n * s, d]), states[-1:]])
        return unknown - self._evaluate(self._f, self.points, everything)


class _Inverse:
    """Inverse of the Jacobian of the stages' equations, on rows of arrays."""

    def __init__(self, tableau: Tableau, sizes: _Array, jacobians: _Array):
        s, d = len(tableau.b), jacobians.shape[-1]
        n = len(sizes)
        self._n, self._s, self._d = n, s, d
        self._stage = jacobians[: n * s].reshape(n, s, d, d)
        self._end = jacobians[-1]
        self._tableau = tableau
        self._ha = sizes[:, None, None] * tableau.a
        self._hb = sizes[:, None] * tableau.b
        self._block = None if tableau.is_explicit else self._inverse_blocks()
        # The derivative of each stage, and of the next state, by the state before.
        ones = np.broadcast_to(np.eye(d, dtype=jacobians.dtype), (n, d, d))
        self._by_state = self._substitute_matrices(ones)
        self._step = ones + np.einsum("ni,niab->nab", self._hb, self._by_state)

    def _inverse_blocks(self) -> _Array:
        n, s, d = self._n, self._s, self._d
        coupling = np.einsum("nij,niab->niajb", self._ha, self._stage).reshape(n, s * d, s * d)
        return np.linalg.inv(np.eye(s * d) - coupling)

    def _substitute_matrices(self, ones: _Array) -> _Array:
        """Solves the stages of each step for the right-hand sides J (one for each component)."""
        n, s, d = self._n, self._s, self._d
        if self._block is not None:
            return (self._block @ self._stage.reshape(n, s * d, d)).reshape(n, s, d, d)
        found = np.empty_like(self._stage)
        for i in range(s):
            inner = ones + np.einsum("nj,njab->nab", self._ha[:, i, :i], found[:, :i])
            found[:, i] = self._stage[:, i] @ inner
        return found

    def forward(self, rows: _Array) -> _Array:
        """Solves for the unknown, with the initial state fixed."""
        n, s, d = self._n, self._s, self._d
        given = rows.reshape(len(rows), n * s + 1, d)
        own = self._own_stages(given[:, :-1].reshape(len(rows), n, s, d))
        changes = np.einsum("ni,rnia->nra", self._hb, own)
        states = np.zeros((n + 1, len(rows), d), changes.dtype)
        transposed = self._step.swapaxes(1, 2)
        for k in range(n):
            states[k + 1] = states[k] @ transposed[k] + changes[k]
        stages = own + np.einsum("niab,nrb->rnia", self._by_state, states[:-1])
        last = given[:, -1] + states[-1] @ self._end.T
        return np.concatenate([stages.reshape(len(rows), -1), last.reshape(len(rows), -1)], axis=1)

    def _own_stages(self, given: _Array) -> _Array:
        """Solves the stages of each step with the state before it fixed."""
        if self._block is not None:
            r, n, s, d = given.shape
            flat = given.reshape(r, n, s * d, 1)
            return (self._block @ flat).reshape(given.shape)
        found = given.copy()
        for i in range(1, self._s):
            inner = np.einsum("nj,rnja->rna", self._ha[:, i, :i], found[:, :, :i])
            found[:, :, i] += (self._stage[:, i] @ inner[..., None])[..., 0]
        return found

    def backward(self, rows: _Array) -> _Array:
        """The transpose of `forward`."""
        n, s, d = self._n, self._s, self._d
        given = rows.reshape(len(rows), n * s + 1, d)
        last = given[:, -1]
        stages = given[:, :-1].reshape(len(rows), n, s, d)
        pulled = np.einsum("niab,rnia->nrb", self._by_state, stages)
        states = np.empty((n + 1, len(rows), d), np.result_type(pulled, last))
        states[n] = last @ self._end
        for k in range(n - 1, -1, -1):
            states[k] = states[k + 1] @ self._step[k] + pulled[k]
        own = stages + np.einsum("ni,nra->rnia", self._hb, states[1:])
        found = self._own_stages_transposed(own)
        return np.concatenate([found.reshape(len(rows), -1), last.reshape(len(rows), -1)], axis=1)

    def _own_stages_transposed(self, given: _Array) -> _Array:
        if self._block is not None:
            r, n, s, d = given.shape
            flat = given.reshape(r, n, s * d, 1)
            return (self._block.swapaxes(1, 2) @ flat).reshape(given.shape)
        found = given.copy()
        transposed = self._stage.swapaxes(2, 3)
        for i in range(self._s - 1, 0, -1):
            inner = (transposed[:, i] @ found[:, :, i, :, None])[..., 0]
            found[:, :, :i] += self._ha[:, i, :i, None] * inner[:, :, None, :]
        return found


class _MatrixFreeInverse:
    """The same inverse for explicit methods, from products with Jacobians that are never made.

    A product is a forward or reverse pass of f at one stage, so the memory does not grow with the
    square of the number of components.
    """

    def __init__(
        self, f: _Function, tableau: Tableau, sizes: _Array, points: _Array, states: _Array
    ):
        self._f = f
        self._tableau = tableau
        self._sizes = sizes
        self._points = points
        self._states = states

    def _push(self, place: int, direction: _Array) -> _Array:
        t, y = fresh(self._points[place]), fresh(self._states[place])
        tangent = fresh(np.ascontiguousarray(direction))
        return np.asarray(jvp(lambda y: self._f(t, y), (y,), (tangent,))[1]._array)

    def _pull(self, place: int, cotangent: _Array) -> _Array:
        t, y = fresh(self._points[place]), fresh(self._states[place])
        (found,) = vjp(lambda y: self._f(t, y), y)[1](fresh(np.ascontiguousarray(cotangent)))
        return np.asarray(found._array)

    def forward(self, rows: _Array) -> _Array:
        """Solves for the unknown, with the initial state fixed."""
        with no_grad():
            return np.stack([self._forward(row) for row in rows])

    def _forward(self, row: _Array) -> _Array:
        a, b, s = self._tableau.a, self._tableau.b, len(self._tableau.b)
        found = row.reshape(self._states.shape).copy()
        change = np.zeros_like(found[0])
        for step, h in enumerate(self._sizes):
            stages = found[step * s : (step + 1) * s]
            for i in range(s):
                stages[i] += self._push(step * s + i, change + h * (a[i, :i] @ stages[:i]))
            change = change + h * (b @ stages)
        found[-1] += self._push(len(found) - 1, change)
        return found.reshape(-1)

    def backward(self, rows: _Array) -> _Array:
        """The transpose of `forward`."""
        with no_grad():
            return np.stack([self._backward(row) for row in rows])

    def _backward(self, row: _Array) -> _Array:
        a, b, s = self._tableau.a, self._tableau.b, len(self._tableau.b)
        found = row.reshape(self._states.shape).copy()
        state = self._pull(len(found) - 1, found[-1])
        for step in range(len(self._sizes) - 1, -1, -1):
            h = self._sizes[step]
            stages = found[step * s : (step + 1) * s]
            stages += h * b[:, None] * state
            for i in range(s - 1, -1, -1):
                pulled = self._pull(step * s + i, stages[i])
                state = state + pulled
                stages[:i] += h * a[i, :i, None] * pulled
        return found.reshape(-1)


def inverse_of_stages(
    f: _Function,
    tableau: Tableau,
    sizes: _Array,
    points: _Array,
    states: _Array,
    is_matrix_free: bool = False,
) -> ArrayMap:
    """The inverse of the stages' Jacobian; f is a function on constant tensors."""
    if is_matrix_free:
        free = _MatrixFreeInverse(f, tableau, sizes, points, states)
        return ArrayMap(free.forward, free.backward)

    def slope(t: Tensor, y: Tensor) -> Tensor:
        return jacfwd(lambda y: f(t, y))(y)  # type: ignore[no-any-return]

    with no_grad():
        found = map_points(slope, fresh(points), fresh(states))
    inverse = _Inverse(tableau, sizes, np.asarray(found._array))
    return ArrayMap(inverse.forward, inverse.backward)
