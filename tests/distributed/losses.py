"""Functions that workers import by name, and the data of their tests."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb


def make_rows(count: int, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Partitions of different sizes, whose sums depend on the order in the last bits."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(int(rng.integers(1, 40)), 4)) * 10.0 ** rng.integers(-6, 6)
        for _ in range(count)
    ]


PARAMS = {"w": np.array([0.3, -0.2, 0.5, 0.1]), "b": 0.25}


def loss(params: Any, rows: Any) -> Any:
    """A smooth function of a tree of parameters and a block of rows."""
    return np.sum((np.tanh(rows @ params["w"]) - params["b"]) ** 2 * np.abs(rows[:, 0]))


def product(p: Any, x: Any) -> Any:
    """A number times a sum."""
    return p * x.sum()


def residuals(params: Any, rows: Any) -> Any:
    """As many numbers as there are rows."""
    return np.tanh(rows @ params["w"]) - params["b"]


def loss_with_aux(params: Any, rows: Any) -> Any:
    """The loss and the number of rows."""
    return loss(params, rows), len(rows)


def slow_loss(params: Any, rows: Any) -> Any:
    """A loss that takes a while, so that a worker can be killed in it."""
    time.sleep(0.05)
    return loss(params, rows)


def failing_loss(params: Any, rows: Any) -> Any:
    """Raises for the partition of 7 rows."""
    if len(rows) == 7:
        raise KeyError("seven rows")
    return loss(params, rows)


def loss_of_file(params: Any, path: str) -> Any:
    """The loss of a file of rows."""
    return loss(params, np.load(path))


def deadly_loss(params: Any, job: tuple[Any, str]) -> Any:
    """Ends its process, the first time that it sees the partition with a path."""
    rows, path = job
    if path and not Path(path).exists():
        Path(path).touch()
        os._exit(1)
    return loss(params, rows)


def cube(x: Any) -> Any:
    """A custom operator that workers find by this module's name."""
    return _cube(x)


@pb.library.custom_op("distributed_tests::cube", mutates_args=())
def _cube(x: pb.Tensor) -> pb.Tensor:
    return pb.asarray(x.numpy() ** 3)


_cube.register_autograd(
    lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def cube_loss(params: Any, rows: Any) -> Any:
    """A loss that calls the custom operator."""
    return cube(pb.asarray(rows @ params["w"])).sum() * params["b"]


@pb.compile(backend="eager")
def compiled_product(p: Any, x: Any) -> Any:
    """A compiled function that a module holds."""
    return p * x.sum()
