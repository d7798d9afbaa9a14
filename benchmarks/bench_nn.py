"""Training steps of small networks beside PyTorch: module, loss, backward, Adam.

Run it: python benchmarks/bench_nn.py
Prints the smallest time of each, both libraries interleaved in one run, and the ratio.

The libraries take turns in blocks of steps, not step by step: after a step the threads of one
library wait actively for a moment, which disturbs the first steps of the other. The first steps of
a block therefore do not count.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

ROUNDS = 12  # blocks of each library
BLOCK_STEPS = 15  # steps of a block that count
WARM_UP_STEPS = 10  # steps before them


def make_step(library: Any, layers: list[Any], x: Any, y: Any, dtype: Any) -> Callable[[], None]:
    net = library.nn.Sequential(*layers).to(dtype)
    optimizer = library.optim.Adam(net.parameters(), lr=1e-3)
    loss_function = library.nn.CrossEntropyLoss()
    inputs, targets = library.asarray(x), library.asarray(y)

    def step() -> None:
        optimizer.zero_grad()
        loss_function(net(inputs), targets).backward()
        optimizer.step()

    return step


def mlp(library: Any, dtype: Any) -> Callable[[], None]:
    nn, rng = library.nn, np.random.default_rng(0)
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    x = rng.normal(size=(64, 64)).astype(np.float32)
    return make_step(library, layers, x, rng.integers(0, 10, 64), dtype)


def cnn(library: Any, dtype: Any) -> Callable[[], None]:
    nn, rng = library.nn, np.random.default_rng(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(128, 10)]
    x = rng.normal(size=(64, 1, 8, 8)).astype(np.float32)
    return make_step(library, layers, x, rng.integers(0, 10, 64), dtype)


def adam(library: Any, dtype: Any) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=1000).astype(np.float32) for _ in range(100)]
    params = [library.asarray(a.copy()).requires_grad_() for a in arrays]
    for param, array in zip(params, arrays, strict=True):
        param.grad = library.asarray(array.copy())
    assert dtype is not None
    return library.optim.Adam(params, foreach=True).step


WORKLOADS = {"mlp_b64": mlp, "cnn_b64": cnn, "adam_100x1000": adam}


def smallest_times(steps: list[Callable[[], None]]) -> list[float]:
    best = [float("inf")] * len(steps)
    for _ in range(ROUNDS):
        for place, step in enumerate(steps):
            for _ in range(WARM_UP_STEPS):
                step()
            for _ in range(BLOCK_STEPS):
                begin = time.perf_counter()
                step()
                best[place] = min(best[place], time.perf_counter() - begin)
    return best


def main() -> None:
    try:
        import torch
    except ImportError:
        torch = None
    print(f"{'workload':16s} {'pullback us':>12s} {'torch us':>10s} {'ratio':>6s}")
    for name, make in WORKLOADS.items():
        steps = [make(pb, np.float32)]
        if torch is not None:
            steps.append(make(torch, torch.float32))
        times = [t * 1e6 for t in smallest_times(steps)]
        ratio = f"{times[0] / times[1]:6.2f}" if torch is not None else "     -"
        other = f"{times[1]:10.0f}" if torch is not None else "         -"
        print(f"{name:16s} {times[0]:12.0f} {other} {ratio}")
    module, x = pb.nn.Linear(2, 2), pb.ones((1, 2))
    bare = pb.nn.functional.linear
    calls = [
        lambda: module(x),
        lambda: bare(x, module._parameters["weight"], module._parameters["bias"]),
    ]
    whole, inner = (min(timeit.repeat(call, number=2000, repeat=7)) / 2000 * 1e6 for call in calls)
    print(f"module call overhead: {whole - inner:.2f} us")


if __name__ == "__main__":
    main()
