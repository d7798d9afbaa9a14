"""Derivatives checked against finite differences: ``gradcheck`` and ``gradgradcheck``.

``problem.py`` holds the function and its arguments, ``jacobians.py`` computes whole Jacobians,
``directions.py`` products with random vectors; ``compare.py`` describes differences.
``properties.py`` checks zero, missing and batched gradients. ``check.py`` calls them in order.
"""

from __future__ import annotations

from pullback.autograd.gradcheck.check import gradcheck, gradgradcheck
from pullback.errors import GradcheckError

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
