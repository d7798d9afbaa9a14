"""``autograd.misc``: containers as vectors, and simple optimizers."""

from __future__ import annotations

from pullback.compat.autograd.misc import flatten, optimizers

__all__ = ["flatten", "optimizers"]
