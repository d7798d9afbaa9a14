"""Helpers of the library that are useful by themselves.

This file imports none of its modules: they belong to different layers, and low ones use ``pytree``.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
    from pullback.utils import _python_dispatch, _pytree, checkpoint, data, pytree, serialization

__all__ = ["_python_dispatch", "_pytree", "checkpoint", "data", "pytree", "serialization"]

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _lazy_names(__name__, {__name__: __all__})
