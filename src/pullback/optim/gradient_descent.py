"""Stochastic gradient descent, and `Rprop`, which uses only the signs of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.optim.optimizer import Array, ElementwiseOptimizer, Group, Parameters, State
from pullback.optim.options import require_nonnegative, require_supported
from pullback.tensor import Tensor
from pullback.tensor.tensor import fresh

__all__ = ["SGD", "Rprop"]


class SGD(ElementwiseOptimizer):
    """Gradient descent, with momentum if wanted.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        momentum: share of the last update that is kept.
        dampening: reduces the gradient's part in the momentum.
        weight_decay: factor of the L2 penalty.
        nesterov: uses Nesterov's momentum.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.SGD([x], lr=0.1, momentum=0.5)
    >>> for _ in range(60):
    ...     optimizer.zero_grad()
    ...     ((x - 1) ** 2).backward()
    ...     optimizer.step()
    >>> round(x.item(), 6)
    1.0
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        require_nonnegative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        require_supported(self, differentiable=differentiable, fused=fused)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: Group) -> State:
        """A step counter; with momentum, the average of gradients, which begins with the first."""
        state: State = {"step": fresh(np.zeros(()))}
        if group["momentum"]:
            state["momentum_buffer"] = fresh(np.zeros_like(param._array))
        return state

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= lr * momentum average of (grad + weight_decay * param)``."""
        momentum = group["momentum"]
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * param
        if momentum:
            average = state["momentum_buffer"]
            if group["dampening"]:
                new = momentum * average + (1 - group["dampening"]) * grad
                average[...] = np.where(state["step"] == 1, grad, new)
            else:  # at first the average is zero
                average *= momentum
                average += grad
            grad = grad + momentum * average if group["nesterov"] else average
        param -= group["lr"] * grad


class Rprop(ElementwiseOptimizer):
    """Resilient backpropagation: each element has a step size, changed by the gradient's sign.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: the first step size.
        etas: factors of the step size after a change of sign and without one.
        step_sizes: smallest and largest step size.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.Rprop([x], lr=0.1)
    >>> for _ in range(60):
    ...     optimizer.zero_grad()
    ...     ((x - 1) ** 2).backward()
    ...     optimizer.step()
    >>> round(x.item(), 4)
    1.0
    """

    state_names = ("prev",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        require_nonnegative(lr=lr)
        require_supported(self, capturable=capturable, differentiable=differentiable)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: Group) -> State:
        """The last gradient, zero, and the step sizes, `lr` for each element."""
        first = complex(group["lr"], group["lr"]) if param.dtype.kind == "c" else group["lr"]
        sizes: Any = np.full_like(param._array, first)
        return {**super().init_state(param, group), "step_size": fresh(sizes)}

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= sign(grad) * step_size``; an element whose sign changed stays once."""
        shrink, grow = group["etas"]
        agreement = grad * state["prev"]
        factor = np.where(agreement > 0, grow, np.where(agreement < 0, shrink, 1.0))
        size = state["step_size"]
        size *= factor.astype(size.dtype, copy=False)
        np.clip(size, *group["step_sizes"], out=size)
        grad = np.where(agreement < 0, 0, grad)
        param -= np.sign(grad) * size
        state["prev"][...] = grad
