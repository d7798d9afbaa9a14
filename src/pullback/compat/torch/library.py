"""``torch.library``: custom operators, as ``pullback.library`` has them."""

from __future__ import annotations

from typing import Any

from pullback import library as _library
from pullback.library import *

__all__: list[str] = []
__all__ += _library.__all__


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torch.library.{name} is not part of pullback.compat.torch")
