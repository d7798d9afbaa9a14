"""The file of results: one section for each kind of measurement, each replaced by its own runs."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["SECTIONS", "replace_section", "write_section"]

SECTIONS = ("Times", "Compiled", "Memory", "Scaling", "Cold start")
_HEAD = """# Results

Written by `python benchmarks/run.py`, section by section; `benchmarks/README.md` tells how it
measures. The second column is Pullback's own time or size; `/ peer` is Pullback's relative to the
peer's: below 1 Pullback is quicker or smaller. Targets are upper bounds.

"""


def replace_section(text: str, title: str, body: str) -> str:
    """The text with a section in place of the one of the same title, all in their order.

    >>> two = replace_section(replace_section("", "Memory", "old\\n"), "Times", "times\\n")
    >>> replace_section(two, "Memory", "new\\n").partition("## ")[2]
    'Times\\n\\ntimes\\n\\n## Memory\\n\\nnew\\n'
    """
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    found = {name: part.strip("\n") for name, part in zip(parts[1::2], parts[2::2], strict=True)}
    found[title] = body.strip("\n")
    order = sorted(found, key=SECTIONS.index)
    return _HEAD + "\n".join(f"## {name}\n\n{found[name]}\n" for name in order)


def write_section(path: Path, title: str, body: str) -> None:
    """Puts a section into a file, and leaves the others as they are."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(replace_section(text, title, body), encoding="utf-8")
