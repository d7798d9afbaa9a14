"""Vector mathematics: element-wise functions as LLVM instructions on vectors of any width.

``compute`` and ``elementwise`` of ``elements.py`` are the entrance: a node, or the name of a NumPy
function, and vectors of operands go in, a vector of results comes out. Functions are formulas of
Python on ``Number`` objects (``number.py``). Those of floating-point numbers are a few instructions
(``rounding.py``), or polynomials after a reduction of the argument (``exponential.py``,
``logarithm.py``, ``trigonometric.py``, ``special.py``), with errors of at most a few units in the
last place; ``lanes.py`` has what they share. ``integers.py`` has those of integers and truth
values.
"""

from __future__ import annotations

__all__: list[str] = []
