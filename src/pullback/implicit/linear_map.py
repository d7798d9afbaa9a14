"""Constant linear maps as operators, and the count of how often they are differentiated.

`solve_map` applies the inverse of a constant Jacobian. Its backward is the transposed map, its JVP
is the map itself. An implicit solution is exact to a certain order only (``attach.py``), so every
reverse pass that is recorded leaves a guard in the graph: a zero that depends on the residual.
Differentiating it once more runs the guard's backward, which raises beyond the supported order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_shape as shapes
from pullback.autograd.function import Function
from pullback.autograd.levels import in_forward_mode
from pullback.autograd.modes import is_grad_enabled
from pullback.batching.align import array_for
from pullback.errors import DerivativeMissingError
from pullback.tensor.batched import BatchedArray, Levels, levels_of
from pullback.tensor.tensor import Tensor, fresh

__all__ = [
    "ArrayMap",
    "LinearMap",
    "MatrixMap",
    "SampleMap",
    "linear_map",
    "skip_first_order",
    "solve_map",
]

_ArrayFunction = Callable[[NDArray[Any]], NDArray[Any]]


class LinearMap:
    """A linear map of tensors, with its adjoint."""

    __slots__ = ()

    def apply(self, x: Tensor) -> Tensor:
        """Applies the map; `x` may be batched."""
        raise NotImplementedError

    def adjoint(self) -> LinearMap:
        """Returns the conjugate transpose."""
        raise NotImplementedError


class MatrixMap(LinearMap):
    """Product of a constant matrix with a vector; the matrix may be batched by vmap."""

    __slots__ = ("matrix",)

    def __init__(self, matrix: Tensor):
        self.matrix = matrix

    def apply(self, x: Tensor) -> Tensor:
        """Multiplies a vector."""
        return products.matmul(self.matrix, x)

    def adjoint(self) -> MatrixMap:
        """Returns the product with the conjugate transpose."""
        return MatrixMap(pointwise.conj(shapes.swapaxes(self.matrix, -2, -1)))


class ArrayMap(LinearMap):
    """A linear map given by two functions of arrays, forward and adjoint.

    They take and return an array whose first axis counts the rows, which are mapped one by one.
    """

    __slots__ = ("_backward", "_forward")

    def __init__(self, forward: _ArrayFunction, backward: _ArrayFunction):
        self._forward = forward
        self._backward = backward

    def apply(self, x: Tensor) -> Tensor:
        """Calls the forward function on the array as one row, or on all samples of a batch."""
        held = x._array
        if type(held) is not BatchedArray:
            return fresh(self._forward(held[None])[0])
        k = len(held.levels)
        outer, inner = held.array.shape[:k], held.array.shape[k:]
        made = self._forward(held.array.reshape(-1, *inner))
        return fresh(BatchedArray(made.reshape(*outer, *made.shape[1:]), held.levels))

    def apply_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Applies the map to the rows of an array."""
        return self._forward(rows)

    def adjoint(self) -> ArrayMap:
        """Returns the map with the two functions exchanged."""
        return ArrayMap(self._backward, self._forward)


class SampleMap(LinearMap):
    """One map for each sample of a batch, of levels that are batched by vmap."""

    __slots__ = ("_levels", "_maps", "_sizes")

    def __init__(self, maps: list[ArrayMap], levels: Levels, sizes: tuple[int, ...]):
        self._maps = maps
        self._levels = levels
        self._sizes = sizes

    def apply(self, x: Tensor) -> Tensor:
        """Applies to each sample its map; other batch dimensions are rows."""
        levels = tuple(sorted({*levels_of(x), *self._levels}))
        own = [levels.index(level) for level in self._levels]
        array = np.moveaxis(array_for(x, levels), own, range(len(own)))
        rest = array.shape[len(own) :]
        whole = np.broadcast_to(array, (*self._sizes, *rest)).reshape(len(self._maps), -1, rest[-1])
        pairs = zip(self._maps, whole, strict=True)
        made = np.stack([each.apply_rows(rows) for each, rows in pairs])
        shaped = made.reshape(*self._sizes, *rest[:-1], made.shape[-1])
        return fresh(BatchedArray(np.moveaxis(shaped, range(len(own)), own), levels))

    def adjoint(self) -> SampleMap:
        """Returns the batch of adjoints."""
        return SampleMap([each.adjoint() for each in self._maps], self._levels, self._sizes)


class _Solve(Function):
    """First application of a map, to a recorded residual."""

    generate_vmap_rule = True

    @staticmethod
    def forward(residual: Tensor, operator: LinearMap, limit: int, name: str) -> Tensor:  # noqa: ARG004
        return operator.apply(residual)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        residual, ctx.operator, ctx.limit, ctx.solver = inputs
        ctx.save_for_backward(residual)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _require_order(ctx.solver, 1, ctx.limit)
        guard = None
        if is_grad_enabled():
            guard = _Guard.apply(ctx.saved_tensors[0], 1, ctx.limit, ctx.solver)
        return _Linear.apply(grad, guard, ctx.operator.adjoint()), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return _Linear.apply(tangent, None, ctx.operator)  # type: ignore[no-any-return]


class _Linear(Function):
    """A linear map of a cotangent or tangent; the guard is a zero that its backward also visits."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, guard: Tensor | None, operator: LinearMap) -> Tensor:  # noqa: ARG004
        return operator.apply(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        _, guard, ctx.operator = inputs
        ctx.save_for_backward(guard)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (guard,) = ctx.saved_tensors
        zero = None if guard is None else fresh(np.zeros((), guard.dtype))
        return _Linear.apply(grad, guard, ctx.operator.adjoint()), zero, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return _Linear.apply(tangent, None, ctx.operator)  # type: ignore[no-any-return]


class _Guard(Function):
    """A zero that depends on a residual; its backward counts the order of differentiation."""

    generate_vmap_rule = True

    @staticmethod
    def forward(residual: Tensor, depth: int, limit: int, name: str) -> Tensor:  # noqa: ARG004
        return fresh(np.zeros((), residual.dtype))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        residual, ctx.depth, ctx.limit, ctx.solver = inputs
        ctx.save_for_backward(residual)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # noqa: ARG004
        _require_order(ctx.solver, ctx.depth + 1, ctx.limit)
        if not is_grad_enabled():
            return None, None, None, None
        (residual,) = ctx.saved_tensors
        zero = _Guard.apply(residual, ctx.depth + 1, ctx.limit, ctx.solver)
        return shapes.broadcast_to(zero, list(residual.shape)), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:  # noqa: ARG004
        return fresh(np.zeros((), tangent.dtype))


class _SkipFirstOrder(Function):
    """Identity whose cotangents vanish at first order, so a pass that is not recorded skips them.

    The next chord step removes the dependence on the iterate to first order: the cotangent is
    ``v - Jᵀ J⁻ᵀ v``. After a recorded pass nothing is skipped: the next one may be of second order.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.was_recorded = False

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        ctx.was_recorded |= is_grad_enabled()
        return grad if ctx.was_recorded or in_forward_mode() else None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:  # noqa: ARG004
        return tangent.clone()


def solve_map(residual: Tensor, operator: LinearMap, limit: int, name: str) -> Tensor:
    """Applies a map to a residual; reverse passes beyond the order `limit` raise."""
    return _Solve.apply(residual, operator, limit, name)  # type: ignore[no-any-return]


def linear_map(x: Tensor, operator: LinearMap) -> Tensor:
    """Applies a constant linear map; derivatives of every order are exact."""
    return _Linear.apply(x, None, operator)  # type: ignore[no-any-return]


def skip_first_order(x: Tensor) -> Tensor:
    """Returns the tensor; reverse passes that are not recorded end here."""
    return _SkipFirstOrder.apply(x)  # type: ignore[no-any-return]


def _require_order(name: str, order: int, limit: int) -> None:
    if order > limit:
        raise DerivativeMissingError(
            f"{name}: a derivative of order {order} in reverse mode was asked for, and the "
            f"solution was made exact to order {limit}. Nest pb.grad, pb.hessian or pb.func "
            f"transforms, which are counted, or pass a higher `order` (pb.implicit)."
        )
