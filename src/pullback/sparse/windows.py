"""Links of convolutions: an output element depends on the window that slides to it.

A convolution relates elements of three arrays, image, weight and output; each of them may be the
result, because gradients of convolutions are convolutions too. The triples of places that belong
together are computed once, and each link takes two of the three.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.sparse.contraction import Pairs, Shape

__all__ = ["WINDOWS"]

_LIMIT = 50_000_000  # triples


def _windows(length: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> Any:
    """Along one axis: places in the image, the weight and the output that belong together."""
    out, weight = np.meshgrid(np.arange(count), np.arange(kernel), indexing="ij")
    image = out * stride - padding + weight * dilation
    inside = (image >= 0) & (image < length)
    return image[inside], weight[inside], out[inside]


def _triples(node: Any, image: Shape, weight: Shape, out: Shape) -> Any:
    """Places in image (N, C, *space), weight (O, C / groups, *kernel) and output (N, O, *space)."""
    per_axis = [
        _windows(
            image[n + 2],
            out[n + 2],
            weight[n + 2],
            int(node.stride[n]),
            int(node.padding[2 * n]),  # before the axis; the number after it follows
            int(node.dilation[n]),
        )
        for n in range(len(image) - 2)
    ]
    groups = int(node.groups)
    shape = (out[0], out[1], weight[1], *(len(axis[0]) for axis in per_axis))
    if np.prod(shape, dtype=float) > _LIMIT:
        return None
    index = np.indices(shape, sparse=True)
    batch, channel, inner = index[:3]
    source = channel // (out[1] // groups) * weight[1] + inner
    places: list[list[Any]] = [[batch, source], [channel, inner], [batch, channel]]
    for axis, found in enumerate(per_axis):
        for part in range(3):
            places[part].append(found[part][index[3 + axis]])
    return [
        np.ravel_multi_index([np.broadcast_to(axis, shape) for axis in part], whole)
        for part, whole in zip(places, (image, weight, out), strict=True)
    ]


def _counts(node: Any, image: Shape, weight: Shape) -> Shape:
    """The shape of the output of a convolution."""
    counts = []
    for n, (length, kernel) in enumerate(zip(image[2:], weight[2:], strict=True)):
        padded = length + node.padding[2 * n] + node.padding[2 * n + 1]
        counts.append((padded - node.dilation[n] * (kernel - 1) - 1) // node.stride[n] + 1)
    return (image[0], weight[0], *counts)


def _conv(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number
    if edge == 2:  # the bias, one for each channel
        channels = np.arange(in_shape[0]).reshape(-1, *[1] * (len(out_shape) - 2))
        places = np.arange(int(np.prod(out_shape))).reshape(out_shape)
        return places, np.broadcast_to(channels, out_shape)
    return _two_of(_triples(node, node.self_shape, node.weight_shape, out_shape), 2, edge)


def _conv_input(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    """The gradient of the image, from that of the output and the weight."""
    del number
    out = in_shape if edge == 0 else _counts(node, out_shape, node.weight_shape)
    return _two_of(_triples(node, out_shape, node.weight_shape, out), 0, (2, 1)[edge])


def _conv_weight(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    """The gradient of the weight, from the image and that of the output."""
    del number
    out = in_shape if edge == 1 else _counts(node, node.self_shape, out_shape)
    return _two_of(_triples(node, node.self_shape, out_shape, out), 1, (0, 2)[edge])


def _two_of(triples: Any, result: int, source: int) -> Pairs:
    return None if triples is None else (triples[result], triples[source])


def _convolved(flips: bool) -> Any:
    def rule(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
        """One axis, NumPy's modes; without flipping it is a correlation."""
        del number, in_shape
        length, kernel = node.self_size, node.other_size
        short = min(length, kernel)
        offset = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[node.mode]
        if not flips and node.mode == "same":
            return None
        out, weight = np.meshgrid(np.arange(out_shape[0]), np.arange(kernel), indexing="ij")
        image = out + offset - (weight if flips else kernel - 1 - weight)
        inside = (image >= 0) & (image < length)
        return out[inside], (image, weight)[edge][inside]

    return rule


WINDOWS = {
    "_conv": _conv,
    "_conv_input": _conv_input,
    "_conv_weight": _conv_weight,
    "convolve": _convolved(True),
    "correlate": _convolved(False),
}
