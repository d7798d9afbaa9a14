"""The version of NumPy, for the few places where versions differ: ``NUMPY < (2, 1)``.

A comment beside each comparison names the difference, so that it can be removed when the lowest
supported version is raised.
"""

from __future__ import annotations

import numpy as np

__all__ = ["NUMPY"]

NUMPY: tuple[int, int] = (int(np.__version__.split(".")[0]), int(np.__version__.split(".")[1]))
