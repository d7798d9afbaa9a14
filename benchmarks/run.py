"""Pullback beside its peers: the same workloads, interleaved, as one table of ratios.

    python benchmarks/run.py [--quick] [--only NAME...] [--peers NAME...] [--against REVISION]
    python benchmarks/run.py --memory | --scaling | --cold-start

A complete run also writes its section of `benchmarks/RESULTS.md`. A peer that computes something
else than the others is not timed, and the command fails. See `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this is a script, and the harness a package beside it

from benchmarks.harness.measure import (  # noqa: E402
    FULL,
    QUICK,
    SCALING,
    Effort,
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
from benchmarks.harness.sections import write_section  # noqa: E402
from benchmarks.harness.startup import measure_startup  # noqa: E402
from benchmarks.harness.threads import THREADS  # noqa: E402
from benchmarks.peers import PEERS, REFERENCE  # noqa: E402
from benchmarks.workloads import WORKLOADS  # noqa: E402
from benchmarks.workloads.base import Workload  # noqa: E402
from benchmarks.workloads.scaling import FAMILIES, SCALED, scaled_name  # noqa: E402

TITLES = {None: "Times", "memory": "Memory", "scaling": "Scaling", "cold-start": "Cold start"}
QUICK_PEERS = [peer for peer in PEERS if peer != "torch.compile"]  # it compiles for minutes


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few samples: below two minutes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these workloads (patterns)")
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
        "--results", type=Path, metavar="PATH", help="write the section of this file, in Markdown"
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="processor time of a single thread, for a machine that has other work to do",
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in (
        ("memory", "peak memory of a process for each workload, instead of times"),
        ("scaling", "chain, matmul and reduction of 10 to 10,000,000 elements"),
        ("cold-start", "only a fresh process: its import, first gradient and memory"),
    ):
        kinds.add_argument(f"--{kind}", action="store_const", dest="kind", const=kind, help=text)
    parser.add_argument("--log", type=Path, metavar="PATH", help="what the peers print")
    options = parser.parse_args()
    if options.against and not options.peers:
        options.peers = [REFERENCE]
    if not any((options.quick, options.only, options.peers, options.cpu_time)):
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

    for outcome in _measured(options, pool):
        add(outcome)
    return outcomes


def _measured(options: argparse.Namespace, pool: Pool) -> Iterator[Outcome]:
    """What the chosen kind of run measures, one after the other."""
    if options.kind == "scaling":
        for name, workload in SCALED.items():
            if is_wanted(name, options.only):
                yield measure(workload, pool, QUICK if options.quick else SCALING)
        return
    chosen = [w for w in WORKLOADS.values() if is_wanted(w.name, options.only)]
    if options.quick and not options.only:
        chosen = [w for w in chosen if w.quick]
    if options.kind == "memory":
        for workload in chosen:
            yield from measure_peak(workload, pool)
        return
    if options.kind is None:
        yield from _times(chosen, pool, QUICK if options.quick else FULL)
    if options.only is None:
        repeats = 2 if options.quick else 15
        yield from measure_startup(pool.workers, repeats, pool.threads, pool.sources)


def _times(chosen: list[Workload], pool: Pool, effort: Effort) -> Iterator[Outcome]:
    for workload in chosen:
        yield measure(workload, pool, effort)
        if workload.name.startswith("deep_graph"):
            yield measure_growth(workload, pool)
    for workload in chosen:
        if workload.saved is not None:
            yield measure_saved(workload, pool)


def command_of(options: argparse.Namespace) -> str:
    """The command that makes the same section again."""
    flags = [f"--{options.kind}"] if options.kind else []
    flags += ["--quick"] if options.quick else []
    flags += ["--cpu-time"] if options.cpu_time else []
    return " ".join(["python benchmarks/run.py", *flags])


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
        report = Report(
            outcomes,
            pool.versions(),
            pool.missing,
            mode,
            pool.threads,
            title=TITLES[options.kind],
            command=command_of(options),
        )
    if options.kind == "scaling":
        report = replace(report, notes=crossovers(report))
    print(f"\n{report.text()}", *report.notes, sep="\n")
    print(f"\n{time.perf_counter() - start:.0f} s")
    report.write_json(options.json)
    if options.results:
        write_section(options.results, report.title, report.markdown())
    return int(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
