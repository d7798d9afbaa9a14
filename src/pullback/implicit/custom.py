"""Implicit differentiation around the user's own solvers: roots, fixed points, linear systems."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd.modes import no_grad
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import TAPE, StateGuard
from pullback.errors import AutogradError, AutogradTypeError
from pullback.func.arguments import require_function
from pullback.func.reverse import vjp
from pullback.implicit.attach import attach, constant_of
from pullback.implicit.linear_map import LinearMap
from pullback.operators.creation import functions as creation
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, fresh
from pullback.utils import pytree

__all__ = ["custom_fixed_point", "custom_linear_solve", "custom_root", "run_detached"]

_Function = Callable[..., Any]


def run_detached(function: _Function, *args: Any) -> Any:
    """Calls a function without recording, tangents and tapes."""
    with no_grad(), StateGuard(drop=DUAL, end=TAPE):
        return function(*args)


def custom_root(f: _Function, solver: _Function, *, order: int = 2) -> _Function:
    """A function that finds a root of `f` by any solver, with derivatives from `f` alone.

    Args:
        f: the residual ``f(y, *args)``, made of differentiable operations.
        solver: ``solver(f, y0, *args)`` returns y with ``f(y, *args) = 0``: a tensor or an array;
            it may use loops, NumPy, SciPy or foreign code and is not recorded.
        order: the highest derivative of repeated reverse passes; a higher one raises. Nested
            transforms (``pb.hessian``, ``func.jvp``) are counted by themselves.

    Returns ``root(y0, *args)``. Derivatives are by `args` and by tensors that `f` captures; those
    by `y0` are zero.

    >>> import pullback as pb
    >>> def newton(f, y, a):
    ...     for _ in range(30):
    ...         y = y - f(y, a) / (2 * y)
    ...     return y
    >>> root = custom_root(lambda y, a: y * y - a, newton)
    >>> pb.grad(lambda a: root(1.0, a))(4.0), pb.grad(pb.grad(lambda a: root(1.0, a)))(4.0)
    (0.25, -0.03125)
    """
    require_function("custom_root", f)
    require_function("custom_root: solver", solver)

    @functools.wraps(f)
    def root(y0: Any, *args: Any) -> Tensor:
        start = y0 if isinstance(y0, Tensor) else creation.asarray(y0)
        found = run_detached(solver, f, constant_of(start), *_detached(args))
        y = _solution("custom_root", solver, found)
        return attach(y, lambda y: f(y, *args), order=order, name=f"custom_root({_name(f)})")

    return root


def custom_fixed_point(f: _Function, solver: _Function | None = None, **options: Any) -> _Function:
    """A function that finds y with ``y = f(y, *args)``, with derivatives from `f` alone.

    `solver` and the options are those of `custom_root`; ``solver(f, y0, *args)`` gets the map f.
    Without a solver the map is iterated until the change is below 1e-12 in relation to y, at most
    1000 times; then RuntimeError is raised.

    >>> import pullback as pb
    >>> point = custom_fixed_point(lambda y, a: pb.cos(a * y))
    >>> y, slope = pb.value_and_grad(lambda a: point(0.5, a))(1.0)
    >>> round(y, 6), round(slope, 6)
    (0.739085, -0.297474)
    """
    require_function("custom_fixed_point", f)
    iterate = solver or _iterate

    def residual(y: Tensor, *args: Any) -> Tensor:
        return y - f(y, *args)  # type: ignore[no-any-return]

    def solve(_: _Function, y0: Any, *args: Any) -> Any:
        return iterate(f, y0, *args)

    return functools.wraps(f)(custom_root(residual, solve, **options))


def _iterate(f: _Function, y: Any, *args: Any) -> Any:
    limit = 1e-12 if y.dtype.itemsize >= 8 else 1e-6
    for _ in range(1000):
        before, y = y, f(y, *args)
        change, size = abs(y - before).max().item(), abs(y).max().item()
        if change <= limit * max(size, 1e-300):
            return y
        if not size < 1e100:
            break
    raise RuntimeError(
        f"custom_fixed_point({_name(f)}): no convergence in at most 1000 iterations, last change "
        f"{change:.1e}; give a solver of your own, or a better start"
    )


def custom_linear_solve(
    matvec: _Function,
    b: Any,
    solver: _Function,
    transpose_solver: _Function | None = None,
    *,
    symmetric: bool = False,
    order: int = 2,
) -> Tensor:
    """Solves ``matvec(x) = b`` by any solver, with derivatives by b and by what `matvec` captures.

    Args:
        matvec: a linear function of x, made of differentiable operations.
        b: the right-hand side.
        solver: ``solver(matvec, b)`` returns x; it is not recorded.
        transpose_solver: ``transpose_solver(vecmat, b)`` solves the transposed system, by default
            `solver` on the transposed product.
        symmetric: the transposed system is the system itself.
        order: as in `custom_root`.

    >>> import pullback as pb
    >>> b = pb.tensor([2.0, 4.0], requires_grad=True)
    >>> x = custom_linear_solve(lambda x: 2 * x, b, lambda product, b: b / 2)
    >>> x.sum().backward()
    >>> x.tolist(), b.grad.tolist()
    ([1.0, 2.0], [0.5, 0.5])
    """
    require_function("custom_linear_solve", matvec)
    require_function("custom_linear_solve: solver", solver)
    right = b if isinstance(b, Tensor) else creation.asarray(b)
    x = _solution("custom_linear_solve", solver, run_detached(solver, matvec, constant_of(right)))
    operator = _UserSolve(matvec, x, solver, transpose_solver or solver, symmetric)
    name = f"custom_linear_solve({_name(matvec)})"
    return attach(x, lambda x: matvec(x) - right, operator, order=order, name=name)


class _UserSolve(LinearMap):
    """Inverse of the user's linear function, by the user's solver."""

    __slots__ = ("_matvec", "_is_transposed", "_like", "_solvers", "_symmetric")

    def __init__(
        self,
        matvec: _Function,
        like: Tensor,
        solver: _Function,
        transpose_solver: _Function,
        symmetric: bool,
        is_transposed: bool = False,
    ):
        self._matvec = matvec
        self._like = like
        self._solvers = (solver, transpose_solver)
        self._symmetric = symmetric
        self._is_transposed = is_transposed

    def apply(self, x: Tensor) -> Tensor:
        """Runs the solver, without recording; once for each sample if it cannot take a batch."""
        held = x._array
        try:
            return self._solve(constant_of(x))
        except AutogradError:  # the solver reads values, which a batched tensor does not give
            if type(held) is not BatchedArray:
                raise
        k = len(held.levels)
        rows = held.array.reshape(-1, *held.array.shape[k:])
        made = np.stack([np.asarray(self._solve(fresh(row))._array) for row in rows])
        return fresh(BatchedArray(made.reshape(held.array.shape), held.levels))

    def _solve(self, right: Tensor) -> Tensor:
        solver = self._solvers[self._is_transposed]
        product = self._matvec
        if self._is_transposed and not self._symmetric:
            product = functools.partial(_transposed, self._matvec, self._like)
        shaped = right.reshape(list(self._like.shape))
        found = run_detached(solver, lambda vector: _constant(product(vector)), shaped)
        made = _solution("custom_linear_solve", solver, found).reshape([right.size])
        return constant_of(made)

    def adjoint(self) -> LinearMap:
        """Returns the inverse of the transposed function."""
        return _UserSolve(
            self._matvec, self._like, *self._solvers, self._symmetric, not self._is_transposed
        )


def _transposed(matvec: _Function, like: Tensor, vector: Any) -> Tensor:
    """Product of the transposed linear function with a vector."""
    cotangent = vector if isinstance(vector, Tensor) else creation.asarray(vector)
    (found,) = vjp(matvec, constant_of(like))[1](cotangent)
    return constant_of(found)


def _detached(tree: Any) -> Any:
    return pytree.map(_constant, tree)


def _constant(value: Any) -> Any:
    return constant_of(value) if isinstance(value, Tensor) else value


def _solution(name: str, solver: _Function, found: Any) -> Tensor:
    made = found if isinstance(found, Tensor) else creation.asarray(found)
    if made.dtype.kind not in "fc":
        raise AutogradTypeError(
            f"{name}: the solver {_name(solver)} must return floating-point numbers, not "
            f"{made.dtype}"
        )
    return made


def _name(function: _Function) -> str:
    return getattr(function, "__name__", type(function).__name__)
