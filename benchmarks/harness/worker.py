"""The process of one peer: reads requests from stdin, one JSON object a line, and answers each.

    python -m benchmarks.harness.worker PEER

Requests: ``prepare`` (a workload; the results go to a file), ``sample`` (time it for a while),
``first`` (time a first call that compiles), ``saved``, ``rss``, ``peak`` and ``steady`` (memory),
``stop``. An answer has ``ok``, or ``reason`` when the peer has no way to do it. Whatever a library
prints goes to stderr, so that answers stay
readable.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.revisions import without_revision
from benchmarks.harness.threads import pin, threads
from benchmarks.peers import load
from benchmarks.peers.base import Peer, Run, UnavailableError
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.base import Problem, Workload
from benchmarks.workloads.scaling import SCALED

SHORTEST = 1e-3  # seconds; shorter runs are repeated within one sample
PEAK_RUNS = 3  # memory that a run leaves behind is part of the next one's peak


def resident() -> int:
    """Bytes of memory that this process holds now."""
    status = Path("/proc/self/statm")
    if not status.exists():
        raise UnavailableError("memory is read from /proc")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _find(workload: str) -> Workload:
    return WORKLOADS.get(workload) or SCALED[workload]


def peak_resident() -> int:
    """The most bytes of memory that this process has held; `getrusage` counts its parent's, too."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise UnavailableError("peak memory is read from /proc")


def reset_peak() -> None:
    """Lets the peak begin again at what this process holds now."""
    Path("/proc/self/clear_refs").write_text("5")


def return_free_memory() -> None:
    """Gives memory that the C library keeps for later back to the system, where it can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        raise UnavailableError("free memory is returned by glibc's malloc_trim")
    trim(0)


class Session:
    """The workload that is prepared at present."""

    def __init__(self, peer: Peer):
        self.peer = peer
        # One thread alone is asked for where other work would disturb the wall clock. The process
        # has one processor then (`pin`), so that processor time is exact.
        self.clock = time.perf_counter if threads() > 1 else time.process_time
        self.run: Run | None = None
        self.repeats = 1

    def prepare(self, workload: str, small: bool, path: str | None) -> dict[str, Any]:
        self.run = None
        gc.collect()
        problem = self._problem(workload, small)
        run = self.peer.prepare(_find(workload).task, problem)
        start = time.perf_counter()
        result = run()
        first = time.perf_counter() - start
        if path is not None:
            np.savez(path, *self.peer.arrays(result))
        del result
        self.run, self.repeats = run, 1
        return {"first": first}

    def first(self, workload: str, small: bool, backend: str) -> dict[str, Any]:
        """The time of a first call that compiles, and the operators of its graph."""
        problem = self._problem(workload, small)
        seconds, operators = self.peer.ability("first_call")(_find(workload).task, problem, backend)
        return {"seconds": seconds, "operators": operators}

    def _problem(self, workload: str, small: bool) -> Problem:
        found = _find(workload)
        if reason := found.absent.get(self.peer.name):
            raise UnavailableError(reason)
        return found.problem(small=small)

    def sample(self, seconds: float) -> dict[str, Any]:
        """Seconds for one run, sample by sample, until the time is over."""
        run, repeats, clock = self.run, self.repeats, self.clock
        assert run is not None
        times: list[float] = []
        end = clock() + seconds
        while True:
            start = clock()
            for _ in range(repeats):
                run()
            now = clock()
            times.append((now - start) / repeats)
            if now >= end:
                break
        self.repeats = max(1, round(SHORTEST / min(times)))
        return {"times": times}

    def saved(self, workload: str) -> dict[str, Any]:
        return {"bytes": self.peer.ability("saved_bytes")(self._problem(workload, False))}

    def peak(self, workload: str, small: bool) -> dict[str, Any]:
        """The most memory that this process ever held, and what a few runs added to the rest."""
        problem = self._problem(workload, small)
        run = self.peer.prepare(_find(workload).task, problem)
        gc.collect()
        before, highest = resident(), peak_resident()
        reset_peak()
        for _ in range(PEAK_RUNS):
            run()
        reached = peak_resident()
        return {"bytes": max(highest, reached), "growth": max(0, reached - before)}

    def steady(self, workload: str, small: bool) -> dict[str, Any]:
        """What runs add to the memory that this process holds after the first of them."""
        run = self.peer.prepare(_find(workload).task, self._problem(workload, small))
        run()
        gc.collect()
        return_free_memory()
        before = resident()
        reset_peak()
        for _ in range(PEAK_RUNS):
            run()
        return {"bytes": max(0, peak_resident() - before)}

    def rss(self, workload: str, small: bool) -> dict[str, Any]:
        """What a forward pass adds to the memory of this process, for each operation."""
        problem = self._problem(workload, small)
        forward = self.peer.ability("forward")(problem)
        assert problem.operations is not None
        gc.collect()
        before = resident()
        kept = forward()
        grown = resident() - before
        del kept
        return {"bytes": grown / problem.operations}


def answer(session: Session, request: dict[str, Any]) -> dict[str, Any]:
    handler: Callable[..., dict[str, Any]] = getattr(session, request.pop("op"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"ok": True, **handler(**request)}
    except UnavailableError as reason:
        return {"reason": str(reason)}
    except Exception as error:  # a peer's failure is a result, not the end of the run
        traceback.print_exc()
        return {"reason": f"failed: {type(error).__name__}: {error}".splitlines()[0]}


def main() -> None:
    pin()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        peer = load(without_revision(sys.argv[1]))
    except UnavailableError as reason:
        print(json.dumps({"reason": str(reason)}), file=answers)
        return
    print(json.dumps({"ok": True, "version": peer.version()}), file=answers)
    session = Session(peer)
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "stop":
            return
        print(json.dumps(answer(session, request)), file=answers)


if __name__ == "__main__":
    main()
