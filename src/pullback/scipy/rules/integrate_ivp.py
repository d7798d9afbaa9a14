"""Rules of solve_ivp and odeint."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate

from pullback._generated import functions_shape as shapes
from pullback.implicit.attach import attach, constant_of
from pullback.interop.arguments import as_tensor, carries_gradient
from pullback.scipy.ode import Problem, Trajectory, trajectory
from pullback.scipy.ode_methods import METHODS
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor, fresh

__all__: list[str] = []

_Function = Callable[..., Any]
_REPLAYED = ("BDF", "LSODA")


class _Solution(integrate.OdeSolution):  # type: ignore[misc]
    """SciPy's continuous solution, differentiable by its times, too."""

    def __init__(self, theirs: Any, path: Trajectory):
        self.__dict__.update(theirs.__dict__)
        self._path = path
        self._theirs = theirs

    def __call__(self, t: Any) -> Any:
        times = as_tensor(t)
        flat = shapes.reshape(times, [-1])
        found = shapes.swapaxes(self._path.at(flat), 0, 1)
        if not self._path.is_batched:
            found = _with_values(self._theirs(np.asarray(constant_of(flat)._array)), found)
        return found[:, 0] if times.ndim == 0 else found


def _with_values(values: Any, ours: Tensor) -> Tensor:
    """SciPy's values with our derivatives; the two differ by less than the tolerance.

    A batch whose samples have different steps keeps our values.
    """
    if values is None:
        return ours
    return constant_of(as_tensor(values)) + (ours - constant_of(ours))


@rule("scipy.integrate.solve_ivp", tensors="fun t_span y0 t_eval args events options")
def _solve_ivp(
    fun: _Function,
    t_span: Any,
    y0: Any,
    method: Any,
    t_eval: Any,
    dense_output: bool,
    events: Any,
    vectorized: bool,
    args: Any,
    **options: Any,
) -> Any:
    name = "scipy.integrate.solve_ivp"
    method = getattr(method, "__name__", method)
    if method not in (*METHODS, *_REPLAYED):
        raise option_without_rule(name, "method", method)
    adjoint = options.pop("adjoint", False)
    problem = Problem(name, fun, tuple(t_span), y0, tuple(args or ()), method, options, adjoint)
    path = trajectory(
        problem,
        t_eval=t_eval,
        dense_output=dense_output,
        events=events,
        vectorized=vectorized,
    )
    result = path.result
    if events is not None:
        _attach_events(result, path, events, problem)
    times = _times(result, path, t_eval)
    if t_eval is None and path.is_batched:
        result.y, states = None, path.states
        result.t = times = path.mesh.times
    elif t_eval is None and path.method == method and result.status != 1:
        states = path.states
    else:
        states = path.at(times)
    result.y = _with_values(result.y, shapes.swapaxes(states, 0, 1))
    result.t = times if carries_gradient(times) else result.t
    if dense_output:
        result.sol = _Solution(result.sol, path)
    return result


def _times(result: Any, path: Trajectory, t_eval: Any) -> Tensor:
    """The times of the states that the result has, with their gradients."""
    if t_eval is not None:
        return as_tensor(t_eval)[: len(result.t)]
    if len(result.t) == path.mesh.times.shape[0] and result.status != 1:
        return path.mesh.times
    if result.status != 1:  # BDF and LSODA: steps of their own
        return _moved(path, result.t)
    last = next(found[-1:] for found in result.t_events if found.size and found[-1] == result.t[-1])
    return shapes.concatenate([_moved(path, result.t[:-1]), as_tensor(last)])


def _moved(path: Trajectory, times: Any) -> Tensor:
    """Constant times, moved with the limits of integration if these carry gradients."""
    mesh = path.mesh.times
    if not carries_gradient(mesh):
        return fresh(np.array(times))
    whole = np.asarray(constant_of(mesh)._array)
    parts = (times - whole[0]) / (whole[-1] - whole[0])
    moved: Tensor = mesh[0] + parts * (mesh[-1] - mesh[0])
    return moved


def _attach_events(result: Any, path: Trajectory, events: Any, problem: Problem) -> None:
    """Gives times and states of events their derivatives: an event is a root of its function."""
    functions = [events] if callable(events) else list(events)
    made_times: list[Any] = []
    made_states: list[Any] = []
    for function, times in zip(functions, result.t_events, strict=True):

        def residual(t: Tensor, function: _Function = function) -> Tensor:
            states = path.at(t)
            found = [
                shapes.reshape(as_tensor(function(t[k], states[k], *problem.args)), [])
                for k in range(t.shape[0])
            ]
            return shapes.stack(found)

        if not times.size:
            made_times.append(times)
            made_states.append(times)
            continue
        at = attach(fresh(np.array(times)), residual, name=f"{problem.name}: events")
        made_times.append(at)
        made_states.append(path.at(at))
    result.t_events, result.y_events = made_times, made_states


# --- odeint --------------------------------------------------------------------------------------


@rule("scipy.integrate.odeint", tensors="func y0 t args Dfun")
def _odeint(*args: Any, **kwargs: Any) -> Any:
    bound = inspect.signature(integrate.odeint).bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    func, t = given["func"], as_tensor(given["t"])
    more = given["args"] if isinstance(given["args"], tuple) else (given["args"],)
    is_time_first = given["tfirst"]

    def fun(t: Any, y: Any, *more: Any) -> Any:
        return func(t, y, *more) if is_time_first else func(y, t, *more)

    tolerance = {"rtol": given["rtol"] or 1.49012e-8, "atol": given["atol"] or 1.49012e-8}
    name = "scipy.integrate.odeint"
    span = (t[0], t[-1])
    problem = Problem(name, fun, span, given["y0"], more, "LSODA", tolerance)
    path = trajectory(problem)
    samples = Samples(**given)
    theirs = samples.run(integrate.odeint)
    values = samples.join([each[0] if given["full_output"] else each for each in theirs])
    found = _with_values(values, path.at(t))
    return (found, theirs[0][1]) if given["full_output"] else found
