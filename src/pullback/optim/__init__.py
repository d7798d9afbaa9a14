"""Optimizers and learning-rate schedules, under PyTorch's names and with PyTorch's behaviour.

>>> import pullback as pb
>>> x = pb.tensor([3.0, -2.0], requires_grad=True)
>>> optimizer = pb.optim.Adam([x], lr=0.1)
>>> for _ in range(400):
...     optimizer.zero_grad()
...     loss = ((x - 1.0) ** 2).sum()
...     loss.backward()
...     optimizer.step()
>>> [round(v, 4) for v in x.tolist()]
[1.0, 1.0]

For functions of arrays there is a function for each of them (`adam`, `lbfgs` and so on).
"""

from __future__ import annotations

from pullback.optim import lr_scheduler
from pullback.optim.adaptive import (
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    RAdam,
    RMSprop,
)
from pullback.optim.gradient_descent import SGD, Rprop
from pullback.optim.lbfgs import LBFGS
from pullback.optim.minimizers import (
    FitResult,
    adadelta,
    adagrad,
    adam,
    adamax,
    adamw,
    lbfgs,
    nadam,
    radam,
    rmsprop,
    rprop,
    sgd,
)
from pullback.optim.optimizer import Optimizer

__all__ = [
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "FitResult",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "lbfgs",
    "lr_scheduler",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
]
