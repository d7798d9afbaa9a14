"""Records of activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

SHAPES = ((), (3,), (2, 3), (0,), (2, 0, 3))
erf = np.vectorize(math.erf, otypes=[float])


def elementwise(low: float = -2.0, high: float = 2.0, *options: dict[str, Any]) -> Any:
    """Samples of an activation in a domain, with each set of options."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape in SHAPES:
            yield call(make(*shape, low=low, high=high))
        for option in options:
            yield call(make(4, low=low, high=high), **option)

    return samples


def _along_axis(make: Make) -> Iterator[Sample]:
    yield call(make(3))
    yield call(make())
    for axis in (0, 1, -1):
        yield call(make(2, 3, 4), axis=axis)
    yield call(make(2, 0))
    yield call(make(0, 2), axis=-1)


def _threshold(make: Make) -> Iterator[Sample]:
    for shape in SHAPES:
        yield call(make(*shape), 0.3, -5.0)


def _prelu(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make(1))
    yield call(make(2, 3), make(3))
    yield call(make(2, 3, 4), make(3))
    yield call(make(), make(1))
    yield call(make(4), make())
    yield call(make(0, 3), make(3))


def _glu(make: Make) -> Iterator[Sample]:
    yield call(make(4))
    yield call(make(2, 4, 3), axis=1)
    yield call(make(2, 6), axis=-1)
    yield call(make(2, 0), axis=-1)


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax by its definition."""
    powers = np.exp(x)
    return powers / powers.sum(axis=axis, keepdims=True)


def activation(
    name: str, samples: Any, reference: Any, torch: Callable[..., Any], **more: Any
) -> OpInfo:
    """The record of an activation; none is defined for complex numbers."""
    return OpInfo(f"nn.functional.{name}", samples, reference, torch, has_complex=False, **more)


def logistic(x: Any) -> Any:
    """The logistic function by its definition."""
    return 1 / (1 + np.exp(-x))


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(x))


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + erf(x / np.sqrt(2)))


def _halves(x: Any, axis: int = -1) -> Any:
    a, b = np.split(x, 2, axis)
    return a * logistic(b)


OPS = [
    activation(
        "softmax", _along_axis, softmax, lambda t, x, axis=-1: t.nn.functional.softmax(x, axis)
    ),
    activation(
        "log_softmax",
        _along_axis,
        lambda x, axis=-1: np.log(softmax(x, axis)),
        lambda t, x, axis=-1: t.nn.functional.log_softmax(x, axis),
    ),
    activation(
        "softmin",
        _along_axis,
        lambda x, axis=-1: softmax(-x, axis),
        lambda t, x, axis=-1: t.nn.functional.softmin(x, axis),
    ),
    activation(
        "relu",
        elementwise(),
        lambda x: np.where(x > 0, x, 0),
        lambda t, x: t.nn.functional.relu(x),
        inplace="relu_",
    ),
    activation(
        "relu6",
        elementwise(-3, 9),
        lambda x: np.minimum(np.maximum(x, 0), 6),
        lambda t, x: t.nn.functional.relu6(x),
    ),
    activation(
        "hardtanh",
        elementwise(-3, 3, {"min_val": -0.5, "max_val": 1.5}),
        lambda x, min_val=-1, max_val=1: np.minimum(np.maximum(x, min_val), max_val),
        lambda t, x, **kw: t.nn.functional.hardtanh(x, **kw),
        inplace="hardtanh_",
    ),
    activation(
        "hardsigmoid",
        elementwise(-5, 5),
        lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
        lambda t, x: t.nn.functional.hardsigmoid(x),
    ),
    activation(
        "hardswish",
        elementwise(-5, 5),
        lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
        lambda t, x: t.nn.functional.hardswish(x),
    ),
    activation(
        "threshold",
        _threshold,
        lambda x, bound, value: np.where(x > bound, x, value),
        lambda t, x, *args: t.nn.functional.threshold(x, *args),
        inplace="threshold_",
    ),
    activation(
        "softshrink",
        elementwise(-2, 2, {"lambd": 1.2}),
        lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
        lambda t, x, **kw: t.nn.functional.softshrink(x, **kw),
    ),
    activation(
        "hardshrink",
        elementwise(-2, 2, {"lambd": 1.2}),
        lambda x, lambd=0.5: x * (np.abs(x) > lambd),
        lambda t, x, **kw: t.nn.functional.hardshrink(x, **kw),
    ),
    activation(
        "leaky_relu",
        elementwise(-2, 2, {"negative_slope": 0.3}),
        lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
        lambda t, x, **kw: t.nn.functional.leaky_relu(x, **kw),
        inplace="leaky_relu_",
    ),
    activation("prelu", _prelu, None, lambda t, x, w: t.nn.functional.prelu(x, w)),
    activation(
        "rrelu",
        elementwise(-2, 2, {"lower": 0.1, "upper": 0.2}),
        lambda x, lower=1 / 8, upper=1 / 3: np.where(x > 0, x, (lower + upper) / 2 * x),
        lambda t, x, **kw: t.nn.functional.rrelu(x, **kw),
    ),
    activation(
        "elu",
        elementwise(-2, 2, {"alpha": 0.7}),
        _elu,
        lambda t, x, **kw: t.nn.functional.elu(x, **kw),
        inplace="elu_",
    ),
    activation(
        "selu",
        elementwise(),
        lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
        lambda t, x: t.nn.functional.selu(x),
        inplace="selu_",
    ),
    activation(
        "celu",
        elementwise(-2, 2, {"alpha": 0.7}, {"alpha": -0.7}),
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        lambda t, x, **kw: t.nn.functional.celu(x, **kw),
        inplace="celu_",
    ),
    activation(
        "silu",
        elementwise(-4, 4),
        lambda x: x * logistic(x),
        lambda t, x: t.nn.functional.silu(x),
    ),
    activation(
        "mish",
        elementwise(-4, 4),
        lambda x: x * np.tanh(np.log1p(np.exp(x))),
        lambda t, x: t.nn.functional.mish(x),
    ),
    activation(
        "gelu",
        elementwise(-4, 4, {"approximate": "tanh"}, {"approximate": "none"}),
        _gelu,
        lambda t, x, **kw: t.nn.functional.gelu(x, **kw),
    ),
    activation(
        "tanhshrink",
        elementwise(),
        lambda x: x - np.tanh(x),
        lambda t, x: t.nn.functional.tanhshrink(x),
    ),
    activation(
        "softsign",
        elementwise(),
        lambda x: x / (1 + np.abs(x)),
        lambda t, x: t.nn.functional.softsign(x),
    ),
    activation(
        "logsigmoid",
        elementwise(-4, 4),
        lambda x: np.log(logistic(x)),
        lambda t, x: t.nn.functional.logsigmoid(x),
    ),
    activation("glu", _glu, _halves, lambda t, x, axis=-1: t.nn.functional.glu(x, axis)),
]
