"""A function of NumPy arrays, run on tensors: same values, and gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb


def leaves(value: Any) -> list[Any]:
    """The arrays or tensors of a result."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def values(value: Any) -> np.ndarray:
    return value.detach().numpy() if isinstance(value, pb.Tensor) else np.asarray(value)


def weighted(results: list[Any], weights: list[Any]) -> Any:
    """One real number made of all floating-point results."""
    total = 0.0
    for result, weight in zip(results, weights, strict=True):
        if weight is not None:
            total = total + (result * weight).real.sum()
    return total


def check_call(call: Callable[..., Any], *arrays: Any, step: float = 1e-6) -> None:
    """Runs `call` on arrays and on tensors, and compares values, types and gradients."""
    reference = [np.asarray(leaf) for leaf in leaves(call(*(np.array(a) for a in arrays)))]
    tensors = [pb.tensor(a, requires_grad=True) for a in arrays]
    made = leaves(call(*tensors))
    assert len(made) == len(reference)
    random = np.random.default_rng(0)
    weights: list[Any] = []
    for ours, theirs in zip(made, reference, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(values(ours), theirs, rtol=1e-10, atol=1e-12)
        if theirs.dtype.kind not in "fc":
            weights.append(None)
            continue
        assert isinstance(ours, pb.Tensor)
        weight = random.normal(size=theirs.shape)
        weights.append(
            weight + 1j * random.normal(size=theirs.shape) if theirs.dtype.kind == "c" else weight
        )
    total = weighted(made, weights)
    assert isinstance(total, pb.Tensor), "the result has no floating-point part"
    if not total.requires_grad:
        grads: list[Any] = [None] * len(tensors)
    else:
        grads = list(pb.autograd.grad(total, tensors, allow_unused=True))
    for number, array in enumerate(arrays):
        expected = _slopes(call, arrays, number, weights, step)
        got = np.zeros_like(array) if grads[number] is None else values(grads[number])
        np.testing.assert_allclose(
            got, expected, rtol=1e-4, atol=1e-6, err_msg=f"argument {number}"
        )


def _slopes(call: Any, arrays: Any, number: int, weights: Any, step: float) -> np.ndarray:
    """Central differences of the number that `weighted` makes, by NumPy alone."""

    def at(changed: Any) -> float:
        given = [changed if n == number else np.array(a) for n, a in enumerate(arrays)]
        return float(weighted([np.asarray(leaf) for leaf in leaves(call(*given))], weights))

    array = np.array(arrays[number])
    slopes = np.zeros_like(array)
    directions = (1.0, 1j) if array.dtype.kind == "c" else (1.0,)
    for place in np.ndindex(*array.shape):
        for direction in directions:
            up, down = array.copy(), array.copy()
            up[place] += step * direction
            down[place] -= step * direction
            slopes[place] += direction * (at(up) - at(down)) / (2 * step)
    return slopes
