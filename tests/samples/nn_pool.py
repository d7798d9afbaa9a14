"""Records of pooling and interpolation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def apart(make: Make, *shape: int) -> Any:
    """Different numbers with room between them, so that the largest stays the largest."""
    numbers = np.linspace(-2, 2, int(np.prod(shape)))
    return make.rng.permutation(numbers).reshape(shape).astype(make.dtype)


def _max_pool1d(make: Make) -> Iterator[Sample]:
    yield call(apart(make, 2, 2, 6), 2)
    yield call(apart(make, 2, 6), 3, 1, 1)
    yield call(apart(make, 1, 2, 7), 2, stride=2, dilation=2)
    yield call(apart(make, 1, 2, 7), 3, 2, 1, ceil_mode=True)


def _max_pool2d(make: Make) -> Iterator[Sample]:
    yield call(apart(make, 2, 2, 4, 6), 2)
    yield call(apart(make, 2, 2, 5, 5), (3, 2), (1, 2), (1, 0))
    yield call(apart(make, 2, 5, 5), 2, 2, 1, 2, True)
    yield call(apart(make, 1, 1, 5, 6), kernel_size=3, ceil_mode=True)
    yield call(apart(make, 0, 2, 4, 4), 2)


def _avg_pool1d(make: Make) -> Iterator[Sample]:
    yield call(make(2, 2, 6), 2)
    yield call(make(2, 6), 3, 1, 1)
    yield call(make(1, 2, 7), 3, 2, 1, True)
    yield call(make(1, 2, 7), 3, 2, 1, True, False)
    yield call(make(1, 2, 6), kernel_size=4, stride=3, ceil_mode=True)


def _avg_pool2d(make: Make) -> Iterator[Sample]:
    yield call(make(2, 2, 4, 6), 2)
    yield call(make(2, 2, 5, 5), (3, 2), (1, 2), (1, 0))
    yield call(make(2, 5, 5), 2, 2, 1, True, False)
    yield call(make(1, 1, 5, 6), kernel_size=3, ceil_mode=True, padding=1)
    yield call(make(1, 1, 5, 6), 3, divisor_override=5)
    yield call(make(0, 2, 4, 4), 2)


def _adaptive1d(values: Callable[..., Any]) -> Any:
    def samples(make: Make) -> Iterator[Sample]:
        for size in (1, 2, 3, 4, 6):
            yield call(values(make, 2, 2, 6), size)
        yield call(values(make, 2, 5), 3)

    return samples


def _adaptive2d(values: Callable[..., Any]) -> Any:
    def samples(make: Make) -> Iterator[Sample]:
        yield call(values(make, 2, 2, 4, 6), 2)
        yield call(values(make, 2, 2, 5, 3), (3, 2))
        yield call(values(make, 2, 5, 4), (None, 3))
        yield call(values(make, 1, 2, 5, 4), output_size=1)

    return samples


def _interpolate(make: Make) -> Iterator[Sample]:
    for mode in ("nearest", "nearest-exact", "linear"):
        yield call(make(2, 2, 5), 8, mode=mode)
        yield call(make(2, 2, 5), 3, mode=mode)
        yield call(make(2, 2, 4), scale_factor=1.5, mode=mode)
    for size in (1, 7):
        yield call(make(2, 2, 5), size, mode="linear", align_corners=True)
    yield call(make(1, 2, 3, 4), (5, 3), None, "bilinear", True)
    yield call(make(1, 2, 3, 4), scale_factor=(2, 1.6), mode="bilinear")
    yield call(make(1, 2, 3, 4), (5, 8))
    yield call(make(1, 1, 2, 3, 2), size=3, mode="trilinear")
    yield call(make(0, 2, 4), 6)
    yield call(make(1, 2, 5, 4), (7, 3), mode="bicubic")
    yield call(make(1, 1, 2, 3), (5, 1), mode="bicubic", align_corners=True)
    yield call(make(1, 1, 4, 3), scale_factor=1.6, mode="bicubic")
    yield call(make(1, 1, 4, 5), scale_factor=1.6, mode="bilinear", recompute_scale_factor=True)
    yield call(make(1, 2, 5, 4), (3, 6), mode="area")
    yield call(make(1, 2, 3, 4), scale_factor=(1.2, 1.5), mode="bilinear")


def _resize(t: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    names = ("size", "scale_factor", "mode", "align_corners")
    kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
    return t.nn.functional.interpolate(x, **kwargs)


def pool(name: str, samples: Any, **more: Any) -> OpInfo:
    """The record of a pooling, compared with PyTorch's function of the same name."""
    return OpInfo(
        f"nn.functional.{name}",
        samples,
        torch=lambda t, *args, **kwargs: getattr(t.nn.functional, name)(*args, **kwargs),
        **more,
    )


OPS = [
    pool("max_pool1d", _max_pool1d, has_complex=False),
    pool("max_pool2d", _max_pool2d, has_complex=False),
    pool("max_pool1d_with_indices", _max_pool1d, has_complex=False),
    pool("max_pool2d_with_indices", _max_pool2d, has_complex=False),
    pool("adaptive_max_pool1d", _adaptive1d(apart), has_complex=False),
    pool("adaptive_max_pool2d", _adaptive2d(apart), has_complex=False),
    pool("adaptive_max_pool1d_with_indices", _adaptive1d(apart), has_complex=False),
    pool("adaptive_max_pool2d_with_indices", _adaptive2d(apart), has_complex=False),
    pool("avg_pool1d", _avg_pool1d, has_complex=False),
    pool("avg_pool2d", _avg_pool2d, has_complex=False),
    pool("adaptive_avg_pool1d", _adaptive1d(Make.__call__), has_complex=False),
    pool("adaptive_avg_pool2d", _adaptive2d(Make.__call__), has_complex=False),
    OpInfo("nn.functional.interpolate", _interpolate, torch=_resize, has_complex=False),
]
