"""Random programs for NumPy that write over values: gradient, and four ways to the Hessian.

Each program is a list of steps on a few arrays that are created in it: whole and partial writes,
in-place operators, views that are kept, reads of elements. The same steps without writes, on new
arrays (`_pure`), give the reference.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import func

LENGTH = 3
START = np.array([0.4, -0.7, 0.9])
Steps = list[tuple[Any, ...]]
WAYS: dict[str, Callable[[Any], Any]] = {
    "pb.hessian": lambda f: pb.hessian(f)(START),
    "forward over reverse": lambda f: func.jacfwd(func.grad(f))(pb.tensor(START)),
    "reverse over reverse": lambda f: func.jacrev(func.grad(f))(pb.tensor(START)),
    "forward over forward": lambda f: func.jacfwd(func.jacfwd(f))(pb.tensor(START)),
    "reverse over forward": lambda f: func.jacrev(func.jacfwd(f))(pb.tensor(START)),
}


def make_steps(seed: int) -> Steps:
    """A random program on three arrays."""
    draw = random.Random(seed)
    steps: Steps = []
    for _ in range(draw.randint(4, 9)):
        kind = draw.choice(["item", "slice", "operator", "whole", "use", "view", "reverse", "loop"])
        a, b = draw.randrange(3), draw.randrange(3)
        i, j = draw.randrange(LENGTH), draw.randrange(LENGTH)
        steps.append((kind, a, b, i, j, draw.choice(["+", "*", "-"]), draw.random()))
    return steps


def run_steps(x: Any, steps: Steps) -> Any:
    """The program as one writes it for NumPy."""
    arrays = [np.zeros(LENGTH), np.array([x[0], x[1], 0.5]), np.copy(x)]
    total = np.sum(np.sin(x))
    for kind, a, b, i, j, sign, factor in steps:
        target, other = arrays[a], arrays[b]
        if kind == "item":
            target[i] = other[j] * x[i] + factor
        elif kind == "slice":
            target[:2] = other[1:] * factor + x[:2]
        elif kind == "operator":
            value = np.cos(other) * factor + x
            if sign == "+":
                target += value
            elif sign == "*":
                target *= value
            else:
                target[1:] -= value[1:]
        elif kind == "whole":
            target[...] = np.tanh(other) + factor
        elif kind == "use":
            total = total + np.sum(target * other * x) + np.sum(np.exp(0.1 * target))
        elif kind == "view":
            part = target[i:]
            total = total + np.sum(part * part)
            part *= factor + x[j]
            total = total + part[0] * target[i]
        elif kind == "reverse":
            part = target[::-1]
            part[0] = part[0] * x[i] + factor
            total = total + np.sum(np.sin(part) * x)
        else:
            for k in range(1, LENGTH):
                target[k] = target[k - 1] * x[k] + np.sin(other[k])
    return total + sum(np.sum(array * array) for array in arrays)


def _replace(array: Any, indices: Any, values: Any) -> Any:
    """An array with other elements at some places, as a new array."""
    parts = [array[k] for k in range(LENGTH)]
    for k, value in zip(indices, values, strict=True):
        parts[k] = value
    return pb.stack(parts)


def run_pure(x: Any, steps: Steps) -> Any:
    """The same numbers without a write."""
    arrays = [pb.zeros(LENGTH) + 0.0 * x, pb.stack([x[0], x[1], x[2] * 0.0 + 0.5]), x * 1.0]
    total = pb.sum(pb.sin(x))
    for kind, a, b, i, j, sign, factor in steps:
        target, other = arrays[a], arrays[b]
        if kind == "item":
            arrays[a] = _replace(target, [i], [other[j] * x[i] + factor])
        elif kind == "slice":
            arrays[a] = _replace(target, [0, 1], other[1:] * factor + x[:2])
        elif kind == "operator":
            value = pb.cos(other) * factor + x
            if sign == "-":
                arrays[a] = _replace(target, [1, 2], target[1:] - value[1:])
            else:
                arrays[a] = target + value if sign == "+" else target * value
        elif kind == "whole":
            arrays[a] = pb.tanh(other) + factor
        elif kind == "use":
            total = total + pb.sum(target * other * x) + pb.sum(pb.exp(0.1 * target))
        elif kind == "view":
            part = target[i:]
            total = total + pb.sum(part * part)
            arrays[a] = _replace(target, range(i, LENGTH), part * (factor + x[j]))
            total = total + arrays[a][i] * arrays[a][i]
        elif kind == "reverse":
            arrays[a] = _replace(target, [2], [target[2] * x[i] + factor])
            total = total + pb.sum(pb.sin(pb.flip(arrays[a], 0)) * x)
        else:
            for k in range(1, LENGTH):
                made = arrays[a][k - 1] * x[k] + pb.sin(arrays[b][k])
                arrays[a] = _replace(arrays[a], [k], [made])
    return total + sum(pb.sum(array * array) for array in arrays)


def check(seed: int) -> None:
    steps = make_steps(seed)

    def pure(x: Any) -> Any:
        return run_pure(x, steps)

    def program(x: Any) -> Any:
        return run_steps(x, steps)

    value, gradient = pb.value_and_grad(program)(START)
    wanted, slope = pb.value_and_grad(pure, mode=False)(START)
    scale = {"rtol": 1e-9, "atol": 1e-9 * max(1.0, float(np.abs(slope).max()))}
    np.testing.assert_allclose(value, program(START), rtol=1e-12)  # NumPy alone
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, **scale)
    hessian = func.jacfwd(func.grad(pure))(pb.tensor(START)).numpy()
    scale["atol"] *= max(1.0, float(np.abs(hessian).max()))
    run = pb.differentiable(program)
    for name, way in WAYS.items():
        found = way(run)
        found = found if isinstance(found, np.ndarray) else found.detach().numpy()
        np.testing.assert_allclose(found, hessian, err_msg=f"{name}, seed {seed}", **scale)


@pytest.mark.parametrize("seed", range(40))
def test_programs_that_write_over_values_have_right_derivatives(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_more_programs_that_write_over_values_have_right_derivatives(seed: int) -> None:
    check(seed)
