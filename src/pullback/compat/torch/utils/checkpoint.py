"""``torch.utils.checkpoint``: recomputation instead of storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.torch.tensor import convert_tree, converting
from pullback.utils import checkpoint as _checkpoint

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a function without keeping what its backward needs; it runs again in backward.

    >>> import pullback.compat.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
    >>> x.grad.shape
    torch.Size([2])
    """
    return convert_tree(_checkpoint.checkpoint(converting(function), *args, **options))


def checkpoint_sequential(functions: Any, segments: int, input: Any, **options: Any) -> Any:
    """`checkpoint` for the parts of a sequence of modules."""
    return convert_tree(_checkpoint.checkpoint_sequential(functions, segments, input, **options))
