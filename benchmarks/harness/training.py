"""A training step of a network, with its update by Adam: eager, compiled, and beside jax.jit."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.harness.measure import Effort, fastest
from benchmarks.harness.report import quantity

__all__ = ["training_line"]

LENGTHS = (64, 128, 64, 10)
BATCH = 64


def training_line(effort: Effort) -> str:
    """The times of one step with 64 rows, on one processor."""
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if processors:  # as ``threads.pin`` does: the clock misses other processors' time
        os.sched_setaffinity(0, {max(processors)})
    try:
        return _measured_line(effort)
    finally:
        if processors:
            os.sched_setaffinity(0, processors)


def _measured_line(effort: Effort) -> str:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, LENGTHS[0])), rng.integers(0, LENGTHS[-1], BATCH)
    runs = {"eager": _ours(x, y, False), "compiled": _ours(x, y, True)}
    if find_spec("jax") is not None:
        runs["jax.jit"] = _jax(x, y)
    losses = {name: [run() for _ in range(5)] for name, run in runs.items()}
    for found in losses.values():
        np.testing.assert_allclose(found, losses["eager"], rtol=1e-8)
    best = fastest(runs, effort.seconds)
    texts = ", ".join(f"{name} {quantity(value, 's')}" for name, value in best.items())
    return (
        f"training step of an MLP with Adam, {BATCH} rows: {texts}; compiled relative to eager "
        f"{best['compiled'] / best['eager']:.2f}"
    )


def _ours(x: Any, y: Any, is_compiled: bool) -> Callable[[], float]:
    import pullback as pb

    layers: list[Any] = []
    for place, array in enumerate(_weights()):
        layer = pb.nn.Linear(array.shape[1], array.shape[0])
        layer.load_state_dict({"weight": pb.asarray(array), "bias": pb.zeros(len(array))})
        layers += [layer, pb.nn.ReLU()] if place < len(LENGTHS) - 2 else [layer]
    net = pb.nn.Sequential(*layers)
    optimizer = pb.optim.Adam(net.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = pb.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = pb.compile(step) if is_compiled else step
    rows, labels = pb.asarray(x), pb.asarray(y)
    return lambda: float(run(rows, labels).item())


def _jax(x: Any, y: Any) -> Callable[[], float]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def loss(params: Any, x: Any, y: Any) -> Any:
        for place, (weight, bias) in enumerate(params):
            x = x @ weight.T + bias
            x = jax.nn.relu(x) if place < len(params) - 1 else x
        return -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(len(y)), y])

    @jax.jit
    def step(state: Any, x: Any, y: Any) -> Any:
        params, means, squares, count = state
        value, grads = jax.value_and_grad(loss)(params, x, y)
        count = count + 1
        tree = jax.tree_util.tree_map
        means = tree(lambda m, g: 0.9 * m + 0.1 * g, means, grads)
        squares = tree(lambda s, g: 0.999 * s + 0.001 * g * g, squares, grads)
        scale, root = 1e-3 / (1 - 0.9**count), jnp.sqrt(1 - 0.999**count)
        params = tree(
            lambda p, m, s: p - scale * m / (jnp.sqrt(s) / root + 1e-8), params, means, squares
        )
        return value, (params, means, squares, count)

    params = [(jnp.asarray(w), jnp.zeros(len(w))) for w in _weights()]
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    held = [(params, zeros, zeros, jnp.zeros(()))]
    rows, labels = jnp.asarray(x), jnp.asarray(y)

    def run() -> float:
        value, held[0] = step(held[0], rows, labels)
        return float(value)

    return run


def _weights() -> list[Any]:
    rng = np.random.default_rng(1)
    pairs = pairwise(LENGTHS)
    return [rng.normal(size=(outputs, inputs)) / inputs**0.5 for inputs, outputs in pairs]
