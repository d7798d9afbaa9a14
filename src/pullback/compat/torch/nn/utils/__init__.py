"""``torch.nn.utils``: the functions of ``pullback.nn.utils``, whose names are PyTorch's."""

from __future__ import annotations

from pullback.nn import utils as _utils
from pullback.nn.utils import *

__all__: list[str] = []
__all__ += _utils.__all__
