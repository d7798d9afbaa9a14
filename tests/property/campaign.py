"""Runs random programs for a given time, and prints disagreements as programs.

    python -m tests.property.campaign --minutes 60 --seed 1
    python -m tests.property.campaign --kinds engine numpy --jobs 2 --max-programs 5000 --out found

Programs run in child processes. One that hangs, or that ends its process, is a finding like any
other. Findings are minimised, grouped by their probable cause, printed, and written to the folder
of ``--out``. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import importlib.util
import json
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.property.programs.kinds import KINDS, Report, examine, seed_of
from tests.property.programs.minimize import minimize
from tests.property.programs.outcomes import Finding, where_raised

PROGRAMS_PER_CHILD = 1500  # a new child then, so that memory of a long campaign stays bounded
PROGRESS_SECONDS = 15.0
MINIMISE_SECONDS = 20.0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.property.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=sorted(KINDS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--max-programs", type=int, default=sys.maxsize)
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for the findings")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one program")
    parser.add_argument("--first", type=int, default=0, help="the index of the first program")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--check", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# ---- the child -----------------------------------------------------------------------------------


def run_child(options: argparse.Namespace) -> None:
    """Checks every ``jobs``-th program from ``first`` on, and writes one line of JSON for each."""
    faulthandler.enable()
    _prepare(options)
    for index in range(options.first, options.first + PROGRAMS_PER_CHILD * options.jobs,
                       options.jobs):  # fmt: skip
        kind = KINDS[options.kinds[index % len(options.kinds)]]
        _write_line({"begin": index, "kind": kind.name})
        faulthandler.dump_traceback_later(options.timeout - 2, exit=False)
        seed = seed_of(kind.name, options.seed, index)
        try:
            report = examine(kind, seed, not options.without_torch, 0.0)
            if report is not None:
                faulthandler.cancel_dump_traceback_later()
                _write_line({"shrink": index})
                report = examine(kind, seed, not options.without_torch, MINIMISE_SECONDS)
        except Exception as error:  # of the generators and checks: a finding about them
            finding = Finding("the check fails", where_raised(error), traceback.format_exc())
            report = Report(kind.name, seed, finding, (), "")
        faulthandler.cancel_dump_traceback_later()
        _write_line({"end": index, "report": None if report is None else asdict(report)})


def _prepare(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    if not options.without_torch:
        importlib.import_module("torch").set_num_threads(1)


def _write_line(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def check_file(options: argparse.Namespace) -> None:
    """Checks one program from a file: what the minimiser runs for programs that hang or crash."""
    _prepare(options)
    kind, program = pickle.loads(options.check.read_bytes())
    KINDS[kind].check(program, not options.without_torch)


# ---- the parent ----------------------------------------------------------------------------------


@dataclass
class Child:
    """A child process, and the program that it is at."""

    options: argparse.Namespace
    first: int
    process: subprocess.Popen[str] | None = None
    index: int | None = None
    since: float = 0.0
    patience: float = 0.0
    lines: queue.Queue[str] = field(default_factory=queue.Queue)
    errors: Any = None

    def start(self) -> None:
        """Starts the process at the next program."""
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.lines = queue.Queue()
        command = [*_command(self.options), "--child", "--first", str(self.first)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=Path.cwd()
        )
        self.index, self.since, self.patience = None, time.monotonic(), 120.0
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)

    def stop(self) -> str:
        """Ends the process, and gives the end of what it wrote to standard error."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        text = self.errors.read()[-3000:]
        self.errors.close()
        return text


def _command(options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "tests.property.campaign", "--seed", str(options.seed)]
    command += ["--jobs", str(options.jobs), "--timeout", str(options.timeout)]
    command += ["--kinds", *options.kinds]
    return command + (["--without-torch"] if options.without_torch else [])


class Campaign:
    """Starts children, gathers their findings, and prints the progress."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.counts: Counter[str] = Counter()
        self.found: dict[tuple[Any, ...], list[Report]] = {}
        self.begun = time.monotonic()
        self.printed = 0.0  # when the progress was printed last

    def run(self) -> int:
        """Runs until the time is over; the exit code."""
        options = self.options
        children = [Child(options, options.first + place) for place in range(options.jobs)]
        try:
            for child in children:
                child.start()
            while not self.is_over():
                for child in children:
                    self.listen(child)
                self.print_progress()
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            for child in children:
                if child.process is not None:
                    child.stop()
        self.print_progress(at_once=True)
        self.summarise()
        return 1 if self.found else 0

    def is_over(self) -> bool:
        """Whether the time is over, or enough programs ran."""
        is_late = time.monotonic() - self.begun > self.options.minutes * 60
        return is_late or self.counts.total() >= self.options.max_programs

    def listen(self, child: Child) -> None:
        """Reads one line of a child, or replaces a child that hangs or has ended."""
        assert child.process is not None
        try:
            message = json.loads(child.lines.get(timeout=0.2))
        except queue.Empty:
            if time.monotonic() - child.since > child.patience:
                self.replace_lost(child, "hangs")
            elif child.process.poll() is not None and child.lines.empty():
                if child.process.returncode == 0:
                    child.errors.close()
                    child.start()
                else:
                    self.replace_lost(child, f"ends the process with {child.process.returncode}")
            return
        child.since = time.monotonic()
        if "begin" in message:
            child.index, child.patience = message["begin"], self.options.timeout
        elif "shrink" in message:
            child.patience = self.options.timeout + 3 * MINIMISE_SECONDS
        else:
            self.counts[self.kind_of(message["end"])] += 1
            child.first = message["end"] + self.options.jobs
            if message["report"] is not None:
                report = message["report"]
                report["finding"] = Finding(**report["finding"])
                self.add(Report(**report))

    def kind_of(self, index: int) -> str:
        """The kind of the program of an index."""
        return self.options.kinds[index % len(self.options.kinds)]

    def replace_lost(self, child: Child, how: str) -> None:
        """Reports a child that hangs or has ended, and starts another one at the next program."""
        errors = child.stop()
        if child.index is None:
            raise RuntimeError(f"a child {how} before its first program:\n{errors}")
        kind = KINDS[self.kind_of(child.index)]
        seed = seed_of(kind.name, self.options.seed, child.index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = kind.generate(seed)
        finding = Finding(how, how, errors)
        child.first = child.index + self.options.jobs
        self.counts[kind.name] += 1
        if not self.options.without_torch and self._check_alone(kind.name, program) is None:
            print(f"{seed}: torch {how} on this program; Pullback alone does not", flush=True)
            child.start()
            return
        program, finding = minimize(program, finding, self._still_lost(kind.name, finding), 180.0)
        try:
            text = kind.script(program, finding) if kind.name != "engine" else repr(program)
        except Exception as error:
            text = f"{program!r}\n# could not be printed: {error!r}"
        self.add(Report(kind.name, seed, finding, program.parts(), text))
        child.start()

    def _still_lost(self, kind: str, finding: Finding) -> Any:
        def check(program: Any) -> Finding | None:
            how = self._check_alone(kind, program)
            return finding if how is not None and how == finding.check[: len(how)] else None

        return check

    def _check_alone(self, kind: str, program: Any) -> str | None:
        """How a process without torch ends that checks one program; None if it ends well."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.pickle"
            path.write_bytes(pickle.dumps((kind, program)))
            command = [*_command(self.options), "--without-torch", "--check", str(path)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=self.options.timeout)
            except subprocess.TimeoutExpired:
                return "hangs"
            return "ends the process" if done.returncode < 0 else None

    def add(self, report: Report) -> None:
        """Prints the first finding of a cause, and counts the others."""
        known = self.found.setdefault(report.key, [])
        known.append(report)
        if len(known) > 1:
            return
        number = len(self.found)
        print(f"\n{'=' * 30} finding {number} {'=' * 30}\n{report.describe()}", flush=True)
        if self.options.out is not None:
            self.options.out.mkdir(parents=True, exist_ok=True)
            path = self.options.out / f"finding_{number:03}_{report.kind}.py"
            path.write_text(report.describe(), encoding="utf-8")

    def print_progress(self, at_once: bool = False) -> None:
        """Prints the counts so far, every few seconds."""
        now = time.monotonic()
        if at_once or now - self.printed > PROGRESS_SECONDS:
            self.printed = now
            counts = ", ".join(f"{n} {kind}" for kind, n in sorted(self.counts.items()))
            findings = sum(len(reports) for reports in self.found.values())
            print(
                f"[{(now - self.begun) / 60:.1f} min] {self.counts.total()} programs ({counts}), "
                f"{findings} findings of {len(self.found)} kinds",
                flush=True,
            )

    def summarise(self) -> None:
        """The findings by frequency."""
        for key, reports in sorted(self.found.items(), key=lambda item: -len(item[1])):
            print(f"{len(reports):5} × {' | '.join(str(part) for part in key)}  {reports[0].seed}")


def main() -> int:
    """The command."""
    options = parse()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if options.child:
        run_child(options)
        return 0
    if options.check is not None:
        check_file(options)
        return 0
    if not options.without_torch and importlib.util.find_spec("torch") is None:
        print("torch is not installed: running without it")
        options.without_torch = True
    return Campaign(options).run()


if __name__ == "__main__":
    sys.exit(main())
