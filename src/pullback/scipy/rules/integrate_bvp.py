"""Rule of solve_bvp: the collocation equations on SciPy's final mesh as one residual."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, interpolate

from pullback._generated import functions_shape as shapes
from pullback.implicit.attach import dense_inverse
from pullback.interop.arguments import as_tensor, refusal
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.solutions import attach_solution, depend_on_start
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor, fresh

__all__: list[str] = []

_Array = NDArray[Any]
_NAME = "scipy.integrate.solve_bvp"


class _Equations:
    """Lobatto's collocation equations of fourth order, with the boundary conditions behind them.

    The unknown is the flattened solution on the mesh, and then the parameters.
    """

    def __init__(self, given: dict[str, Any], mesh: _Array, components: int, parameters: int):
        self._fun: Callable[..., Any] = given["fun"]
        self._bc: Callable[..., Any] = given["bc"]
        self._mesh = mesh
        self._n = components
        self._k = parameters
        self._singular = None if given["S"] is None else as_tensor(given["S"])
        if self._singular is not None:
            self._regular = np.linalg.pinv(np.identity(components) - np.asarray(given["S"]))

    def split(self, unknown: Tensor) -> tuple[Tensor, Tensor]:
        """The solution on the mesh, and the parameters."""
        size = self._n * len(self._mesh)
        return shapes.reshape(unknown[:size], [self._n, len(self._mesh)]), unknown[size:]

    def slopes(self, x: _Array, y: Tensor, p: Tensor) -> Tensor:
        """The right-hand side, with the singular term S y / (x - a)."""
        found = as_tensor(self._fun(x, y, p) if self._k else self._fun(x, y))
        if self._singular is None:
            return found
        begin = 1 if x[0] == self._mesh[0] else 0
        distance = x[begin:] - self._mesh[0]
        rest: Tensor = found[:, begin:] + self._singular @ y[:, begin:] / distance
        if not begin:
            return rest
        return shapes.concatenate([fresh(self._regular) @ found[:, :1], rest], 1)

    def residual(self, unknown: Tensor) -> Tensor:
        """The collocation equations and the boundary conditions."""
        y, p = self.split(unknown)
        x, h = self._mesh, np.diff(self._mesh)
        f = self.slopes(x, y, p)
        change = y[:, 1:] - y[:, :-1]
        middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
        inner = self.slopes(x[:-1] + 0.5 * h, middle, p)
        equations = change - h / 6 * (f[:, :-1] + f[:, 1:] + 4 * inner)
        ends = (y[:, 0], y[:, -1], p) if self._k else (y[:, 0], y[:, -1])
        conditions = as_tensor(self._bc(*ends))
        return shapes.concatenate([shapes.reshape(equations, [-1]), conditions])


class _Solution(interpolate.PPoly):  # type: ignore[misc]
    """SciPy's cubic spline through the solution, with derivatives by what it depends on."""

    def __init__(self, theirs: Any, mesh: _Array, y: Tensor, slopes: Tensor):
        self.c, self.x = theirs.c, theirs.x  # as PPoly.construct_fast
        self.extrapolate, self.axis = theirs.extrapolate, theirs.axis
        self._mesh, self._y, self._slopes = mesh, y, slopes

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if nu or extrapolate is not None:
            raise option_without_rule(f"{_NAME}: sol", "nu or extrapolate", (nu, extrapolate))
        points = as_tensor(x)
        flat = shapes.reshape(points, [-1])
        at = np.asarray(flat.detach().numpy())
        place = np.clip(np.searchsorted(self._mesh, at, side="right") - 1, 0, len(self._mesh) - 2)
        h = np.diff(self._mesh)[place]
        begin, first = self._y[:, place], self._slopes[:, place]
        rise = (self._y[:, place + 1] - begin) / h
        bend = (first + self._slopes[:, place + 1] - 2 * rise) / h
        dx = flat - self._mesh[place]
        found = ((bend / h * dx + ((rise - first) / h - bend)) * dx + first) * dx + begin
        return shapes.reshape(found, [found.shape[0], *points.shape])


@rule(_NAME, tensors="fun bc y p")
def _solve_bvp(*args: Any, **kwargs: Any) -> Any:
    bound = inspect.signature(integrate.solve_bvp).bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    samples = Samples(**given)
    if samples.is_batched:
        raise refusal(_NAME, "it has no rule for vmap", "Call it in a loop over samples.")
    (result,) = samples.run(integrate.solve_bvp)
    if result.y.dtype.kind == "c":
        raise option_without_rule(_NAME, "y", "complex")
    parameters = np.zeros(0) if result.p is None else result.p
    equations = _Equations(given, result.x, len(result.y), parameters.size)
    start = fresh(np.concatenate([result.y.reshape(-1), parameters]))
    failure = None if result.success else str(result.message)
    found = attach_solution(_NAME, start, equations.residual, failure, solve=dense_inverse)
    found = depend_on_start(found, given["y"], given["p"])
    y, p = equations.split(found)
    slopes = equations.slopes(result.x, y, p)
    result.sol = _Solution(result.sol, result.x, y, slopes)
    result.y, result.yp = y, slopes
    if result.p is not None:
        result.p = p
    return result
