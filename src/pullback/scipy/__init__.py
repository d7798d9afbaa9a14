"""SciPy's functions, differentiable: the same names, arguments and defaults as SciPy's.

A call with a tensor that carries a gradient runs a derivative rule of ``pullback.scipy.rules``; any
other call is SciPy's own. A function without a rule raises, with its name. SciPy is optional, and
is imported when one of the subpackages is first used.

>>> import numpy as np, pullback as pb
>>> import pullback.scipy
>>> pb.scipy.linalg.solve(np.eye(2), np.array([1.0, 2.0])).tolist()
[1.0, 2.0]
"""

from __future__ import annotations

from pullback.scipy.registry import SUBPACKAGES as _SUBPACKAGES
from pullback.scipy.registry import PublicNamespace as _PublicNamespace

__all__ = [
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]


def __getattr__(name: str) -> _PublicNamespace:
    if name not in _SUBPACKAGES:
        raise AttributeError(f"module 'pullback.scipy' has no attribute {name!r}")
    space = _PublicNamespace(f"scipy.{name}")
    globals()[name] = space  # later uses skip __getattr__
    return space


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES})
