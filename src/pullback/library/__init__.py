"""Defining operators and registering kernels; PyTorch's ``torch.library``."""

from __future__ import annotations

from pullback.dispatch import Library, define, fallthrough_kernel, get_kernel, impl

__all__ = ["Library", "define", "fallthrough_kernel", "get_kernel", "impl"]
