"""Learning-rate schedules, under PyTorch's names.

A schedule is made for an optimizer and changes the learning rate of its groups when `step` is
called, once an epoch. Schedules that multiply the present rate can be combined on one optimizer.

>>> import pullback as pb
>>> optimizer = pb.optim.SGD([pb.zeros(1, requires_grad=True)], lr=1.0)
>>> schedule = pb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
>>> for _ in range(3):
...     optimizer.step()
...     schedule.step()
>>> schedule.get_last_lr()
[0.125]
"""

from __future__ import annotations

from pullback.optim.lr_scheduler.base import LRScheduler
from pullback.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from pullback.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from pullback.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from pullback.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from pullback.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
