"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from pullback.optim.lr_scheduler.base import LRScheduler
from pullback.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class SequentialLR(LRScheduler):
    """Schedules one after the other.

    Args:
        optimizer: the optimizer.
        schedulers: the schedules, all of this optimizer.
        milestones: the epochs at which the next one begins.
        last_epoch: the epoch to resume from.

    >>> import pullback as pb
    >>> from pullback.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> parts = [ConstantLR(optimizer, factor=0.5), ExponentialLR(optimizer, gamma=0.9)]
    >>> schedule = SequentialLR(optimizer, parts, milestones=[2])
    >>> optimizer.step(); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ):
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained")
        _require_one_optimizer(schedulers, optimizer, type(self).__name__)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in schedulers:  # each made its first step when it was made
            scheduler.last_epoch -= 1
        schedulers[0]._step_count = 0
        schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch."""
        if epoch is not None:
            raise ValueError("SequentialLR.step() takes no epoch")
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; the schedules as their own states."""
        found = super().state_dict()
        return {**found, "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        _load_all(self, self._schedulers, state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedules that all step together, and multiply each other's changes.

    Args:
        schedulers: the schedules, all of one optimizer.
        optimizer: that optimizer; by default the first schedule's.

    >>> import pullback as pb
    >>> from pullback.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> parts = [ConstantLR(optimizer, factor=0.5), ExponentialLR(optimizer, gamma=0.5)]
    >>> schedule = ChainedScheduler(parts)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained")
        self.optimizer = optimizer or schedulers[0].optimizer
        _require_one_optimizer(schedulers, self.optimizer, type(self).__name__)
        self._schedulers = list(schedulers)
        self._last_lr = self.rates

    def step(self, epoch: int | None = None) -> None:
        """Steps each of the schedules."""
        if epoch is not None:
            raise ValueError("ChainedScheduler.step() takes no epoch")
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self.rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; the schedules as their own states."""
        found = super().state_dict()
        return {**found, "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        _load_all(self, self._schedulers, state_dict)


def _load_all(owner: LRScheduler, parts: list[LRScheduler], state: dict[str, Any]) -> None:
    for part, saved in zip(parts, state["_schedulers"], strict=True):
        part.load_state_dict(saved)
    vars(owner).update({key: value for key, value in state.items() if key != "_schedulers"})


def _require_one_optimizer(
    schedulers: Sequence[LRScheduler], optimizer: Optimizer, name: str
) -> None:
    for index, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {index} should have `optimizer` as its attribute.")
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got "
                f"scheduler {type(scheduler).__name__} at index {index} of another one"
            )
