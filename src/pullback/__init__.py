"""Pullback: PyTorch's autograd machinery, whole and readable, in pure Python on NumPy.

This module is a contents page. It defines nothing but the version; everything else that it offers
is imported from the layer that defines it, and listed in ``__all__``.

>>> import pullback as pb
>>> pb.__version__
'0.1.0'
"""

from __future__ import annotations

from pullback import dispatch, errors, library, ops, schema
from pullback.dispatch import DispatchKey, DispatchKeySet

__all__ = [
    "DispatchKey",
    "DispatchKeySet",
    "__version__",
    "dispatch",
    "errors",
    "library",
    "ops",
    "schema",
]

__version__ = "0.1.0"
