"""Records of convolutions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _conv1d(make: Make) -> Iterator[Sample]:
    x, w = (2, 2, 5), (3, 2, 3)
    yield call(make(*x), make(*w))
    yield call(make(*x), make(*w), make(3), 2, 1)
    yield call(make(*x), make(*w), bias=make(3), padding=2, dilation=2)
    yield call(make(*x), make(*w), padding="same", dilation=2)
    yield call(make(2, 2, 4), make(3, 2, 2), padding="same")
    yield call(make(*x), make(*w), padding="valid")
    yield call(make(2, 4, 5), make(6, 2, 2), groups=2)
    yield call(make(2, 5), make(*w), make(3))
    yield call(make(0, 2, 5), make(*w), make(3))
    yield call(make(2, 2, 3), make(*w))


def _conv2d(make: Make) -> Iterator[Sample]:
    x, w = (2, 2, 4, 5), (3, 2, 2, 3)
    yield call(make(*x), make(*w))
    yield call(make(*x), make(*w), make(3), (2, 1), (1, 0), (1, 2))
    yield call(make(*x), make(*w), stride=3, padding=1)
    yield call(make(*x), make(*w), padding="same")
    yield call(make(2, 4, 3, 3), make(4, 1, 2, 2), make(4), groups=4)
    yield call(make(2, 4, 3), make(4, 2, 1, 1), groups=1)
    yield call(make(1, 2, 4, 5), make(3, 2, 4, 5))


def _conv3d(make: Make) -> Iterator[Sample]:
    yield call(make(1, 2, 3, 3, 4), make(2, 2, 2, 2, 2), make(2), stride=(1, 2, 1), padding=1)
    yield call(make(2, 2, 3, 2, 2), make(2, 1, 2, 1, 2), padding="same", groups=2)


def _conv_transpose1d(make: Make) -> Iterator[Sample]:
    x, w = (2, 3, 4), (3, 2, 3)
    yield call(make(*x), make(*w))
    yield call(make(*x), make(*w), make(2), 2, 1, 1)
    yield call(make(*x), make(*w), bias=make(2), dilation=2, stride=3, output_padding=2)
    yield call(make(2, 4, 3), make(4, 2, 2), groups=2)
    yield call(make(3, 4), make(*w), make(2))


def _conv_transpose2d(make: Make) -> Iterator[Sample]:
    x, w = (2, 3, 2, 3), (3, 2, 2, 3)
    yield call(make(*x), make(*w))
    yield call(make(*x), make(*w), make(2), (2, 3), (1, 0), (0, 2), 1, (2, 1))


def _conv_transpose3d(make: Make) -> Iterator[Sample]:
    yield call(make(1, 2, 2, 2, 2), make(2, 2, 2, 2, 1), make(2), stride=2)


def _unfold(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3, 4, 5), (2, 3))
    yield call(make(2, 1, 4, 4), 2, 2, 1, 2)
    yield call(make(2, 4, 4), kernel_size=3, padding=(1, 0), stride=(2, 1))


def _fold(make: Make) -> Iterator[Sample]:
    yield call(make(2, 12, 9), (4, 5), (2, 3))
    yield call(make(2, 4, 4), 4, 2, 2, 1, 2)
    yield call(make(4, 9), output_size=(4, 4), kernel_size=2)


def _naive(axes: int) -> Callable[..., Any]:
    """Convolution by its definition, one output at a time."""

    def conv(
        x: Any,
        w: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        if x.ndim == axes + 1:
            return conv(x[None], w, bias, stride, padding, dilation, groups)[0]
        stride, dilation = (np.broadcast_to(v, axes) for v in (stride, dilation))
        kernel = np.array(w.shape[2:])
        sides = np.zeros((2, axes), int)
        if padding == "same":
            sides[0] = dilation * (kernel - 1) // 2
            sides[1] = dilation * (kernel - 1) - sides[0]
        elif padding != "valid":
            sides[:] = padding
        x = np.pad(x, [(0, 0), (0, 0), *sides.T])
        out = (np.array(x.shape[2:]) - dilation * (kernel - 1) - 1) // stride + 1
        y: Any = np.zeros((x.shape[0], w.shape[0], *out), np.result_type(x, w))
        width = w.shape[1]
        for o, *place in product(range(w.shape[0]), *map(range, out)):
            start = np.array(place) * stride
            window = tuple(
                slice(a, a + d * k, d) for a, d, k in zip(start, dilation, kernel, strict=True)
            )
            first = o // (w.shape[0] // groups) * width
            seen = x[(slice(None), slice(first, first + width), *window)]
            y[(slice(None), o, *place)] = (seen * w[o]).reshape(x.shape[0], w[o].size).sum(-1)
            if bias is not None:
                y[(slice(None), o, *place)] += bias[o]
        return y

    return conv


def _same(name: str) -> Callable[..., Any]:
    """PyTorch's function, which warns that an even kernel with padding="same" costs a copy."""

    def call(t: Any, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(t.nn.functional, name)(*args, **kwargs)

    return call


OPS = [
    OpInfo(
        "nn.functional.conv1d",
        _conv1d,
        _naive(1),
        _same("conv1d"),
    ),
    OpInfo(
        "nn.functional.conv2d",
        _conv2d,
        _naive(2),
        _same("conv2d"),
    ),
    OpInfo(
        "nn.functional.conv3d",
        _conv3d,
        _naive(3),
        _same("conv3d"),
    ),
    OpInfo(
        "nn.functional.conv_transpose1d",
        _conv_transpose1d,
        torch=lambda t, *args, **kw: t.nn.functional.conv_transpose1d(*args, **kw),
    ),
    OpInfo(
        "nn.functional.conv_transpose2d",
        _conv_transpose2d,
        torch=lambda t, *args, **kw: t.nn.functional.conv_transpose2d(*args, **kw),
    ),
    OpInfo(
        "nn.functional.conv_transpose3d",
        _conv_transpose3d,
        torch=lambda t, *args, **kw: t.nn.functional.conv_transpose3d(*args, **kw),
    ),
    OpInfo(
        "nn.functional.unfold",
        _unfold,
        torch=lambda t, *args, **kw: t.nn.functional.unfold(*args, **kw),
    ),
    OpInfo(
        "nn.functional.fold",
        _fold,
        torch=lambda t, *args, **kw: t.nn.functional.fold(*args, **kw),
    ),
]
