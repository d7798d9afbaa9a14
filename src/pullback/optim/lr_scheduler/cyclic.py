"""Schedules that raise and lower the learning rate, and the momentum against it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pullback.optim.lr_scheduler.base import LRScheduler, Rates
from pullback.optim.optimizer import Group, Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


def _one_each(name: str, given: Any, optimizer: Optimizer) -> list[float]:
    """A value for each group, from one value or a list of them."""
    count = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise ValueError(
            f"{name} must have the same length as param_groups: {count}, not {len(given)}"
        )
    return list(given)


def _require_momentum(optimizer: Optimizer) -> bool:
    """Whether the momentum is the first of `betas`; raises if the optimizer has no momentum."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: Group, momentum: float, uses_beta1: bool) -> None:
    if uses_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """A rate that moves between two bounds, up and down again.

    Args:
        optimizer: the optimizer.
        base_lr: lower bound, or one for each group.
        max_lr: upper bound, or one for each group.
        step_size_up: steps from the lower to the upper bound.
        step_size_down: steps back; by default as many.
        mode: ``"triangular"``, ``"triangular2"`` (half the height each cycle) or ``"exp_range"``
            (height times ``gamma**step``).
        gamma: factor of ``"exp_range"``.
        scale_fn: height as a function, in the place of `mode`.
        scale_mode: whether `scale_fn` takes the number of the ``"cycle"`` or of ``"iterations"``.
        cycle_momentum: moves the momentum the other way.
        base_momentum: lower bound of the momentum.
        max_momentum: upper bound of the momentum.
        last_epoch: the step to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = pb.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ):
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"mode is invalid ({mode!r}) and scale_fn is None")
        low = _one_each("base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, low, strict=True):
                group["lr"] = group["initial_lr"] = rate
        self.max_lrs = _one_each("max_lr", max_lr, optimizer)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self.scale_fn = mode, gamma, scale_fn
        self.scale_mode = (
            scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        )
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _require_momentum(optimizer)
            self.base_momentums = _one_each("base_momentum", base_momentum, optimizer)
            self.max_momentums = _one_each("max_momentum", max_momentum, optimizer)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = low

    def _scale(self, cycle: float) -> float:
        place = cycle if self.scale_mode == "cycle" else self.last_epoch
        if self.scale_fn is not None:
            return self.scale_fn(place)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2 ** (place - 1) if self.mode == "triangular2" else self.gamma**place

    def get_lr(self) -> Rates:
        """The rates of this step; sets the momentum as well."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        ratio = self.step_ratio
        height = (x / ratio if x <= ratio else (x - 1) / (ratio - 1)) * self._scale(cycle)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                _set_momentum(group, high - (high - low) * height, self.use_beta1)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and `scale_fn`, which are to be given again."""
        return {key: value for key, value in super().state_dict().items() if key != "scale_fn"}


class _Phase(NamedTuple):
    """A part of a cycle: its last step, and the names of the rates and momenta at both ends."""

    end: float
    start_lr: str
    end_lr: str
    start_momentum: str
    end_momentum: str


class OneCycleLR(LRScheduler):
    """One cycle: up to the largest rate, down to a small one; the momentum moves the other way.

    Args:
        optimizer: the optimizer.
        max_lr: the largest rate, or one for each group.
        total_steps: steps of the cycle; or `epochs` and `steps_per_epoch`.
        epochs: number of epochs.
        steps_per_epoch: steps of an epoch.
        pct_start: share of the cycle in which the rate rises.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: moves the momentum the other way.
        base_momentum: lower bound of the momentum.
        max_momentum: upper bound of the momentum.
        div_factor: the first rate is ``max_lr / div_factor``.
        final_div_factor: the last rate is the first one divided by this.
        three_phase: falls to the first rate symmetrically, and then to the last.
        last_epoch: the step to resume from.

    >>> import pullback as pb
    >>> optimizer = pb.optim.Adam([pb.zeros(1, requires_grad=True)])
    >>> schedule = pb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> [round(rate, 12) for rate in schedule.get_last_lr()]
    [0.04]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        if not (isinstance(pct_start, float) and 0 <= pct_start <= 1):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._phases = _phases_of(pct_start, self.total_steps, three_phase)
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        highest = _one_each("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.use_beta1 = _require_momentum(optimizer)
            low = _one_each("base_momentum", base_momentum, optimizer)
            high = _one_each("max_momentum", max_momentum, optimizer)
            if last_epoch == -1:
                for group, least, most in zip(optimizer.param_groups, low, high, strict=True):
                    _set_momentum(group, most, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = most, least
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> Rates:
        """The rates of this step; sets the momentum as well."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        phase = self._phases[0]
        for phase in self._phases:
            if step <= phase.end or phase is self._phases[-1]:
                break
            begin = phase.end
        share = (step - begin) / (phase.end - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase.start_lr], group[phase.end_lr], share))
            if self.cycle_momentum:
                ends = group[phase.start_momentum], group[phase.end_momentum]
                _set_momentum(group, self._anneal(*ends, share), self.use_beta1)
        return rates

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._phases = [_Phase(*phase) for phase in self._phases]  # files hold plain tuples


def _count_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        named = {"total_steps": total}
    elif epochs is not None and per_epoch is not None:
        named = {"epochs": epochs, "steps_per_epoch": per_epoch}
    else:
        raise ValueError(
            "You must define either total_steps OR (epochs AND steps_per_epoch) to define the "
            "length of the cycle"
        )
    for name, value in named.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(named.values())


def _phases_of(rising: float, total: int, three_phase: bool) -> list[_Phase]:
    top = float(rising * total) - 1
    up = _Phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return [up, _Phase(total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    down_end = float(2 * rising * total) - 2
    return [
        up,
        _Phase(down_end, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        _Phase(total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]
