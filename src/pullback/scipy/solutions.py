"""Solutions that SciPy computed on arrays, as tensors with derivatives from their residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._generated import functions_shape as shapes
from pullback.autograd.function import Function
from pullback.errors import DerivativeMissingError
from pullback.implicit.attach import attach
from pullback.interop.arguments import as_tensor, carries_gradient
from pullback.tensor.tensor import Tensor

__all__ = ["attach_solution", "depend_on_start"]


class _Unsolved(Function):
    """Values of a solver that did not converge; differentiating them raises."""

    generate_vmap_rule = True

    @staticmethod
    def forward(residual: Tensor, values: Tensor, message: str) -> Tensor:  # noqa: ARG004
        return values.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.message = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # noqa: ARG004
        raise DerivativeMissingError(ctx.message)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:  # noqa: ARG004
        raise DerivativeMissingError(ctx.message)


def attach_solution(
    name: str,
    y: Tensor,
    residual: Callable[[Tensor], Any],
    failure: str | None = None,
    solve: Any = None,
) -> Tensor:
    """Gives a solver's result its derivatives; `failure` says why it has none.

    `solve` is that of ``implicit.attach``: how the residual's Jacobian is inverted.
    """

    def evaluate(at: Tensor) -> Tensor:
        return as_tensor(residual(at))

    if failure is None:
        return attach(y, evaluate, solve, name=name)
    found = shapes.reshape(evaluate(y), [-1])
    if not carries_gradient(found):
        return y
    message = f"{name} did not converge, so its result has no derivative: {failure}"
    return _Unsolved.apply(found, y, message)  # type: ignore[no-any-return]


def depend_on_start(y: Tensor, *starts: Any) -> Tensor:
    """Connects a solution with the start values, by which its derivative is zero."""
    for start in starts:
        if isinstance(start, Tensor) and carries_gradient(start):
            y = y + 0.0 * start.sum()
    return y
