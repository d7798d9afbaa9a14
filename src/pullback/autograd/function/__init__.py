"""``Function``: operations with a user-defined backward; ``torch.autograd.function``."""

from __future__ import annotations

from pullback.autograd.function.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
