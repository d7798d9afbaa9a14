"""The version of the installed NumPy, for the few places where versions differ.

Compared as a tuple: ``NUMPY < (2, 1)``. Each comparison stands beside a comment that names the
difference, so that it can be removed when the lowest supported version is raised.
"""

from __future__ import annotations

import numpy as np

__all__ = ["NUMPY"]

NUMPY: tuple[int, int] = (int(np.__version__.split(".")[0]), int(np.__version__.split(".")[1]))
