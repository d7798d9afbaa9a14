"""Defining operators and registering kernels; PyTorch's ``torch.library``."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from pullback.dispatch import Library, define, fallthrough_kernel, get_kernel, impl

if _TYPE_CHECKING:
    from pullback.library.load import load_ops

__all__ = ["Library", "define", "fallthrough_kernel", "get_kernel", "impl", "load_ops"]


def __getattr__(name: str) -> _Any:
    """``load_ops`` brings the generator with it, so it is imported when it is first asked for."""
    if name == "load_ops":
        return _import_module("pullback.library.load").load_ops
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
