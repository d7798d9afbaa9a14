"""Implicit differentiation: solutions of equations, whatever solver has found them.

The derivative of a root, fixed point or linear solution follows from the equation at the solution;
the iteration is never recorded.

>>> import pullback as pb
>>> point = pb.implicit.custom_fixed_point(lambda y, a: (y + a / y) / 2)
>>> pb.grad(lambda a: point(1.0, a))(9.0)
0.16666666666666666
"""

from __future__ import annotations

from pullback.implicit.attach import attach
from pullback.implicit.custom import custom_fixed_point, custom_linear_solve, custom_root

__all__ = ["attach", "custom_fixed_point", "custom_linear_solve", "custom_root"]
