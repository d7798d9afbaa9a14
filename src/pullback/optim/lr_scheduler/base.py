"""Base classes of learning-rate schedules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from pullback.fx.tracer import forbid_in_trace
from pullback.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "Rates", "Scaled"]

Rates = list[float]


def _untraced(step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` method that raises in a traced program, before it has changed anything."""

    @wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        forbid_in_trace(f"{type(self).__name__}.step()")
        return step(self, *args, **kwargs)

    return run


class LRScheduler:
    """Base class: a subclass defines `get_lr`, the rates of the groups after `last_epoch` steps.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        last_epoch: the epoch to resume from; -1 begins anew.

    >>> import pullback as pb
    >>> class Halving(pb.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    f"an optimizer"
                )
        self.optimizer = optimizer
        self.base_lrs: Rates = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._last_lr: Rates = []
        self.step()

    @property
    def rates(self) -> Rates:
        """The present learning rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_lr(self) -> Rates:
        """The rates of the groups for `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    def get_closed_form_lr(self) -> Rates:
        """The rates as a function of `last_epoch` alone, for ``step(epoch)``."""
        return self.get_lr()

    def get_last_lr(self) -> Rates:
        """The rates that the last step set."""
        forbid_in_trace(f"{type(self).__name__}.get_last_lr()")
        return self._last_lr

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _untraced(vars(cls)["step"])  # type: ignore[method-assign]

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch, or those of `epoch`."""
        forbid_in_trace(f"{type(self).__name__}.step()")
        if self._step_count == 1 and not self.optimizer._was_stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value "
                "of the learning rate schedule is skipped. Call `optimizer.step()` first.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self._set(self.get_lr())
        else:
            self.last_epoch = epoch
            self._set(self.get_closed_form_lr())

    def _set(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        vars(self).update(state_dict)


class Scaled(LRScheduler):
    """A schedule given by a factor of the base rates, which is never zero before its end."""

    def factor(self, epoch: float) -> float:
        """The factor of the base rates in an epoch."""
        raise NotImplementedError

    def get_closed_form_lr(self) -> Rates:
        """The base rates times the factor."""
        return [base * self.factor(self.last_epoch) for base in self.base_lrs]
