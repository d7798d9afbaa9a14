"""`LBFGS`: the limited-memory quasi-Newton method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd import enable_grad
from pullback.autograd.graph import increment_version
from pullback.optim.line_search import SearchResult, Trial, Vector, search_strong_wolfe
from pullback.optim.optimizer import Optimizer, Parameters, as_number, as_real
from pullback.optim.options import require_nonnegative
from pullback.tensor import Tensor

__all__ = ["LBFGS"]

_SMALLEST_CURVATURE = 1e-10  # pairs with a smaller product are not remembered


class LBFGS(Optimizer):
    """Limited-memory BFGS, with a line search by the strong Wolfe conditions if wanted.

    `step` needs a closure that clears the gradients, computes the loss and calls ``backward()``.
    There is one group of parameters.

    Args:
        params: the tensors to optimize.
        lr: length of a step without a line search, and the first length tried with one.
        max_iter: iterations in one call of `step`.
        max_eval: evaluations in one call of `step` (default: 1.25 times `max_iter`).
        tolerance_grad: ends when no gradient is larger.
        tolerance_change: ends when parameters or loss change less.
        history_size: how many pairs of changes approximate the Hessian.
        line_search_fn: ``"strong_wolfe"`` or None.

    >>> import numpy as np, pullback as pb
    >>> x = pb.tensor([-1.0, 1.0], requires_grad=True)
    >>> optimizer = pb.optim.LBFGS([x], max_iter=100, line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> np.allclose(x.detach().numpy(), 1.0, rtol=1e-3)
    True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        require_nonnegative(lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, not {line_search_fn!r}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Runs up to `max_iter` iterations; returns the loss before the first.

        Args:
            closure: clears the gradients, computes the loss and its gradients, returns the loss.
        """
        if closure is None:
            raise TypeError(
                "LBFGS.step() needs a closure: a function that calls zero_grad(), computes the "
                "loss, calls backward() and returns the loss"
            )
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first_loss = closure()
        evaluations = 1
        state["func_evals"] += 1
        loss, grad = as_number(first_loss), self._flat_gradient()
        if not grad.size or np.abs(grad).max() <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad)
            last_loss = loss
            state["prev_flat_grad"], state["prev_loss"] = grad.copy(), loss
            slope = float(grad @ direction)
            length = float(group["lr"])
            if state["n_iter"] == 1:
                length *= min(1.0, 1.0 / float(np.abs(grad).sum()))
            state["t"] = length
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is None:
                self._move(length, direction)
                used = 0
                if iteration != group["max_iter"]:
                    loss, grad, used = *self._evaluate(closure), 1
            else:
                start = Trial(0.0, loss, grad, slope)
                left = group["max_eval"] - evaluations
                found = self._search(closure, start, length, direction, left)
                (length, loss, grad, _), used = found
                self._move(length, direction)
                state["t"] = length
            evaluations += used
            state["func_evals"] += used
            moved = float(np.abs(direction * length).max())
            if (
                evaluations >= group["max_eval"]
                or np.abs(grad).max() <= group["tolerance_grad"]
                or moved <= group["tolerance_change"]
                or abs(loss - last_loss) < group["tolerance_change"]
            ):
                break
        return first_loss

    def _direction(self, state: dict[str, Any], grad: Vector) -> Vector:
        """Minus the gradient times the approximate inverse Hessian (the two-loop recursion)."""
        if state["n_iter"] == 1:
            state.update(d=-grad, H_diag=1.0, old_dirs=[], old_stps=[], ro=[])
            return -grad
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        product = float(y @ s)
        if product > _SMALLEST_CURVATURE:
            for name, new in (("old_dirs", y), ("old_stps", s), ("ro", 1.0 / product)):
                state[name] = [*state[name], new][-self.param_groups[0]["history_size"] :]
            state["H_diag"] = product / float(y @ y)
        pairs = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        direction: Vector = -grad
        factors: list[float] = []
        for change, move, ro in reversed(pairs):
            factors.append(float(move @ direction) * ro)
            direction = direction - factors[-1] * change
        direction = direction * state["H_diag"]
        for (change, move, ro), factor in zip(pairs, reversed(factors), strict=True):
            direction = direction + move * (factor - float(change @ direction) * ro)
        state["d"] = direction
        return direction

    def _search(
        self, closure: Callable[[], Any], start: Trial, length: float, direction: Vector, left: int
    ) -> SearchResult:
        """A line search from the present parameters, which it leaves as they are."""
        origin = [param._array.copy() for param in self._params]

        def evaluate(step: float) -> Trial:
            self._move(step, direction)
            value, grad = self._evaluate(closure)
            for param, array in zip(self._params, origin, strict=True):
                param._array[...] = array
            increment_version(self._params)
            return Trial(step, value, grad, float(grad @ direction))

        largest = float(np.abs(direction).max())
        return search_strong_wolfe(evaluate, start, length, largest, left)

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[float, Vector]:
        with enable_grad():
            loss = as_number(closure())
        return loss, self._flat_gradient()

    def _flat_gradient(self) -> Vector:
        """The gradients of all parameters in one vector; zeros for those that have none."""
        parts = []
        for param in self._params:
            array = np.zeros_like(param._array) if param.grad is None else param.grad._array
            parts.append(as_real(array).ravel())
        return np.concatenate(parts)

    def _move(self, length: float, direction: Vector) -> None:
        """Adds ``length * direction`` to the parameters."""
        offset = 0
        for param in self._params:
            array = as_real(param._array)
            array += length * direction[offset : offset + array.size].reshape(array.shape)
            offset += array.size
        increment_version(self._params)
