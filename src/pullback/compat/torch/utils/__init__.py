"""``torch.utils``: `checkpoint`, `data` and trees, as ``pullback.utils`` has them."""

from __future__ import annotations

from typing import Any as _Any

from pullback import utils as _utils
from pullback.compat.torch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]


def __getattr__(name: str) -> _Any:
    return getattr(_utils, name)
