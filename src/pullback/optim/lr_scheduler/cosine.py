"""Schedules that follow a cosine."""

from __future__ import annotations

import math

from pullback.optim.lr_scheduler.base import LRScheduler, Rates
from pullback.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


class CosineAnnealingLR(LRScheduler):
    """A rate that follows half a cosine from the base rate to `eta_min` and back.

    Args:
        optimizer: the optimizer.
        T_max: epochs from the base rate to `eta_min`.
        eta_min: the smallest rate.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step(); schedule.step()
    >>> [round(rate, 12) for rate in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_closed_form_lr(self) -> Rates:
        """The cosine itself."""
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def get_lr(self) -> Rates:
        """The last rates, moved along the cosine, so that the schedule can be combined."""
        epoch, low = self.last_epoch, self.eta_min
        if epoch == 0:
            return self.rates
        if self._step_count == 1:
            return self.get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.rates, self.base_lrs, strict=True)
            return [rate + (base - low) * rise for rate, base in pairs]
        now = 1 + math.cos(math.pi * epoch / self.T_max)
        before = 1 + math.cos(math.pi * (epoch - 1) / self.T_max)
        return [now / before * (rate - low) + low for rate in self.rates]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the base rate to `eta_min`, again and again, in periods that may grow.

    Args:
        optimizer: the optimizer.
        T_0: epochs of the first period.
        T_mult: factor of the next period.
        eta_min: the smallest rate.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> optimizer.step(); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - PyTorch's name
        T_mult: int = 1,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The cosine at the place within the present period."""
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Sets the rates of the next epoch, or those of `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._restart_at(epoch)
        self._step_count += 1
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _restart_at(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch >= self.T_0:
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                past = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                begin = self.T_0 * (self.T_mult**past - 1) / (self.T_mult - 1)
                self.T_cur, self.T_i = epoch - begin, self.T_0 * self.T_mult**past
