"""Random programs of views, rows and writes: right to second order, or refused.

PyTorch refuses to write to one of several views that one call has made, so what it says no to is
checked against finite differences.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

PROGRAMS = 250
SHAPE = (2, 3)


def run(lib, seed, arrays, finish):
    """Runs the program of a seed on two leaves; `finish` gets its value and the leaves."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    leaves = [lib.tensor(array, requires_grad=True) for array in arrays]
    pool = [leaf * 1 for leaf in leaves] + [lib.tensor(rng.uniform(0.5, 1.5, SHAPE))]
    for _ in range(choose.randrange(3, 12)):
        step(lib, choose, pool)
    total = lib.tensor(0.0)
    for tensor in pool:
        weight = lib.tensor(rng.uniform(0.5, 1.5, tuple(tensor.shape)))
        total = total + (tensor * tensor * weight).sum()
    return finish(total, leaves)


def step(lib, choose, pool):
    """One random step: an operation, a view, rows, or a write."""
    x = choose.choice(pool)
    other = choose.choice([t for t in pool if t.shape == x.shape])
    kind = choose.randrange(8)
    has_rows = len(x.shape) > 0 and x.shape[0] > 1
    part = choose.choice([slice(0, 1), slice(1, None), slice(None, None, 2), 0, 1])
    if kind == 0:
        pool.append(getattr(lib, choose.choice(["sin", "exp", "tanh"]))(x))
    elif kind == 1:
        pool.append(x * other)
    elif kind == 2 and x.shape in ((6,), SHAPE, SHAPE[::-1]):
        pool.append(x.reshape(*choose.choice([(6,), (3, 2), (2, 3)])))
    elif kind == 3 and len(x.shape) == 2:
        pool.append(x.T)
    elif kind == 4 and has_rows:
        pool.append(x[part])
    elif kind == 5 and has_rows:
        pool.extend(x.unbind())
    elif kind == 6 and has_rows:
        x[part] = other[part] * 1.5
    elif choose.random() < 0.5:
        getattr(x, choose.choice(["mul_", "add_"]))(other)
    else:
        getattr(x, choose.choice(["sin_", "exp_", "tanh_"]))()


def start(seed):
    rng = np.random.default_rng(seed + 10_000)
    return [rng.uniform(0.5, 1.0, SHAPE) for _ in range(2)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradients_are_slopes(pb):
    def finish(total, leaves):
        grads = pb.grad(total, leaves, materialize_grads=True)
        return total.item(), [g.numpy() for g in grads]

    checked = 0
    for seed in range(PROGRAMS):
        arrays = start(seed)
        try:
            value, grads = run(pb, seed, arrays, finish)
        except RuntimeError:
            continue
        if not abs(value) < 1e5:
            continue
        rng = np.random.default_rng(seed)
        along = [rng.normal(size=SHAPE) for _ in arrays]
        ends = [
            run(
                pb,
                seed,
                [a + eps * u for a, u in zip(arrays, along, strict=True)],
                lambda total, _: total.item(),
            )
            for eps in (1e-6, -1e-6)
        ]
        slope = (ends[0] - ends[1]) / 2e-6
        expected = sum((g * u).sum() for g, u in zip(grads, along, strict=True))
        tolerance = 1e-4 * max(1.0, abs(value))
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=tolerance, err_msg=f"{seed}")
        checked += 1
    assert checked > PROGRAMS // 3


def second_order(lib):
    def finish(total, leaves):
        grads = lib.grad(total, leaves, create_graph=True, materialize_grads=True)
        norm = sum((g * g).sum() for g in grads)
        again = lib.grad(norm, leaves, materialize_grads=True) if norm.requires_grad else []
        return [total.tolist(), *(g.tolist() for g in (*grads, *again))]

    return finish


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_second_derivatives_agree_with_torch(pb, torch):
    lib = type(pb)(torch)
    compared = 0
    for seed in range(PROGRAMS):
        arrays = start(seed)
        try:
            theirs = run(lib, seed, arrays, second_order(lib))
        except RuntimeError:
            continue
        ours = run(pb, seed, arrays, second_order(pb))  # what PyTorch allows, we allow
        assert len(ours) == len(theirs)
        for got, want in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8, err_msg=f"{seed}")
        compared += 1
    assert compared > PROGRAMS // 4
