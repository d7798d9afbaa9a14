"""Tangents computed on demand from the tangent tape: which, how often, from what."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd.linearize.tangent_tape import TangentTape

X, V = np.array([1.0, -2.0, 0.5]), np.array([1.0, 10.0, 100.0])


def expected(f, v=V):
    slope = func.grad(f)
    return func.vjp(slope, pb.tensor(X))[1](pb.tensor(v))[0].numpy()


@pytest.fixture
def computed(monkeypatch):
    """The edges whose tangents have been computed."""
    edges = []
    compute = TangentTape._compute

    def watched(tape, edge):
        source = compute(tape, edge)
        if source is None:
            edges.append(edge)
        return source

    monkeypatch.setattr(TangentTape, "_compute", watched)
    return edges


def test_each_tangent_is_computed_once(computed):
    def f(x):
        y = pb.sin(x)
        z = pb.exp(y)
        return (pb.stack([y, z, y, y * z, x, z]) ** 3).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), expected(f))
    assert len(computed) == len(set(computed)) == 4  # sin, exp, the product and the stack


def test_unneeded_tangents_are_not_computed(computed):
    assert pb.hvp(lambda x: (x * 2 + pb.sin(x)).sum() * 3)(X, V) == pytest.approx(
        -3 * np.sin(X) * V
    )
    assert not computed


def test_chain_longer_than_the_call_stack():
    def f(x):
        for _ in range(2000):
            x = x + 1e-3 * pb.sin(x)
        return pb.exp(x).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), expected(f))


def test_argument_on_both_sides_of_an_operator():
    def f(x):
        y, z = pb.sin(x), pb.cos(x)
        return (pb.exp(pb.exp(y) * pb.exp(z)) / (y + 3)).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), expected(f))


@pytest.mark.parametrize(
    "v", [V[::-1], np.repeat(V, 2)[::2], np.broadcast_to(2.0, 3)], ids=["back", "steps", "one"]
)
def test_vectors_of_any_memory_layout(v):
    for f in (lambda x: (x * x).sum() / 2, lambda x: (pb.exp(x) * x.sum()).sum()):
        found = pb.hvp(f)(X, v)
        np.testing.assert_allclose(found, expected(f, v))
        assert not np.shares_memory(found, v)


def test_hooks_of_values_off_the_path():
    runs, seen = [], []

    def f(x):
        runs.append(1)
        pb.exp(x).register_hook(seen.append)
        return (x * x * x).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), 6 * X * V)
    assert len(runs) == 1
    assert not seen
