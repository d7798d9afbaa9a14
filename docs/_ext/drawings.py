"""Drawings from text: boxes in rows and arrows between them, as SVG that follows the theme.

```{drawing}
:alt: what the drawing shows
row: a = pb.sin | b = mul* | c = sum
group: forward | a b c
arrow: a -> b : x
arrow: b -> c
```

A ``*`` after a label marks a box; ``note:`` writes a line of text below the row before it.
"""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

from docutils import nodes
from docutils.parsers.rst import Directive, directives

CHARACTER, HEIGHT, GAP, ROW, MARGIN = 7.6, 34, 60, 84, 16


class Box(NamedTuple):
    """A box with its place."""

    x: float
    y: float
    width: float
    label: str
    is_accent: bool


def lay_out(lines: list[str]) -> tuple[dict[str, Box], list[str], float, float]:
    """Places of the boxes, row by row, each row in the middle; notes as SVG."""
    rows: list[list[tuple[str, str, bool]]] = []
    notes: list[tuple[int, str]] = []
    for line in lines:
        kind, _, rest = line.partition(":")
        if kind == "row":
            found = []
            for part in rest.split("|"):
                name, _, label = part.strip().partition("=")
                text = (label or name).strip()
                found.append((name.strip(), text.rstrip("*"), text.endswith("*")))
            rows.append(found)
        elif kind == "note":
            notes.append((len(rows), rest.strip()))
    widths = [[max(60.0, len(text) * CHARACTER + 24) for _, text, _ in row] for row in rows]
    totals = [sum(row) + GAP * (len(row) - 1) for row in widths]
    longest = [len(text) * CHARACTER for _, text in notes]
    whole = max([*totals, *longest, 1.0]) + 2 * MARGIN
    boxes: dict[str, Box] = {}
    for number, (row, sizes, total) in enumerate(zip(rows, widths, totals, strict=True)):
        x = (whole - total) / 2
        for (name, text, accent), width in zip(row, sizes, strict=True):
            boxes[name] = Box(x, MARGIN + number * ROW, width, text, accent)
            x += width + GAP
    texts = [
        f'<text class="note" x="{whole / 2}" y="{MARGIN + (n - 1) * ROW + HEIGHT + 26}" '
        f'font-size="13" text-anchor="middle">{escape(text)}</text>'
        for n, text in notes
    ]
    return boxes, texts, whole, MARGIN + len(rows) * ROW - (ROW - HEIGHT) + MARGIN + 14


def arrow(a: Box, b: Box, label: str) -> str:
    """An arrow from one box to another, with its label."""
    if a.y == b.y:
        y = a.y + HEIGHT / 2
        right = a.x < b.x
        x1, x2 = (a.x + a.width, b.x) if right else (a.x, b.x + b.width)
        y1 = y2 = y
    else:
        down = a.y < b.y
        x1, x2 = a.x + a.width / 2, b.x + b.width / 2
        y1, y2 = (a.y + HEIGHT, b.y) if down else (a.y, b.y + HEIGHT)
    line = f'<line class="arrow" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#head)"/>'
    if not label:
        return line
    x, y = (x1 + x2) / 2, (y1 + y2) / 2 - (6 if y1 == y2 else -4)
    shift = 0 if y1 == y2 else 6
    anchor = "middle" if y1 == y2 else "start"
    return line + (
        f'<text class="note" x="{x + shift}" y="{y}" font-size="12" text-anchor="{anchor}">'
        f"{escape(label)}</text>"
    )


def draw(lines: list[str], alt: str) -> str:
    """The SVG of a drawing."""
    boxes, parts, width, height = lay_out(lines)
    for line in lines:
        kind, _, rest = line.partition(":")
        if kind == "group":
            title, _, names = rest.partition("|")
            inside = [boxes[name] for name in names.split()]
            x, y = min(b.x for b in inside) - 8, min(b.y for b in inside) - 8
            w = max(b.x + b.width for b in inside) - x + 8
            h = max(b.y for b in inside) + HEIGHT - y + 8
            parts.append(f'<rect class="group" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>')
            parts.append(
                f'<text class="note" x="{x + 6}" y="{y - 4}" font-size="12">'
                f"{escape(title.strip())}</text>"
            )
        elif kind == "arrow":
            ends, _, label = rest.partition(" : ")
            first, _, last = ends.partition("->")
            parts.append(arrow(boxes[first.strip()], boxes[last.strip()], label.strip()))
    for box in boxes.values():
        style = "box accent" if box.is_accent else "box"
        parts.append(
            f'<rect class="{style}" x="{box.x}" y="{box.y}" width="{box.width}" '
            f'height="{HEIGHT}" rx="5" stroke-width="1.5"/>'
            f'<text x="{box.x + box.width / 2}" y="{box.y + 22}" font-size="14" '
            f'text-anchor="middle">{escape(box.label)}</text>'
        )
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(alt)}">{head}{"".join(parts)}</svg>'
    )


class Drawing(Directive):
    """The directive of a drawing."""

    has_content = True
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012 - docutils reads it

    def run(self) -> list[nodes.Node]:
        """Makes the SVG for HTML."""
        alt = self.options.get("alt")
        if not alt:
            raise self.error("a drawing needs :alt:, a sentence for those who cannot see it")
        svg = draw([line.strip() for line in self.content if line.strip()], alt)
        return [nodes.raw("", f'<figure class="drawing">{svg}</figure>', format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
