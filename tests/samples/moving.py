"""Records of operators that move, repeat and add elements: the second half of `shape`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]


def _flip(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3))
    yield call(make(2, 3), 1)
    yield call(make(2, 3, 2), (0, -1))
    yield call(make())
    yield call(make(0, 2), 1)


def _matrices(make: Make) -> Iterator[Sample]:
    yield call(make(2, 3))
    yield call(make(2, 3, 2))


def _rot90(make: Make) -> Iterator[Sample]:
    for k in range(-1, 4):
        yield call(make(2, 3), k)
    yield call(make(2, 3, 4), 1, (2, 0))


def _roll(make: Make) -> Iterator[Sample]:
    yield call(make(5), 2)
    yield call(make(2, 3), 1)
    yield call(make(2, 3), -4, 1)
    yield call(make(2, 3), (1, 2), (0, 1))
    yield call(make(0), 1)


def _tile(make: Make) -> Iterator[Sample]:
    yield call(make(3), 2)
    yield call(make(2, 3), (2, 1))
    yield call(make(3), (2, 2))
    yield call(make(2, 1, 3), 2)
    yield call(make(), (2, 3))
    yield call(make(2), 0)


def _repeat(make: Make) -> Iterator[Sample]:
    yield call(make(3), 2)
    yield call(make(2, 3), 2, 1)
    yield call(make(2, 3), [1, 0, 2], -1)
    yield call(make(2, 3), [2], 0)
    yield call(make(2, 2), [1, 2, 0, 1])
    yield call(make(2), 0)
    yield call(make(), 3)


def _resize(make: Make) -> Iterator[Sample]:
    yield call(make(3), (2, 4))
    yield call(make(2, 3), 4)
    yield call(make(2, 3), (0, 2))


def _triangle(make: Make) -> Iterator[Sample]:
    for k in (-1, 0, 1):
        yield call(make(3, 4), k)
    yield call(make(2, 3, 3))


def _delete(make: Make) -> Iterator[Sample]:
    yield call(make(4), 1)
    yield call(make(4), [0, -1])
    yield call(make(2, 4), slice(0, 4, 2), 1)
    yield call(make(2, 3), [1, 4])
    yield call(make(3, 2), np.array([True, False, True]), 0)


def _insert(make: Make) -> Iterator[Sample]:
    yield call(make(4), 1, make())
    yield call(make(4), 2, make(2))
    yield call(make(4), [0, 4], make(2))
    yield call(make(4), [1, 1], make())
    yield call(make(2, 3), 1, make(2), 1)
    yield call(make(2, 3), [0, 2], make(2, 2), 1)
    yield call(make(2, 3), [1], make(2, 1), 1)
    yield call(make(2, 3), 3, make(3))
    yield call(make(4), slice(0, 3), make(3))


def _pad(mode: str, *options: dict[str, Any], widths: tuple[Any, ...] = ()) -> Callable[..., Any]:
    def samples(make: Make) -> Iterator[Sample]:
        for given in options or ({},):
            yield call(make(4), 2, mode, **given)
            yield call(make(3, 4), (1, 2), mode, **given)
            yield call(make(3, 4), ((0, 1), (2, 0)), mode, **given)
            for width in widths:
                yield call(make(3), width, mode, **given)

    return samples


def _torch_pad(mode: str) -> Callable[..., Any]:
    def pad(t: Any, x: Any, width: Any, _: str, **options: Any) -> Any:
        pairs = np.broadcast_to(width, (x.ndim, 2))[::-1].reshape(-1).tolist()
        if mode == "constant":
            return t.nn.functional.pad(x, pairs, mode, options.get("constant_values", 0))
        return t.nn.functional.pad(x[None, None], pairs, mode)[0, 0]

    return pad


def _pad_op(mode: str, *options: dict[str, Any], torch: Any = None, **more: Any) -> OpInfo:
    ordered = mode in ("maximum", "minimum")
    samples = _pad(mode, *options, **more)
    return OpInfo("pad", samples, np.pad, torch, has_complex=not ordered)


def _meshgrid(make: Make) -> Iterator[Sample]:
    yield call(make(2), make(3))
    yield call(make(2), make(3), make(2))
    yield call(make(2), make(3), indexing="ij")
    yield call(make(2), make(3), sparse=True)
    yield call(make(2))


def _broadcast_arrays(make: Make) -> Iterator[Sample]:
    yield call(make(3), make(2, 1))
    yield call(make(), make(2), make(1))


def _atleast(make: Make) -> Iterator[Sample]:
    for shape in ((), (2,), (2, 3), (2, 1, 2)):
        yield call(make(*shape))
    yield call(make(), make(2, 2))


OPS = [
    OpInfo("flip", _flip, np.flip),
    OpInfo("fliplr", _matrices, np.fliplr, lambda t, x: t.fliplr(x)),
    OpInfo("flipud", _matrices, np.flipud, lambda t, x: t.flipud(x)),
    OpInfo("rot90", _rot90, np.rot90, lambda t, x, k=1, axes=(0, 1): t.rot90(x, k, axes)),
    OpInfo("roll", _roll, np.roll, lambda t, x, shift, axis=None: t.roll(x, shift, axis)),
    OpInfo("tile", _tile, np.tile),
    OpInfo("repeat", _repeat, np.repeat),
    OpInfo("resize", _resize, np.resize),
    OpInfo("tril", _triangle, np.tril, lambda t, x, k=0: t.tril(x, k)),
    OpInfo("triu", _triangle, np.triu, lambda t, x, k=0: t.triu(x, k)),
    OpInfo("delete", _delete, np.delete),
    OpInfo("insert", _insert, np.insert),
    OpInfo("meshgrid", _meshgrid, lambda *x, **options: list(np.meshgrid(*x, **options))),
    OpInfo("broadcast_arrays", _broadcast_arrays, lambda *x: list(np.broadcast_arrays(*x))),
    OpInfo("atleast_1d", _atleast, np.atleast_1d),
    OpInfo("atleast_2d", _atleast, np.atleast_2d),
    OpInfo("atleast_3d", _atleast, np.atleast_3d),
    _pad_op(
        "constant", {}, {"constant_values": 1.5}, torch=_torch_pad("constant"), widths=(0, (5, 6))
    ),
    _pad_op("edge", widths=(0, (5, 6))),
    _pad_op("wrap", widths=((5, 6),)),
    _pad_op("reflect", {}, {"reflect_type": "odd"}, widths=((5, 6), (2, 9))),
    _pad_op("symmetric", {}, {"reflect_type": "odd"}, widths=((5, 6), (2, 9))),
    _pad_op("linear_ramp", {}, {"end_values": (1.5, -2.0)}, widths=((5, 6),)),
    _pad_op("mean", {}, {"stat_length": (2, 1)}),
    _pad_op("maximum", {}, {"stat_length": 2}),
    _pad_op("minimum", {}, {"stat_length": 2}),
]
