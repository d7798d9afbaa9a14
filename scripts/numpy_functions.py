"""Writes docs/numpy_functions.md: every NumPy function, and what it does with tensors.

python scripts/numpy_functions.py            writes the page
python scripts/numpy_functions.py --check    says whether it is up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pullback.interop.status import KINDS, public_functions, status

PAGE = Path(__file__).resolve().parent.parent / "docs" / "numpy_functions.md"
HEAD = """# NumPy functions on tensors

Written by `scripts/numpy_functions.py` from the tables of `src/pullback/interop/`; a test compares
it with the NumPy that is installed (this page: NumPy {version}). `docs/numpy.md` is the guide.

{legend}

{counts}
"""


def page() -> str:
    """The text of the page."""
    found = {name: status(name) for name in public_functions()}
    counts = {kind: sum(s.kind == kind for s in found.values()) for kind in KINDS}
    legend = "\n".join(f"- **{kind}**: {text}" for kind, text in KINDS.items())
    total = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    version = ".".join(np.__version__.split(".")[:2])
    parts = [HEAD.format(version=version, legend=legend, counts=f"{len(found)} names: {total}.")]
    for title in ("numpy", "numpy.linalg", "numpy.fft"):
        parts.append(f"## {title}\n\n| function | on tensors | remark |\n|---|---|---|")
        space = title.removeprefix("numpy").removeprefix(".")
        for name, entry in found.items():
            if name.rpartition(".")[0] == space:
                parts.append(f"| `{name.rpartition('.')[2]}` | {entry.kind} | {entry.remark} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def main() -> int:
    """Writes or checks the page."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.name} is out of date; run python scripts/numpy_functions.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
