"""Inputs that a `Function` changes or hands through, and outputs that come twice."""

from __future__ import annotations

import pytest


def dirty(lib, returned=lambda x: x, factor=2):
    class Doubles(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(factor)
            return returned(x)

        @staticmethod
        def backward(ctx, grad, *_):
            return grad * factor

    return Doubles.apply


def test_dirty_input_is_returned_as_same_object(lib):
    """Rule 6.13."""
    w = lib.leaf(1.0, 2.0)
    a = w * 1
    old = a.grad_fn
    y = dirty(lib)(a)
    assert y is a
    assert a._version == 2
    assert a.grad_fn.name() == "DoublesBackward"
    assert a.grad_fn.next_functions[0][0] is old
    a.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_wrong_dirty_inputs_are_refused(lib):
    """Rule 6.13."""
    with lib.raises("leaf Variable that requires grad has been used in an in-place operation"):
        dirty(lib)(lib.leaf(1.0, 2.0))
    with lib.raises("marked as dirty ... not returned as output"):
        dirty(lib, returned=lambda x: x * 1)(lib.leaf(1.0, 2.0) * 1)


def test_dirty_non_input_warns(lib):
    """Rule 6.13."""

    class Wrong(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = lib.leaf(1.0)
    with pytest.warns(UserWarning, match="mark_dirty"):
        Wrong.apply(x).backward()
    assert x.grad.item() == 2.0


def test_dirty_view_rewrites_base(lib):
    """Rule 6.13."""
    w = lib.leaf(1.0, 2.0)
    a = w * 1
    v = a[:1]
    assert dirty(lib)(v) is v
    a.sum().backward()
    assert w.grad.tolist() == [2.0, 1.0]
    v = (w * 1)[:1]
    with lib.raises("cannot return more than one Tensor"):
        dirty(lib, returned=lambda x: (x, x * 1))(v)


def test_dirty_view_may_be_later_argument(pb):
    """Rule 6.13. PyTorch takes the gradient of the first argument for that of the view."""

    class Scales(pb.Function):
        @staticmethod
        def forward(ctx, scale, x):
            ctx.mark_dirty(x)
            ctx.save_for_backward(scale, x.clone())
            return x.mul_(scale)

        @staticmethod
        def backward(ctx, grad):
            scale, x = ctx.saved_tensors
            return (grad * x).sum(), grad * scale

    w, scale = pb.leaf(1.0, 2.0, 3.0), pb.leaf(10.0)
    a = w * 1
    Scales.apply(scale, a[:2])
    (a * pb.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert w.grad.tolist() == [10.0, 100.0, 100.0]
    assert scale.grad.item() == 21.0


def test_dirty_input_without_recording_counts_write(lib):
    """Rule 6.13."""
    a = lib.tensor([1.0, 2.0])
    assert dirty(lib)(a) is a
    assert (a.tolist(), a._version, a.grad_fn) == ([2.0, 4.0], 2, None)


def test_dirty_input_among_other_results(lib):
    """Rule 6.13."""

    class Both(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            before = x * 1
            return before, x.mul_(2)

        @staticmethod
        def backward(ctx, first, second):
            return first * 10 + second * 2

    w = lib.leaf(1.0, 2.0)
    a = w * 1
    before, after = Both.apply(a)
    assert after is a
    assert (before.output_nr, after.output_nr) == (0, 1)
    (before + after).sum().backward()
    assert w.grad.tolist() == [12.0, 12.0]


def test_unmarked_write_is_returned_as_view(lib):
    """Rule 6.14."""

    class Unmarked(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    w = lib.leaf(1.0, 2.0)
    a = w * 1
    old = a.grad_fn
    y = Unmarked.apply(a)
    assert y is not a
    assert y._is_view()
    assert a.grad_fn is old
    y.sum().backward()
    assert w.grad.tolist() == [7.0, 7.0]


def test_input_among_outputs_is_new_view(lib):
    """Rule 6.15."""

    class Through(lib.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, x * y

        @staticmethod
        def backward(ctx, first, second):
            return first * 10 + second, None

    x = lib.leaf(1.0)
    o, p = Through.apply(x, lib.tensor(1.0))
    assert o is not x
    (o + p).backward()
    assert x.grad.item() == 11.0


def test_output_returned_twice_collects_in_first_slot(lib):
    """Rule 6.16."""

    class Twice(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            return 2 * first + 2 * second

    x = lib.leaf(1.0)
    y, z = Twice.apply(x)
    assert y is z
    (y + 10 * z).backward()
    assert x.grad.item() == 22.0


def test_an_input_returned_as_not_differentiable(lib):
    class Constant(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = lib.leaf(1.0, 2.0)
    y = Constant.apply(x)
    assert y is not x
    assert (y.requires_grad, x.requires_grad) == (False, True)


def test_functions_record_nothing_in_inference_mode(lib):
    w = lib.leaf(1.0, 2.0)
    with lib.inference_mode():
        y = dirty(lib)(w * 1)
    assert (y.requires_grad, y.is_inference(), y.tolist()) == (False, True, [2.0, 4.0])


def test_gradients_of_function_are_checked(lib):
    """Rule 6.10. What a Function's backward returns is checked like any gradient: rule 5.11."""

    def returning(make):
        class Function(lib.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return make(grad)

        return Function.apply

    a = lib.leaf(1.0, 2.0)
    wide = returning(lambda grad: lib.ones((4, 2), dtype=grad.dtype))
    assert lib.grad(wide(a).sum(), a)[0].tolist() == [4.0, 4.0]
    single = returning(lambda grad: lib.cast(grad, "float32"))
    assert lib.grad(single(a).sum(), a)[0].dtype == a.dtype
    wrong = returning(lambda grad: lib.ones(3, dtype=grad.dtype))
    with lib.raises("returned an invalid gradient at index 0 - got [3] but expected ... [2]"):
        lib.grad(wrong(a).sum(), a)
    turned = returning(lambda grad: lib.cast(grad, "complex128") * 1j)
    with pytest.raises(RuntimeError):
        lib.grad(turned(a).sum(), a)
