"""Records of normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _layer_norm(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), (4,))
    yield call(make(3, 4), 4, make(4), make(4))
    yield call(make(2, 3, 4), (3, 4), weight=make(3, 4))
    yield call(make(2, 3, 4), [4], bias=make(4), eps=0.1)
    yield call(make(4), (4,), make(4), make(4))
    yield call(make(0, 4), (4,), make(4), make(4))


def _rms_norm(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), (4,))
    yield call(make(3, 4), 4, make(4))
    yield call(make(2, 3, 4), (3, 4), weight=make(3, 4), eps=0.1)
    yield call(make(0, 4), (4,), make(4))


def _group_norm(make: Make) -> Iterator[Sample]:
    yield call(make(2, 4, 3), 2)
    yield call(make(2, 4), 2, make(4), make(4))
    yield call(make(2, 6, 2, 2), num_groups=3, weight=make(6), bias=make(6), eps=0.1)


def _batch_norm(make: Make) -> Iterator[Sample]:
    yield call(make(4, 3), None, None, training=True)
    yield call(make(4, 3), None, None, make(3), make(3), True)
    yield call(make(2, 3, 2, 2), None, None, weight=make(3), training=True, eps=0.1)
    yield call(make(4, 3), make(3), make(3, low=0.5))
    yield call(make(2, 3, 4), make(3), make(3, low=0.5), make(3), make(3), False, 0.1, 0.01)
    yield call(make(2, 3, 4), make(3), make(3, low=0.5), bias=make(3))


def _instance_norm(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4))
    yield call(make(2, 3, 2, 3), weight=make(3), bias=make(3), eps=0.1)
    yield call(make(2, 3, 4), make(3), make(3, low=0.5), use_input_stats=False)


def _normal(x: Any, axis: Any, eps: float) -> Any:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


def _layer_norm_reference(
    x: Any, shape: Any, weight: Any = 1, bias: Any = 0, eps: float = 1e-5
) -> Any:
    return _normal(x, tuple(range(-np.size(shape), 0)), eps) * weight + bias


def _rms_norm_reference(x: Any, shape: Any, weight: Any = 1, eps: Any = None) -> Any:
    axis = tuple(range(-np.size(shape), 0))
    eps = np.finfo(x.dtype).eps if eps is None else eps
    return x / np.sqrt((x * x).mean(axis, keepdims=True) + eps) * weight


def _sizes(shape: Any) -> Any:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def norm(name: str, samples: Any, reference: Any = None, torch: Any = None) -> OpInfo:
    """The record of a normalisation, compared with PyTorch's function of the same name."""
    torch = torch or (lambda t, *args, **kw: getattr(t.nn.functional, name)(*args, **kw))
    return OpInfo(f"nn.functional.{name}", samples, reference, torch, has_complex=False)


def _with_statistics(name: str) -> Any:
    """PyTorch's function, which refuses running statistics that require grad."""

    def call(t: Any, x: Any, mean: Any = None, var: Any = None, *args: Any, **kwargs: Any) -> Any:
        mean, var = (None if v is None else v.detach() for v in (mean, var))
        return getattr(t.nn.functional, name)(x, mean, var, *args, **kwargs)

    return call


OPS = [
    norm(
        "layer_norm",
        _layer_norm,
        _layer_norm_reference,
        lambda t, x, shape, *args, **kw: t.nn.functional.layer_norm(x, _sizes(shape), *args, **kw),
    ),
    norm(
        "rms_norm",
        _rms_norm,
        _rms_norm_reference,
        lambda t, x, shape, *args, **kw: t.nn.functional.rms_norm(x, _sizes(shape), *args, **kw),
    ),
    norm("group_norm", _group_norm),
    norm("batch_norm", _batch_norm, torch=_with_statistics("batch_norm")),
    norm("instance_norm", _instance_norm, torch=_with_statistics("instance_norm")),
]
