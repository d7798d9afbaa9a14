"""Optimizers that scale each element's step by averages of its gradients: `Adam` and its kin."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pullback.optim.optimizer import Array, ElementwiseOptimizer, Group, Parameters, State
from pullback.optim.options import require_betas, require_nonnegative, require_supported
from pullback.optim.traced import as_scalar
from pullback.tensor import Tensor
from pullback.tensor.tensor import fresh

__all__ = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop"]


def _decay(param: Array, grad: Array, group: Group) -> Array:
    """Applies the weight decay: to the parameter if it is decoupled, else to the gradient."""
    decay = group["weight_decay"]
    if not decay:
        return grad
    if group.get("decoupled_weight_decay"):
        param *= 1 - group["lr"] * decay
        return grad
    decayed: Array = grad + decay * param
    return decayed


def _average(average: Array, new: Array, beta: float) -> None:
    """``average = beta * average + (1 - beta) * new``, in place."""
    average *= beta
    average += (1 - beta) * new


def _average_square(average: Array, new: Array, beta: float) -> None:
    """``average = beta * average + (1 - beta) * new**2``, in place."""
    square = new * new
    square *= 1 - beta
    average *= beta
    average += square


def _subtract_quotient(param: Array, top: Array, bottom: Array, factor: float) -> None:
    """``param -= factor * top / bottom``, in place; `bottom` is overwritten."""
    np.divide(top, bottom, out=bottom)
    bottom *= factor
    param -= bottom


class _Moments(ElementwiseOptimizer):
    """Base of optimizers that average gradients and their squares."""

    state_names = ("exp_avg", "exp_avg_sq")

    @staticmethod
    def update_moments(grad: Array, state: State, group: Group) -> tuple[Array, Array]:
        """Takes a gradient into both averages, and returns them."""
        beta1, beta2 = group["betas"]
        _average(state["exp_avg"], grad, beta1)
        _average_square(state["exp_avg_sq"], grad, beta2)
        return state["exp_avg"], state["exp_avg_sq"]


class Adam(_Moments):
    """Adam: steps by the average gradient over the root of the average square.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        amsgrad: divides by the largest average square so far.
        maximize: ascends instead.
        decoupled_weight_decay: applies the decay to the parameters (as `AdamW` does).

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.Adam([x], lr=0.1)
    >>> for _ in range(300):
    ...     optimizer.zero_grad()
    ...     ((x - 1) ** 2).backward()
    ...     optimizer.step()
    >>> round(x.item(), 4)
    1.0
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):
        require_nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        require_betas(betas)
        require_supported(self, capturable=capturable, differentiable=differentiable, fused=fused)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: Group) -> State:
        """Both averages, zero, and for amsgrad the largest average square."""
        state = super().init_state(param, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = fresh(np.zeros_like(param._array))
        return state

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= lr * mean / (sqrt(mean square) + eps)``, both means without bias."""
        beta1, beta2 = group["betas"]
        step = state["step"]
        mean, square = self.update_moments(_decay(param, grad, group), state, group)
        if group["amsgrad"]:
            square = np.maximum(state["max_exp_avg_sq"], square, out=state["max_exp_avg_sq"])
        root = np.sqrt(square)
        root /= (1 - beta2**step) ** 0.5
        root += group["eps"]
        _subtract_quotient(param, mean, root, group["lr"] / (1 - beta1**step))


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters, not on the gradients.

    The arguments are those of `Adam`, with a `weight_decay` of 0.01.

    >>> import pullback as pb
    >>> x = pb.tensor(1.0, requires_grad=True)
    >>> optimizer = pb.optim.AdamW([x], lr=0.1, weight_decay=0.5)
    >>> (0 * x).backward()
    >>> optimizer.step()
    >>> x.item()
    0.95
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class NAdam(_Moments):
    """Adam with Nesterov's momentum.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        momentum_decay: how quickly the momentum grows to its final value.
        decoupled_weight_decay: applies the decay to the parameters.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.NAdam([x], lr=0.1)
    >>> (x**2).backward()
    >>> optimizer.step()
    >>> x.item() < 4.0
    True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        require_nonnegative(
            lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay
        )
        require_betas(betas)
        require_supported(self, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: Group) -> State:
        """Both averages, zero, and the product of the momenta so far, one."""
        return {**super().init_state(param, group), "mu_product": fresh(np.ones(()))}

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """A step by the gradient and one by the average, weighted by the two momenta."""
        (beta1, beta2), decay, step = group["betas"], group["momentum_decay"], state["step"]
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        state["mu_product"] *= mu
        product = as_scalar(state["mu_product"])
        grad = _decay(param, grad, group)
        mean, square = self.update_moments(grad, state, group)
        root = np.sqrt(square / (1 - beta2**step)) + group["eps"]
        _subtract_quotient(param, grad, root.copy(), group["lr"] * (1 - mu) / (1 - product))
        _subtract_quotient(param, mean, root, group["lr"] * mu_next / (1 - product * mu_next))


class RAdam(_Moments):
    """Rectified Adam: adaptive only once the average square has enough samples.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        decoupled_weight_decay: applies the decay to the parameters.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.RAdam([x], lr=0.1)
    >>> (x**2).backward()
    >>> optimizer.step()
    >>> round(x.item(), 6)
    3.2
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        require_nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        require_betas(betas)
        require_supported(self, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """Adam's step times the rectification; without it while the variance is unknown."""
        (beta1, beta2), step = group["betas"], state["step"]
        mean, square = self.update_moments(_decay(param, grad, group), state, group)
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2**step / (1 - beta2**step)
        size = group["lr"] / (1 - beta1**step)
        if rho <= 5:
            param -= size * mean
            return
        rectification = (
            (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
        ) ** 0.5
        root = np.sqrt(square)
        root += group["eps"]
        factor = size * rectification * (1 - beta2**step) ** 0.5
        _subtract_quotient(param, mean, root, factor)


class Adamax(ElementwiseOptimizer):
    """Adam with the largest recent gradient in the place of the root mean square.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        betas: decay rates of the average and of the maximum.
        eps: added to the absolute gradient.
        weight_decay: factor of the L2 penalty.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.Adamax([x], lr=0.5)
    >>> (x**2).backward()
    >>> optimizer.step()
    >>> round(x.item(), 6)
    3.5
    """

    state_names = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        require_nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        require_betas(betas)
        require_supported(self, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= lr * mean / largest``."""
        beta1, beta2 = group["betas"]
        grad = _decay(param, grad, group)
        _average(state["exp_avg"], grad, beta1)
        largest = state["exp_inf"]
        largest *= beta2
        np.maximum(largest, np.abs(grad) + group["eps"], out=largest)
        param -= group["lr"] / (1 - beta1 ** state["step"]) * (state["exp_avg"] / largest)


class Adagrad(ElementwiseOptimizer):
    """Divides by the root of the sum of all squared gradients.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        lr_decay: decay of the learning rate with the number of steps.
        weight_decay: factor of the L2 penalty.
        initial_accumulator_value: what the sums begin with.
        eps: added to the denominator.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.Adagrad([x], lr=0.5)
    >>> (x**2).backward()
    >>> optimizer.step()
    >>> round(x.item(), 6)
    3.5
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        require_nonnegative(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        require_supported(self, differentiable=differentiable, fused=fused)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:  # PyTorch has the sums before the first step
            for param in group["params"]:
                self.state[param] = self.init_state(param, group)

    def init_state(self, param: Tensor, group: Group) -> State:
        """A step counter and the sums of squares."""
        start = group["initial_accumulator_value"]
        first = complex(start, start) if param.dtype.kind == "c" else start
        return {"step": fresh(np.zeros(())), "sum": fresh(np.full_like(param._array, first))}

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= lr * grad / (sqrt(sum of squares) + eps)``."""
        grad = _decay(param, grad, group)
        state["sum"] += grad * grad
        root = np.sqrt(state["sum"])
        root += group["eps"]
        lr = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        _subtract_quotient(param, grad, root, lr)


class Adadelta(ElementwiseOptimizer):
    """Scales steps by the ratio of the root mean squares of updates and of gradients.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: factor of the step.
        rho: decay rate of the averages.
        eps: added to the averages under the roots.
        weight_decay: factor of the L2 penalty.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.Adadelta([x])
    >>> (x**2).backward()
    >>> optimizer.step()
    >>> x.item() < 4.0
    True
    """

    state_names: ClassVar[tuple[str, ...]] = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        require_nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        require_supported(self, capturable=capturable, differentiable=differentiable)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= lr * delta`` with ``delta = grad * rms(updates) / rms(gradients)``."""
        rho, eps = group["rho"], group["eps"]
        grad = _decay(param, grad, group)
        _average_square(state["square_avg"], grad, rho)
        delta = np.sqrt(state["acc_delta"] + eps) / np.sqrt(state["square_avg"] + eps) * grad
        _average_square(state["acc_delta"], delta, rho)
        param -= group["lr"] * delta


class RMSprop(ElementwiseOptimizer):
    """Divides gradients by the root of their average square.

    Args:
        params: the tensors to optimize, or groups of them.
        lr: learning rate.
        alpha: decay rate of the averages.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        momentum: share of the last update that is kept.
        centered: subtracts the squared average, so that the root is a standard deviation.
        maximize: ascends instead.

    >>> import pullback as pb
    >>> x = pb.tensor(4.0, requires_grad=True)
    >>> optimizer = pb.optim.RMSprop([x], lr=0.1)
    >>> (x**2).backward()
    >>> optimizer.step()
    >>> round(x.item(), 6)
    3.0
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        require_nonnegative(
            lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        require_supported(self, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init_state(self, param: Tensor, group: Group) -> State:
        """The averages that the options need."""
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] > 0 else []
        names += ["grad_avg"] if group["centered"] else []
        state: State = {"step": fresh(np.zeros(()))}
        return state | {name: fresh(np.zeros_like(param._array)) for name in names}

    def update(self, param: Array, grad: Array, state: State, group: Group) -> None:
        """``param -= lr * grad / (root of the average square + eps)``, or its momentum average."""
        alpha = group["alpha"]
        grad = _decay(param, grad, group)
        square = state["square_avg"]
        _average_square(square, grad, alpha)
        if group["centered"]:
            _average(state["grad_avg"], grad, alpha)
            square = square - state["grad_avg"] ** 2
        root = np.sqrt(square)
        root += group["eps"]
        if group["momentum"]:
            buffer = state["momentum_buffer"]
            buffer *= group["momentum"]
            buffer += grad / root
            param -= group["lr"] * buffer
        else:
            _subtract_quotient(param, grad, root, group["lr"])
