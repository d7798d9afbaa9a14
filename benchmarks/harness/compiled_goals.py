"""What compiled programs are to reach, relative to the faster form of the same program in JAX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.goals import Goal
from benchmarks.harness.measure import Outcome
from benchmarks.harness.report import ABSENT, quantity, ratio
from benchmarks.workloads.base import Target

__all__ = [
    "COLUMNS",
    "JAX",
    "MEMORY",
    "OURS",
    "TARGETS",
    "TWO_THREADS",
    "CompiledRow",
    "merge_rows",
    "table",
]

OURS = "pullback.compile"
EAGER = "pullback"
JAX = ("jax.jit", "jax.idiom")
TARGETS = {  # of our time relative to JAX's, with one thread
    "tiny": Target(0.05, 0.025),
    "chain_small": Target(0.12, 0.07),
    "scalar_loop": Target(0.05, 0.02),
    "inplace_views_16": Target(0.6, 0.15),
    "inplace_views_1024": Target(1.0, 0.6),
    "lstm_128": Target(0.25, 0.12),
    "lstm_1024": Target(0.3, 0.15),
    "ba_vector_3184": Target(0.15, 0.06),
    "ba_vector_31843": Target(0.15, 0.06),
    "ba_loop": Target(0.8, 0.5),
    "mlp_train_b64": Target(0.8, 0.6),
    "mlp_train_b1024": Target(1.0, 0.9),
    "gmm_d10_k25": Target(0.7, 0.35),
    "gmm_d64_k5": Target(0.7, 0.45),
    "logreg_hessian": Target(0.8, 0.6),
    "hvp": Target(0.8, 0.6),
    "hand": Target(0.8, 0.6),
    "chain_medium": Target(1.0, 0.8),
    "chain_large": Target(1.1, 0.9),
    "ode_rk4": Target(1.0, 0.5),
}
TWO_THREADS = dict.fromkeys(("chain_large", "mixture_large", "gmm_d10_k25"), Target(1.0, 0.8))
AGAINST_EAGER = {  # of our time relative to the same program without compilation
    **dict.fromkeys(("tiny", "chain_small", "scalar_loop"), Target(0.01, 0.01)),
    **dict.fromkeys(("gmm_d10_k25", "mlp_train_b64"), Target(0.5, 0.5)),
}
BY_THREADS = {1: TARGETS, 2: TWO_THREADS}
MEMORY = ("chain_large", "mixture_large", "gmm_d10_k25", "mlp_train_b1024", "lstm_1024")
COLUMNS = (
    "workload",
    "ours",
    "eager",
    "jax.jit",
    "jax.idiom",
    "torch.compile",
    "numba",
    "numpy",
    "/ jax",
    "must",
    "aim",
    "verdict",
    "/ eager",
    "first, ours",
    "first, jax",
    "first, torch",
)


@dataclass(frozen=True)
class CompiledRow:
    """One line of the table: an outcome, with its target relative to JAX or another reference."""

    outcome: Outcome
    target: Target
    threads: int = 1
    reference: tuple[str, ...] = JAX

    @property
    def own(self) -> float | None:
        """Our time."""
        return self.outcome.best.get(OURS)

    @property
    def peer(self) -> float | None:
        """The faster form of the reference."""
        found = [self.outcome.best[name] for name in self.reference if name in self.outcome.best]
        return min(found, default=None)

    def goals(self) -> list[Goal]:
        """The bounds that can be checked."""
        found = []
        if self.own is not None and self.peer:
            found.append(Goal(f"{self.target.must:g} jax", self.own / self.peer, self.target))
        bound = AGAINST_EAGER.get(self.outcome.name)
        eager = self.outcome.best.get(EAGER)
        if bound is not None and self.own is not None and eager and self.threads == 1:
            found.append(Goal(f"{bound.must:g} eager", self.own / eager, bound))
        return found

    def cells(self) -> list[str]:
        """The line as text, in the order of ``COLUMNS``."""
        best, first = self.outcome.best, self.outcome.first

        def seconds(values: dict[str, float], name: str) -> str:
            return quantity(values[name], "s") if name in values else ABSENT

        verdicts = [f"{goal.verdict} ({goal.text})" for goal in self.goals()]
        threads = f" ({self.threads} threads)" if self.threads > 1 else ""
        peers = [seconds(best, name) for name in COLUMNS[3:8]]
        jax_first = [first[name] for name in JAX if name in first]
        return [
            self.outcome.name + threads,
            seconds(best, OURS),
            seconds(best, EAGER),
            *peers,
            ratio(self.own, self.peer),
            f"{self.target.must:g}",
            f"{self.target.aim:g}",
            "; ".join(verdicts) or ABSENT,
            ratio(self.own, best.get(EAGER)),
            seconds(first, OURS),
            quantity(min(jax_first), "s") if jax_first else ABSENT,
            seconds(first, "torch.compile"),
        ]


def table(rows: Sequence[CompiledRow]) -> list[list[str]]:
    """The header and all lines."""
    return [list(COLUMNS), *(row.cells() for row in rows)]


def merge_rows(path: Path, rows: Sequence[CompiledRow]) -> list[CompiledRow]:
    """The rows of a file, with those of a new run put in: what it measured replaces what was there.

    So that a table can be measured row by row, or peer by peer. The rows are in the table's order.
    """
    data: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for row in rows:
        found = asdict(row.outcome)
        held = data.setdefault(f"{row.outcome.name}/{row.threads}", found)
        measured = {*found["best"], *found["absent"], *found["wrong"]}
        for kind in ("best", "median", "absent", "first", "wrong"):
            kept = {peer: value for peer, value in held[kind].items() if peer not in measured}
            held[kind] = kept | found[kind]
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return [
        CompiledRow(Outcome(**data[f"{name}/{threads}"]), target, threads)
        for threads, targets in BY_THREADS.items()
        for name, target in targets.items()
        if f"{name}/{threads}" in data
    ]
