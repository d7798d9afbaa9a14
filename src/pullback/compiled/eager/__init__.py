"""The backend "eager": a traced graph as a Python function that calls the operators' kernels.

``program.py`` is the entrance: a traced graph goes in, a ``Program`` comes out. Before its source
is written, equal calls are merged (``common_subexpressions.py``), and sums and copies are found
that can be done in the memory of an operand (``inplace.py``).
"""

from __future__ import annotations

__all__: list[str] = []
