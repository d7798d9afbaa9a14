"""Custom Functions inside vmap: rules 6.25 and 6.26."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import Function, grad
from pullback.errors import AutogradError
from pullback.func import vmap

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


class Cube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    @staticmethod
    def jvp(ctx, t):
        return t


class Sorted(Function):
    """Uses NumPy, so that vmap needs to be told."""

    @staticmethod
    def forward(x, axis):
        return pb.tensor(np.sort(x.numpy(), axis))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, axis):
        assert info.batch_size == 3
        assert info.randomness == "error"
        assert in_dims == (0, None)
        return Sorted.apply(x, axis if axis < 0 else axis + 1), 0


def test_rule_6_25_generated_rules():
    x = pb.tensor(ROWS, requires_grad=True)
    (got,) = grad(vmap(lambda v: Cube.apply(v).sum())(x).sum(), x)
    np.testing.assert_allclose(got.numpy(), 3 * ROWS**2)
    per_sample = vmap(lambda v: grad(Cube.apply(v).sum(), v)[0])(x)
    np.testing.assert_allclose(per_sample.detach().numpy(), 3 * ROWS**2)


def test_rule_6_25_given_rules():
    assert vmap(lambda x: Sorted.apply(x, 0))(-ROWS).tolist() == np.sort(-ROWS).tolist()


def test_rule_6_25_without_support():
    class Plain(Cube):
        generate_vmap_rule = False

    class Both(Sorted):
        generate_vmap_rule = True

    with pytest.raises(AutogradError, match="Plain, but it does not have vmap support"):
        vmap(Plain.apply)(ROWS)
    with pytest.raises(AutogradError, match="Both has both"):
        vmap(lambda x: Both.apply(x, 0))(ROWS)


def test_rule_6_25_results_of_a_given_rule_are_checked():
    class One(Sorted):
        @staticmethod
        def vmap(info, in_dims, x, axis):
            return x

    class Many(Sorted):
        @staticmethod
        def vmap(info, in_dims, x, axis):
            return x, (0, 0)

    with pytest.raises(AutogradError, match="two returns"):
        vmap(lambda x: One.apply(x, 0))(ROWS)
    with pytest.raises(AutogradError, match="incompatible"):
        vmap(lambda x: Many.apply(x, 0))(ROWS)


def test_rule_6_26_old_style_functions_are_refused():
    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            return x

    with pytest.raises(AutogradError, match="must override the setup_context staticmethod"):
        vmap(Old.apply)(ROWS)
