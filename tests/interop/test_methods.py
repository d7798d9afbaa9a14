"""Tensors have ndarray's methods, with ndarray's arguments in ndarray's order."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

from .compare import check_call

A = np.random.default_rng(4).normal(size=(3, 4))
MASK = A.min(axis=0) < A
S = np.array(0.3)

CALLS: dict[str, list[Any]] = {
    "all": [lambda a: a.all(1, keepdims=True) * a, lambda a: a.all(axis=0, where=MASK) * a],
    "any": [lambda a: a.any(1, keepdims=True) * a, lambda a: a.any(axis=0, where=MASK) * a],
    "argmax": [lambda a: a[:, a.argmax(1)], lambda a: a * a.argmax(1, keepdims=True)],
    "argmin": [lambda a: a[:, a.argmin(1)], lambda a: a * a.argmin(1, keepdims=True)],
    "choose": [lambda a: (a > 0).astype(int).choose([a, 2 * a])],
    "clip": [lambda a: a.clip(-0.5, 0.5), lambda a: a.clip(-1, 1, np.zeros_like(a))],
    "compress": [lambda a: a.compress([True, False, True], 0)],
    "cumprod": [lambda a: a.cumprod(0, float), lambda a: a.cumprod(1, None, np.zeros_like(a))],
    "cumsum": [lambda a: a.cumsum(0, np.complex128), lambda a: a.cumsum(1, out=np.zeros_like(a))],
    "dot": [lambda a: a.dot(a.T), lambda a: a.dot(a.T, np.zeros_like(a[:, :3]))],
    "max": [
        lambda a: a.max(1),
        lambda a: a.max(0, None, True),
        lambda a: a.max(1, np.zeros_like(a[:, 0])),
        lambda a: a.max(axis=1, initial=-0.2, where=MASK),
    ],
    "min": [lambda a: a.min(1, keepdims=True), lambda a: a.min(axis=0, initial=0.1, where=MASK)],
    "mean": [
        lambda a: a.mean(1, float, None, True),
        lambda a: a.mean(axis=0, where=MASK),
        lambda a: a.mean(0, None, np.zeros_like(a[0])),
    ],
    "prod": [lambda a: a.prod(1, float), lambda a: a.prod(axis=1, where=MASK, initial=2.0)],
    "round": [lambda a: a * a.round(1), lambda a: a + a.round(0, np.zeros_like(a))],
    "std": [
        lambda a: a.std(1, float, None, 1),
        lambda a: a.std(axis=0, ddof=1, keepdims=True, where=np.ones_like(MASK)),
        lambda a: a.std(0, mean=a.mean(0, keepdims=True)),
    ],
    "sum": [
        lambda a: a.sum(1, np.complex128),
        lambda a: a.sum(0, None, np.zeros_like(a[0])),
        lambda a: a.sum(0, None, None, True),
        lambda a: a.sum(axis=1, where=MASK, initial=3.0),
    ],
    "take": [lambda a: a.take([0, 5]), lambda a: a.take([0, 2], 1, np.zeros_like(a[:, :2]))],
    "trace": [lambda a: a.trace(1), lambda a: a.trace(0, 0, 1, float, np.zeros_like(a[0, 0]))],
    "var": [lambda a: a.var(1, float, None, 1, True), lambda a: a.var(where=MASK)],
}


@pytest.mark.parametrize("name", CALLS)
def test_methods_take_ndarrays_arguments(name: str) -> None:
    for call in CALLS[name]:
        check_call(call, A)


@pytest.mark.parametrize("name", CALLS)
def test_arguments_have_ndarrays_names_and_order(name: str) -> None:
    try:
        theirs = inspect.signature(getattr(np.ndarray, name))
    except ValueError:
        pytest.skip("this NumPy does not tell its methods' signatures")
    skipped = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    named = [p for p in theirs.parameters.values() if p.kind not in skipped]
    ours = list(inspect.signature(getattr(pb.Tensor, name)).parameters)
    assert ours[: len(named)] == [p.name for p in named]


def test_initial_gets_a_gradient() -> None:
    check_call(lambda a, s: a.sum(1, initial=s), A, S)
    check_call(lambda a, s: a.prod(1, initial=s), A, S)
    check_call(lambda a, s: a.max(1, initial=s), A, S)


def test_results_written_to_arrays_lose_no_gradient() -> None:
    x = pb.tensor(A, requires_grad=True)
    array = np.zeros(3)
    for method in (x.sum, x.mean, x.max, x.std, x.prod):
        with pytest.raises(AutogradError, match="plain ndarray"):
            method(axis=1, out=array)
    assert not array.any()
    assert x.detach().sum(axis=1, out=array) is array
    np.testing.assert_allclose(array, A.sum(1))
    with pytest.raises(ValueError, match="out has shape"):
        x.sum(axis=0, out=np.zeros(3, like=x))


def test_a_mask_has_to_be_boolean() -> None:
    with pytest.raises(TypeError, match="bool"):
        pb.tensor(A).sum(where=A)
    with pytest.raises(TypeError, match="bool"):
        np.mean(pb.tensor(A), where=[1.0, 0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="identity"):
        pb.tensor(A).max(where=MASK)
