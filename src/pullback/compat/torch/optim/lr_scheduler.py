"""``torch.optim.lr_scheduler``: the schedules of ``pullback.optim.lr_scheduler``."""

from __future__ import annotations

from pullback.optim import lr_scheduler as _schedules
from pullback.optim.lr_scheduler import *

__all__: list[str] = []
__all__ += _schedules.__all__
