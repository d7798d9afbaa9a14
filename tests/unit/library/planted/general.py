"""Mistakes of every kind that a careful reader of the code would find."""

from __future__ import annotations

import pullback as pb
from tests.unit.library.planted.declare import (
    BOTH,
    TWO,
    Entry,
    array,
    custom,
    formulas,
    leaf,
    named,
    pair,
    recorded,
    save,
    square,
    square_backward,
    tensor,
    three,
    times,
)

G, F = "test_gradients", "test_faketensor"


def scaled(x, *, k=2.0):
    return tensor(array(x) * k)


def scaled_setup(ctx, inputs, keyword_only_inputs, output):
    ctx.k = keyword_only_inputs["k"]


def row_and_table():
    return leaf(0.5, 2.0, 1.0), leaf([[1.5, 1.0, 2.0], [0.3, 0.2, -1.0], [4.0, 5.0, 6.0]])


def summed(x):
    return tensor(array(x).sum(axis=1))


def wrong_axis(ctx, grad):
    (x,) = ctx.saved_tensors
    return pb.zeros_like(x) + grad[None, :]


def square_table():
    return (leaf([[0.5, 2.0], [-3.0, 4.0]]),)


def matmul(x, y):
    return tensor(array(x) @ array(y))


def not_transposed(ctx, grad):
    x, y = ctx.saved_tensors
    return grad @ y, x @ grad


def matrices():
    return leaf([[0.5, 2.0], [-3.0, 4.0]]), leaf([[1.5, -1.0], [0.3, 0.7]])


def total(xs):
    return tensor(sum((n + 1) * array(x) for n, x in enumerate(xs)))


def optional(x, y=None):
    return tensor(array(x) * (1.0 if y is None else array(y)))


def detached_factor(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x.detach() * grad


def attribute_factor(ctx, grad):
    return ctx.factor * grad


def attribute_setup(ctx, inputs, output):
    ctx.factor = pb.asarray(2 * array(inputs[0].detach()))


def second_wrong(ctx, grad):
    """The first derivative is right, and has another function's derivative."""
    (x,) = ctx.saved_tensors
    return _Doubled.apply(x) * grad


class _Doubled(pb.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return grad


def views(x):
    return tensor(array(x) + 1), tensor(array(x) + 2)


KEYWORD = "(Tensor x, *, float k=2.0) -> Tensor"
MASKED = "(Tensor x, Tensor? y=None) -> Tensor"
FAKE_K = {"fake": lambda x, *, k=2.0: pb.empty_like(x), "setup": scaled_setup}

ENTRIES = [
    Entry(
        "keyword_forgotten",
        custom(scaled, lambda ctx, g: g * 2.0, KEYWORD, **FAKE_K),
        three,
        G,
        "0.666667 times",
        {"k": 3.0},
    ),
    Entry(
        "alpha_ignored",
        formulas(
            lambda x, y, alpha: x + alpha * y,
            {"self": "grad", "other": "grad"},
            "(Tensor self, Tensor other, float alpha=1.0) -> Tensor",
        ),
        lambda: (*pair(), 2.0),
        G,
        "0.5 times",
    ),
    Entry(
        "broadcast_not_undone",
        custom(
            times,
            lambda ctx, g: ((ctx.saved_tensors[1] * g)[0], ctx.saved_tensors[0] * g),
            TWO,
            fake=lambda x, y: pb.empty_like(y),
        ),
        row_and_table,
        G,
        "broadcast",
    ),
    Entry(
        "sum_of_wrong_axis",
        custom(summed, wrong_axis, fake=lambda x: x.new_empty(x.shape[:1])),
        square_table,
        G,
        "transposed",
    ),
    Entry(
        "matmul_not_transposed",
        custom(matmul, not_transposed, TWO),
        matrices,
        G,
        "elements are wrong",
    ),
    Entry(
        "list_all_the_same",
        custom(
            total,
            lambda ctx, g: [g, g],
            "(Tensor[] xs) -> Tensor",
            fake=lambda xs: pb.empty_like(xs[0]),
            setup=lambda ctx, inputs, output: None,
        ),
        lambda: ([leaf(0.5, 2.0), leaf(1.0, -1.0)],),
        G,
        "xs[1]",
    ),
    Entry(
        "optional_gradient_missing",
        custom(optional, lambda ctx, g: (ctx.saved_tensors[1] * g, None), MASKED, setup=save),
        pair,
        G,
        "no gradient for 'y'",
    ),
    Entry(
        "function_wrong", recorded(lambda ctx, g: ctx.saved_tensors[0] * g), three, G, "0.5 times"
    ),
    Entry(
        "named_wrong",
        named(square, lambda inputs, output: inputs.x, lambda ctx, saved, g: {"x": saved * g}),
        three,
        G,
        "0.5 times",
    ),
    Entry("factor_detached", custom(square, detached_factor), three, G, "outside of the graph"),
    Entry(
        "factor_on_ctx",
        custom(square, attribute_factor, setup=attribute_setup),
        three,
        G,
        "outside of the graph",
    ),
    Entry("second_derivative_wrong", custom(square, second_wrong), three, G, "second derivative"),
    Entry(
        "fake_returns_one",
        custom(views, lambda ctx, a, b: a + b, BOTH, fake=lambda x: pb.empty_like(x)),
        three,
        F,
        "number of returns",
    ),
    Entry(
        "fake_returns_three",
        custom(views, lambda ctx, a, b: a + b, BOTH, fake=lambda x: (x * 1, x * 1, x * 1)),
        three,
        F,
        "number of returns",
    ),
    Entry(
        "fake_returns_two",
        custom(square, square_backward, fake=lambda x: (pb.empty_like(x), pb.empty_like(x))),
        three,
        F,
        "number of returns",
    ),
    Entry(
        "fake_returns_none",
        custom(square, square_backward, fake=lambda x: None),
        three,
        F,
        "number of returns",
    ),
    Entry(
        "fake_list_too_short",
        custom(
            lambda x: [tensor(array(x) + 1), tensor(array(x) + 2)],
            lambda ctx, g: g[0] + g[1],
            "(Tensor x) -> Tensor[]",
            fake=lambda x: [pb.empty_like(x)],
        ),
        three,
        F,
        "number of returns",
    ),
    Entry(
        "fake_order",
        custom(lambda x: tensor(array(x).T.copy()), None, fake=lambda x: pb.empty_like(x)),
        lambda: (pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),),
        F,
        "Shapes",
    ),
    Entry(
        "all_declared_not_differentiable",
        named(
            lambda x: (tensor(array(x) ** 2), tensor(array(x) * 3)),
            lambda inputs, output: inputs.x,
            lambda ctx, saved, a, b: {"x": 2 * saved * a + 3 * b},
            BOTH,
            [False, False],
        ),
        three,
        G,
        "output_differentiability",
    ),
    Entry(
        "formula_differentiability",
        formulas(
            lambda x: (x * x, 3 * x),
            {"self": "grad_b * 3"},
            "(Tensor self) -> (Tensor a, Tensor b)",
            fake=lambda x: (pb.empty_like(x), pb.empty_like(x)),
            output_differentiability=[False, True],
        ),
        three,
    ),
]
