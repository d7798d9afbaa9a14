"""From a traced graph of operators to a graph of a dozen primitive operations, and passes over it.

``lower.py`` is the entrance: a traced graph (``fx``) goes in, a ``Lowered`` program comes out,
whose graph has the operations of ``ir.py``. What each operator becomes is said by
``expressions.py`` (the field ``lower`` of the operators' tables) and ``rules.py``; loops and
``vmap`` by ``lower_loop.py`` and ``lower_vmap.py``; what has no form stays a call (``opaque.py``).
``builder.py`` makes and simplifies nodes, ``interpret.py`` computes them with NumPy. ``reroll.py``
finds loops in flat graphs, ``split.py`` divides a graph into a forward and a backward program.
"""

from __future__ import annotations

__all__: list[str] = []
