"""Parallel work over many files, with a progress bar and without a crash of the whole.

A worker process that dies (a parser that overflows the C stack, the system's memory killer) breaks
its pool. The rest goes on in a new pool; the chunks that were running are then run file by file,
each in a process of its own, and a file that ends its process is reported.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TextIO, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
# Not fork: a process with threads must not be copied.
_SPAWN = multiprocessing.get_context("spawn")
QUEUED = 4  # chunks for each process: bounds the memory of what waits


class Progress:
    """A progress bar on a terminal; on other outputs one line at the end."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self.label, self.total, self.done = label, total, 0
        self.stream = stream or sys.stderr
        self.began = time.monotonic()
        self.written = 0.0

    def advance(self, count: int) -> None:
        """Count finished files, and draw the bar at most ten times a second."""
        self.done += count
        now = time.monotonic()
        is_last = self.done >= self.total
        if self.stream.isatty() and (is_last or now - self.written > 0.1):
            self.written = now
            filled = 30 * self.done // max(self.total, 1)
            bar = "#" * filled + "." * (30 - filled)
            end = "\n" if is_last else ""
            self.stream.write(f"\r{self.label} [{bar}] {self.done:,}/{self.total:,}{end}")
            self.stream.flush()
        elif is_last:
            seconds = now - self.began
            self.stream.write(f"{self.label}: {self.done:,} files in {seconds:.1f} s\n")


def run_parallel(
    function: Callable[[Sequence[Job]], list[Result]],
    jobs: Sequence[Job],
    chunk: int,
    processes: int,
    label: str,
    failed: Callable[[Job], Result],
) -> list[Result]:
    """Return the results of a function over chunks of jobs; order is not kept."""
    if not jobs:
        return []
    progress = Progress(label, len(jobs))
    chunks = [jobs[start : start + chunk] for start in range(0, len(jobs), chunk)]
    results: list[Result] = []
    if processes == 1:
        for part in chunks:
            results += function(part)
            progress.advance(len(part))
        return results
    waiting = list(reversed(chunks))
    suspects: list[Sequence[Job]] = []
    while waiting:  # once, unless a process dies
        suspects += _run_pool(function, waiting, processes, results, progress)
    for job in [job for part in suspects for job in part]:
        with ProcessPoolExecutor(1, mp_context=_SPAWN) as pool:
            try:
                results += pool.submit(function, [job]).result()
            except BrokenProcessPool:
                results.append(failed(job))
        progress.advance(1)
    return results


def _run_pool(
    function: Callable[[Sequence[Job]], list[Result]],
    waiting: list[Sequence[Job]],
    processes: int,
    results: list[Result],
    progress: Progress,
) -> list[Sequence[Job]]:
    """Run chunks, from the end of the list, until all are done or the pool breaks.

    Returns those that were running when it broke.
    """
    running: dict[Future[list[Result]], Sequence[Job]] = {}
    suspects: list[Sequence[Job]] = []
    with ProcessPoolExecutor(processes, mp_context=_SPAWN) as pool:
        while running or (waiting and not suspects):
            while waiting and not suspects and len(running) < QUEUED * processes:
                part = waiting.pop()
                try:
                    running[pool.submit(function, part)] = part
                except BrokenProcessPool:
                    suspects.append(part)
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                part = running.pop(future)
                try:
                    results += future.result()
                    progress.advance(len(part))
                except BrokenProcessPool:
                    suspects.append(part)
    return suspects
