"""Prints the lowest versions of NumPy and SciPy that ``pyproject.toml`` promises, as pip pins.

``numpy==2.0.0`` for ``numpy>=2.0``: they stand in ``pyproject.toml`` only. The lowest Python is
found by ``scripts/find_python.sh``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
RUNTIME = ("numpy", "scipy")


def pins(project: dict[str, object]) -> list[str]:
    """One requirement for each package that the package itself uses."""
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    dependencies = project["dependencies"]
    assert isinstance(dependencies, list)
    found = []
    for requirement in [*dependencies, *extras["scipy"]]:
        match = re.fullmatch(r"([a-z]+)>=([0-9.]+)", requirement)
        if match is None or match[1] not in RUNTIME:
            raise SystemExit(f"{PROJECT.name}: {requirement!r} has no lowest version")
        exact = match[2].count(".") > 1
        found.append(f"{match[1]}=={match[2]}" + ("" if exact else ".0"))
    return found


def main() -> None:
    """Prints the pins in one line."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    print(" ".join(pins(project)))


if __name__ == "__main__":
    main()
