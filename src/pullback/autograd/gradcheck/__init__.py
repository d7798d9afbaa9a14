"""Derivatives checked against finite differences: ``gradcheck`` and ``gradgradcheck``.

``problem.py`` holds what is checked, ``jacobians.py`` computes whole Jacobians, ``directions.py``
products with random vectors; ``compare.py`` says what is wrong, and where. ``properties.py`` checks
what no number shows: zero, missing and batched gradients. ``check.py`` puts them in order.
"""

from __future__ import annotations

from pullback.autograd.gradcheck.check import gradcheck, gradgradcheck
from pullback.errors import GradcheckError

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
