"""``torch.nn.functional``: the functions of ``pullback.nn.functional``."""

from __future__ import annotations

from pullback.nn import functional as _functional
from pullback.nn.functional import *

__all__: list[str] = []
__all__ += _functional.__all__
