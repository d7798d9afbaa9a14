"""Other libraries' interfaces on top of Pullback, for programs that were written for them.

Nothing here is loaded by ``import pullback``.
"""

from __future__ import annotations

from pullback.compat import autograd

__all__ = ["autograd"]
