"""Derivatives of initial value problems: the accepted steps of SciPy's solver as one equation.

SciPy solves on arrays. RK23, RK45, DOP853 and Radau are then differentiated through their own
steps: the stages of all steps together are the unknown of one implicit equation (``ode_steps.py``),
so the derivatives are those of the numerical solution, step sizes being constants. BDF and LSODA
keep their values; their derivatives are those of a second solution with a ten times narrower
tolerance, by DOP853, or by Radau if that takes too many steps (a stiff problem).

With ``adjoint=True`` nothing of the size of a Jacobian is made, and the right-hand side is
evaluated again in backward passes instead of being saved: slower, for large systems.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shapes
from pullback.implicit.attach import attach, constant_of
from pullback.implicit.linear_map import SampleMap
from pullback.interop.arguments import as_tensor, carries_gradient, refusal
from pullback.scipy.ode_methods import (
    METHODS,
    Interpolation,
    TooManyStepsError,
    recording_class,
    tableau_of,
)
from pullback.scipy.ode_steps import Mesh, StageSystem, Steps, Tableau, inverse_of_stages
from pullback.scipy.registry import option_without_rule
from pullback.scipy.twins import Samples
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["Problem", "Trajectory", "trajectory"]

_MAX_JACOBIAN_ENTRIES = 100_000_000  # 800 MB in double precision

_Array = NDArray[Any]
_Function = Callable[..., Any]


class Problem(NamedTuple):
    """An initial value problem, with tensors among its parts."""

    name: str  # of SciPy's function
    fun: _Function  # (t, y, *args)
    t_span: tuple[Any, Any]
    y0: Any
    args: tuple[Any, ...]
    method: str
    options: dict[str, Any]  # of the solver: rtol, atol, jac, max_step, ...
    adjoint: bool = False  # products with Jacobians and checkpoints, instead of Jacobians


class _Run(NamedTuple):
    """Result and steps of one solution on arrays, and the inverse of the steps' Jacobian."""

    result: Any
    method: str
    steps: Steps
    inverse: Any


class Trajectory:
    """The states of a solution, differentiable: at the steps, and between them."""

    def __init__(self, problem: Problem, run: _Run):
        self.result = run.result
        self.method = run.method
        self.is_batched = isinstance(run.inverse, SampleMap)
        y0 = as_tensor(problem.y0)
        self._is_complex = run.steps.stages.dtype.kind == "c"
        tableau = tableau_of(run.method)
        self._f = _right_hand_side(problem, self._is_complex)
        self.mesh = _mesh(problem.t_span, run.steps.times)
        steps = Steps(run.steps.times, as_tensor(run.steps.stages), as_tensor(run.steps.last))
        if self._is_complex:
            steps = Steps(steps.times, _real(steps.stages), _real(steps.last))
        n, s, d = steps.stages.shape
        flat = shapes.reshape(steps.stages, [n * s, d])
        unknown = shapes.concatenate([flat, steps.last[None]])
        start = shapes.reshape(y0, [-1]) * np.ones((), unknown.dtype)
        start = _real(start) if self._is_complex else start
        system = StageSystem(self._f, tableau, self.mesh, start, problem.adjoint)
        found = attach(unknown, system.residual, run.inverse, name=problem.name)
        self._states = system.states(found)
        self._between = Interpolation(
            run.method, self._f, self.mesh, system.stages(found), found[-1:], self._states
        )

    @property
    def states(self) -> Tensor:
        """The states at the steps, of shape (n + 1, d)."""
        return _complex(self._states) if self._is_complex else self._states

    def at(self, t: Any) -> Tensor:
        """The states at a vector of times, of shape (m, d)."""
        found = self._between(as_tensor(t))
        return _complex(found) if self._is_complex else found


def trajectory(problem: Problem, **solve_options: Any) -> Trajectory:
    """Solves a problem on arrays, and gives the solution its derivatives.

    `solve_options` are those of solve_ivp that do not belong to the solver: t_eval, events, ...
    """
    samples = Samples(
        problem.fun,
        problem.t_span,
        problem.y0,
        problem.args,
        problem.options,
        solve_options,
    )

    def solve(fun: Any, t_span: Any, y0: Any, args: Any, options: Any, more: Any) -> Any:
        plain = problem._replace(fun=fun, t_span=t_span, y0=y0, args=args, options=options)
        result, method, steps = _solve_steps(plain, more)
        if samples.is_batched:
            return result, method, steps
        return _with_inverse(plain, result, method, steps)

    runs = samples.run(solve)
    if not samples.is_batched:
        return Trajectory(problem, runs[0])
    _require_common_times(problem, solve_options)
    return Trajectory(problem, _common_run(problem, samples, runs))


def _require_common_times(problem: Problem, solve_options: dict[str, Any]) -> None:
    times = [*problem.t_span, solve_options.get("t_eval")]
    if any(isinstance(t, Tensor) and levels_of(t) for t in times):
        raise refusal(problem.name, "it has no rule for vmap over times", "Call it in a loop.")
    if solve_options.get("events") is not None:
        raise refusal(problem.name, "it has no rule for vmap with events", "Call it in a loop.")


def _common_run(problem: Problem, samples: Samples, runs: list[Any]) -> _Run:
    """The solutions of all samples on one mesh, which has the steps of all of them."""
    methods = {method for _, method, _ in runs}
    method = methods.pop() if len(methods) == 1 else "Radau"
    times = np.sort(np.concatenate([steps.times for _, _, steps in runs]))
    if runs[0][2].times[-1] < runs[0][2].times[0]:
        times = times[::-1]
    apart = np.abs(np.diff(times)) > 1e-9 * abs(times[-1] - times[0])
    times = times[np.append(apart, True)]
    times[0] = runs[0][2].times[0]

    def replay(fun: Any, t_span: Any, y0: Any, args: Any, options: Any, _: Any) -> _Run:
        plain = problem._replace(fun=fun, t_span=t_span, y0=y0, args=args, options=options)
        return _with_inverse(plain, None, method, _steps_on(plain, method, times))

    found = samples.run(replay)
    steps = Steps(
        times,
        samples.join([run.steps.stages for run in found]),
        samples.join([run.steps.last for run in found]),
    )
    result = type(runs[0][0])(runs[0][0])
    result.success = all(each.success for each, _, _ in runs)
    inverse = SampleMap([run.inverse for run in found], samples.levels, samples.sizes)
    values = [each.y for each, _, _ in runs]
    same = len({value.shape for value in values}) == 1
    result.y = samples.join(values) if same else None
    return _Run(result, method, steps, inverse)


def _steps_on(problem: Problem, method: str, times: _Array) -> Steps:
    """Runge-Kutta steps on a given mesh."""
    tableau = tableau_of(method)

    def f(t: float, y: _Array) -> _Array:
        return np.asarray(problem.fun(t, y, *problem.args)).reshape(-1)

    y = np.asarray(problem.y0).reshape(-1)
    stages = []
    guess = np.stack([f(times[0], y)] * len(tableau.b))
    for t, h in zip(times[:-1], np.diff(times), strict=True):
        guess = _stages_of(f, tableau, t, y, h, guess)
        stages.append(guess)
        y = y + h * (tableau.b @ guess)
    return Steps(times, np.array(stages), f(times[-1], y))


def _stages_of(
    f: Callable[..., _Array], tableau: Tableau, t: float, y: _Array, h: float, guess: _Array
) -> _Array:
    found = np.zeros(guess.shape, np.result_type(guess, y, 1.0))
    if tableau.is_explicit:
        for i, c in enumerate(tableau.c):
            found[i] = f(t + c * h, y + h * (tableau.a[i, :i] @ found[:i]))
        return found

    def residual(flat: _Array) -> _Array:
        stages = flat.reshape(guess.shape)
        inner = y + h * (tableau.a @ stages)
        return (stages - [f(t + c * h, at) for c, at in zip(tableau.c, inner, strict=True)]).ravel()

    solved: _Array = optimize.root(residual, guess.ravel(), tol=1e-12).x
    return solved.reshape(guess.shape)


def _with_inverse(problem: Problem, result: Any, method: str, steps: Steps) -> _Run:
    """The steps of a solution on arrays, with the inverse of their Jacobian."""
    is_complex = steps.stages.dtype.kind == "c"
    real = _real_steps(steps) if is_complex else steps
    start = np.asarray(problem.y0).reshape(-1)
    start = np.concatenate([start.real, start.imag]) if is_complex else start
    tableau = tableau_of(method)
    count = (real.stages.shape[0] * real.stages.shape[1] + 1) * start.size**2
    if problem.adjoint and not tableau.is_explicit:
        raise option_without_rule(problem.name, "adjoint=True and method", problem.method)
    if count > _MAX_JACOBIAN_ENTRIES and not problem.adjoint:
        raise refusal(
            problem.name,
            f"the Jacobians of its {len(steps.stages)} steps for {start.size} components do not "
            f"fit into memory",
            "Pass adjoint=True, which keeps no Jacobians.",
        )
    sizes, points, states = _stage_points(tableau, real, start)
    f = _right_hand_side(problem, is_complex)
    inverse = inverse_of_stages(f, tableau, sizes, points, states, problem.adjoint)
    return _Run(result, method, steps, inverse)


def _solve_steps(problem: Problem, more: dict[str, Any]) -> tuple[Any, str, Steps]:
    args = problem.args or None
    given = (problem.fun, problem.t_span, problem.y0)
    if problem.method in METHODS:
        kind, steps = recording_class(problem.method)
        result = integrate.solve_ivp(*given, kind, args=args, **more, **problem.options)
        return result, problem.method, steps()
    result = integrate.solve_ivp(*given, problem.method, args=args, **more, **problem.options)
    kept = ("rtol", "atol", "first_step", "max_step", "vectorized")
    options = {key: problem.options[key] for key in kept if key in problem.options}
    options["rtol"] = np.maximum(np.asarray(options.get("rtol", 1e-3)) / 10, 3e-14)
    options["atol"] = np.asarray(options.get("atol", 1e-6)) / 10
    kind, steps = recording_class("DOP853", limit=result.nfev + 100)
    try:
        integrate.solve_ivp(*given, kind, args=args, **options)
        return result, "DOP853", steps()
    except TooManyStepsError:
        kind, steps = recording_class("Radau")
        if "jac" in problem.options:
            options["jac"] = problem.options["jac"]
        integrate.solve_ivp(*given, kind, args=args, **options)
        return result, "Radau", steps()


def _stage_points(tableau: Tableau, steps: Steps, start: _Array) -> tuple[_Array, _Array, _Array]:
    """Step sizes, times and states of all stages, with the end as the last point."""
    sizes = np.diff(steps.times)
    changes = sizes[:, None] * np.einsum("i,nia->na", tableau.b, steps.stages)
    states = np.cumsum(np.concatenate([start[None], changes]), axis=0)
    inner = sizes[:, None, None] * np.einsum("ij,nja->nia", tableau.a, steps.stages)
    points = (states[:-1, None] + inner).reshape(-1, start.size)
    times = (steps.times[:-1, None] + sizes[:, None] * tableau.c).reshape(-1)
    return (
        sizes,
        np.concatenate([times, steps.times[-1:]]),
        np.concatenate([points, states[-1:]]),
    )


def _right_hand_side(problem: Problem, is_complex: bool) -> Callable[[Tensor, Tensor], Tensor]:
    fun, args = problem.fun, problem.args

    def f(t: Tensor, y: Tensor) -> Tensor:
        if is_complex:
            return _real(as_tensor(fun(t, _complex(y), *args)))
        return shapes.reshape(as_tensor(fun(t, y, *args)), [y.size])

    return f


def _mesh(t_span: tuple[Any, Any], times: _Array) -> Mesh:
    """The times of the steps; they move with the limits of integration if these have gradients."""
    first, last = (as_tensor(t) for t in t_span)
    if not carries_gradient(first) and not carries_gradient(last):
        return Mesh(fresh(times), fresh(np.diff(times)))
    start, stop = float(constant_of(first).item()), float(constant_of(last).item())
    parts = (times - start) / (stop - start)
    length = last - first
    return Mesh(first + parts * length, length * np.diff(parts))


def _real_steps(steps: Steps) -> Steps:
    def real(values: _Array) -> _Array:
        return np.concatenate([values.real, values.imag], axis=-1)

    return Steps(steps.times, real(steps.stages), real(steps.last))


def _real(y: Tensor) -> Tensor:
    """A complex vector as a real one of twice the length, so that f need not be holomorphic."""
    return shapes.concatenate([pointwise.real(y), pointwise.imag(y)], -1)


def _complex(y: Tensor) -> Tensor:
    half = y.shape[-1] // 2
    return y[..., :half] + 1j * y[..., half:]
