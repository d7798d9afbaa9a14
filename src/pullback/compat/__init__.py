"""Other libraries' interfaces on top of Pullback, for programs that were written for them.

Nothing here is loaded by ``import pullback``.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
    from pullback.compat import autograd, torch

__all__ = ["autograd", "torch"]

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _lazy_names(__name__, {"pullback.compat": ["autograd", "torch"]})
