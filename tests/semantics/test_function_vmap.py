"""Custom Functions inside vmap: rules 6.25 and 6.26."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import func
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


def test_generated_vmap_rule_maps_forward_and_backward():
    """Rule 6.25."""
    x = pb.tensor(ROWS, requires_grad=True)
    (got,) = grad(vmap(lambda v: Cube.apply(v).sum())(x).sum(), x)
    np.testing.assert_allclose(got.numpy(), 3 * ROWS**2)
    per_sample = vmap(lambda v: grad(Cube.apply(v).sum(), v)[0])(x)
    np.testing.assert_allclose(per_sample.detach().numpy(), 3 * ROWS**2)


def test_vmap_staticmethod_is_used():
    """Rule 6.25."""
    assert vmap(lambda x: Sorted.apply(x, 0))(-ROWS).tolist() == np.sort(-ROWS).tolist()


def test_function_without_vmap_support_raises():
    """Rule 6.25."""

    class Plain(Cube):
        generate_vmap_rule = False

    class Both(Sorted):
        generate_vmap_rule = True

    with pytest.raises(AutogradError, match="Plain, but it does not have vmap support"):
        vmap(Plain.apply)(ROWS)
    with pytest.raises(AutogradError, match="Both, but it has both"):
        vmap(lambda x: Both.apply(x, 0))(ROWS)


def test_results_of_a_given_rule_are_checked():
    """Rule 6.25."""

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


class NumPyCube(Function):
    """Hides both ways from vmap, and says what to do with an axis more."""

    @staticmethod
    def forward(x, w):
        return pb.tensor(x.detach().numpy() ** 3 * w.detach().numpy())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w, g = (t.detach().numpy() for t in (*ctx.saved_tensors, g))
        to_w = x**3 * g
        while to_w.ndim > w.ndim:
            to_w = to_w.sum(0)
        return pb.tensor(3 * x**2 * w * g), pb.tensor(to_w)

    @staticmethod
    def vmap(info, in_dims, x, w):
        (rows,) = (dim for dim in in_dims if dim is not None)
        return NumPyCube.apply(x, w), rows


def cubes(x, w):
    return vmap(NumPyCube.apply, in_dims=(0, None))(x, w)


def test_backward_behind_vmap_rule_may_use_numpy():
    """Rule 6.25."""
    x, w = pb.tensor(ROWS, requires_grad=True), pb.tensor([2.0, 3.0], requires_grad=True)
    to_x, to_w = grad(cubes(x, w).sum(), (x, w))
    np.testing.assert_allclose(to_x.numpy(), 3 * ROWS**2 * w.detach().numpy())
    np.testing.assert_allclose(to_w.numpy(), (ROWS**3).sum(0))
    by_transform = func.grad(lambda x, w: cubes(x, w).sum(), (0, 1))(x.detach(), w.detach())
    np.testing.assert_array_equal(by_transform[0].numpy(), to_x.numpy())
    np.testing.assert_array_equal(by_transform[1].numpy(), to_w.numpy())


def test_a_given_rule_in_two_levels():
    """Rule 6.25."""
    x = pb.tensor(np.stack([ROWS, 2 * ROWS], -1), requires_grad=True)
    w = pb.tensor([2.0, 3.0])
    mapped = vmap(lambda block: cubes(block, w), in_dims=2)
    (got,) = grad(mapped(x).sum(), x)
    np.testing.assert_allclose(got.numpy(), 3 * x.detach().numpy() ** 2 * [[[2.0], [3.0]]])


def test_a_gradient_inside_the_mapped_function():
    """Rule 6.25.

    The backward gets all samples where the rule is, outside of the mapped function.
    """
    x, w = pb.tensor(ROWS, requires_grad=True), pb.tensor([2.0, 3.0], requires_grad=True)
    got = vmap(lambda v: grad(NumPyCube.apply(v, w.detach()).sum(), v)[0])(x)
    np.testing.assert_allclose(got.numpy(), 3 * ROWS**2 * w.detach().numpy())
    with pytest.raises(AutogradError, match="an argument of NumPyCube that all samples share"):
        vmap(lambda v: grad(NumPyCube.apply(v, w).sum(), w)[0])(x)


def test_numpy_in_a_mapped_backward_is_refused_with_the_fix():
    """Rule 6.25."""
    x, w = pb.tensor(ROWS), pb.tensor([2.0, 3.0])
    per_sample = vmap(func.grad(lambda v: NumPyCube.apply(v, w).sum()))
    with pytest.raises(AutogradError, match="let that apply another"):
        per_sample(x)
    with pytest.raises(AutogradError, match="chunk_size=1"):
        func.jacrev(NumPyCube.apply)(x[0], w)
    got = func.jacrev(NumPyCube.apply, chunk_size=1)(x[0], w)
    np.testing.assert_allclose(got.numpy(), np.diag(3 * ROWS[0] ** 2 * [2.0, 3.0]))


def test_a_backward_that_applies_another_function_is_mapped():
    """Rule 6.25."""

    class Slope(NumPyCube):
        @staticmethod
        def forward(x, g):
            return pb.tensor(3 * x.numpy() ** 2 * g.numpy())

        @staticmethod
        def vmap(info, in_dims, x, g):
            return Slope.apply(x, g), 0

    class Curve(NumPyCube):
        @staticmethod
        def forward(x):
            return pb.tensor(x.detach().numpy() ** 3)

        @staticmethod
        def backward(ctx, g):
            return Slope.apply(*ctx.saved_tensors, g)

        @staticmethod
        def vmap(info, in_dims, x):
            return Curve.apply(x), 0

    got = vmap(func.grad(lambda v: Curve.apply(v).sum()))(pb.tensor(ROWS))
    np.testing.assert_allclose(got.numpy(), 3 * ROWS**2)


def test_tangents_pass_a_given_rule():
    """Rule 6.25."""

    class Forward(NumPyCube):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, t, _):
            x, w = (s.numpy() for s in ctx.saved_tensors)
            return pb.tensor(3 * x**2 * w * t.numpy())

        @staticmethod
        def vmap(info, in_dims, x, w):
            return Forward.apply(x, w), 0

    w = pb.tensor([2.0, 3.0])
    mapped = vmap(lambda v: Forward.apply(v, w))
    _, got = func.jvp(mapped, (pb.tensor(ROWS),), (pb.tensor(ROWS),))
    np.testing.assert_allclose(got.numpy(), 3 * ROWS**3 * [2.0, 3.0])


def test_a_given_rule_may_not_write_to_its_arguments():
    """Rule 6.25."""

    class Writes(NumPyCube):
        @staticmethod
        def vmap(info, in_dims, x, w):
            return x.mul_(2), 0

    with pytest.raises(AutogradError, match="vmap rule of Writes writes to its arguments"):
        vmap(Writes.apply, in_dims=(0, None))(pb.tensor(ROWS), pb.tensor([2.0, 3.0]))


def test_old_style_functions_are_refused():
    """Rule 6.26."""

    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            return x

    with pytest.raises(AutogradError, match="must override the setup_context staticmethod"):
        vmap(Old.apply)(ROWS)
