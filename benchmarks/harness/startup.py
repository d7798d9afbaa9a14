"""What it costs to begin: import, the first gradient, and memory, each in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.harness.measure import Outcome
from benchmarks.harness.revisions import ROOT, source_path, without_revision
from benchmarks.harness.threads import THREADS, environment

IMPORTS = {
    "pullback": "import pullback as lib",
    "torch": "import torch as lib",
    "jax.jit": "import jax as lib\nlib.config.update('jax_enable_x64', True)",
    "autograd": "import autograd as lib, autograd.numpy",
    "mygrad": "import mygrad as lib",
    "numpy": "import numpy as lib",
}
_BACKWARD = "x = lib.tensor([1.0, 2.0], requires_grad=True)\n(x * x).sum().backward()"
GRADIENTS = {
    "pullback": _BACKWARD,
    "torch": _BACKWARD,
    "jax.jit": "lib.jit(lib.grad(lambda x: (x * x).sum()))(lib.numpy.ones(2)).block_until_ready()",
    "autograd": "lib.grad(lambda x: lib.numpy.sum(x * x))(lib.numpy.array([1.0, 2.0]))",
    "mygrad": "x = lib.tensor([1.0, 2.0])\n(x * x).sum().backward()",
    "numpy": "x = lib.array([1.0, 2.0])\n(x * x).sum(), x + x",
}
SCRIPT = """
import json, os, time
start = time.{clock}()
{imports}
imported = time.{clock}() - start
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[1])
{gradient}
cold = time.{clock}() - start
print(json.dumps([imported, cold, pages * os.sysconf("SC_PAGESIZE")]), flush=True)
os._exit(0)  # what a library does when it ends is not measured
"""


def measure_startup(
    peers: Iterable[str],
    repeats: int,
    count: int = THREADS,
    sources: Mapping[str, Path] | None = None,
) -> list[Outcome]:
    """In turn, the least of all repeats; processor time if there is one thread only."""
    clock = "perf_counter" if count > 1 else "process_time"
    outcomes = [
        Outcome("import", "import, in a fresh interpreter"),
        Outcome("cold_gradient", "import and the first gradient"),
        Outcome("rss_after_import", "memory after the import", unit="B"),
        Outcome("cold_process", "a process from its start to the end of the first gradient"),
    ]
    scripts = {
        peer: SCRIPT.format(imports=IMPORTS[name], gradient=GRADIENTS[name], clock=clock)
        for peer in peers
        if (name := without_revision(peer)) in IMPORTS
    }
    for _ in range(repeats):
        for peer, script in scripts.items():
            numbers = _fresh(script, count, (sources or {}).get(peer))
            for outcome, number in zip(outcomes, numbers, strict=True):
                outcome.best[peer] = min(number, outcome.best.get(peer, number))
    return outcomes


def _fresh(script: str, count: int, source: Path | None) -> list[float]:
    command = [sys.executable, "-c", script]
    env = environment(count) | source_path(source)
    clock = time.perf_counter if count > 1 else _children
    start = clock()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=env)
    return [*json.loads(done.stdout.splitlines()[-1]), clock() - start]


def _children() -> float:
    """Processor time of the processes that this one has waited for."""
    import resource  # which Windows lacks; `os.times` counts in hundredths of a second

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
