"""How far does `value_and_grad_over` scale? A simulation of one step on a dask cluster.

One step sends the parameters to every worker, runs tasks of a few partitions each, and collects a
gradient for each task. The scheduler handles tasks one after the other, and the driver receives and
adds gradients one after the other; workers run side by side. Efficiency is the time that the
workers compute, divided by the time that they are there.

Run it: python examples/scaling.py [picture.png]; `--measure` measures the costs of this machine.
"""

import argparse
import heapq
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


class Costs(NamedTuple):
    """Seconds; measured with dask.distributed 2026.8 on two cores."""

    task: float = 1.0e-3  # of the scheduler, for each task
    byte: float = 2.0e-9  # of the driver, to receive and add a byte of a gradient
    step: float = 2.0e-2  # of the driver, once for each step


MEASURED = Costs()


def block_size(terms, blocks):
    size = 1
    while terms // (2 * size) >= blocks:
        size *= 2
    return size


def efficiency(workers, partitions, seconds, parameters, costs=MEASURED, noise=0.1, seed=0):
    """The share of the workers' time that is computation, for one step."""
    rng = np.random.default_rng(seed)
    size = block_size(partitions, 4 * workers)
    sizes = [min(size, partitions - first) for first in range(0, partitions, size)]
    times = [n * seconds * (1 + noise * rng.standard_normal() / np.sqrt(n)) for n in sizes]
    free = [costs.step + 8 * parameters * costs.byte] * workers  # when a worker is free again
    heapq.heapify(free)
    scheduled, driver = costs.step, costs.step
    for duration in times:
        scheduled += costs.task
        begin = max(scheduled, heapq.heappop(free))
        heapq.heappush(free, begin + max(duration, 0.0))
    ends = sorted(free)
    for end in np.linspace(ends[0], ends[-1], len(times)):
        driver = max(driver, end) + 8 * parameters * costs.byte
    return sum(times) / (workers * driver)


def measure():
    """The costs of this machine: a step of empty tasks, and one with a large gradient."""
    from distributed import Client, LocalCluster

    from pullback.distributed import value_and_grad_over

    def loss(p, n):
        return p.sum() * n

    def seconds(client, partitions, parameters):
        step = value_and_grad_over(loss, list(range(partitions)), executor=client)
        point = np.ones(parameters)
        for _ in range(4):
            step(point)
        best = min(step.timings, key=lambda timing: timing.seconds)
        return best.seconds - best.worker_seconds / 2, best.tasks

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        few, few_tasks = seconds(client, 1, 10)
        many, many_tasks = seconds(client, 15, 10)
        large, large_tasks = seconds(client, 8, 1_000_000)
    task = max(0.0, (many - few) / (many_tasks - few_tasks))
    byte = max(0.0, (large - few) / (large_tasks * 8e6))
    return Costs(task, byte, few)


def main(picture=PICTURES / "scaling.png", costs=MEASURED):
    workers = 2 ** np.arange(11)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for seconds in (0.01, 0.1, 1.0):
        found = [efficiency(n, 10_000, seconds, 1_000, costs) for n in workers]
        axes[0].semilogx(workers, found, "o-", base=2, label=f"{seconds:g} s a partition")
    axes[0].set(title="10,000 partitions, 1,000 parameters", xlabel="workers", ylabel="efficiency")
    for parameters in (1_000, 100_000, 10_000_000):
        found = [efficiency(n, 10_000, 1.0, parameters, costs) for n in workers]
        axes[1].semilogx(workers, found, "o-", base=2, label=f"{parameters:,} parameters")
    axes[1].set(title="10,000 partitions of 1 s", xlabel="workers", ylim=(0, 1.05))
    for axis in axes:
        axis.legend()
        axis.grid(color="0.9")
    figure.savefig(picture, dpi=110)
    return efficiency(64, 10_000, 0.1, 1_000, costs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", nargs="?", default=PICTURES / "scaling.png")
    parser.add_argument("--measure", action="store_true", help="measure the costs here")
    options = parser.parse_args()
    here = measure() if options.measure else MEASURED
    print(here)
    print("efficiency of 64 workers, 10,000 partitions of 0.1 s:", main(options.picture, here))
