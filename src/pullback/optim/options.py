"""Checks of the options of optimizers, with PyTorch's messages."""

from __future__ import annotations

from typing import Any

from pullback.tensor import Tensor

__all__ = ["require_betas", "require_nonnegative", "require_supported"]

_LABELS = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
    "momentum": "momentum value",
    "alpha": "alpha value",
    "rho": "rho value",
    "lr_decay": "lr_decay value",
    "momentum_decay": "momentum_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
}


def require_nonnegative(**options: Any) -> None:
    """Raises ValueError for a negative option, and for one that is no number.

    >>> require_nonnegative(lr=-1.0)
    Traceback (most recent call last):
        ...
    ValueError: Invalid learning rate: -1.0
    """
    for name, value in options.items():
        if isinstance(value, Tensor) and value.size != 1:
            raise ValueError(f"Tensor {name} must be 1-element")
        if not value >= 0.0:
            raise ValueError(f"Invalid {_LABELS[name]}: {value}")


def require_betas(betas: Any) -> None:
    """Raises ValueError unless both decay rates lie in [0, 1).

    >>> require_betas((0.9, 1.0))
    Traceback (most recent call last):
        ...
    ValueError: Invalid beta parameter at index 1: 1.0
    """
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def require_supported(optimizer: object, **flags: Any) -> None:
    """Raises for options of PyTorch's that need CUDA or a recorded update.

    ``foreach`` is accepted: it changes how PyTorch loops, not what is computed.
    """
    for name, value in flags.items():
        if value:
            raise NotImplementedError(
                f"{type(optimizer).__name__}: {name}=True is not supported; leave it out"
            )
