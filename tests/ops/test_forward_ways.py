"""Tangents on raw arrays, and by operators that could be differentiated, are the same tangents.

What nobody records takes the short way; a tangent that requires grad takes the general one.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.autograd.forward import jvp_rule
from pullback.func import jvp, vmap
from tests.samples import OPS
from tests.samples.opinfo import Make

pytestmark = pytest.mark.filterwarnings("ignore:vmap. pullback", "ignore::RuntimeWarning")
SAMPLES = 3  # of a batch


def is_differentiated(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


class Program:
    """A sample of a record as a function of its differentiated arrays, and what follows it."""

    def __init__(self, op, sample):
        public = operator.attrgetter(op.name)(pb)
        self.function = public if op.through is None else op.through(public)
        self.args, self.kwargs, self.arrays = sample.args, sample.kwargs, []
        self.tree([*self.args, *self.kwargs.values()], self.arrays.append)

    def tree(self, value, replace):
        if is_differentiated(value):
            return replace(value)
        if isinstance(value, list | tuple):
            return type(value)([self.tree(item, replace) for item in value])
        return value

    def __call__(self, *inputs):
        left = iter(inputs)
        args = self.tree(self.args, lambda _: next(left))
        named = {name: self.tree(v, lambda _: next(left)) for name, v in self.kwargs.items()}
        found = self.function(*args, **named)
        results = found if isinstance(found, tuple | list) else [found]
        return tuple(written(r) for r in results if r.dtype.kind in "fc")


def written(result):
    """A result after writes through views of it, which its tangent has to follow."""
    whole = result * 2
    if whole.ndim:
        whole.reshape((-1,))[:1] *= 3.0
        whole[..., :1].add_(whole[..., -1:].clone())
    return whole


def tangents(program, batch, rng):
    for array in program.arrays:
        made = rng.normal(size=(*batch, *array.shape))
        if array.dtype.kind == "c":
            made = made + 1j * rng.normal(size=made.shape)
        yield np.asarray(made, array.dtype)


def programs(op):
    """Some of an operator's samples, real and complex."""
    for is_complex, limit in ((False, 2), (True, 1 if op.has_complex else 0)):
        samples = list(op.samples(Make(is_complex=is_complex))) if limit else []
        for sample in samples[:: max(1, len(samples) // max(1, limit))][:limit]:
            yield Program(op, sample)


@pytest.mark.parametrize("op", [op for op in OPS if op.differentiable], ids=lambda op: op.name)
def test_the_short_way_and_the_general_way_agree(op, monkeypatch):
    rng = np.random.default_rng(1)
    for program in programs(op):
        for batch in ((), (SAMPLES,)) if program.arrays else ():
            parts = list(tangents(program, batch, rng))
            short, general = (pushed(program, parts, batch, record) for record in (False, True))
            for one, other in zip(short, general, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            with monkeypatch.context() as patch:
                patch.setattr(jvp_rule, "MIN_THREADED_SIZE", 1)  # threads for every size
                shared = pushed(program, parts, batch, False)
            for one, other in zip(short, shared, strict=True):
                assert type(other) is np.ndarray
                np.testing.assert_array_equal(one, other)


def pushed(program, parts, batch, recorded):
    primals = tuple(map(pb.tensor, program.arrays))
    given = [pb.tensor(part, requires_grad=recorded) for part in parts]

    def push(*directions):
        return jvp(program, primals, directions)[1]

    found = vmap(push, randomness="same")(*given) if batch else push(*given)
    return [tangent.detach().numpy() for tangent in found]
