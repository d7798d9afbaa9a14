"""Hogwild: several processes, or threads, train one network without locks.

The parameters are in shared memory. Each worker computes gradients for its own part of the data and
writes to the parameters at once. Some updates are lost, some gradients are computed from parameters
that change meanwhile; the loss still falls to that of a sequential run.

Run it: python examples/hogwild.py [picture.png]
"""

import multiprocessing
import sys
import threading
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WORKERS, BATCH, RATE, DECAY = 4, 20, 0.1, 0.75


def make_data(count=4000, seed=0):
    """A noisy function of ten numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 10))
    y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.5 * rng.normal(size=(count, 1))
    return x, y


def make_network(seed=0):
    np.random.seed(seed)
    return nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))


def loss_of(network, x, y):
    return ((network(pb.asarray(x)) - pb.asarray(y)) ** 2).mean()


def batches(x, y, epochs, seed):
    """Inputs and targets of each batch, and the rate of its step."""
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        for batch in rng.permutation(len(x)).reshape(-1, BATCH):
            yield x[batch], y[batch], RATE * DECAY**epoch


def train(network, x, y, epochs, seed, watch=None):
    """Steps of gradient descent; in a process of its own, each has its own gradients."""
    optimizer = pb.optim.SGD(network.parameters(), lr=RATE)
    for step, (inputs, targets, rate) in enumerate(batches(x, y, epochs, seed), 1):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss_of(network, inputs, targets).backward()
        optimizer.step()
        if watch is not None and step % 100 == 0:
            watch()


def train_in_thread(network, x, y, epochs, seed):
    """The same for threads, which share ``.grad``: gradients are returned, not accumulated.

    Updates go through ``.data``, which has a version of its own: other threads may be between their
    forward and backward passes, which would raise for parameters that were written to.
    """
    parameters = list(network.parameters())
    for inputs, targets, rate in batches(x, y, epochs, seed):
        gradients = pb.autograd.grad(loss_of(network, inputs, targets), parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.data.sub_(rate * gradient)


def start_workers(kind, network, x, y, epochs):
    """Workers, each with a part of the data and as many epochs over it."""
    target, make = train, multiprocessing.get_context("fork").Process
    if kind == "threads":
        target, make = train_in_thread, threading.Thread
    parts = zip(np.array_split(x, WORKERS), np.array_split(y, WORKERS), strict=True)
    workers = [
        make(target=target, args=(network, *part, epochs, seed)) for seed, part in enumerate(parts)
    ]
    for worker in workers:
        worker.start()
    return workers


def run(kind, x, y, epochs):
    """The network after training, and its loss over time while it is trained."""
    network = make_network()
    begin, times, losses = time.perf_counter(), [0.0], [loss_of(network, x, y).item()]

    def watch():
        with pb.no_grad():
            losses.append(loss_of(network, x, y).item())
        times.append(time.perf_counter() - begin)

    if kind == "sequential":
        train(network, x, y, epochs, seed=0, watch=watch)
        return network, times, losses
    if kind == "processes":
        network.share_memory()
    workers = start_workers(kind, network, x, y, epochs)
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.02)
        watch()
    for worker in workers:
        worker.join()
        if getattr(worker, "exitcode", 0):
            raise RuntimeError(f"a worker ended with exit code {worker.exitcode}")
    watch()
    return network, times, losses


def main(picture=PICTURES / "hogwild.png", epochs=12):
    x, y = make_data()
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    found = {}
    for kind, style in (("sequential", "o-"), ("processes", "-"), ("threads", "--")):
        _, times, losses = run(kind, x, y, epochs)
        found[kind] = losses[-1]
        axes.plot(times, losses, style, ms=3, label=f"{kind}: {losses[-1]:.4f}")
        print(f"{kind:10}  loss {losses[-1]:.4f} after {times[-1]:.2f} s")
    axes.axhline(0.25, color="0.7", lw=0.8)
    axes.set(xlabel="seconds", ylabel="mean squared error", yscale="log")
    axes.set_title(f"{WORKERS} workers without locks; the grey line is the noise", fontsize=10)
    axes.legend()
    figure.savefig(picture, dpi=80)
    plt.close(figure)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
