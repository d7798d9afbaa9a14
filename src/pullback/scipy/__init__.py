"""SciPy's functions, differentiable: ``pullback.scipy.linalg`` is ``scipy.linalg`` itself.

After ``import pullback``, SciPy's own functions, classes and methods run a derivative rule of
``pullback.scipy.rules`` if a tensor that carries a gradient is among their arguments; any other
call is SciPy's own. A function without a rule raises, with its name. SciPy is optional, and is
imported when one of the subpackages is first used here.

>>> import numpy as np, pullback as pb
>>> pb.scipy.linalg.solve(np.eye(2), np.array([1.0, 2.0])).tolist()
[1.0, 2.0]
"""

from __future__ import annotations

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from pullback._lazy import after_import as _after_import

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

_MODULES = [f"scipy.{name}" for name in __all__] + [
    "scipy.cluster.hierarchy",
    "scipy.cluster.vq",
    "scipy.differentiate",
    "scipy.fftpack",
    "scipy.linalg.interpolative",
    "scipy.odr",
    "scipy.optimize.elementwise",
    "scipy.signal.windows",
    "scipy.sparse.csgraph",
    "scipy.sparse.linalg",
    "scipy.spatial.distance",
    "scipy.spatial.transform",
    "scipy.stats.contingency",
    "scipy.stats.mstats",
    "scipy.stats.qmc",
    "scipy.stats.sampling",
]


def _put_hooks(module: _ModuleType) -> None:
    _import_module("pullback.scipy.hooks").hook_module(module)


_after_import(_MODULES, _put_hooks)


def __getattr__(name: str) -> _ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'pullback.scipy' has no attribute {name!r}")
    module = _import_module(f"scipy.{name}")
    globals()[name] = module  # later uses skip __getattr__
    return module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
