"""Overhead, counted: how many functions an operation calls.

Time is noisy, calls are not. The benchmark `chain_small` runs at two lengths: the difference is
what one more operation costs, and what is left is the price of a pass. Lower the budgets when the
numbers fall.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from benchmarks.workloads.elementwise import chain

# Calls for each operation of the chain, on average: Python functions, and functions in C.
FORWARD = {"call": 2.0, "c_call": 3.0}
BACKWARD = {"call": 1.0, "c_call": 0.6}
# Calls of a backward pass beside those of its operations.
PASS = {"call": 10, "c_call": 14}
# Calls of one more row read by indexing, and of one more written to, each with its backward.
READ = {"call": 11, "c_call": 11}
WRITE = {"call": 5, "c_call": 5}
# Python calls of one gradient of sum(sin(x) * x), and of a batch of gradients by vmap; `pb.grad`
# enters and leaves `numpy_mode` by three.
TRANSFORMS = {"grad": 90, "func.grad": 80, "vmap(grad)": 300, "vmap(func.grad)": 300}
MARGIN = 1.05

SHORT, LONG = 5, 25


def calls_of(function: Callable[[], Any]) -> Counter[str]:
    """How many calls a function makes, by kind."""
    counts: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        counts[event] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    counts["call"] -= 1  # the function itself
    counts["c_call"] -= 1  # setprofile
    return counts


def all_counts() -> Iterator[tuple[str, int, Counter[str]]]:
    """Direction, length and calls."""
    for repeats in (SHORT, LONG):
        forward = chain_of(repeats)
        forward().backward()  # linked and cached from here on
        yield "forward", repeats, calls_of(forward)
        yield "backward", repeats, calls_of(forward().backward)
        for name, rows in {"read": read_rows, "write": write_rows}.items():
            rows(repeats)
            yield name, repeats, calls_of(lambda: rows(repeats))  # noqa: B023 - called at once
    for name, call in transforms().items():
        call()
        call()  # the first one imports modules, in which the second looks for NumPy's names
        yield name, 1, calls_of(call)


@pytest.fixture(scope="module")
def counts() -> dict[tuple[str, int], dict[str, int]]:
    """Counted in a fresh interpreter: where threads have recorded, a pass looks at the order."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = subprocess.run(
        [sys.executable, __file__], env=env, capture_output=True, text=True, check=True
    )
    return {(direction, n): calls for direction, n, calls in json.loads(done.stdout)}


def chain_of(repeats: int) -> Callable[[], pb.Tensor]:
    problem = chain(n=8, repeats=repeats)
    x = pb.tensor(problem.params[0], requires_grad=True)
    consts = tuple(map(pb.tensor, problem.consts))

    def forward() -> pb.Tensor:
        x.grad = None
        return problem.fn(pb, (x,), consts)

    return forward


def read_rows(count: int) -> None:
    x = pb.ones((count, 3), requires_grad=True)
    total = pb.zeros(3)
    for i in range(count):
        total = total + x[i]
    total.sum().backward()


def write_rows(count: int) -> None:
    x = pb.ones((count, 3), requires_grad=True) * 2.0
    row = pb.ones(3, requires_grad=True)
    for i in range(count):
        x[i] = row
    x.sum().backward()


def transforms() -> dict[str, Callable[[], Any]]:
    def f(x: Any) -> Any:
        return pb.sum(pb.sin(x) * x)

    array = np.linspace(0.0, 1.0, 5)
    vector, rows = pb.tensor(array), pb.tensor(np.stack([array] * 4))
    grad, tensor_grad = pb.grad(f), pb.func.grad(f)
    mapped, tensor_mapped = pb.func.vmap(grad), pb.func.vmap(tensor_grad)
    return {
        "grad": lambda: grad(array),
        "func.grad": lambda: tensor_grad(vector),
        "vmap(grad)": lambda: mapped(rows),
        "vmap(func.grad)": lambda: tensor_mapped(rows),
    }


def per_operation(counts: Any, direction: str, kind: str) -> float:
    more = counts[direction, LONG][kind] - counts[direction, SHORT][kind]
    return more / (5 * (LONG - SHORT))


@pytest.mark.parametrize("kind", ["call", "c_call"])
@pytest.mark.parametrize(("direction", "budget"), [("forward", FORWARD), ("backward", BACKWARD)])
def test_an_operation_stays_within_its_budget_of_calls(counts, direction, budget, kind):
    assert per_operation(counts, direction, kind) <= budget[kind] * MARGIN


@pytest.mark.parametrize("kind", ["call", "c_call"])
@pytest.mark.parametrize(("name", "budget"), [("read", READ), ("write", WRITE)])
def test_a_row_stays_within_its_budget_of_calls(counts, name, budget, kind):
    more = counts[name, LONG][kind] - counts[name, SHORT][kind]
    assert more / (LONG - SHORT) <= budget[kind] * MARGIN


@pytest.mark.parametrize("kind", ["call", "c_call"])
def test_a_backward_pass_stays_within_its_budget_of_calls(counts, kind):
    operations = 5 * SHORT * per_operation(counts, "backward", kind)
    assert counts["backward", SHORT][kind] - operations <= PASS[kind] * MARGIN


@pytest.mark.parametrize(("name", "budget"), TRANSFORMS.items())
def test_a_gradient_of_a_small_function_stays_within_its_budget_of_calls(counts, name, budget):
    assert counts[name, 1]["call"] <= budget


def test_calls_are_counted():
    def two() -> None:
        one()
        len(())

    def one() -> None:
        pass

    assert calls_of(two)["call"] == 1
    assert calls_of(two)["c_call"] == 1


if __name__ == "__main__":
    print(json.dumps(list(all_counts())))
