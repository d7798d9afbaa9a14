"""Schedules that multiply learning rates by factors of the epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from pullback.optim.lr_scheduler.base import LRScheduler, Rates, Scaled
from pullback.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]


def _functions(optimizer: Optimizer, given: Any) -> list[Callable[[int], float]]:
    """One function a group."""
    count = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"Expected {count} lr_lambdas, but got {len(given)}")
    return list(given)


class LambdaLR(LRScheduler):
    """The base rate times a function of the epoch.

    Args:
        optimizer: the optimizer.
        lr_lambda: the function, or a list of one for each group.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions, which are to be given again."""
        found = super().state_dict()
        del found["lr_lambdas"]
        return found


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the epoch.

    Args:
        optimizer: the optimizer.
        lr_lambda: the function, or a list of one for each group.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        if self.last_epoch <= 0:
            return self.rates
        pairs = zip(self.rates, self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]


class StepLR(Scaled):
    """Multiplies the rate by `gamma` every `step_size` epochs.

    Args:
        optimizer: the optimizer.
        step_size: epochs between changes.
        gamma: the factor.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> optimizer.step(); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        return float(self.gamma ** (epoch // self.step_size))

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self.rates
        return [rate * self.gamma for rate in self.rates]


class MultiStepLR(Scaled):
    """Multiplies the rate by `gamma` in each epoch of `milestones`.

    Args:
        optimizer: the optimizer.
        milestones: the epochs.
        gamma: the factor.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.MultiStepLR(optimizer, [1, 5], gamma=0.5)
    >>> optimizer.step(); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        return float(self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch))

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        power = self.milestones[self.last_epoch]
        return [rate * self.gamma**power for rate in self.rates] if power else self.rates

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)  # files hold a plain dict


class ConstantLR(Scaled):
    """Multiplies the rate by `factor` until epoch `total_iters`.

    Args:
        optimizer: the optimizer.
        factor: the factor, from 0 to 1.
        total_iters: how many epochs it lasts.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self._factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        return self._factor if epoch < self.total_iters else 1.0

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        if self.last_epoch == 0:
            return [rate * self._factor for rate in self.rates]
        if self.last_epoch != self.total_iters:
            return self.rates
        return [rate * (1.0 / self._factor) for rate in self.rates]


class LinearLR(Scaled):
    """A factor that moves linearly from `start_factor` to `end_factor` in `total_iters` epochs.

    Args:
        optimizer: the optimizer.
        start_factor: the factor of the first epoch.
        end_factor: the factor from epoch `total_iters` on.
        total_iters: how many epochs it takes.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        share = min(self.total_iters, epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        epoch = self.last_epoch
        if epoch == 0:
            return [rate * self.start_factor for rate in self.rates]
        if epoch > self.total_iters:
            return self.rates
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (epoch - 1) * change
        return [rate * (1.0 + change / before) for rate in self.rates]


class ExponentialLR(Scaled):
    """Multiplies the rate by `gamma` every epoch.

    Args:
        optimizer: the optimizer.
        gamma: the factor.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        return float(self.gamma**epoch)

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        return [rate * self.gamma for rate in self.rates] if self.last_epoch > 0 else self.rates


class PolynomialLR(Scaled):
    """A rate that falls to zero in `total_iters` epochs by a power of what is left.

    Args:
        optimizer: the optimizer.
        total_iters: how many epochs it takes.
        power: the power.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        left = 1.0 - min(self.total_iters, epoch) / self.total_iters
        return float(left**self.power)

    def get_lr(self) -> Rates:
        """The rates for `last_epoch`, from the last ones or the base rates."""
        epoch, total = self.last_epoch, self.total_iters
        if epoch == 0 or epoch > total:
            return self.rates
        ratio = ((1.0 - epoch / total) / (1.0 - (epoch - 1) / total)) ** self.power
        return [rate * ratio for rate in self.rates]
