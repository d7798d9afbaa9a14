"""The directive ``speed-table``: rows of the table in ``benchmarks/RESULTS.md``.

    ```{speed-table} tiny mlp_train_b64
    ```

Names of workloads are its argument. The columns are Pullback's own time and its ratio to each peer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "RESULTS.md"
PEERS = ("/ torch", "/ torch.compile", "/ jax.jit", "/ autograd", "/ numpy")


def cells(line: str) -> list[str]:
    """The cells of a row of a table in Markdown."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def speed_rows(text: str, workloads: list[str]) -> list[list[str]]:
    """The head and the rows of some workloads, with what each one computes."""
    section = text.partition("\n## Times\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    titles = cells(lines[0])
    wanted = [titles.index(name) for name in ("pullback", *PEERS)]
    rows = {row[0]: row for row in map(cells, lines[2:]) if len(row) == len(titles)}
    described = dict(re.findall(r"^- `([\w ]+)`: (.*)$", section, re.MULTILINE))
    missing = [name for name in workloads if name not in rows]
    if missing:
        raise ValueError(f"speed-table: {RESULTS.name} has no rows {missing}")
    head = ["gradient of", *(titles[place] for place in wanted)]
    return [head, *([described[n], *(rows[n][place] for place in wanted)] for n in workloads)]


class SpeedTable(Directive):
    """Some rows of the benchmark's table."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        self.state.document.settings.record_dependencies.add(str(RESULTS))
        head, *rows = speed_rows(RESULTS.read_text(encoding="utf-8"), self.arguments[0].split())
        table, group = nodes.table(), nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=6 if place == 0 else 1) for place in range(len(head))]
        group += nodes.thead("", _row(head))
        group += nodes.tbody("", *map(_row, rows))
        table += group
        return [table]


def _row(texts: list[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in texts))


def setup(app: Any) -> dict[str, bool]:
    """Adds the directive."""
    app.add_directive("speed-table", SpeedTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
