"""A schedule that reacts to a measured quantity, such as the loss on validation data."""

from __future__ import annotations

import math
from typing import Any, Literal

from pullback.optim.lr_scheduler.base import LRScheduler
from pullback.optim.optimizer import Optimizer, as_number

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a quantity has not improved for `patience` epochs.

    Args:
        optimizer: the optimizer.
        mode: whether ``"min"`` or ``"max"`` is an improvement.
        factor: the factor, below 1.
        patience: epochs without improvement that are allowed.
        threshold: how much better than the best counts as better.
        threshold_mode: whether `threshold` is ``"rel"`` or ``"abs"``.
        cooldown: epochs after a reduction in which none are counted.
        min_lr: the smallest rate, or one for each group.
        eps: a smaller change of the rate is not made.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = pb.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 3.0, 3.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        count = len(optimizer.param_groups)
        self.optimizer = optimizer
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.min_lrs = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(self.min_lrs)}")
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self.rates

    def is_better(self, value: float) -> bool:
        """Whether a value improves on the best by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "abs":
            return sign * value > sign * self.best + self.threshold
        return sign * value > sign * self.best * (1 + sign * self.threshold)

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted at present."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the measured quantity of an epoch."""
        value = as_number(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self.rates

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate
