"""Compiled mode: a function is traced once for each signature, and its graph is run.

``function.py`` has ``compile`` and finds the program of a call by its signature
(``signatures.py``). What a call may depend on besides its arguments is in ``watch.py`` (names and
objects that have to stay the same) and ``outside.py`` (captured tensors, gradients and options,
which are read and changed). ``paths.py`` runs a program, ``recorded.py`` gives its results a
history, ``report.py`` describes it. Programs come from ``lowering/`` and ``llvm/``, or from
``eager/``. ``ARCHITECTURE.md`` follows one call through all of them, in "Life of a compiled call".
"""

from __future__ import annotations

from pullback.compiled.function import CacheInfo, CompiledFunction, compile

__all__ = ["CacheInfo", "CompiledFunction", "compile"]
