"""``Function``: operations with a backward that users write; ``torch.autograd.function``."""

from __future__ import annotations

from pullback.autograd.function.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
