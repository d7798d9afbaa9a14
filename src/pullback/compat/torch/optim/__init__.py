"""``torch.optim``: the optimizers of ``pullback.optim``, whose names are PyTorch's."""

from __future__ import annotations

from pullback import optim as _optim
from pullback.optim import *

__all__: list[str] = []
__all__ += _optim.__all__
