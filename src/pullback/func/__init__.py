"""Function transforms; PyTorch's ``torch.func``."""

from __future__ import annotations

from pullback.func.vmap import vmap

__all__ = ["vmap"]
