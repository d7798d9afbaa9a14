"""Forward mode through a `Function`: its jvp."""

from __future__ import annotations

import pytest

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def push(lib, jvp, forward=lambda ctx, x: x * 2, **members):
    """The tangents of the results of a Function at [1, 2] along [1, 10]."""
    namespace = {"forward": staticmethod(forward), **members}
    if jvp is not None:
        namespace["jvp"] = staticmethod(jvp)
    made = type("Made", (lib.Function,), namespace)
    with lib.autograd.forward_ad.dual_level():
        x = lib.autograd.forward_ad.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0]))
        results = made.apply(x)
        unpacked = [
            lib.autograd.forward_ad.unpack_dual(out).tangent
            for out in (results if isinstance(results, tuple) else (results,))
        ]
        return [None if t is None else t.tolist() for t in unpacked]


def test_jvp_gets_tangents_and_saved_tensors(lib):
    """Rule 6.23."""
    seen = []

    class Product(lib.Function):
        @staticmethod
        def forward(ctx, x, y, k):
            ctx.save_for_forward(x, y)
            return x * y, "text", lib.cast(x, "int64")

        @staticmethod
        def jvp(ctx, *tangents):
            seen.append([None if t is None else t.tolist() for t in tangents])
            x, y = ctx.saved_tensors
            return tangents[0] * y + tangents[1] * x, None, None

    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0]))
        product, text, _ = Product.apply(x, lib.tensor([3.0, 4.0]), 7)
        assert forward_ad.unpack_dual(product).tangent.tolist() == [3.0, 40.0]
    assert text == "text"
    assert seen == [[[1.0, 10.0], [0.0, 0.0], None]]


def test_missing_tangents_are_zeros_or_none(lib):
    """Rule 6.23."""
    seen = []

    class First(lib.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x * 1

        @staticmethod
        def jvp(ctx, first, second):
            seen.append(second)
            return first

    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(lib.tensor([1.0]), lib.tensor([5.0]))
        First.apply(x, lib.tensor([1.0]))
    assert seen == [None]


def test_wrong_jvp_results_are_refused(lib):
    """Rule 6.23."""
    with lib.raises("implement the jvp function", NotImplementedError):
        push(lib, None)
    with lib.raises("invalid number of forward gradients"):
        push(lib, lambda ctx, t: (t, t))
    with pytest.raises(RuntimeError):
        push(lib, lambda ctx, t: t.sum())
    with lib.raises("expected Variable or None"):
        push(lib, lambda ctx, t: 5)
    assert push(lib, lambda ctx, t: (t * 2,)) == [[2.0, 20.0]]


def test_jvp_none_means_zero(pb):
    """Rule 6.23. PyTorch trips over None; it means zero."""
    assert push(pb, lambda ctx, t: None) == [[0.0, 0.0]]


def dirty(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def test_jvp_of_dirty_and_view_outputs_is_checked(lib):
    """Rule 6.24."""
    with lib.raises("not modifying the forward mode gradients inplace"):
        push(lib, lambda ctx, t: t * 2, dirty)
    assert push(lib, lambda ctx, t: t.mul_(2), dirty) == [[2.0, 20.0]]
    key = "returning a view ... but the jvp is not"
    with lib.raises(key):
        push(lib, lambda ctx, t: t[:1].clone(), lambda ctx, x: x[:1])
    assert push(lib, lambda ctx, t: t[:1], lambda ctx, x: x[:1]) == [[1.0]]
    with lib.raises(key):
        push(lib, lambda ctx, t: t, lambda ctx, x: x)
    assert push(lib, lambda ctx, t: t[...], lambda ctx, x: x) == [[1.0, 10.0]]


def test_a_tangent_for_a_constant_result(lib):
    def forward(ctx, x):
        y = x * 1
        ctx.mark_non_differentiable(y)
        return y, x * 2

    assert push(lib, lambda ctx, t: (None, t * 2), forward) == [None, [2.0, 20.0]]
    with lib.raises("not ... differentiable"):
        push(lib, lambda ctx, t: (t, t * 2), forward)


def test_reverse_over_forward(lib):
    """A jvp runs in grad mode, so that tangents can be differentiated."""

    class Cube(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * tangent

    forward_ad = lib.autograd.forward_ad
    x = lib.leaf(1.0, 2.0)
    with forward_ad.dual_level():
        y = Cube.apply(forward_ad.make_dual(x, lib.tensor([1.0, 0.0])))
        tangent = forward_ad.unpack_dual(y).tangent
        assert tangent.tolist() == [3.0, 0.0]
        assert lib.grad(tangent.sum(), x)[0].tolist() == [6.0, 0.0]


def test_tangents_of_views_end_with_their_level(lib):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0]))
        v = x[1:]
        assert forward_ad.unpack_dual(v).tangent.tolist() == [10.0]
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(v).tangent is None


def test_tangents_do_not_pass_inference_mode(lib):
    """Rule 2.36."""
    forward_ad = lib.autograd.forward_ad
    with lib.inference_mode(), forward_ad.dual_level():
        x = forward_ad.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0]))
        assert forward_ad.unpack_dual(x * x).tangent is None


def test_tangent_of_base_follows_dirty_view(lib):
    """Rule 6.24."""

    class Scale(lib.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.mark_dirty(x)
            return x.mul_(factor)

        @staticmethod
        def jvp(ctx, x_t, factor_t):
            return x_t.add_(factor_t)

    fwd = lib.autograd.forward_ad
    with fwd.dual_level():
        base = lib.tensor([1.0, 2.0, 3.0])
        earlier = base[:2]
        Scale.apply(base[:1], fwd.make_dual(lib.tensor([5.0]), lib.tensor([7.0])))
        assert base.tolist() == [5.0, 2.0, 3.0]
        assert fwd.unpack_dual(base).tangent.tolist() == [7.0, 0.0, 0.0]
        assert fwd.unpack_dual(earlier * 2).tangent.tolist() == [14.0, 0.0]


VIEWS_THAT_ARE_NOT = {
    "a copy": (lambda lib, t: t[:1].clone(), "is not returning a view|the jvp is not"),
    "arithmetic": (lambda lib, t: t[:1] * 1, "is not returning a view|the jvp is not"),
    "a view of something else": (lambda lib, t: lib.tensor([1.0, 2.0])[:1], "a view of the given"),
    "a view of another part": (lambda lib, t: t[1:], "another part|same layout"),
}


@pytest.mark.parametrize("name", VIEWS_THAT_ARE_NOT)
def test_the_tangent_of_a_view_is_the_same_view_of_the_tangent(lib, name):
    wrong, words = VIEWS_THAT_ARE_NOT[name]
    assert push(lib, lambda ctx, t: t[:1], forward=lambda ctx, x: x[:1]) == [[1.0]]
    with pytest.raises(RuntimeError, match=words):
        push(lib, lambda ctx, t: wrong(lib, t), forward=lambda ctx, x: x[:1])


def test_the_tangent_of_one_of_two_views_is_another_part(lib):
    def forward(ctx, x):
        return x[:1], x[1:]

    assert push(lib, lambda ctx, t: (t[:1], t[1:]), forward=forward) == [[1.0], [10.0]]
    with pytest.raises(RuntimeError, match=r"another part|same layout"):
        push(lib, lambda ctx, t: (t[1:], t[:1]), forward=forward)


@pytest.mark.parametrize("part", [slice(None, None, 2), slice(1, None)])
def test_the_tangent_of_a_view_of_a_view(pb, part):
    class Part(pb.Function):
        @staticmethod
        def forward(x):
            return x[part]

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, t):
            return t[part]

    def f(x):
        whole = x.reshape(2, 3).T  # runs along the other axis
        return Part.apply(whole * 2), Part.apply(whole)

    x = pb.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    _, (twice, once) = pb.func.jvp(f, (x,), (x,))
    assert (twice / 2).tolist() == once.tolist() == x.reshape(2, 3).T[part].tolist()
    assert pb.func.jacfwd(lambda x: f(x)[1])(x).sum().item() == once.size
