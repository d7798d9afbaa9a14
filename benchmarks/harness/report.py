"""The table, as text, as a file for readers, and as data."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.goals import goals_of
from benchmarks.harness.measure import Outcome
from benchmarks.peers import PEERS, REFERENCE

ABSENT = "–"  # noqa: RUF001 - an empty cell


@dataclass(frozen=True)
class Report:
    """Everything that one command has found out."""

    outcomes: Sequence[Outcome]
    versions: dict[str, str]
    missing: dict[str, str]  # peer -> why it took no part
    mode: str
    threads: int
    title: str = "Times"  # of the section in the file of results
    command: str = "python benchmarks/run.py"
    notes: Sequence[str] = ()  # what follows from the table, in words

    def machine(self) -> dict[str, Any]:
        return {
            "processor": processor(),
            "processors": os.cpu_count(),
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
            "threads": self.threads,
        }

    def peers(self) -> list[str]:
        """The columns: other revisions first, then the peers in their order."""
        others = [name for name in self.versions if name not in PEERS]
        return others + [name for name in PEERS if name in self.versions and name != REFERENCE]

    def header(self) -> list[str]:
        return ["workload", REFERENCE, *(f"/ {p}" for p in self.peers()), "target", "verdict"]

    def rows(self) -> list[list[str]]:
        return [row(outcome, self.peers()) for outcome in self.outcomes]

    def absences(self) -> list[str]:
        """Why cells are empty."""
        lines = [f"{peer}: {why}" for peer, why in self.missing.items()]
        reasons: dict[tuple[str, str], list[str]] = {}
        for outcome in self.outcomes:
            for peer, why in outcome.absent.items():
                reasons.setdefault((peer, why), []).append(outcome.name)
            for peer, why in outcome.wrong.items():
                reasons.setdefault((peer, f"WRONG: {why}"), []).append(outcome.name)
        return lines + [f"{peer}, {', '.join(on)}: {why}" for (peer, why), on in reasons.items()]

    def text(self) -> str:
        rows = [self.header(), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(_pad, line, widths, range(len(line)))).rstrip() for line in rows]
        return "\n".join([*lines, "", *self.absences()])

    def markdown(self) -> str:
        """The section of the file of results."""
        machine = self.machine()
        rows = [self.header(), *self.rows()]
        rows.insert(1, ["---"] + ["---:"] * (len(rows[0]) - 3) + ["---"] * 2)
        table = "\n".join(f"| {' | '.join(line)} |" for line in rows)
        titles = "\n".join(f"- `{o.name}`: {o.title}" for o in self.outcomes)
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        absences = "\n".join(f"- {line}" for line in self.absences()) or "- none"
        notes = "".join(f"- {line}\n" for line in self.notes)
        return (
            f"By `{self.command}` ({self.mode}). {machine['processor']}, {machine['processors']}"
            f" processors, {machine['system']}, Python {machine['python']}; {self.threads} threads"
            f" for every peer. {versions}.\n\n{table}\n\n"
            + (f"{notes}\n" if notes else "")
            + f"### {self.title}: what was measured\n\n{titles}\n\n"
            f"### {self.title}: empty cells\n\n{absences}\n"
        )

    def data(self) -> dict[str, Any]:
        return {
            "machine": self.machine(),
            "mode": self.mode,
            "versions": self.versions,
            "missing": self.missing,
            "results": [
                asdict(outcome)
                | {"goals": [asdict(g) | {"verdict": g.verdict} for g in goals_of(outcome)]}
                for outcome in self.outcomes
            ],
        }

    def write_json(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.data(), indent=2) + "\n", encoding="utf-8")


def _pad(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def row(outcome: Outcome, peers: Sequence[str]) -> list[str]:
    own = outcome.best.get(REFERENCE)
    goals = goals_of(outcome)
    return [
        outcome.name,
        ABSENT if own is None else quantity(own, outcome.unit),
        *(ratio(own, outcome.best.get(peer)) for peer in peers),
        "; ".join(goal.text for goal in goals) or ABSENT,
        "; ".join(goal.verdict for goal in goals) or ABSENT,
    ]


def ratio(own: float | None, other: float | None) -> str:
    if own is None or not other:
        return ABSENT
    value = own / other
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def quantity(value: float, unit: str) -> str:
    scales = {
        "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
        "B": ((1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    }[unit]
    scale, name = next((pair for pair in scales if value >= pair[0]), scales[-1])
    return f"{value / scale:.3g} {name}"


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
