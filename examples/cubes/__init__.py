"""An operator author's package: a table, its kernels, and the source generated from them.

``_ops`` was made by ``python -m pullback codegen cubes/cubes.yaml -o cubes/_ops``.
"""

from __future__ import annotations

import cubes._ops.methods
import cubes._ops.register
from cubes._ops.functions_cubes import cube, weighted_cubes

__all__ = ["cube", "weighted_cubes"]
