"""What Pullback is to reach, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.measure import Outcome
from benchmarks.harness.revisions import without_revision
from benchmarks.peers import REFERENCE
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.base import Target

SMALL = Target(0.35, 0.35)  # relative to HIPS autograd, where overhead counts
IMPORT = Target(0.080, 0.050)  # seconds on top of NumPy's own
MEMORY = Target(45e6, 45e6)  # bytes after the import
PER_OPERATION = Target(1024.0, 1024.0)  # bytes of a graph


@dataclass(frozen=True)
class Goal:
    """One bound, and what was measured: the lower, the better."""

    text: str
    value: float
    target: Target

    @property
    def verdict(self) -> str:
        if self.value <= self.target.aim:
            return "ok, aim"
        return "ok" if self.value <= self.target.must else "miss"


def goals_of(outcome: Outcome) -> list[Goal]:
    """The bounds that can be checked with the peers that took part."""
    own = outcome.best.get(REFERENCE)
    if own is None:
        return []
    found = []
    kind, _, name = outcome.name.rpartition(" ")
    workload = WORKLOADS.get(name)
    if kind == "memory" and workload is not None and workload.target is not None:
        found.append(Goal("1 kB", own, PER_OPERATION))
    elif kind == "saved" and workload is not None and workload.saved is not None:
        found += _relative(outcome, "torch", workload.saved)
    elif kind == "" and workload is not None:
        if workload.target is not None:
            found += _relative(outcome, "torch", workload.target)
        if workload.is_small:
            found += _relative(outcome, "autograd", SMALL)
        for peer in outcome.best:
            if peer != REFERENCE and without_revision(peer) == REFERENCE:
                found += _relative(outcome, peer, Target(workload.allowance, 1.0))
    elif name == "import" and "numpy" in outcome.best:
        found.append(Goal("NumPy + 80 ms", own - outcome.best["numpy"], IMPORT))
    elif name == "rss_after_import":
        found.append(Goal("45 MB", own, MEMORY))
    return found


def _relative(outcome: Outcome, peer: str, target: Target) -> list[Goal]:
    if not outcome.best.get(peer):
        return []
    return [Goal(f"{target.must:g} {peer}", outcome.best[REFERENCE] / outcome.best[peer], target)]
