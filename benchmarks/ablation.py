"""What each fused operator gains: workloads with and without it, interleaved.

    python benchmarks/ablation.py [NAME...]

``autograd/record/fused.py`` has hand-written forms of few operators. Here each is removed in a
process of its own before its first use, so that the generic functions serve it, and the workload
that it serves most runs in turns there and in a process that has all of them. The table has the
smallest processor times of one thread, and what the workload takes without the fused form.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this is a script, and the workloads a package beside it

from benchmarks.harness.revisions import source_path  # noqa: E402
from benchmarks.harness.threads import environment  # noqa: E402

SERVED = {  # operator -> the workload that shows its gain best
    "add": "chain_small",
    "exp": "chain_small",
    "matmul": "gmm_d64_k5",
    "mul": "gmm_d10_k25",
    "neg": "chain_small",
    "square": "scalar_loop",
    "sub": "scalar_loop",
    "sum": "tiny",
    "tanh": "chain_small",
}
ROUNDS = 40
SECONDS = 0.02  # of one sample


class Side:
    """A process that runs one workload, without a fused operator if one is named."""

    def __init__(self, workload: str, without: str):
        command = [sys.executable, __file__, "--worker", workload, without]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(1) | source_path(None),
        )

    def sample(self) -> float:
        """Seconds of processor time for one run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def work(workload: str, without: str) -> None:
    """The worker: a sample for each line of input."""
    from benchmarks.peers.pullback_peer import PullbackPeer
    from benchmarks.workloads import WORKLOADS
    from pullback.autograd.record.fused import FUSED

    if without:
        del FUSED[f"pullback::{without}"]
    chosen = WORKLOADS[workload]
    run = getattr(PullbackPeer(), chosen.task)(chosen.problem())
    run()
    start = time.process_time()
    run()
    count = max(1, int(SECONDS / max(time.process_time() - start, 1e-6)))
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(count):
            run()
        print((time.process_time() - start) / count, flush=True)


def measure(operator: str) -> str:
    """A row of the table."""
    sides = [Side(SERVED[operator], ""), Side(SERVED[operator], operator)]
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for place, side in enumerate(sides):
            best[place] = min(best[place], side.sample())
    for side in sides:
        side.close()
    times = " | ".join(f"{1e6 * seconds:.1f} µs" for seconds in best)
    return f"| {operator} | {SERVED[operator]} | {times} | {best[1] / best[0]:.3f} |"


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:4])
        return 0
    print("| operator | workload | fused | generic | ratio |\n|---|---|---|---|---|")
    for operator in sys.argv[1:] or SERVED:
        print(measure(operator), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
