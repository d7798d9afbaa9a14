"""HTML forms of objects for notebooks: every text is escaped, pictures are inline SVG.

The functions take plain values or objects by their public attributes and import nothing of the
package, so that any layer may use them, on first use.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Picture",
    "heat_map",
    "node_html",
    "operator_html",
    "overloads_html",
    "pattern_html",
    "sparkline",
    "table_html",
    "tensor_html",
    "text_html",
]

_MOST_CELLS = 24  # rows and columns of a heat map
_MOST_POINTS = 200  # of a sparkline
_MOST_ENTRIES = 4000  # drawn of a sparse pattern
_BAD = "#d33"  # values that are not finite
_PALETTE = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
    "#9c6b4e", "#9498a0",
)  # fmt: skip


class Picture:
    """A piece of HTML that a notebook shows."""

    def __init__(self, text: str):
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def text_html(text: str) -> str:
    """A text as it stands.

    >>> text_html("<b>")
    '<pre style="white-space:pre-wrap">&lt;b&gt;</pre>'
    """
    return f'<pre style="white-space:pre-wrap">{html.escape(text)}</pre>'


def table_html(head: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> str:
    """A table of texts."""
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    thead = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'<table style="text-align:left">{caption}{thead}<tbody>{body}</tbody></table>'


# --- pictures -------------------------------------------------------------------------------------


def _svg(width: float, height: float, inner: str, scale: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * scale:g}" '
        f'height="{height * scale:g}" viewBox="0 0 {width:g} {height:g}" '
        f'preserveAspectRatio="none" style="border:1px solid gray">{inner}</svg>'
    )


def _unit(values: NDArray[Any]) -> NDArray[Any]:
    """Finite values moved to the range from 0 to 1; others stay NaN."""
    values = np.where(np.isfinite(values), values, np.nan)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    span = high / 2 - low / 2  # halves: the difference of large values would overflow
    return np.asarray((values / 2 - low / 2) / span if span > 0 else values * 0 + 0.5)


def sparkline(values: NDArray[Any]) -> str:
    """A line through the values of a vector; marks at values that are not finite."""
    step = -(-values.size // _MOST_POINTS)
    heights = _unit(values[:: max(step, 1)].astype(float))
    points, marks = [], []
    for place, height in enumerate(heights):
        x = 100 * place / max(heights.size - 1, 1)
        if np.isfinite(height):
            points.append(f"{x:.1f},{28 - 26 * height:.1f}")
        else:
            marks.append(f'<circle cx="{x:.1f}" cy="15" r="2" fill="{_BAD}"/>')
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="#4269d0"/>'
    return _svg(100, 30, line + "".join(marks), 2)


def heat_map(values: NDArray[Any]) -> str:
    """A square for each element of a matrix, or for one in each block of a large one."""
    rows = np.linspace(0, values.shape[0] - 1, min(values.shape[0], _MOST_CELLS)).astype(int)
    columns = np.linspace(0, values.shape[1] - 1, min(values.shape[1], _MOST_CELLS)).astype(int)
    shades = _unit(values[np.ix_(rows, columns)].astype(float))
    cells = []
    for y, row in enumerate(shades):
        for x, shade in enumerate(row):
            if np.isfinite(shade):
                light = 95 - 60 * float(shade)
                color = f"hsl(217,65%,{light:.0f}%)"
            else:
                color = _BAD
            cells.append(f'<rect x="{x}" y="{y}" width="1" height="1" fill="{color}"/>')
    return _svg(len(columns), len(rows), "".join(cells), 10)


def pattern_html(pattern: Any, colors: Any = None, by_rows: bool = False) -> str:
    """The entries of a sparse pattern (a SciPy sparse array), colored by column or by row."""
    entries = pattern.tocoo()
    height, width = entries.shape
    step = max(1, -(-entries.nnz // _MOST_ENTRIES))
    cells = []
    for row, column in zip(entries.row[::step], entries.col[::step], strict=True):
        place = row if by_rows else column
        color = _PALETTE[0] if colors is None else _PALETTE[int(colors[place]) % len(_PALETTE)]
        cells.append(f'<rect x="{column}" y="{row}" width="1" height="1" fill="{color}"/>')
    scale = max(1, min(12, 400 // max(height, width, 1)))
    passes = "" if colors is None else f", {int(np.max(colors, initial=-1)) + 1} colors"
    thinned = "" if step == 1 else f", one of {step} drawn"
    caption = f"<div>{height} × {width}, {entries.nnz} entries{passes}{thinned}</div>"
    return caption + _svg(max(width, 1), max(height, 1), "".join(cells), scale)


# --- objects --------------------------------------------------------------------------------------


def tensor_html(tensor: Any) -> str:
    """Values, shape, dtype and history of a tensor, with a picture of vectors and matrices."""
    rows: list[tuple[str, object]] = [
        ("shape", list(tensor.shape)),
        ("dtype", tensor.dtype),
        ("requires grad", tensor.requires_grad),
    ]
    if tensor.requires_grad:
        node = tensor.grad_fn
        rows.append(("grad_fn", "a leaf" if node is None else node.name()))
    picture = _picture(tensor._array)
    return f"{table_html((), rows)}{picture}{text_html(repr(tensor))}"


def _picture(array: Any) -> str:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.size < 2:
        return ""
    if array.ndim == 1:
        return sparkline(array)
    return heat_map(array) if array.ndim == 2 and min(array.shape) else ""


def node_html(node: Any) -> str:
    """Name, operator, outputs, saved values and inputs of a node."""
    described = [output for output in node._input_metadata if output.shape is not None]
    outputs = ", ".join(f"{list(output.shape)} {output.dtype}" for output in described)
    inputs = [function.name() for function, _ in node.next_functions if function is not None]
    rows = [
        ("operator", node._operator or "-"),
        ("outputs", outputs),
        ("saves", ", ".join(node._saves) or "-"),
        ("inputs", ", ".join(inputs) or "-"),
    ]
    return table_html((), rows, node.name())


def operator_html(operator: Any) -> str:
    """Schema and dispatch table of an operator."""
    schema = table_html((), [("schema", operator.schema)], str(operator))
    return schema + str(operator.dispatch_table()._repr_html_())


def overloads_html(packet: Any) -> str:
    """The schemas of all overloads of a name."""
    rows = [(name, getattr(packet, name).schema) for name in packet.overloads()]
    return table_html(("overload", "schema"), rows, str(packet))
