"""Records of layers: linear maps, embeddings, dropout and attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _linear(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make(4, 3))
    yield call(make(2, 3), make(4, 3), make(4))
    yield call(make(2, 5, 3), make(4, 3), bias=make(4))
    yield call(make(3), make(4, 3), make(4))
    yield call(make(0, 3), make(4, 3), make(4))
    yield call(make(2, 0), make(4, 0), make(4))
    yield call(make(2, 3), make(0, 3))


def _bilinear(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3), make(2, 4), make(5, 3, 4))
    yield call(make(2, 3), make(2, 4), make(5, 3, 4), bias=make(5))
    yield call(make(2, 2, 3), make(2, 2, 4), make(1, 3, 4), make(1))
    yield call(make(0, 3), make(0, 4), make(5, 3, 4))


def _embedding(make: Make) -> Iterator[Sample]:
    yield call(make.ints(4), make(5, 3))
    yield call(make.ints(2, 3), make(5, 3))
    yield call(make.ints(0), make(5, 3))
    yield call(make.ints(), make(5, 3))


def _embedding_bag(make: Make) -> Iterator[Sample]:
    offsets = np.array([0, 2, 2, 5])
    for mode in ("sum", "mean", "max"):
        if not (make.is_complex and mode == "max"):
            yield call(make.ints(3, 4), make(5, 2), mode=mode)
            yield call(make.ints(6), make(5, 2), offsets, mode=mode, padding_idx=1)
            yield call(make.ints(5), make(5, 2), offsets, mode=mode, include_last_offset=True)
    yield call(make.ints(2, 3), make(5, 2), mode="sum", per_sample_weights=make(2, 3))
    yield call(make.ints(6), make(5, 2), offsets, mode="sum", per_sample_weights=make(6))
    yield call(make.ints(0), make(5, 2), np.array([0, 0]))


def _bags(t: Any, indices: Any, weight: Any, offsets: Any = None, **kwargs: Any) -> Any:
    offsets = None if offsets is None else t.as_tensor(offsets)
    return t.nn.functional.embedding_bag(t.as_tensor(indices), weight, offsets, **kwargs)


def _channel_shuffle(make: Make) -> Iterator[Sample]:
    yield call(make(2, 6, 3), 2)
    yield call(make(1, 6, 2, 2), groups=3)


def _one_hot(make: Make) -> Iterator[Sample]:
    yield call(make.ints(4))
    yield call(make.ints(2, 3), 7)
    yield call(make.ints(), num_classes=5)


def _dropout(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4), generator=7)
    yield call(make(3, 4), 0.25, generator=7)
    yield call(make(3, 4), 0.25, False)
    yield call(make(4), p=0.0)
    yield call(make(4), p=1.0)
    yield call(make(0), generator=7)
    yield call(make(), generator=7)


def _attention(make: Make) -> Iterator[Sample]:
    q, k, v = (2, 3, 4), (2, 5, 4), (2, 5, 6)
    yield call(make(*q), make(*k), make(*v))
    yield call(make(2, *q), make(2, *k), make(2, *v), scale=0.3)
    yield call(make(*q), make(*k), make(*v), make(3, 5))
    yield call(make(*q), make(*k), make(*v), attn_mask=np.tri(3, 5, 1, dtype=bool))
    yield call(make(*q), make(*k), make(*v), np.tri(3, 5, -1, dtype=bool))
    yield call(make(3, 4), make(5, 4), make(5, 6), is_causal=True)
    yield call(make(2, 1, 4), make(2, 0, 4), make(2, 0, 6))


def _pixel_shuffle(make: Make) -> Iterator[Sample]:
    yield call(make(8, 2, 3), 2)
    yield call(make(2, 9, 1, 2), upscale_factor=3)


def _pixel_unshuffle(make: Make) -> Iterator[Sample]:
    yield call(make(2, 4, 6), 2)
    yield call(make(2, 1, 3, 3), downscale_factor=3)


def _linear_reference(x: Any, weight: Any, bias: Any = 0) -> Any:
    return np.einsum("...i,oi->...o", x, weight) + bias


def _dropout_reference(x: Any, p: float = 0.5, training: bool = True, generator: Any = None) -> Any:
    if not training:
        return x
    kept = np.random.default_rng(generator).random(x.shape, np.float32) >= p
    return np.where(kept, x / (1 - p) if p < 1 else 0.0, 0.0)


def _attention_reference(
    q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = False, scale: Any = None
) -> Any:
    scores = np.einsum("...id,...jd->...ij", q, k) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = np.tri(*scores.shape[-2:], dtype=bool)
    if attn_mask is not None:
        truth = attn_mask.dtype == bool
        scores = np.where(attn_mask, scores, -np.inf) if truth else scores + attn_mask
    weights = np.exp(scores)
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return np.einsum("...ij,...jd->...id", weights, v)


def _attend(t: Any, *args: Any, **kwargs: Any) -> Any:
    args = tuple(t.tensor(a) if isinstance(a, np.ndarray) else a for a in args)
    kwargs = {k: t.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
    return t.nn.functional.scaled_dot_product_attention(*args, **kwargs)


OPS = [
    OpInfo(
        "nn.functional.linear",
        _linear,
        _linear_reference,
        lambda t, x, w, bias=None: t.nn.functional.linear(x, w, bias),
    ),
    OpInfo(
        "nn.functional.bilinear",
        _bilinear,
        lambda x, y, w, bias=0: np.einsum("...i,oij,...j->...o", x, w, y) + bias,
        lambda t, x, y, w, bias=0: t.einsum("...i,oij,...j->...o", x, w, y) + bias,
    ),
    OpInfo("nn.functional.embedding", _embedding, lambda i, w: w[i], lambda _, i, w: w[i]),
    OpInfo(
        "nn.functional.one_hot",
        _one_hot,
        lambda i, num_classes=None: np.eye(num_classes or i.max() + 1, dtype=np.int64)[i],
        has_complex=False,
        differentiable=False,
    ),
    OpInfo("nn.functional.dropout", _dropout, _dropout_reference, has_complex=False),
    OpInfo(
        "nn.functional.scaled_dot_product_attention",
        _attention,
        _attention_reference,
        _attend,
        has_complex=False,
    ),
    OpInfo(
        "nn.functional.pixel_shuffle",
        _pixel_shuffle,
        torch=lambda t, x, upscale_factor: t.nn.functional.pixel_shuffle(x, upscale_factor),
    ),
    OpInfo(
        "nn.functional.channel_shuffle",
        _channel_shuffle,
        torch=lambda t, x, groups: t.channel_shuffle(x, groups),
    ),
    OpInfo("nn.functional.embedding_bag", _embedding_bag, torch=_bags, has_complex=False),
    OpInfo(
        "nn.functional.pixel_unshuffle",
        _pixel_unshuffle,
        torch=lambda t, x, downscale_factor: t.nn.functional.pixel_unshuffle(x, downscale_factor),
    ),
]
