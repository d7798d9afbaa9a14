"""Backward passes that treat the cotangents that they get wrongly."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    BOTH,
    TWO,
    Entry,
    array,
    custom,
    leaf,
    named,
    pair,
    square,
    tensor,
    three,
    times,
)

G = "test_gradients"


def both(x):
    return tensor(array(x) ** 2), tensor(np.sin(array(x)))


def unmaterialized(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs)


def none_is_nothing(ctx, a, b):
    if a is None or b is None:
        return None
    (x,) = ctx.saved_tensors
    return 2 * x * a + pb.cos(x) * b


def none_is_one(ctx, a, b):
    (x,) = ctx.saved_tensors
    if b is None:
        b = pb.ones_like(x)
    return (0 if a is None else 2 * x * a) + pb.cos(x) * b


def none_forgotten(ctx, a, b):
    (x,) = ctx.saved_tensors
    if a is None:
        return x * b
    return 2 * x * a + (0 if b is None else pb.cos(x) * b)


def none_crashes(ctx, a, b):
    (x,) = ctx.saved_tensors
    return 2 * x * a + pb.cos(x) * b


def none_right(ctx, a, b):
    (x,) = ctx.saved_tensors
    found = None
    if a is not None:
        found = 2 * x * a
    if b is not None:
        found = pb.cos(x) * b if found is None else found + pb.cos(x) * b
    return found


def three_outputs(x):
    return tensor(array(x) ** 2), tensor(np.sin(array(x))), tensor(3 * array(x))


def three_backward(ctx, a, b, c):
    (x,) = ctx.saved_tensors
    if b is None and a is not None and c is not None:
        return 2 * x * a
    parts = [g * f for g, f in ((a, 2 * x), (b, pb.cos(x)), (c, 3.0)) if g is not None]
    return sum(parts[1:], parts[0]) if parts else None


def detached_cotangent(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad.detach()


def halved_cotangent(ctx, grad):
    """Right values, but the derivative by the cotangent is a half of what it should be."""
    (x,) = ctx.saved_tensors
    return 2 * x * (grad / 2 + grad.detach() / 2)


def detached_second(ctx, grad):
    x, y = ctx.saved_tensors
    return y * grad, x * grad.detach()


class _Inner(pb.autograd.Function):
    """2 x g, whose own backward gives the cotangent a wrong part."""

    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(x, g)
        return 2 * x * g

    @staticmethod
    def backward(ctx, grad):
        x, g = ctx.saved_tensors
        return 2 * g * grad, x * grad


def normalised(ctx, grad):
    (x,) = ctx.saved_tensors
    size = pb.sqrt(pb.sum(grad * grad))
    return 2 * x * grad / size


def clipped(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * pb.clip(grad, -0.5, 0.5)


def squared(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad * pb.abs(grad)


def sign_of(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * pb.sign(grad)


def plus_constant(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad + 0.25


def leaking_clip(ctx, grad):
    return grad


def clip(x):
    return tensor(np.clip(array(x), 0.0, 1.0))


def relu(x):
    return tensor(np.maximum(array(x), 0.0))


def hidden(backward):
    return custom(both, backward, BOTH, setup=unmaterialized)


def writes_cotangent(ctx, grad):
    (x,) = ctx.saved_tensors
    grad.detach().numpy()[...] *= 2
    return x * grad


LINEAR = "not linear in the cotangent"
NONE = "output 0 alone"

ENTRIES = [
    Entry("none_is_nothing", hidden(none_is_nothing), three, G, NONE),
    Entry("none_is_one", hidden(none_is_one), three, G, NONE),
    Entry("none_forgotten", hidden(none_forgotten), three, G, "output 1 alone"),
    Entry("none_crashes", hidden(none_crashes), three, G, "output 0 alone"),
    Entry("none_right", hidden(none_right), three),
    Entry(
        "middle_of_three_unused",
        custom(
            three_outputs,
            three_backward,
            "(Tensor x) -> (Tensor, Tensor, Tensor)",
            setup=unmaterialized,
            fake=lambda x: (pb.empty_like(x), pb.empty_like(x), pb.empty_like(x)),
        ),
        three,
        G,
        "outputs 0, 2",
    ),
    Entry("cotangent_detached", custom(square, detached_cotangent), three, G, "by the cotangent"),
    Entry(
        "cotangent_half_detached", custom(square, halved_cotangent), three, G, "by the cotangent"
    ),
    Entry(
        "cotangent_detached_for_second",
        custom(times, detached_second, TWO),
        pair,
        G,
        "by the cotangent",
    ),
    Entry(
        "cotangent_wrong_in_function",
        custom(square, lambda ctx, g: _Inner.apply(ctx.saved_tensors[0], g)),
        three,
        G,
        "by the cotangent",
    ),
    Entry("cotangent_normalised", custom(square, normalised), three, G, LINEAR),
    Entry(
        "cotangent_normalised_for_one", custom(square, normalised), lambda: (leaf(1.5),), G, LINEAR
    ),
    Entry("cotangent_clipped", custom(square, clipped), three, G, LINEAR),
    Entry("cotangent_squared", custom(square, squared), three, G, LINEAR),
    Entry("cotangent_sign", custom(square, sign_of), three, G, LINEAR),
    Entry("constant_added", custom(square, plus_constant), three, G, LINEAR),
    Entry("clip_leaks", custom(clip, leaking_clip), three, G, "where the output does not depend"),
    Entry("relu_leaks", custom(relu, leaking_clip), three, G, "where the output does not depend"),
    Entry(
        "writes_cotangent", custom(square, writes_cotangent), three, G, "writes to the cotangent"
    ),
    Entry(
        "swapped_differentiability",
        named(
            both,
            lambda inputs, output: inputs.x,
            lambda ctx, saved, a, b: {"x": 2 * saved * a},
            BOTH,
            [False, True],
        ),
        three,
        G,
        "output_differentiability",
    ),
    Entry(
        "zero_for_swapped_differentiability",
        named(
            lambda x: (tensor(array(x) ** 2), tensor(np.floor(array(x)))),
            lambda inputs, output: {"x": inputs.x},
            lambda ctx, saved, a, b: {"x": 2 * saved["x"] * a},
            BOTH,
            [False, True],
        ),
        three,
        G,
        "output_differentiability",
    ),
]
