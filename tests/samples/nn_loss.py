"""Records of losses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.nn_activation import logistic, softmax
from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

REDUCTIONS = ("mean", "sum", "none")


def _differences(**option: float) -> Any:
    """Samples of a loss of the difference of two arrays; with an option, kinks lie at it."""

    def samples(make: Make) -> Iterator[Sample]:
        for reduction in REDUCTIONS:
            yield call(make(2, 3), make(2, 3), reduction=reduction)
            yield call(make(), make(), reduction=reduction, **option)
        yield call(make(0), make(0), reduction="sum")
        yield call(make(0), make(0), reduction="none")

    return samples


def probabilities(make: Make, *shape: int) -> Any:
    """Numbers between 0 and 1, away from both."""
    return make(*shape, low=0.1, high=0.9)


def signs(make: Make, *shape: int) -> Any:
    """Targets of -1 and 1."""
    return np.where(make.bools(*shape), 1, -1)


def _bce(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(probabilities(make, 2, 3), probabilities(make, 2, 3), reduction=reduction)
    yield call(probabilities(make, 2, 3), probabilities(make, 2, 3), make(3))
    yield call(probabilities(make, 0), probabilities(make, 0), reduction="sum")


def _bce_with_logits(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(2, 3), probabilities(make, 2, 3), reduction=reduction)
    yield call(make(2, 3), probabilities(make, 2, 3), make(3), pos_weight=make(3, low=0.5))
    yield call(make(2, 3), probabilities(make, 2, 3), reduction="sum", pos_weight=make(3, low=0.5))


def _classes(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(4, 5), make.ints(4), reduction=reduction)
        weight = make(5, low=0.5)
        yield call(make(4, 5), make.ints(4), weight, ignore_index=1, reduction=reduction)
    yield call(make(4, 5), np.array([0, 2, 2, 1]), ignore_index=2)
    yield call(make(2, 5, 3), make.ints(2, 3), make(5, low=0.5))
    yield call(make(2, 5, 2, 2), make.ints(2, 2, 2))
    yield call(make(5), make.ints())
    yield call(make(0, 5), make.ints(0), reduction="sum")


def _cross_entropy(make: Make) -> Iterator[Sample]:
    yield from _classes(make)
    for reduction in REDUCTIONS:
        target = softmax(make(3, 4).real).astype(make.dtype)
        yield call(make(3, 4), target, reduction=reduction)
        weight = make(4, low=0.5)
        yield call(make(3, 4), target, weight, reduction=reduction, label_smoothing=0.1)
        numbers = np.array([0, 2, 3])
        options = {"ignore_index": 2, "reduction": reduction, "label_smoothing": 0.2}
        yield call(make(3, 4), numbers, weight, **options)
        yield call(make(3, 4), numbers, **options)


def _kl_div(make: Make) -> Iterator[Sample]:
    for reduction in (*REDUCTIONS, "batchmean"):
        yield call(make(2, 3), probabilities(make, 2, 3), reduction=reduction)
        yield call(make(2, 3), make(2, 3), reduction=reduction, log_target=True)


def _poisson(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(2, 3), make(2, 3, low=0.2, high=3), reduction=reduction)
    yield call(make(2, 3, low=0.5), make(2, 3, low=0.2, high=3), log_input=False, full=True)
    yield call(make(2, 3, low=0.5), make.ints(2, 3), log_input=False, eps=0.1)


def _gaussian(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(2, 3), make(2, 3), make(2, 3, low=0.5), reduction=reduction)
    yield call(make(2, 3), make(2, 3), make(2, low=0.5), full=True)
    yield call(make(2, 3), make(2, 3), make(2, 1, low=0.5), eps=0.1)


def _hinge(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(2, 3), signs(make, 2, 3), reduction=reduction)
    yield call(make(4), signs(make, 4), margin=0.3)


def _ranking(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(4), make(4), signs(make, 4), reduction=reduction)
    yield call(make(2, 3), make(2, 3), signs(make, 2, 3), margin=0.5)


def _cosine(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(3, 4), make(3, 4), signs(make, 3), reduction=reduction)
    yield call(make(3, 4), make(3, 4), signs(make, 3), margin=0.2)
    yield call(make(4), make(4), signs(make))


def _triplet(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(3, 4), make(3, 4), make(3, 4), reduction=reduction)
    yield call(make(3, 4), make(3, 4), make(3, 4), margin=2.0, p=1.0, eps=1e-3, swap=True)
    yield call(make(4), make(4), make(4), margin=3.0)


def _soft_margin(make: Make) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(make(2, 3), signs(make, 2, 3), reduction=reduction)
    yield call(make(3), make(3))


def reduce(loss: Any, reduction: str) -> Any:
    """A loss with its reduction, in NumPy."""
    functions: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return functions[reduction](loss)


def _huber(x: Any, y: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    gap = np.abs(x - y)
    return reduce(np.where(gap < delta, gap**2 / 2, delta * (gap - delta / 2)), reduction)


def _smooth(x: Any, y: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    return _huber(x, y, reduction, beta) / beta if beta else reduce(np.abs(x - y), reduction)


def _bce_reference(x: Any, t: Any, weight: Any = 1, reduction: str = "mean") -> Any:
    return reduce(-(t * np.log(x) + (1 - t) * np.log(1 - x)) * weight, reduction)


def _logits_reference(
    x: Any, t: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = 1
) -> Any:
    p, scale = logistic(x), 1 if weight is None else weight
    return reduce(-(t * pos_weight * np.log(p) + (1 - t) * np.log(1 - p)) * scale, reduction)


def _torch(name: str) -> Any:
    """PyTorch's function: integer arrays become tensors, weights do not require grad."""

    def prepared(t: Any, value: Any) -> Any:
        return t.tensor(value) if isinstance(value, np.ndarray) else value

    def constant(value: Any) -> Any:
        return value.detach() if hasattr(value, "detach") else value

    def function(t: Any, *args: Any, **kwargs: Any) -> Any:
        values = [prepared(t, a) for a in args]
        named = {k: prepared(t, v) for k, v in kwargs.items()}
        if name in _CONSTANT_AFTER:
            first = _CONSTANT_AFTER[name]
            values[first:] = map(constant, values[first:])
            named = {k: constant(v) for k, v in named.items()}
            if not values[1].dtype.is_floating_point and "binary" in name:
                values[1] = values[1].to(values[0].dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kl_div announces another meaning of 'mean'
            return getattr(t.nn.functional, name)(*values, **named)

    return function


# PyTorch refuses to differentiate these arguments; we do not.
_CONSTANT_AFTER = {
    "binary_cross_entropy": 2,
    "binary_cross_entropy_with_logits": 2,
    "nll_loss": 2,
    "cross_entropy": 2,
    "soft_margin_loss": 1,
}


def loss(name: str, samples: Any, reference: Any = None, torch: Any = None) -> OpInfo:
    """The record of a loss, compared with PyTorch's function of the same name."""
    torch = torch or _torch(name)
    return OpInfo(f"nn.functional.{name}", samples, reference, torch, has_complex=False)


def _broadcast(name: str) -> Any:
    """PyTorch's function of arrays of one shape; it warns when they differ."""

    def function(t: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(t.nn.functional, name)(*t.broadcast_tensors(x, y), *args, **kwargs)

    return function


OPS = [
    loss(
        "mse_loss",
        _differences(),
        lambda x, y, reduction="mean": reduce((x - y) ** 2, reduction),
        _broadcast("mse_loss"),
    ),
    loss(
        "l1_loss",
        _differences(),
        lambda x, y, reduction="mean": reduce(np.abs(x - y), reduction),
        _broadcast("l1_loss"),
    ),
    loss("smooth_l1_loss", _differences(beta=0.4), _smooth, _broadcast("smooth_l1_loss")),
    loss("huber_loss", _differences(delta=0.4), _huber, _broadcast("huber_loss")),
    loss("binary_cross_entropy", _bce, _bce_reference, _torch("binary_cross_entropy")),
    loss("binary_cross_entropy_with_logits", _bce_with_logits, _logits_reference),
    loss("nll_loss", _classes),
    loss("cross_entropy", _cross_entropy),
    loss("kl_div", _kl_div),
    loss("poisson_nll_loss", _poisson),
    loss("gaussian_nll_loss", _gaussian),
    loss("hinge_embedding_loss", _hinge),
    loss("margin_ranking_loss", _ranking),
    loss("cosine_embedding_loss", _cosine),
    loss("triplet_margin_loss", _triplet),
    loss("soft_margin_loss", _soft_margin),
]
