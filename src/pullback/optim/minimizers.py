"""Optimizers as functions: from a value-and-gradient function and a start to a minimum.

For functions of NumPy arrays, or of trees of them; nothing has to be a tensor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

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
from pullback.optim.optimizer import Optimizer, as_number
from pullback.tensor import Tensor
from pullback.tensor.tensor import fresh
from pullback.utils import pytree

__all__ = [
    "FitResult",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "lbfgs",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
]


class FitResult(NamedTuple):
    """Result of a minimizer.

    >>> import pullback as pb
    >>> fit = pb.optim.sgd(pb.value_and_grad(lambda x: x**2), 1.0, steps=1, lr=0.25)
    >>> fit.x, fit.values
    (0.5, [1.0])
    """

    x: Any  # the last parameters, of the structure of the start
    value: float  # the last value that was computed, before the last update
    values: list[float]  # the value before each step
    seconds: float


class _Problem:
    """A function to minimize, its parameters as tensors, and conversions to and from trees."""

    def __init__(self, name: str, value_and_grad: Callable[..., tuple[Any, Any]], x0: Any):
        self._name, self._value_and_grad = name, value_and_grad
        self._leaves, self._spec = pytree.flatten(x0)
        pairs = zip(self._leaves, self._spec.paths(), strict=True)
        self.params = [_parameter(name, leaf, path) for leaf, path in pairs]

    def tree(self) -> Any:
        """The present parameters, of the structure and types of the start."""
        pairs = zip(self.params, self._leaves, strict=True)
        return pytree.unflatten(self._spec, [_like(p, leaf) for p, leaf in pairs])

    def evaluate(self) -> float:
        """Sets the gradients of the parameters, and returns the value."""
        value, grads = self._value_and_grad(self.tree())
        found = pytree.leaves(grads)
        if len(found) != len(self.params):
            raise ValueError(
                f"{self._name}: the gradient has {len(found)} leaves, but x0 has {len(self.params)}"
            )
        for param, grad in zip(self.params, found, strict=True):
            param.grad = _gradient(self._name, grad, param)
        return as_number(value)


def _minimizer(kind: Callable[..., Optimizer], summary: str) -> Callable[..., FitResult]:
    """The function form of an optimizer."""
    name = kind.__name__.lower()

    def minimize(
        value_and_grad: Callable[..., tuple[Any, Any]],
        x0: Any,
        *,
        steps: int = 100,
        callback: Callable[[int, float, Any], Any] | None = None,
        progress: bool = False,
        **options: Any,
    ) -> FitResult:
        problem = _Problem(name, value_and_grad, x0)
        optimizer = kind(problem.params, **options)
        values: list[float] = []
        begin = time.perf_counter()
        for step in _counter(name, steps, progress):
            values.append(optimizer.step(problem.evaluate))
            if callback is not None and callback(step, values[-1], problem.tree()):
                break
        seconds = time.perf_counter() - begin
        return FitResult(problem.tree(), values[-1] if values else math.nan, values, seconds)

    minimize.__name__ = minimize.__qualname__ = name
    minimize.__doc__ = f"""{summary}

    Args:
        value_and_grad: takes the parameters, returns the value and the gradient
            (``pb.value_and_grad(f)``).
        x0: the first parameters: a number, an array or a tree of them; it is not changed.
        steps: how many updates are made.
        callback: called after each step with its number, the value before the step and the new
            parameters; a true result ends the fit.
        progress: shows a progress bar, if tqdm is installed.
        **options: those of `{kind.__name__}`, for example ``lr``.

    >>> import numpy as np, pullback as pb
    >>> f = pb.value_and_grad(lambda x: np.sum((x - 1.0) ** 2))
    >>> fit = pb.optim.{name}(f, np.zeros(2), steps=3)
    >>> fit.values[0], fit.x.shape
    (2.0, (2,))
    """
    return minimize


def _parameter(name: str, leaf: Any, path: str) -> Tensor:
    array = np.array(leaf.detach().numpy() if isinstance(leaf, Tensor) else leaf)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind not in "fc":
        raise TypeError(f"{name}: x0{path} must be numbers, not {type(leaf).__name__}")
    return fresh(array).requires_grad_()


def _like(param: Tensor, leaf: Any) -> Any:
    """The present value of a parameter, of the type of the leaf that it began with."""
    array = param._array.copy()
    if isinstance(leaf, Tensor):
        return fresh(array)
    return array if isinstance(leaf, np.ndarray) else array[()].item()


def _gradient(name: str, grad: Any, param: Tensor) -> Tensor:
    array = np.asarray(grad.detach().numpy() if isinstance(grad, Tensor) else grad)
    if array.shape != param.shape:
        raise ValueError(
            f"{name}: a gradient has shape {array.shape}, but its parameter has {param.shape}"
        )
    return fresh(np.array(array, dtype=param.dtype))


def _counter(name: str, steps: int, progress: bool) -> Any:
    """The numbers of the steps, with a progress bar if one is wanted and tqdm is there."""
    if not progress or find_spec("tqdm") is None:
        return range(steps)
    return import_module("tqdm").tqdm(range(steps), desc=name)


sgd = _minimizer(SGD, "Minimizes by gradient descent with momentum (`SGD`).")
rprop = _minimizer(Rprop, "Minimizes by resilient backpropagation (`Rprop`).")
adam = _minimizer(Adam, "Minimizes by `Adam`.")
adamw = _minimizer(AdamW, "Minimizes by `AdamW`, Adam with decoupled weight decay.")
nadam = _minimizer(NAdam, "Minimizes by `NAdam`, Adam with Nesterov's momentum.")
radam = _minimizer(RAdam, "Minimizes by `RAdam`, rectified Adam.")
adamax = _minimizer(Adamax, "Minimizes by `Adamax`.")
adagrad = _minimizer(Adagrad, "Minimizes by `Adagrad`.")
adadelta = _minimizer(Adadelta, "Minimizes by `Adadelta`.")
rmsprop = _minimizer(RMSprop, "Minimizes by `RMSprop`.")
lbfgs = _minimizer(LBFGS, "Minimizes by `LBFGS`; a step has up to `max_iter` iterations.")
