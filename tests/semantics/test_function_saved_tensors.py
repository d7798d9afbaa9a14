"""What a `Function` saves."""

from __future__ import annotations

import pytest


def test_save_for_backward_takes_tensors_and_last_call_counts(lib):
    """Rule 3.30."""

    class Saves(lib.Function):
        @staticmethod
        def forward(ctx, x):
            assert ctx.saved_tensors == ()
            ctx.save_for_backward(x * 0)
            ctx.save_for_backward(x, None)
            assert ctx.saved_tensors == ()
            return x * x

        @staticmethod
        def backward(ctx, grad):
            ctx.save_for_backward(grad)
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * x * grad

    x = lib.leaf(3.0)
    Saves.apply(x).backward()
    assert x.grad.item() == 6.0

    class Wrong(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(5)
            return x * 1

    with lib.raises("can only save variables", TypeError):
        Wrong.apply(x)


def test_saved_tensors_are_same_objects_until_freed(lib, words):
    """Rule 3.31."""

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,), (again,) = ctx.saved_tensors, ctx.saved_tensors
            assert x is again
            return 2 * x * grad

    x = lib.leaf(3.0)
    y = Square.apply(x)
    y.backward()
    with lib.raises(words.freed):
        y.backward()
    with lib.raises(words.freed):
        y.grad_fn.saved_tensors  # noqa: B018 - reading it is the test


@pytest.mark.parametrize("reads", [1, 2])
def test_saved_tensors_cleared_on_access_are_read_once(lib, reads):
    """Rule 3.31."""

    class Square(lib.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            for _ in range(reads):
                (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = lib.leaf(3.0)
    if reads == 1:
        Square.apply(x).backward()
        assert x.grad.item() == 6.0
    else:
        with lib.raises("only be accessed once"):
            Square.apply(x).backward()


def test_saved_inputs_keep_graph_and_intermediates_do_not(lib):
    """Rule 3.32."""
    seen = []

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            inner = x * 2
            ctx.save_for_backward(x, inner)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            x, inner = ctx.saved_tensors
            seen.append((x.requires_grad, inner.requires_grad))
            return inner * grad

    x = lib.leaf(3.0)
    Square.apply(x * 1).backward()
    assert seen == [(True, False)]


def test_ctx_attributes_are_neither_freed_nor_checked(lib):
    """Rule 3.33."""

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.x * grad

    a = lib.leaf(3.0)
    y = Square.apply(a)
    for _ in range(3):
        y.backward()
    assert a.grad.item() == 18.0
    a.grad = None
    y = Square.apply(a)
    with lib.no_grad():
        a.add_(1)
    y.backward()
    assert a.grad.item() == 8.0


def test_saved_tensors_are_checked_for_writes(lib, words):
    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = lib.leaf(3.0)
    y = Square.apply(x)
    with lib.no_grad():
        x.add_(1)
    with lib.raises(words.version):
        y.backward()
