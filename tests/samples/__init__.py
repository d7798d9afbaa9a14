"""The records of all operators, by family."""

from __future__ import annotations

from tests.samples import (
    creation,
    decompositions,
    fft,
    indexing,
    linalg,
    moving,
    nn,
    nn_activation,
    nn_conv,
    nn_distance,
    nn_layer,
    nn_loss,
    nn_norm,
    nn_pool,
    pointwise,
    products,
    reduction,
    shape,
    sorting,
    special,
)
from tests.samples.opinfo import OpInfo

__all__ = ["OPS"]

OPS: list[OpInfo] = [
    *creation.OPS,
    *decompositions.OPS,
    *fft.OPS,
    *indexing.OPS,
    *linalg.OPS,
    *moving.OPS,
    *nn.OPS,
    *nn_activation.OPS,
    *nn_conv.OPS,
    *nn_distance.OPS,
    *nn_layer.OPS,
    *nn_loss.OPS,
    *nn_norm.OPS,
    *nn_pool.OPS,
    *pointwise.OPS,
    *products.OPS,
    *reduction.OPS,
    *shape.OPS,
    *sorting.OPS,
    *special.OPS,
]
