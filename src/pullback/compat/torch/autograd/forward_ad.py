"""``torch.autograd.forward_ad``: dual tensors."""

from __future__ import annotations

from pullback.autograd import forward_ad as _forward_ad
from pullback.autograd.forward_ad import (
    UnpackedDualTensor,
    dual_level,
    enter_dual_level,
    exit_dual_level,
)
from pullback.compat.torch.tensor import converting as _converting

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

make_dual = _converting(_forward_ad.make_dual)
unpack_dual = _converting(_forward_ad.unpack_dual)
