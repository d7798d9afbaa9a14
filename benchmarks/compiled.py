"""Compiled programs beside jax.jit, torch.compile, numba and NumPy: one table with its targets.

    python benchmarks/compiled.py [--quick] [--only NAME...] [--peers NAME...] [--parts PART...]
                                  [--store PATH] [--results PATH]

Times are processor times of one thread on one processor, except in the rows with two threads, which
are wall times on two; all runs wait for their results. The peers run in turn, and the fastest
sample of each counts. ``/ jax`` is our time relative to the faster of two forms of the JAX program:
the literal one, and the one that its users would write (a scan, or vectorised by hand). ``first``
is the time of the first call, with tracing and compilation, in a process that may have compiled
other programs. Below the table stand the memory of runs after the first, first calls of fresh
processes, without and with the cache on disk, the gradient of an initial value problem with a
compiled right-hand side beside finite differences of SciPy's solver, and a training step.

On a machine with other work to do, the table can be measured in pieces: ``--store`` keeps what was
measured in a file, and puts new rows, peers and lines beside those that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this is a script, and the harness a package beside it
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # processor time counts all threads

import numpy as np  # noqa: E402

from benchmarks.harness.compiled_goals import (  # noqa: E402
    MEMORY,
    OURS,
    TARGETS,
    TWO_THREADS,
    CompiledRow,
    merge_rows,
    table,
)
from benchmarks.harness.first_calls import measure_first_calls  # noqa: E402
from benchmarks.harness.measure import (  # noqa: E402
    FULL,
    QUICK,
    Effort,
    Outcome,
    fastest,
    measure,
    measure_steady,
)
from benchmarks.harness.pool import Pool  # noqa: E402
from benchmarks.harness.report import ABSENT, processor, quantity, ratio  # noqa: E402
from benchmarks.harness.sections import write_section  # noqa: E402
from benchmarks.harness.training import training_line  # noqa: E402
from benchmarks.peers import PEERS  # noqa: E402
from benchmarks.workloads import WORKLOADS  # noqa: E402
from benchmarks.workloads.base import Target  # noqa: E402

PARTS = ("times", "threads", "memory", "first", "solve_ivp", "training_step")
EFFORT = Effort(seconds=1.0, rounds=8, fewest=2)
PEER_NAMES = ("pullback", OURS, "jax.jit", "jax.idiom", "torch.compile", "numba", "numpy")
SOLVE_IVP = Target(0.5, 0.2)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these workloads (patterns)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, metavar="NAME", default=PEER_NAMES)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--store", type=Path, metavar="PATH", help="add to the numbers of a file")
    parser.add_argument("--results", type=Path, metavar="PATH", help="write the section here")
    parser.add_argument("--log", type=Path, metavar="PATH", help="what the peers print")
    return parser.parse_args()


def measured(options: argparse.Namespace, log: Any) -> Iterator[CompiledRow]:
    """The rows, one after the other: with one thread, then with two."""
    effort = QUICK if options.quick else EFFORT
    for part, threads, targets in (("times", 1, TARGETS), ("threads", 2, TWO_THREADS)):
        if part not in options.parts:
            continue
        chosen = {name: target for name, target in targets.items() if is_wanted(name, options)}
        if not chosen:
            continue
        with Pool(options.peers, log, threads) as pool:
            for peer, why in pool.missing.items():
                print(f"{peer}: {why}", file=sys.stderr)
            for name, target in chosen.items():
                outcome = measure(WORKLOADS[name], pool, effort)
                yield CompiledRow(outcome, target, threads)


def is_wanted(name: str, options: argparse.Namespace) -> bool:
    return options.only is None or any(fnmatchcase(name, pattern) for pattern in options.only)


def memory_lines(options: argparse.Namespace, log: Any) -> Iterator[str]:
    """Memory of runs after the first, compiled and as the program stands."""
    names = [name for name in MEMORY if is_wanted(name, options) and "memory" in options.parts]
    if not names:
        return
    with Pool(["pullback", OURS], log, 1) as pool:
        for name in names:
            best = measure_steady(WORKLOADS[name], pool).best
            ours, eager = best.get(OURS), best.get("pullback")
            texts = [ABSENT if b is None else quantity(b, "B") for b in (ours, eager)]
            yield f"memory {name}: compiled {texts[0]}, eager {texts[1]}, {ratio(ours, eager)}"


def first_lines(options: argparse.Namespace, log: Any) -> Iterator[str]:
    """First calls in fresh processes."""
    names = [name for name in TARGETS if is_wanted(name, options) and "first" in options.parts]
    if OURS in options.peers:
        for found in measure_first_calls(OURS, names, log):
            yield found.line()


def solve_ivp_line(effort: Effort) -> str:
    """The gradient of a solution by four parameters, beside finite differences."""
    from scipy.integrate import solve_ivp

    import pullback as pb

    rates, start, span = np.array([1.1, 0.4, 0.4, 0.1]), np.array([10.0, 5.0]), (0.0, 10.0)

    def slope(t: Any, y: Any, k: Any) -> Any:  # noqa: ARG001 - SciPy gives it
        return pb.stack([k[0] * y[0] - k[1] * y[0] * y[1], k[3] * y[0] * y[1] - k[2] * y[1]])

    def plain(t: Any, y: Any, k: Any) -> Any:  # noqa: ARG001
        return np.array([k[0] * y[0] - k[1] * y[0] * y[1], k[3] * y[0] * y[1] - k[2] * y[1]])

    compiled = pb.compile(slope, backend="llvm")
    tolerances = {"rtol": 1e-8, "atol": 1e-8}

    def loss(k: Any, function: Any = slope) -> Any:
        return (solve_ivp(function, span, start, args=(k,), **tolerances).y[:, -1] ** 2).sum()

    def differences() -> Any:
        steps = 1e-6 * np.eye(4)
        return np.array([loss(rates + e, plain) - loss(rates - e, plain) for e in steps]) / 2e-6

    runs = {
        "compiled": lambda: pb.grad(lambda k: loss(k, compiled))(rates),
        "eager": lambda: pb.grad(loss)(rates),
        "differences": differences,
    }
    expected = runs["differences"]()
    for name in ("compiled", "eager"):
        np.testing.assert_allclose(runs[name](), expected, rtol=1e-3)
    best = fastest(runs, effort.seconds)
    outcome = Outcome("solve_ivp", "", best={OURS: best["compiled"], "scipy": best["differences"]})
    row = CompiledRow(outcome, SOLVE_IVP, reference=("scipy",))
    texts = ", ".join(f"{name} {quantity(value, 's')}" for name, value in best.items())
    (goal,) = row.goals()
    return (
        f"solve_ivp gradient by 4 parameters: {texts}; relative to finite differences "
        f"{goal.value:.2f}, must {SOLVE_IVP.must:g}, aim {SOLVE_IVP.aim:g}: {goal.verdict}"
    )


def merge_lines(path: Path, lines: list[str]) -> list[str]:
    """The lines beside a file of rows, with new ones put in by what stands before their colon."""
    beside = path.with_suffix(".lines.json")
    held: dict[str, str] = json.loads(beside.read_text("utf-8")) if beside.exists() else {}
    held |= {line.partition(":")[0]: line for line in lines}
    beside.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    return list(held.values())


def as_text(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in rows
    )


def as_markdown(rows: list[list[str]], lines: list[str], options: argparse.Namespace) -> str:
    command = "python benchmarks/compiled.py" + " --quick" * options.quick
    pieces = ", in pieces (`--store`)" if options.store else ""
    head = "| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|"
    body = "\n".join("| " + " | ".join(line) + " |" for line in rows[1:])
    notes = "\n".join(f"- {line}" for line in lines)
    return f"By `{command}`{pieces}. {processor()}.\n\n{head}\n{body}\n\n{notes}\n"


def main() -> int:
    options = arguments()
    log: Any = options.log.open("w", encoding="utf-8") if options.log else subprocess.DEVNULL
    rows: list[CompiledRow] = []
    for row in measured(options, log):
        rows.append(row)
        print(*row.cells(), sep="  ", file=sys.stderr)
    lines = [*memory_lines(options, log), *first_lines(options, log)]
    if is_wanted("solve_ivp", options) and "solve_ivp" in options.parts:
        lines.append(solve_ivp_line(QUICK if options.quick else FULL))
    if is_wanted("training_step", options) and "training_step" in options.parts:
        lines.append(training_line(QUICK if options.quick else FULL))
    if options.store:
        rows, lines = merge_rows(options.store, rows), merge_lines(options.store, lines)
    for row in rows:
        facts = {**row.outcome.absent, **{k: f"WRONG: {v}" for k, v in row.outcome.wrong.items()}}
        lines += [f"{row.outcome.name}, {peer}: {why}" for peer, why in facts.items()]
    print(as_text(table(rows)), "", *lines, sep="\n")
    if options.results:
        text = as_markdown(table(rows), lines, options)
        write_section(options.results, "Compiled", text)
    return int(any(row.outcome.wrong for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
