"""Rules of the root finders of ``scipy.optimize``: derivatives from the residual at the root."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
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
def _root(
    fun: _Function, x0: Any, args: Any, method: str, jac: Any, tol: Any, callback: Any, options: Any
) -> Any:
    samples = Samples(fun, x0, args, method, jac, tol, callback, options)
    results = samples.run(optimize.root)
    result = joined_result(samples, results)
    y = samples.join([found.x for found in results])
    failure = None if result.success else str(result.message)
    if method == "lm" and failure is None:
        failure = _nonzero_residual(results)
    x = attach_solution("scipy.optimize.root", y, _first(fun, args, jac), failure)
    result.x = depend_on_start(x, x0)
    return result


def _nonzero_residual(results: list[Any]) -> str | None:
    """Returns why least squares did not end at a root, None if they did."""
    largest = max(float(np.max(np.abs(found.fun), initial=0.0)) for found in results)
    if largest <= _ROOT:
        return None
    return f"its residual is {largest:.1e}, a minimum of least squares that is no root"


@rule("scipy.optimize.fsolve", tensors="func x0 args fprime")
def _fsolve(
    func: _Function, x0: Any, args: Any, fprime: Any, full_output: bool, **options: Any
) -> Any:
    samples = Samples(func, x0, args, fprime)
    results = samples.run(lambda *given: optimize.fsolve(*given, full_output=True, **options))
    failed = next((found for found in results if found[2] != 1), None)
    if failed is not None and not full_output:
        warnings.warn(failed[3], RuntimeWarning, stacklevel=2)
    y = samples.join([found[0] for found in results])
    failure = None if failed is None else str(failed[3])
    x = attach_solution("scipy.optimize.fsolve", y, _first(func, args, None), failure)
    x = depend_on_start(x, x0)
    return (x, *results[0][1:]) if full_output else x


@rule("scipy.optimize.root_scalar", tensors="f args bracket fprime fprime2 x0 x1")
def _root_scalar(f: _Function, args: Any = (), *rest: Any, **named: Any) -> Any:
    samples = Samples(f, args, *rest, **named)
    results = samples.run(optimize.root_scalar)
    failed = next((found for found in results if not found.converged), None)
    failure = None if failed is None else str(failed.flag)
    y = samples.join([found.root for found in results])
    residual = _first(f, args, named.get("fprime") is True)
    root = attach_solution("scipy.optimize.root_scalar", y, residual, failure)
    result = failed or results[0]
    result.root = depend_on_start(root, named.get("x0"), named.get("x1"))
    return result


def _declare_bracketing(name: str) -> None:
    """The rule of ``brentq`` and its kin, which have one signature."""
    full = f"scipy.optimize.{name}"
    solver = getattr(optimize, name)
    parameters = inspect.signature(solver).parameters

    @rule(full, tensors="f a b args")
    def _bracketed(f: _Function, a: Any, b: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
        names = [each for each in parameters if each not in ("f", "a", "b", "args")]
        options.update(zip(names, rest, strict=False))
        disp, wants = options.pop("disp", True), options.pop("full_output", False)
        samples = Samples(f, a, b, args)

        def solve(f: _Function, a: Any, b: Any, args: Any) -> Any:
            return solver(f, a, b, as_tuple(args), full_output=True, disp=disp, **options)

        results = samples.run(solve)
        failed = next((info for _, info in results if not info.converged), None)
        y = samples.join([found for found, _ in results])
        failure = None if failed is None else str(failed.flag)
        x = depend_on_start(attach_solution(full, y, _first(f, args, None), failure), a, b)
        if not wants:
            return x
        info = failed or results[0][1]
        info.root = x
        return x, info


for _name in ("brentq", "brenth", "bisect", "ridder", "toms748"):
    _declare_bracketing(_name)


@rule("scipy.optimize.newton", tensors="func x0 fprime args fprime2 x1")
def _newton(
    func: _Function,
    x0: Any,
    fprime: Any,
    args: Any,
    tol: float,
    maxiter: int,
    fprime2: Any,
    x1: Any,
    rtol: float,
    full_output: bool,
    disp: bool,
) -> Any:
    samples = Samples(func, x0, fprime, args, tol, maxiter, fprime2, x1)
    results = samples.run(
        lambda *given: optimize.newton(*given, rtol=rtol, full_output=True, disp=disp)
    )
    failed = next((found for found in results if not _all_converged(found)), None)
    y = samples.join([found[0] for found in results])
    failure = None if failed is None else "the iteration ended before convergence"
    x = attach_solution("scipy.optimize.newton", y, _first(func, args, None), failure)
    x = depend_on_start(x, x0, x1)
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
def _fixed_point(
    func: _Function, x0: Any, args: Any, xtol: float, maxiter: int, method: str
) -> Any:
    samples = Samples(func, x0, args, xtol, maxiter, method)
    y = samples.join(samples.run(optimize.fixed_point))
    more = as_tuple(args)

    def residual(y: Tensor) -> Tensor:
        found = as_tensor(func(y, *more))
        return shapes.reshape(y - found, list(y.shape))

    x = attach_solution("scipy.optimize.fixed_point", y, residual)
    return depend_on_start(x, x0)
