"""Records of operators of neural networks, gathered from the files of this family."""

from __future__ import annotations

from tests.samples import (
    nn_activation,
    nn_conv,
    nn_distance,
    nn_layer,
    nn_loss,
    nn_norm,
    nn_pool,
)
from tests.samples.opinfo import OpInfo

__all__ = ["OPS"]

OPS: list[OpInfo] = [
    *nn_activation.OPS,
    *nn_conv.OPS,
    *nn_distance.OPS,
    *nn_layer.OPS,
    *nn_loss.OPS,
    *nn_norm.OPS,
    *nn_pool.OPS,
]
