"""The built-in operators with schema and formulas, as the generator recorded them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["catalogue"]


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """The built-in operators by qualified name.

    >>> catalogue()["pullback::sin"]["derivatives"]
    {'self': 'grad * conj(cos(self))'}
    """
    path = Path(__file__).resolve().parents[1] / "_generated" / "catalogue.json"
    return {record["name"]: record for record in json.loads(path.read_text(encoding="utf-8"))}
