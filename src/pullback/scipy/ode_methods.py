"""SciPy's Runge-Kutta methods: coefficients, recorded steps, and interpolation between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate

from pullback._generated import functions_shape as shapes
from pullback.scipy.ode_steps import Mesh, Steps, Tableau, map_points
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["METHODS", "Interpolation", "TooManyStepsError", "recording_class", "tableau_of"]

METHODS = ("RK23", "RK45", "DOP853", "Radau")
_S6 = 6**0.5
_RADAU_C = np.array([(4 - _S6) / 10, (4 + _S6) / 10, 1.0])
_RADAU_A = np.array(
    [
        [(88 - 7 * _S6) / 360, (296 - 169 * _S6) / 1800, (-2 + 3 * _S6) / 225],
        [(296 + 169 * _S6) / 1800, (88 + 7 * _S6) / 360, (-2 - 3 * _S6) / 225],
        [(16 - _S6) / 36, (16 + _S6) / 36, 1 / 9],
    ]
)
# Powers 1, 2, 3 of the collocation polynomial that is zero at the start of the step.
_RADAU_P = np.linalg.inv(_RADAU_C[:, None] ** [1, 2, 3]).T


class TooManyStepsError(Exception):
    """A solver took more steps than allowed."""


def tableau_of(method: str) -> Tableau:
    """The coefficients of one of SciPy's methods."""
    if method == "Radau":
        return Tableau(_RADAU_A, _RADAU_A[-1], _RADAU_C, is_explicit=False)
    solver: Any = getattr(integrate, method)
    s = solver.n_stages
    a = np.zeros((s, s))
    a[:, : solver.A.shape[1]] = solver.A[:, :s]
    return Tableau(a, solver.B, solver.C, is_explicit=True)


def recording_class(method: str, limit: int | None = None) -> tuple[Any, Callable[[], Steps]]:
    """A subclass of SciPy's solver that keeps its steps, and a function that returns them."""
    times: list[float] = []
    stages: list[NDArray[Any]] = []
    last: list[NDArray[Any]] = []
    base: Any = getattr(integrate, method)
    inverse = np.linalg.inv(_RADAU_A)

    class Recording(base):  # type: ignore[misc]
        def _step_impl(self) -> Any:
            before = self.t
            if not times:
                times.append(before)
            accepted, message = super()._step_impl()
            if accepted:
                times.append(self.t)
                if method == "Radau":
                    stages.append(inverse @ self.Z / (self.t - before))
                else:
                    stages.append(self.K[: self.n_stages].copy())
                last[:] = [np.array(self.f)]
                if limit is not None and len(stages) > limit:
                    raise TooManyStepsError
            return accepted, message

    return Recording, lambda: Steps(np.array(times), np.array(stages), last[0])


class Interpolation:
    """States between the steps, as SciPy's dense output of the method has them.

    Args:
        method: its name.
        f: the right-hand side, for the further stages of DOP853.
        mesh: times and step sizes.
        stages: the derivatives at the stages, of shape (n, s, d).
        last: the derivative at the end, of shape (1, d).
        states: at the times of the mesh, of shape (n + 1, d).
    """

    def __init__(
        self,
        method: str,
        f: Callable[[Tensor, Tensor], Tensor],
        mesh: Mesh,
        stages: Tensor,
        last: Tensor,
        states: Tensor,
    ):
        self._method = method
        self._f = f
        self._mesh = mesh
        self._stages = stages
        self._ends = shapes.concatenate([stages[1:, 0], last])
        self._states = states
        self._times = np.asarray(mesh.times.detach().numpy())

    def __call__(self, t: Tensor) -> Tensor:
        """The states at a vector of times, of shape (m, d)."""
        at = np.asarray(t.detach().numpy())
        sign = 1.0 if self._times[-1] >= self._times[0] else -1.0
        place = np.searchsorted(sign * self._times, sign * at, side="left") - 1
        place = np.clip(place, 0, len(self._times) - 2)
        m = len(at)
        sizes = self._mesh.sizes[place]
        x = shapes.reshape((t - self._mesh.times[place]) / sizes, [m, 1])
        before = self._states[place]
        sizes = shapes.reshape(sizes, [m, 1])
        if self._method == "DOP853":
            return before + self._dop853(place, x)
        stages = self._stages[place]
        if self._method == "Radau":
            stages = fresh(_RADAU_A.astype(stages.dtype)) @ stages
            return before + sizes * _combine(stages, _RADAU_P, x)
        stages = shapes.concatenate([stages, self._ends[place][:, None]], 1)
        return before + sizes * _combine(stages, getattr(integrate, self._method).P, x)

    def _dop853(self, place: NDArray[Any], x: Tensor) -> Tensor:
        solver: Any = integrate.DOP853
        used, where = np.unique(place, return_inverse=True)
        h = shapes.reshape(self._mesh.sizes[used], [-1, 1])
        times, before = self._mesh.times[used], self._states[used]
        stages = shapes.concatenate([self._stages[used], self._ends[used][:, None]], 1)
        for weights, c in zip(solver.A_EXTRA, solver.C_EXTRA, strict=True):
            count = stages.shape[1]
            row = fresh(weights[None, :count].astype(stages.dtype))
            inner = before + h * (row @ stages)[:, 0]
            new = map_points(self._f, times + float(c) * h[:, 0], inner)
            stages = shapes.concatenate([stages, new[:, None]], 1)
        change = self._states[used + 1] - before
        first, ends = stages[:, 0], self._ends[used]
        parts = [change, h * first - change, 2 * change - h * (ends + first)]
        higher = h[:, None] * (fresh(solver.D.astype(stages.dtype)) @ stages)
        parts += [higher[:, k] for k in range(higher.shape[1])]
        y = 0.0 * parts[0][where]
        for k, part in enumerate(reversed(parts)):
            y = (y + part[where]) * (x if k % 2 == 0 else 1 - x)
        return y


def _combine(stages: Tensor, weights: NDArray[Any], x: Tensor) -> Tensor:
    """The polynomial in x, without constant term, whose coefficients are weighted stages."""
    coefficients = fresh(np.ascontiguousarray(weights.T, stages.dtype)) @ stages
    found = coefficients[:, -1] * x
    for k in range(coefficients.shape[1] - 2, -1, -1):
        found = (found + coefficients[:, k]) * x
    return found
