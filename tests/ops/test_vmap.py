"""Every operator inside vmap, driven by its record: equal to a loop over the samples."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.autograd.gradcheck.problem import random_like
from pullback.errors import AutogradError
from pullback.func.vmap import vmap
from tests.samples import OPS
from tests.samples.opinfo import Make

from .sample_calls import SampleCall

pytestmark = pytest.mark.filterwarnings("ignore:vmap. pullback")
every_operator = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
differentiable = pytest.mark.parametrize(
    "op", [op for op in OPS if op.differentiable], ids=lambda op: op.name
)
SAMPLES = 3  # of a batch
REFUSED = ("depends on the values of each sample", "asks for the value of one sample")


class Call(SampleCall):
    """A sample of a record, mapped or called once for each element of a batch."""

    def stacked(self, axes):
        return [
            np.stack(batch_of(a), axis) if axis is not None else a
            for a, axis in zip(self.arrays, axes, strict=True)
        ]

    def looped(self, inputs, axes):
        """The results of each sample, by calling once for each; None outside of the domain."""
        try:
            return [
                self(
                    *(
                        x if axis is None else x[(slice(None),) * axis + (i,)]
                        for x, axis in zip(inputs, axes, strict=True)
                    )
                )
                for i in range(SAMPLES)
            ]
        except (ValueError, IndexError, np.linalg.LinAlgError):
            return None

    def mapped(self, inputs, axes):
        """The results of all samples at once; None where that is refused with a good reason."""
        try:
            return vmap(self, axes, randomness="same")(*inputs)
        except AutogradError as error:
            if any(words in str(error) for words in REFUSED):
                return None
            raise


def batch_of(array):
    """Some arrays of the same domain: numbers shrink a little, others change places."""
    if array.dtype.kind in "fc":
        return [array * (1 - 0.02 * i) for i in range(SAMPLES)]
    flat = array.reshape(-1)
    return [np.roll(flat, i).reshape(array.shape) for i in range(SAMPLES)]


def samples_of(op):
    return list(op.samples(Make())) or list(op.samples(Make(is_complex=True)))


def calls(op, limit):
    """Some of an operator's samples, each with ways to map its arrays."""
    samples = samples_of(op)
    for sample in samples[:: max(1, len(samples) // limit)][:limit]:
        call = Call(op, sample)
        for axes in mappings(call.arrays):
            yield call, axes


def mappings(arrays):
    """Over which axes: all arrays of numbers, each array by itself, in front or last, and all."""
    floating = [a.dtype.kind in "fc" for a in arrays]
    found = [tuple(0 if f else None for f in floating)]
    for place, array in enumerate(arrays):
        axis = array.ndim if place % 2 == 0 else 0
        found.append(tuple(axis if i == place else None for i in range(len(arrays))))
    if not all(floating):
        found.append((0,) * len(arrays))
    return [f for f in dict.fromkeys(found) if any(a is not None for a in f)]


@every_operator
def test_vmap_equals_a_loop(op):
    for call, axes in calls(op, 3):
        inputs = [pb.tensor(a) for a in call.stacked(axes)]
        expected = call.looped(inputs, axes)
        found = None if expected is None else call.mapped(inputs, axes)
        if found is None:
            continue
        for column, got in zip(zip(*expected, strict=True), found, strict=True):
            want = np.stack([e.numpy() for e in column])
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9, err_msg=f"{axes}")


def loss_of(results, weights):
    """One number out of some results, for gradients to start from."""
    parts = [
        (r * pb.tensor(w)).real.sum()
        for r, w in zip(results, weights, strict=True)
        if r.dtype.kind in "fc" and r.requires_grad
    ]
    return functools.reduce(operator.add, parts) if parts else None


@differentiable
def test_gradients_of_vmap_equal_those_of_a_loop(op):
    """Also with respect to arrays that all samples share: these are sums over the samples."""
    rng = np.random.default_rng(0)
    for call, axes in calls(op, 1):
        inputs, again = (
            [pb.tensor(a, requires_grad=a.dtype.kind in "fc") for a in call.stacked(axes)]
            for _ in range(2)
        )
        each = call.looped(again, axes)
        found = None if each is None else call.mapped(inputs, axes)
        weights = [random_like(rng, r.detach().numpy()) for r in found or ()]
        loss = loss_of(found or (), weights)
        if loss is None:
            continue
        losses = [loss_of(r, [w[i] for w in weights]) for i, r in enumerate(each)]
        got = gradients(loss, inputs)
        expected = gradients(functools.reduce(operator.add, losses), again)
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(
                g.numpy(), e.numpy(), rtol=1e-7, atol=1e-7, err_msg=f"{axes}"
            )


def gradients(loss, inputs):
    wanted = [x for x in inputs if x.requires_grad]
    return pb.autograd.grad(loss, wanted, materialize_grads=True)


@every_operator
def test_nested_vmap_equals_a_loop_in_a_loop(op):
    """The first array varies with the outer level, the last one with the inner level."""
    call = Call(op, samples_of(op)[0])
    if not call.arrays:
        pytest.skip("nothing to map")
    arrays = [pb.tensor(a) for a in call.arrays]
    last = len(arrays) - 1
    outer, inner = (pb.tensor(np.stack(batch_of(call.arrays[i])[:2])) for i in (0, last))

    def one(x, y):
        given = list(arrays)
        given[0] = x
        given[last] = y if last else x * y if x.dtype.kind in "fc" else x
        return call(*given)

    if not last:
        inner = pb.tensor([1.0, 0.99])
    try:
        expected = [[one(x, y) for y in inner] for x in outer]
    except (ValueError, IndexError, np.linalg.LinAlgError):
        pytest.skip("the change has left the domain")
    try:
        found = vmap(
            lambda x: vmap(lambda y: one(x, y), randomness="same")(inner), randomness="same"
        )(outer)
    except AutogradError as error:
        if not any(words in str(error) for words in REFUSED):
            raise
        return
    for place, got in enumerate(found):
        want = np.stack([[e[place].numpy() for e in row] for row in expected])
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
