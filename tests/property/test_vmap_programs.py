"""Random programs of operators, views and writes: vmap gives what a loop gives, or the same error.

Values, gradients with respect to samples and to a tensor that all share, second derivatives, and
per-sample gradients.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.autograd import grad
from pullback.errors import AutogradError
from pullback.func import vmap

SAMPLES = 3


def _write_to_view(t, u):
    t[1:].mul_(u[:2])


def _write_row(t, u):
    t[0] = u[1] * 2


def _write_columns(t, u):
    t[:, 1:3] = u[:, :2]


def _add_into(t, u):
    t += u * 0.3


def _copy_row(t, u):
    t[0].copy_(u[2])


def _buffer(t, u):
    made = pb.zeros((3, 4))
    row = made[1]
    made[0] = t[1]
    row += u[0]
    return made


STEPS = [
    lambda t, u: t * u,
    lambda t, u: t + 0.5 * u,
    lambda t, _: pb.sin(t),
    lambda t, _: t.T.reshape(4, 3).T,
    lambda t, _: t[::-1],
    lambda t, u: t - u.sum(0),
    lambda t, u: pb.where(t > u, t, u * 0.1),
    lambda t, u: t @ (u.T @ t) * 0.1,
    lambda t, _: t[[2, 0, 0]],
    lambda t, u: t + pb.broadcast_to(u[0], (3, 4)),
    lambda t, u: t * u.detach(),
    lambda t, _: pb.cumsum(t, 1) * 0.3,
    lambda t, u: pb.stack([t[0], u[1], t[2]]),
    _buffer,
    _write_to_view,
    _write_row,
    _write_columns,
    _add_into,
    _copy_row,
]
program = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=9
)


def run(steps, x, w):
    pool = [x * 1, w * 1]
    for step, first, second in steps:
        made = step(pool[first % len(pool)], pool[second % len(pool)])
        if made is not None:
            pool.append(made)
    return pool[-1] + 0.3 * pool[-2] + 0.1 * (pool[0] + pool[1])


def derivatives(results, weights, x, w):
    """First and second derivatives of a weighted sum."""
    first = grad((results * weights).sum(), [x, w], create_graph=True, materialize_grads=True)
    loss = (first[0] ** 2).sum() + (first[1] ** 2).sum()
    second = grad(loss, [x, w], materialize_grads=True) if loss.requires_grad else ()
    return [t.detach().numpy() for t in (results, *first, *second)]


def outcome(function):
    try:
        return function()
    except AutogradError as error:
        return type(error)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(program, st.integers(0, 1000))
def test_vmap_equals_a_loop(steps, seed):
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=(SAMPLES, 3, 4)), rng.normal(size=(3, 4))
    weights = pb.tensor(rng.normal(size=(SAMPLES, 3, 4)))

    def looped():
        x, w = (pb.tensor(a, requires_grad=True) for a in arrays)
        return derivatives(pb.stack([run(steps, row, w) for row in x]), weights, x, w)

    def mapped():
        x, w = (pb.tensor(a, requires_grad=True) for a in arrays)
        return derivatives(vmap(lambda row: run(steps, row, w))(x), weights, x, w)

    expected, found = outcome(looped), outcome(mapped)
    if isinstance(expected, type):
        assert found is expected
        return
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)

    x, w = (pb.tensor(a, requires_grad=True) for a in arrays)
    each = vmap(lambda row, v: grad((run(steps, row, w) * v).sum(), w)[0])(x, weights)
    for place in range(SAMPLES):
        (want,) = grad((run(steps, x[place], w) * weights[place]).sum(), w)
        np.testing.assert_allclose(each[place].detach().numpy(), want.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("step", STEPS[-5:])
def test_writes_into_what_the_samples_share_are_refused(step):
    w = pb.ones((3, 4))
    with pytest.raises(AutogradError, match="captured"):
        vmap(lambda x: step(w, x))(pb.ones((2, 3, 4)))
