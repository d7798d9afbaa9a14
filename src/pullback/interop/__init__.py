"""NumPy interoperability: unmodified NumPy code on tensors.

Importing it gives ``Tensor`` NumPy's protocols; see ``docs/numpy.md``.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.interop.methods import attach_methods as _attach_methods
from pullback.interop.namespace import attach_namespace as _attach_namespace
from pullback.interop.protocols import attach_protocols as _attach_protocols

if _typing.TYPE_CHECKING:
    from pullback.interop.mode import differentiable, in_numpy_mode, numpy_mode

__all__ = ["differentiable", "in_numpy_mode", "numpy_mode"]

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _lazy_names(__name__, {"pullback.interop.mode": __all__})

_attach_protocols()
_attach_methods()
_attach_namespace()
