"""The NumPy door: unmodified NumPy code on tensors.

Importing it gives ``Tensor`` NumPy's protocols; see ``docs/numpy.md``.
"""

from __future__ import annotations

from pullback.interop.methods import attach_methods as _attach_methods
from pullback.interop.mode import differentiable, in_numpy_mode, numpy_mode
from pullback.interop.namespace import attach_namespace as _attach_namespace
from pullback.interop.protocols import attach_protocols as _attach_protocols

__all__ = ["differentiable", "in_numpy_mode", "numpy_mode"]

_attach_protocols()
_attach_methods()
_attach_namespace()
