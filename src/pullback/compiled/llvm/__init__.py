"""The backend "llvm": a lowered graph as machine code.

``program.py`` is the entrance: a lowered graph goes in, a ``NativeProgram`` that can be called
comes out. It divides the graph into segments, whose code ``registers.py`` writes for small values
(LLVM vectors, ``register_values.py``) and ``arrays/`` for large ones (loops over memory);
``schedule.py`` says which is which. ``vector/`` has the element-wise functions of both.
``steps.py`` writes the Python function that runs segments and calls, ``entry.py`` the function
around a program, by means of ``objects.py``; ``compiler.py`` runs LLVM, ``object_cache.py`` keeps
its results.
"""

from __future__ import annotations

__all__: list[str] = []
