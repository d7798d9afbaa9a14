"""Lowered programs, computed by the interpreter, have the results of the functions."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from tests.samples import OPS
from tests.samples.opinfo import Make
from tests.unit.compiled.lowering import eager_results, lowered_results
from tests.unit.compiled.test_every_operator import _arrays, _run

rng = np.random.default_rng(0)


def _check(function, *args, opaque=False):
    expected = eager_results(function, *args)
    found, _, graph = lowered_results(function, *args)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.asarray(ours).dtype == theirs.dtype
        assert np.shape(ours) == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    if not opaque:
        assert not [node for node in graph.live() if node.op == "opaque"]


def _check_operator(op, make, most):
    samples = [s for s in op.samples(make) if _arrays([*s.args, *s.kwargs.values()])]
    for sample in samples[:: max(1, len(samples) // most)]:
        run = _run(op, sample, op.differentiable)
        arrays = _arrays([*sample.args, *sample.kwargs.values()])
        _check(lambda *given, run=run: run(list(given)), *arrays, opaque=True)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.filterwarnings("ignore")
def test_an_operator_s_lowering_computes_what_its_kernel_computes(op):
    _check_operator(op, Make(), 1)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.filterwarnings("ignore")
def test_an_operator_s_lowering_on_all_samples(op):
    _check_operator(op, Make(), 1000)
    if op.has_complex and op.differentiable:
        _check_operator(op, Make(is_complex=True), 1000)


def test_writes_through_views():
    def f(x, w):
        y = pb.zeros((3, 4))
        row = y[1]
        y[1:, ::2] = x[1:, ::2]
        row += w
        y.T[0] *= 3.0
        pb.add(x, 1.0, out=y[:, :])
        y[0] = w
        return y, row, y.sum()

    _check(f, rng.normal(size=(3, 4)), rng.normal(size=4))


def test_a_write_to_an_argument_is_a_result():
    def f(x):
        x[1:] *= 2.0
        return x.sum()

    x = rng.normal(size=5)
    _, writes, _ = lowered_results(f, x)
    np.testing.assert_array_equal(writes[0], np.concatenate([x[:1], 2 * x[1:]]))


@pytest.mark.parametrize("order", ["F", "reversed", "sliced", "broadcast"])
def test_arguments_in_other_layouts(order):
    x = {
        "F": np.asfortranarray(rng.normal(size=(3, 4))),
        "reversed": rng.normal(size=(3, 4))[::-1, ::-1],
        "sliced": rng.normal(size=(6, 8))[::2, ::2],
        "broadcast": np.broadcast_to(rng.normal(size=4), (3, 4)),
    }[order]
    _check(lambda x: (x * 2, x.T[1], x[::-1, 1:].reshape(-1), pb.tanh(x).T[2:]), x)


def test_gradients_with_views_writes_and_second_derivatives():
    def f(x):
        y = pb.stack([x[0] * x[1], pb.sin(x[1:]).sum()])
        z = pb.zeros(4)
        z[1:3] = y
        return (z**2).sum() + x[::2].max()

    x = rng.normal(size=5)
    _check(pb.func.grad(f), x)
    _check(pb.func.hessian(lambda x: (pb.sin(x[1:]) * x[:-1]).sum() + x[::2].max()), x)


def test_operators_inside_vmap():
    def f(a, b):
        return pb.tanh(a @ b).sum() + (a[:, 1:] * b[1:]).max() + a.T.reshape(-1)[2:].mean()

    a, b = rng.normal(size=(5, 3, 4)), rng.normal(size=4)
    _check(pb.func.vmap(f, in_dims=(0, None)), a, b)
    _check(
        pb.func.vmap(pb.func.vmap(f, in_dims=(0, None)), in_dims=(None, 0)),
        a,
        rng.normal(size=(2, 4)),
    )


def test_numbers_keep_the_dtype_of_arrays():
    x = rng.normal(size=3).astype(np.float32)
    _check(lambda x, t, n: (x * t, x + n, x * (t + 2 * t), pb.arange(3) + n, t * 2), x, 1.5, 2)


def test_indices_count_from_the_end_and_are_checked():
    x = rng.normal(size=(4, 5))

    def f(x, i):
        return x[i], x[:, i], x[i, i], pb.take_along_axis(x, i.reshape(-1, 1), 1)

    _check(f, x, np.array([-1, 0, 2, -4]))


@pytest.mark.filterwarnings("ignore")
def test_the_sign_of_zero_and_values_that_are_no_numbers():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    for f in (
        lambda x: x + 0.0,
        lambda x: 0.0 * x,
        lambda x: x - x,
        lambda x: pb.negative(-x) * 1.0,
    ):
        expected, (found,) = eager_results(f, x)[0], lowered_results(f, x)[0]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))


def test_logsumexp_of_infinite_rows():
    x = np.array([[np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 0.0], [-np.inf, 2.0]])
    with np.errstate(all="ignore"):
        _check(lambda x: pb.logsumexp(x, 1), x)


def test_a_value_that_is_read_is_a_check():
    def f(x):
        return x * 2 if x.sum() > 0 else x

    _, _, graph = lowered_results(f, np.ones(3))
    assert len(graph.checks) == 1
