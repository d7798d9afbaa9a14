"""The checker of samples finds planted mistakes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pullback as pb
from tests.scipy.sample import Sample, check

X = np.array([0.3, 0.7, 1.1])


def planted(value, slope):
    """x -> value(x), with a backward and a JVP rule that multiply by slope(x)."""

    class Planted(pb.autograd.Function):
        @staticmethod
        def forward(x):
            return pb.asarray(value(x.numpy()))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * slope(ctx.saved_tensors[0])

        @staticmethod
        def jvp(ctx, t):
            return t * slope(ctx.saved_tensors[0])

        @staticmethod
        def vmap(info, in_dims, x):
            return Planted.apply(x), in_dims[0]

    return lambda x: Planted.apply(x) if isinstance(x, pb.Tensor) else value(x)


def test_a_right_rule_passes():
    check("sin", Sample(planted(np.sin, pb.cos), X))


@pytest.mark.parametrize(
    ("slope", "what"),
    [
        (lambda x: pb.cos(x) + 1e-4, "forward mode"),
        (lambda x: pb.cos(x.detach()), "reverse over reverse|Hessian product"),
    ],
)
def test_a_wrong_derivative_is_found(slope, what):
    with pytest.raises(AssertionError, match=re.compile(what)):
        check("sin", Sample(planted(np.sin, slope), X))


def test_a_wrong_value_is_found():
    def call(x):
        return pb.sin(x) * 1.001 if isinstance(x, pb.Tensor) else np.sin(x)

    with pytest.raises(AssertionError, match="value"):
        check("sin", Sample(call, X))


def test_a_lost_gradient_is_found():
    with pytest.raises(AssertionError, match="no output carries a gradient"):
        check("sin", Sample(lambda x: pb.sin(pb.asarray(x).detach()).numpy(), X))
