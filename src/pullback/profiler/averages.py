"""Sums over the events of a profile by name, as a table."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import NamedTuple

from pullback.errors import AutogradValueError
from pullback.profiler.events import Event

__all__ = ["Average", "Averages"]

_COLUMNS = ("name", "phase", "calls", "self time", "total time", "mean time", "memory")


class Average(NamedTuple):
    """All events of one name and phase. Times in nanoseconds.

    >>> import pullback as pb
    >>> with pb.profiler.profile() as prof:
    ...     _ = pb.sin(1.0) + pb.sin(2.0)
    >>> row = prof.key_averages()[0]
    >>> row.name, row.phase, row.calls
    ('sin', 'forward', 2)
    """

    name: str
    phase: str
    calls: int
    self_time: int
    total_time: int
    nbytes: int


class Averages(list[Average]):
    """Sums by name and phase; its text is the table.

    >>> rows = Averages([Average("sin", "forward", 2, 4000, 4000, 16)])
    >>> rows.table().splitlines()[0].split()[:3]
    ['name', 'phase', 'calls']
    """

    @classmethod
    def of_events(cls, events: Iterable[Event]) -> Averages:
        """Sums over events."""
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            groups.setdefault((event.name, event.phase), []).append(event)
        return cls(
            Average(
                name,
                phase,
                len(group),
                sum(event.self_duration for event in group),
                sum(event.duration for event in group),
                sum(event.nbytes for event in group),
            )
            for (name, phase), group in groups.items()
        )

    def sorted_by(self, key: str = "self_time") -> Averages:
        """The same rows, the largest first.

        >>> first, second = Average("a", "forward", 1, 5, 5, 0), Average("b", "forward", 2, 1, 9, 0)
        >>> [row.name for row in Averages([first, second]).sorted_by("total_time")]
        ['b', 'a']
        """
        if key not in Average._fields:
            raise AutogradValueError(
                f"sorted_by: key is {key!r}; one of {list(Average._fields)} is expected"
            )
        return Averages(sorted(self, key=lambda row: getattr(row, key), reverse=True))

    def table(self, sort_by: str = "self_time", row_limit: int = 100) -> str:
        """The rows as text.

        >>> print(Averages([Average("mul", "forward", 2, 3000, 4000, 48)]).table())
        name  phase    calls  self time  total time  mean time  memory
        mul   forward      2    3.00 us     4.00 us    2.00 us    48 B
        """
        rows = [_COLUMNS, *(_cells(row) for row in self.sorted_by(sort_by)[:row_limit])]
        widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
        lines = []
        for row in rows:
            cells = [
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>"
            for row in self.sorted_by()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(row: Average) -> tuple[str, ...]:
    mean = row.total_time / max(row.calls, 1)
    times = [_time(value) for value in (row.self_time, row.total_time, mean)]
    return (row.name, row.phase, str(row.calls), *times, _memory(row.nbytes))


def _time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds / 1e3:.2f} us"


def _memory(nbytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"
