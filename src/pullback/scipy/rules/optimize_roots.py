"""Rules of the root finders of ``scipy.optimize``: derivatives from the residual at the root."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize

from pullback._generated import functions_shape as shapes
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import rule
from pullback.scipy.solutions import attach_solution, depend_on_start
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor

__all__ = ["as_tuple", "joined_result"]

_Function = Callable[..., Any]
_ROOT = 1e-6  # residual up to which a minimum of least squares counts as a root


def as_tuple(args: Any) -> tuple[Any, ...]:
    """SciPy's `args`, which may be one value."""
    return args if isinstance(args, tuple) else (args,)


def joined_result(samples: Samples, results: list[Any]) -> Any:
    """SciPy's result object; for a batch, one with the fields that all samples share."""
    if not samples.is_batched:
        return results[0]
    success = all(result.success for result in results)
    failed = next((result for result in results if not result.success), results[0])
    return optimize.OptimizeResult(success=success, message=failed.message)


def _first(fun: _Function, args: Any, jac: Any) -> _Function:
    """The residual itself where the function returns its Jacobian, too (``jac=True``)."""
    more = as_tuple(args)
    if jac is True or (jac is not None and not callable(jac) and bool(jac)):
        return lambda y: fun(y, *more)[0]
    return lambda y: fun(y, *more)


@rule("scipy.optimize.root", tensors="fun x0 args jac")
def _root(**given: Any) -> Any:
    samples = Samples(**given)
    results = samples.run(optimize.root)
    result = joined_result(samples, results)
    y = samples.join([found.x for found in results])
    failure = None if result.success else str(result.message)
    if given["method"] == "lm" and failure is None:
        failure = _nonzero_residual(results)
    residual = _first(given["fun"], given["args"], given["jac"])
    x = attach_solution("scipy.optimize.root", y, residual, failure)
    result.x = depend_on_start(x, given["x0"])
    return result


def _nonzero_residual(results: list[Any]) -> str | None:
    """Returns why least squares did not end at a root, None if they did."""
    largest = max(float(np.max(np.abs(found.fun), initial=0.0)) for found in results)
    if largest <= _ROOT:
        return None
    return f"its residual is {largest:.1e}, a minimum of least squares that is no root"


@rule("scipy.optimize.fsolve", tensors="func x0 args fprime")
def _fsolve(full_output: bool, **given: Any) -> Any:
    samples = Samples(**given)
    results = samples.run(partial(optimize.fsolve, full_output=True))
    failed = next((found for found in results if found[2] != 1), None)
    if failed is not None and not full_output:
        warnings.warn(failed[3], RuntimeWarning, stacklevel=2)
    y = samples.join([found[0] for found in results])
    failure = None if failed is None else str(failed[3])
    residual = _first(given["func"], given["args"], None)
    x = attach_solution("scipy.optimize.fsolve", y, residual, failure)
    x = depend_on_start(x, given["x0"])
    return (x, *results[0][1:]) if full_output else x


@rule("scipy.optimize.root_scalar", tensors="f args bracket fprime fprime2 x0 x1")
def _root_scalar(**given: Any) -> Any:
    samples = Samples(**given)
    results = samples.run(optimize.root_scalar)
    failed = next((found for found in results if not found.converged), None)
    failure = None if failed is None else str(failed.flag)
    y = samples.join([found.root for found in results])
    residual = _first(given["f"], given["args"], given["fprime"] is True)
    root = attach_solution("scipy.optimize.root_scalar", y, residual, failure)
    result = failed or results[0]
    result.root = depend_on_start(root, given["x0"], given["x1"])
    return result


def _declare_bracketing(name: str) -> None:
    """Declares ``brentq`` and its kin, which have one signature."""
    full, solver = f"scipy.optimize.{name}", getattr(optimize, name)

    @rule(full, tensors="f a b args")
    def apply(args: Any, full_output: bool, **given: Any) -> Any:
        samples = Samples(args=as_tuple(args), **given)
        results = samples.run(partial(solver, full_output=True))
        failed = next((info for _, info in results if not info.converged), None)
        y = samples.join([found for found, _ in results])
        failure = None if failed is None else str(failed.flag)
        x = attach_solution(full, y, _first(given["f"], args, None), failure)
        x = depend_on_start(x, given["a"], given["b"])
        if not full_output:
            return x
        info = failed or results[0][1]
        info.root = x
        return x, info


for _name in ("brentq", "brenth", "bisect", "ridder", "toms748"):
    _declare_bracketing(_name)


@rule("scipy.optimize.newton", tensors="func x0 fprime args fprime2 x1")
def _newton(full_output: bool, **given: Any) -> Any:
    samples = Samples(**given)
    results = samples.run(partial(optimize.newton, full_output=True))
    failed = next((found for found in results if not _all_converged(found)), None)
    y = samples.join([found[0] for found in results])
    failure = None if failed is None else "the iteration ended before convergence"
    residual = _first(given["func"], given["args"], None)
    x = attach_solution("scipy.optimize.newton", y, residual, failure)
    x = depend_on_start(x, given["x0"], given["x1"])
    if not full_output:
        return x
    info = results[0][1:]
    if len(info) == 1:
        info[0].root = x
    return (x, *info)


def _all_converged(found: Any) -> bool:
    info = found[1]
    return bool(info.converged if hasattr(info, "converged") else info.all())


@rule("scipy.optimize.fixed_point", tensors="func x0 args")
def _fixed_point(**given: Any) -> Any:
    samples = Samples(**given)
    y = samples.join(samples.run(optimize.fixed_point))
    function = _first(given["func"], given["args"], None)

    def residual(y: Tensor) -> Tensor:
        found = as_tensor(function(y))
        return shapes.reshape(y - found, list(y.shape))

    x = attach_solution("scipy.optimize.fixed_point", y, residual)
    return depend_on_start(x, given["x0"])
