"""``autograd.misc.optimizers``: descent by gradients, of arrays or containers of them.

Each takes a gradient function of the parameters and the number of the step, and calls back before
each step with parameters, number and gradient.

>>> import numpy as np
>>> from pullback.compat.autograd import grad
>>> found = adam(grad(lambda x, i: (x**2).sum()), np.ones(2), num_iters=300, step_size=0.1)
>>> bool(abs(found).max() < 1e-3)
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.compat.autograd.misc.flatten import flatten

__all__ = ["adam", "rmsprop", "sgd"]

_Update = Callable[[Any, int], Any]


def _descend(grad: Any, start: Any, callback: Any, steps: int, update: _Update) -> Any:
    """Subtracts what `update` makes of each gradient."""
    x, unflatten = flatten(start)
    for number in range(steps):
        slope = flatten(grad(unflatten(x), number))[0]
        if callback is not None:
            callback(unflatten(x), number, unflatten(slope))
        x = x - update(slope, number)
    return unflatten(x)


def sgd(
    grad: Any,
    x0: Any,
    callback: Any = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Gradient descent with momentum."""
    velocity: Any = 0.0

    def update(slope: Any, number: int) -> Any:  # noqa: ARG001 - as all updates
        nonlocal velocity
        velocity = mass * velocity - (1.0 - mass) * slope
        return -step_size * velocity

    return _descend(grad, x0, callback, num_iters, update)


def rmsprop(
    grad: Any,
    x0: Any,
    callback: Any = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 10**-8,
) -> Any:
    """Steps divided by the root of the running mean of squared gradients."""
    squares: Any = 1.0

    def update(slope: Any, number: int) -> Any:  # noqa: ARG001 - as all updates
        nonlocal squares
        squares = squares * gamma + slope**2 * (1 - gamma)
        return step_size * slope / (np.sqrt(squares) + eps)

    return _descend(grad, x0, callback, num_iters, update)


def adam(
    grad: Any,
    x0: Any,
    callback: Any = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 10**-8,
) -> Any:
    """Running means of gradients and of their squares, both without the bias of the start."""
    first: Any = 0.0
    second: Any = 0.0

    def update(slope: Any, number: int) -> Any:
        nonlocal first, second
        first = (1 - b1) * slope + b1 * first
        second = (1 - b2) * slope**2 + b2 * second
        mean, square = first / (1 - b1 ** (number + 1)), second / (1 - b2 ** (number + 1))
        return step_size * mean / (np.sqrt(square) + eps)

    return _descend(grad, x0, callback, num_iters, update)
