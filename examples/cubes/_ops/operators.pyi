from __future__ import annotations

from pullback.dispatch.table import OperatorEntry

cube: OperatorEntry
cube_: OperatorEntry
weighted_cubes: OperatorEntry
