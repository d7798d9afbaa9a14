"""``torch.nn.init``: the functions of ``pullback.nn.init``, whose names are PyTorch's."""

from __future__ import annotations

from pullback.nn import init as _init
from pullback.nn.init import *

__all__: list[str] = []
__all__ += _init.__all__
