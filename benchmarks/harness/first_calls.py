"""First calls of compiled programs, each in a process that has done nothing before.

A first call traces the function, and makes machine code of the graph or reads it from the cache on
disk. The time of tracing is that of a first call whose graph runs as NumPy kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from benchmarks.harness.goals import Goal
from benchmarks.harness.pool import Worker
from benchmarks.harness.report import quantity
from benchmarks.workloads.base import Target

__all__ = ["FirstCall", "measure_first_calls"]

_BASE, _EACH = 0.15, 1e-3  # seconds for a first call, and for each operator call of its graph
_LOADED = 0.1  # seconds beside tracing for a first call with the cache
_BOUNDS = {"lstm_128": 1.5}  # seconds for a first call
_REPEATS = 2


@dataclass(frozen=True)
class FirstCall:
    """Seconds of the first call of a workload."""

    name: str
    operators: int  # calls of operators in its graph
    compiled: float
    loaded: float  # with machine code from the cache on disk
    traced: float  # with NumPy kernels instead of machine code

    def goals(self) -> list[Goal]:
        """The bounds of a first call, without and with the cache."""
        most = _BOUNDS.get(self.name, _BASE + _EACH * self.operators)
        again = _LOADED + self.traced
        return [
            Goal(f"{most:.2f} s", self.compiled, Target(most, most)),
            Goal(f"{again:.2f} s", self.loaded, Target(again, again)),
        ]

    def line(self) -> str:
        """One line about it."""
        cold, warm = self.goals()
        return (
            f"first call {self.name}: {self.operators} operators, "
            f"{quantity(self.compiled, 's')} (must {cold.text}: {cold.verdict}), from the cache "
            f"{quantity(self.loaded, 's')} (must {warm.text}: {warm.verdict}), tracing alone "
            f"{quantity(self.traced, 's')}"
        )


def measure_first_calls(
    peer: str, names: list[str], log: IO[str] | int, repeats: int = _REPEATS
) -> Iterator[FirstCall]:
    """First calls of workloads, the fastest of some processes each."""
    for name in names:
        replies: dict[str, list[dict[str, Any]]] = {"compiled": [], "loaded": [], "traced": []}
        for _ in range(repeats):
            with TemporaryDirectory() as folder:
                variables = {"PULLBACK_CACHE_DIR": str(Path(folder) / "objects")}
                for kind, backend in (
                    ("compiled", "llvm"),
                    ("loaded", "llvm"),
                    ("traced", "eager"),
                ):
                    worker = Worker(peer, log, 1, variables=variables)
                    reply = worker.ask("first", workload=name, small=False, backend=backend)
                    worker.close()
                    replies[kind].append(reply)
        if any("seconds" not in reply for kind in replies.values() for reply in kind):
            continue
        best = {kind: min(r["seconds"] for r in found) for kind, found in replies.items()}
        yield FirstCall(name, replies["compiled"][0]["operators"], **best)
