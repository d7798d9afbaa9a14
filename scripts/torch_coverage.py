"""Writes docs/compat_torch.md: the names of PyTorch, and which of them this library has.

python scripts/torch_coverage.py            writes the page
python scripts/torch_coverage.py --check    says whether it is up to date
python scripts/torch_coverage.py --record   records PyTorch's names anew; needs torch

The names are those of ``scripts/torch_names.json``, so that the page needs no PyTorch.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pullback.compat.torch as ours
from pullback.compat.torch.absent import reason

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compat_torch.md"
NAMES = ROOT / "scripts" / "torch_names.json"
SPACES = "autograd func linalg fft special"
MARK = "<!-- The rest of this page is written by scripts/torch_coverage.py. -->"


def record() -> None:
    """Writes the public names of PyTorch's namespaces."""
    import torch  # the oracle, which only this needs

    found: dict[str, Any] = {
        "version": torch.__version__.partition("+")[0],
        "torch": sorted(
            name
            for name in set(torch.__all__)
            if callable(getattr(torch, name)) and not inspect.isclass(getattr(torch, name))
        ),
        "torch.Tensor": sorted(name for name in dir(torch.Tensor) if not name.startswith("_")),
    }
    for space in SPACES.split():
        module: Any = torch
        for part in space.split("."):
            module = getattr(module, part)
        listed = getattr(module, "__all__", dir(module))
        found[f"torch.{space}"] = sorted(
            name
            for name in listed
            if not name.startswith("_") and callable(getattr(module, name)) and name != "Tensor"
        )
    NAMES.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


def has(space: str, name: str) -> bool:
    """Whether this library has a name."""
    place: Any = ours
    for part in space.split(".")[1:]:
        place = getattr(place, part)
    return hasattr(place, name)


def table() -> str:
    """The generated part of the page."""
    names = json.loads(NAMES.read_text(encoding="utf-8"))
    version = names.pop("version")
    lines = [
        MARK,
        "",
        f"## Coverage of PyTorch {version}",
        "",
        "| namespace | names | here |",
        "|---|---|---|",
    ]
    present = {space: [n for n in listed if has(space, n)] for space, listed in names.items()}
    for space, listed in names.items():
        lines.append(f"| `{space}` | {len(listed)} | {len(present[space])} |")
    for space in ("torch", "torch.Tensor"):
        what = "functions of `torch`" if space == "torch" else "methods of `torch.Tensor`"
        lines += ["", f"### The {what} that are here", "", _in_row(present[space])]
        lines += ["", f"### The {what} that are not here", "", "| reason | names |", "|---|---|"]
        groups: dict[str, list[str]] = {}
        for name in names[space]:
            if name not in present[space]:
                groups.setdefault(reason(name), []).append(name)
        lines += [f"| {why} | {_in_row(group)} |" for why, group in sorted(groups.items())]
    lines += [
        "",
        "### Absent names of the other namespaces",
        "",
        "| namespace | names |",
        "|---|---|",
    ]
    for space, listed in names.items():
        missing = [name for name in listed if name not in present[space]]
        if space not in ("torch", "torch.Tensor") and missing:
            lines.append(f"| `{space}` | {_in_row(missing)} |")
    return "\n".join(lines) + "\n"


def _in_row(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> int:
    """Writes or checks the page, or records names."""
    if "--record" in sys.argv[1:]:
        record()
    guide = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    text = guide + table()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.name} is out of date; run python scripts/torch_coverage.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
