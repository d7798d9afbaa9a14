"""Records of linear algebra, without decompositions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS", "rectangles", "square", "squares"]

Array = NDArray[Any]
Function = Callable[..., Any]

STACKS: tuple[tuple[int, ...], ...] = ((), (2,), (2, 1), (0,))


def square(make: Make, *shape: int) -> Array:
    """Square matrices far from singular, with eigenvalues far from each other."""
    n = shape[-1]
    diagonal = np.diag(np.arange(3.0, 3.0 + 2 * n, 2.0))
    return np.asarray(make(*shape, n) + diagonal.astype(make.dtype))


def squares(make: Make) -> Iterator[Sample]:
    """Square matrices, in stacks of every kind."""
    for stack in STACKS:
        yield call(square(make, *stack, 3))
    yield call(square(make, 1))
    yield call(square(make, 0))


def rectangles(make: Make) -> Iterator[Sample]:
    """Matrices of every form, in stacks of every kind."""
    for stack in STACKS:
        yield call(make(*stack, 3, 3))
    for shape in ((4, 2), (2, 4), (2, 4, 3), (3, 1), (1, 3)):
        yield call(make(*shape))


def _singular(make: Make) -> Iterator[Sample]:
    """Matrices of rank n - 1 and less, whose determinants still have derivatives."""
    yield call(make(2, 1) @ make(1, 2))
    yield call(make(3, 2) @ make(2, 3))
    yield call(make(3, 1) @ make(1, 3))
    yield call(make(2, 2) * 0)
    yield call(np.stack([make(3, 2) @ make(2, 3), square(make, 3)]))


def _solve(make: Make) -> Iterator[Sample]:
    yield call(square(make, 3), make(3))
    yield call(square(make, 3), make(3, 2))
    yield call(square(make, 2, 3), make(3))
    yield call(square(make, 2, 3), make(3, 2))
    yield call(square(make, 3), make(2, 3, 2))
    yield call(square(make, 2, 1, 3), make(4, 3, 2))
    yield call(square(make, 0), make(0))
    yield call(square(make, 0, 3), make(3, 1))


def _lstsq(make: Make) -> Iterator[Sample]:
    for m, n in ((4, 2), (3, 3), (2, 4)):
        yield call(make(m, n), make(m))
        yield call(make(m, n), make(m, 2), rcond=1e-10)


def _pinv(make: Make) -> Iterator[Sample]:
    yield from rectangles(make)
    yield call(make(3, 2), 1e-10)
    yield call(make(2, 3), rtol=1e-10)
    yield call(make(0, 3))


def _tensorinv(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 6))
    yield call(make(6, 2, 3), 1)
    yield call(make(6, 3, 2), ind=1)


def _tensorsolve(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 6), make(2, 3))
    yield call(make(2, 3, 2, 3), make(2, 3))
    yield call(make(3, 6, 2), make(6), (0, 2))


def _vector_norm(make: Make) -> Iterator[Sample]:
    for order in (2, 1, 3, 1.5, 0.5, -1, -2, inf, -inf, 0):
        yield call(make(4), ord=order)
        yield call(make(2, 3), axis=0, ord=order)
    yield call(make())
    yield call(make(2, 3, 4), axis=(0, -1))
    yield call(make(2, 3, 4), axis=(2, 1), ord=3)
    yield call(make(2, 3), axis=-1, keepdims=True)
    yield call(make(2, 3), keepdims=True, ord=1)
    yield call(make(2, 3, 4), axis=(0, 2), keepdims=True, ord=inf)
    yield call(make(0))
    yield call(make(2, 0), axis=1, ord=1)


def _matrix_norm(make: Make) -> Iterator[Sample]:
    for order in ("fro", "nuc", 1, -1, 2, -2, inf, -inf):
        yield call(make(3, 2), ord=order)
        yield call(make(2, 3, 3), ord=order, keepdims=True)
    yield call(make(2, 3))


def _norm(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 2))
    yield call(make(2, 3), keepdims=True)
    yield call(make(3), 3)
    yield call(make(3), inf, 0, True)
    yield call(make(2, 3), axis=1)
    yield call(make(2, 3, 4), axis=(0, 2))
    for order in ("fro", "nuc", 1, -1, 2, -2, inf, -inf):
        yield call(make(2, 3), order)
        yield call(make(3, 2, 4), order, (2, 0), True)


def _cond(make: Make) -> Iterator[Sample]:
    for p in (None, 2, -2, 1, -1, inf, -inf, "fro"):
        yield call(square(make, 3), p)
    yield call(make(3, 2))
    yield call(square(make, 2, 3), p=1)


def _ranks(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3))
    yield call(make(4, 2) @ make(2, 4))
    yield call(make(2, 3, 4), 10.0)
    yield call(make(2, 3, 3), rtol=1e-3)
    yield call(make(3))


def _matrix_power(make: Make) -> Iterator[Sample]:
    for n in (0, 1, 2, 3, 7, -1, -2):
        yield call(square(make, 2) / 3, n)
    yield call(square(make, 3, 2) / 3, 5)


def _multi_dot(make: Make) -> Iterator[Sample]:
    yield call([make(2, 3), make(3, 2)])
    yield call([make(2, 3), make(3, 5), make(5, 2), make(2, 4)])
    yield call([make(3), make(3, 2), make(2, 4)])
    yield call([make(2, 3), make(3, 4), make(4)])
    yield call([make(3), make(3, 4), make(4)])


def _diagonal(make: Make) -> Iterator[Sample]:
    yield call(make(3, 3))
    yield call(make(2, 3, 4), offset=1)
    yield call(make(2, 3), offset=-1)


def _expm(make: Make) -> Iterator[Sample]:
    yield from squares(make)
    yield call(make(3, 3) / 100)
    yield call(np.stack([make(2, 2) * 5, make(2, 2) / 20]))


def _exponential(x: Array) -> Array:
    """The exponential of a matrix from its series, with more digits than it is compared in."""
    small = x.astype(np.result_type(x, np.longdouble)) / 2**12
    term = total = np.zeros_like(small) + np.eye(x.shape[-1])
    for k in range(1, 14):
        term = term @ small / k
        total = total + term
    for _ in range(12):
        total = total @ total
    return total.astype(x.dtype)


def _torch(name: str) -> Function:
    """PyTorch's function of the same name and arguments."""
    return lambda t, *args, **kwargs: getattr(t.linalg, name)(*args, **kwargs)


def _torch_norm(name: str) -> Function:
    """PyTorch's norms, which call axes dim."""

    def function(t: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        options = {} if ord is None else {"ord": ord}
        if axis is not None:
            options["dim"] = axis
        return getattr(t.linalg, name)(x, keepdim=keepdims, **options)

    return function


def _torch_cond(t: Any, x: Any, p: Any = None) -> Any:
    """PyTorch's own function cannot be differentiated where it uses the inverse."""
    if p in (None, 2, -2):
        return t.linalg.cond(x, p)
    return t.linalg.matrix_norm(x, p) * t.linalg.matrix_norm(t.linalg.inv(x), p)


OPS = [
    OpInfo("linalg.inv", squares, np.linalg.inv, _torch("inv")),
    OpInfo("linalg.solve", _solve, np.linalg.solve, _torch("solve")),
    OpInfo("linalg.lstsq", _lstsq, np.linalg.lstsq),
    OpInfo("linalg.pinv", _pinv, np.linalg.pinv, lambda t, x, *_, **__: t.linalg.pinv(x)),
    OpInfo("linalg.tensorinv", _tensorinv, np.linalg.tensorinv, _torch("tensorinv")),
    OpInfo(
        "linalg.tensorsolve",
        _tensorsolve,
        np.linalg.tensorsolve,
        lambda t, a, b, axes=None: t.linalg.tensorsolve(a, b, dims=axes),
    ),
    OpInfo("linalg.det", squares, np.linalg.det, _torch("det")),
    OpInfo("linalg.det", _singular, np.linalg.det),
    OpInfo("linalg.slogdet", squares, np.linalg.slogdet, _torch("slogdet")),
    OpInfo("linalg.vector_norm", _vector_norm, np.linalg.vector_norm, _torch_norm("vector_norm")),
    OpInfo("linalg.matrix_norm", _matrix_norm, np.linalg.matrix_norm, _torch_norm("matrix_norm")),
    OpInfo("linalg.norm", _norm, np.linalg.norm, _torch_norm("norm")),
    OpInfo("linalg.cond", _cond, np.linalg.cond, _torch_cond),
    OpInfo("linalg.matrix_rank", _ranks, np.linalg.matrix_rank, differentiable=False),
    OpInfo("linalg.expm", _expm, _exponential, lambda t, x: t.linalg.matrix_exp(x)),
    OpInfo("linalg.matrix_power", _matrix_power, np.linalg.matrix_power, _torch("matrix_power")),
    OpInfo("linalg.multi_dot", _multi_dot, np.linalg.multi_dot, _torch("multi_dot")),
    OpInfo("linalg.diagonal", _diagonal, np.linalg.diagonal, _torch("diagonal")),
]
