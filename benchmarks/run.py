"""Pullback beside its peers: the same workloads, interleaved, as one table of ratios.

    python benchmarks/run.py [--quick] [--only NAME...] [--peers NAME...] [--against REVISION]

A complete run also writes `benchmarks/RESULTS.md`. A peer that computes something else than the
others is not timed, and the command fails. See `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this is a script, and the harness a package beside it

from benchmarks.harness.measure import (  # noqa: E402
    FULL,
    QUICK,
    SCALING,
    Outcome,
    measure,
    measure_growth,
    measure_peak,
    measure_saved,
)
from benchmarks.harness.pool import Pool  # noqa: E402
from benchmarks.harness.report import Report, row  # noqa: E402
from benchmarks.harness.revisions import checked_out, peer_of  # noqa: E402
from benchmarks.harness.scaling import crossover  # noqa: E402
from benchmarks.harness.startup import measure_startup  # noqa: E402
from benchmarks.harness.threads import THREADS  # noqa: E402
from benchmarks.peers import PEERS, REFERENCE  # noqa: E402
from benchmarks.workloads import WORKLOADS  # noqa: E402
from benchmarks.workloads.scaling import FAMILIES, SCALED, scaled_name  # noqa: E402

STARTUP = "startup"
QUICK_PEERS = [peer for peer in PEERS if peer != "torch.compile"]  # it compiles for minutes


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few samples: below two minutes")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these workloads (patterns), or 'startup'"
    )
    parser.add_argument("--peers", nargs="+", choices=PEERS, metavar="NAME", help="these peers")
    parser.add_argument(
        "--against",
        metavar="REVISION",
        help="the package of another git revision is one more peer, by default the only one",
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "benchmarks/results/latest.json", metavar="PATH"
    )
    parser.add_argument(
        "--results", type=Path, metavar="PATH", help="write the table there, as Markdown"
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="processor time of a single thread, for a machine that has other work to do",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="peak memory of a process for each workload, instead of times",
    )
    parser.add_argument(
        "--scaling",
        action="store_true",
        help="chain, matmul and reduction from ten elements on, instead of the workloads",
    )
    parser.add_argument("--log", type=Path, metavar="PATH", help="what the peers print")
    options = parser.parse_args()
    if options.against and not options.peers:
        options.peers = [REFERENCE]
    partial = (options.quick, options.only, options.peers, options.cpu_time)
    if not any((*partial, options.memory, options.scaling)):
        options.results = options.results or ROOT / "benchmarks/RESULTS.md"
    options.peers = options.peers or (QUICK_PEERS if options.quick else list(PEERS))
    return options


def is_wanted(name: str, patterns: list[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def run(options: argparse.Namespace, pool: Pool) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def add(outcome: Outcome) -> None:
        outcomes.append(outcome)
        beside = peer_of(options.against) if options.against else "torch"
        print(*row(outcome, [beside]), sep="  ", file=sys.stderr)  # something to see meanwhile

    effort = QUICK if options.quick else FULL
    if options.scaling:
        for name, workload in SCALED.items():
            if is_wanted(name, options.only):
                add(measure(workload, pool, QUICK if options.quick else SCALING))
        return outcomes
    chosen = [w for w in WORKLOADS.values() if is_wanted(w.name, options.only)]
    if options.quick and not options.only:
        chosen = [w for w in chosen if w.quick]
    if options.memory:
        for workload in chosen:
            add(measure_peak(workload, pool))
        return outcomes
    for workload in chosen:
        add(measure(workload, pool, effort))
        if workload.name.startswith("deep_graph"):
            add(measure_growth(workload, pool))
    for workload in chosen:
        if workload.saved is not None:
            add(measure_saved(workload, pool))
    if is_wanted(STARTUP, options.only):
        for outcome in measure_startup(
            pool.workers, 2 if options.quick else 15, pool.threads, pool.sources
        ):
            add(outcome)
    return outcomes


def crossovers(report: Report) -> list[str]:
    """For each family of sizes and each peer, from which size on the peer is quicker."""
    found = {outcome.name: outcome for outcome in report.outcomes}
    lines = []
    for family, (_, sizes) in FAMILIES.items():
        names = {n: scaled_name(family, n) for n in sizes}
        by_size = {n: found[name] for n, name in names.items() if name in found}
        if by_size:
            lines += [f"{family}: {crossover(by_size, peer)}" for peer in report.peers()]
    return lines


def main() -> int:
    options = arguments()
    start = time.perf_counter()
    log = options.log.open("w", encoding="utf-8") if options.log else subprocess.DEVNULL
    with (
        checked_out(options.against) as sources,
        Pool(options.peers, log, 1 if options.cpu_time else THREADS, sources) as pool,
    ):
        outcomes = run(options, pool)
        mode = "quick" if options.quick else "full"
        if options.cpu_time:
            mode += ", processor time of one thread"
        report = Report(outcomes, pool.versions(), pool.missing, mode, pool.threads)
    print(f"\n{report.text()}")
    if options.scaling:
        print(*crossovers(report), sep="\n")
    print(f"\n{time.perf_counter() - start:.0f} s")
    report.write_json(options.json)
    if options.results:
        options.results.write_text(report.markdown(), encoding="utf-8")
    return int(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
