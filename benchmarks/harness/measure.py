"""One workload in all peers: prepare, compare, and time them in turn.

The machine is noisy, so that samples are short and many, the peers are visited in turn, and the
fastest sample of each counts.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.check import DisagreementError, difference, read
from benchmarks.harness.pool import Pool, Worker
from benchmarks.peers import REFERENCE
from benchmarks.workloads.base import Workload

PATIENCE = 3  # a peer whose runs are long gets so many times its share


@dataclass(frozen=True)
class Effort:
    """Seconds for one peer and one workload, and in how many visits.

    A peer whose runs are long may not get so far, but it gets the `fewest` visits.
    """

    seconds: float
    rounds: int
    fewest: int = 1


FULL = Effort(seconds=2.0, rounds=12, fewest=3)
QUICK = Effort(seconds=0.12, rounds=3)
SCALING = Effort(seconds=0.5, rounds=5)


@dataclass
class Outcome:
    """What is known about one workload (or another measured quantity)."""

    name: str
    title: str
    unit: str = "s"
    best: dict[str, float] = field(default_factory=dict)  # peer -> fastest sample
    median: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # peer -> why
    first: dict[str, float] = field(default_factory=dict)  # peer -> the first run, with compilation
    wrong: dict[str, str] = field(default_factory=dict)  # peer -> how it differs from the others
    difference: float = 0.0  # the largest among those that agree


def prepare(
    workload: Workload, pool: Pool, outcome: Outcome, *, small: bool = False
) -> dict[str, Worker]:
    """The workers that can run it and have given the same values and gradients."""
    ready: dict[str, Worker] = {}
    results: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        for name, worker in pool.workers.items():
            path = Path(folder) / f"{name}.npz"
            reply = worker.ask("prepare", workload=workload.name, small=small, path=str(path))
            if "reason" in reply:
                outcome.absent[name] = reply["reason"]
                continue
            outcome.first[name] = reply["first"]
            ready[name], results[name] = worker, read(path)
    expected = results.get("numpy", results.get("torch", next(iter(results.values()), None)))
    for name, found in results.items():
        try:
            outcome.difference = max(outcome.difference, difference(found, expected))
        except DisagreementError as error:
            outcome.wrong[name] = str(error)
            del ready[name]
    return ready


def measure(workload: Workload, pool: Pool, effort: Effort, *, small: bool = False) -> Outcome:
    outcome = Outcome(workload.name, workload.title)
    ready = prepare(workload, pool, outcome, small=small)
    if REFERENCE in pool.workers and REFERENCE not in ready:
        return outcome  # nothing to compare with
    times: dict[str, list[float]] = {name: [] for name in ready}
    spent = dict.fromkeys(ready, 0.0)
    for visit in range(effort.rounds):
        for name, worker in list(ready.items()):
            if visit >= effort.fewest and spent[name] >= PATIENCE * effort.seconds:
                continue
            start = time.perf_counter()
            reply = worker.ask("sample", seconds=effort.seconds / effort.rounds)
            spent[name] += time.perf_counter() - start
            if "reason" in reply:
                outcome.absent[name] = reply["reason"]
                del ready[name]
            else:
                times[name] += reply["times"]
    for name in ready:
        outcome.best[name] = min(times[name])
        outcome.median[name] = statistics.median(times[name])
    return outcome


def measure_saved(workload: Workload, pool: Pool) -> Outcome:
    """Bytes saved for backward."""
    outcome = Outcome(f"saved {workload.name}", "bytes saved for backward", unit="B")
    for name, worker in pool.workers.items():
        reply = worker.ask("saved", workload=workload.name)
        if "reason" in reply:
            outcome.absent[name] = reply["reason"]
        else:
            outcome.best[name] = reply["bytes"]
    return outcome


def measure_growth(workload: Workload, pool: Pool, *, small: bool = False) -> Outcome:
    """Memory for each operation of a graph, in processes that have done nothing before."""
    outcome = Outcome(f"memory {workload.name}", "bytes for each operation of the graph", unit="B")
    return _in_fresh_processes("rss", outcome, workload, pool, small)


def measure_peak(workload: Workload, pool: Pool, *, small: bool = False) -> tuple[Outcome, Outcome]:
    """The most memory of a process that runs a workload and nothing else: in all, and by running.

    The second is what a few runs, the first with its compilation, add to what the process held with
    the library imported and the data made.
    """
    peak = Outcome(f"peak {workload.name}", "peak memory of a process that runs it", unit="B")
    runs = Outcome(f"runs {workload.name}", "what the runs add to library and data", unit="B")
    _in_fresh_processes("peak", peak, workload, pool, small, growth=runs)
    return peak, runs


def measure_steady(workload: Workload, pool: Pool, *, small: bool = False) -> Outcome:
    """What runs add to memory after the first one, which may have compiled."""
    outcome = Outcome(f"steady {workload.name}", "memory of runs after the first", unit="B")
    return _in_fresh_processes("steady", outcome, workload, pool, small)


def _in_fresh_processes(
    op: str,
    outcome: Outcome,
    workload: Workload,
    pool: Pool,
    small: bool,
    growth: Outcome | None = None,
) -> Outcome:
    outcome.absent = {name: why for name, why in workload.absent.items() if name in pool.workers}
    names = [name for name in pool.workers if name not in outcome.absent]
    for worker in [pool.fresh_worker(name) for name in names]:
        reply = worker.ask(op, workload=workload.name, small=small)
        worker.close()
        name = worker.peer
        if "reason" in reply:
            outcome.absent[name] = reply["reason"]
        else:
            outcome.best[name] = reply["bytes"]
            if growth is not None:
                growth.best[name] = reply["growth"]
    if growth is not None:
        growth.absent = outcome.absent
    return outcome


def fastest(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The least processor time of each function of this process; they run in turn."""
    best = dict.fromkeys(runs, math.inf)
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for name, run in runs.items():
            begin = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - begin)
    return best
