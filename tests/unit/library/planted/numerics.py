"""Correct operators whose numbers are hard to check: saturated, tied, iterated, in float32."""

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
    pair,
    save_output,
    table,
    tensor,
    three,
    times,
)


def layer_norm(x, w, b, eps=1e-5):
    a = array(x)
    mean, variance = a.mean(-1, keepdims=True), a.var(-1, keepdims=True)
    return tensor((a - mean) / np.sqrt(variance + eps) * array(w) + array(b))


def layer_norm_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])
    ctx.eps = inputs[3]


def layer_norm_backward(ctx, grad):
    x, w, _ = ctx.saved_tensors
    mean = pb.mean(x, axis=-1, keepdims=True)
    scale = 1 / pb.sqrt(pb.mean((x - mean) ** 2, axis=-1, keepdims=True) + ctx.eps)
    normal, g = (x - mean) * scale, grad * w
    inner = pb.mean(g * normal, axis=-1, keepdims=True)
    by_x = scale * (g - pb.mean(g, axis=-1, keepdims=True) - normal * inner)
    axes = tuple(range(x.ndim - 1))
    return by_x, pb.sum(grad * normal, axis=axes), pb.sum(grad, axis=axes), None


def root(x):
    """y**3 + y = x, by Newton's method, and rounded."""
    a = array(x)
    y = np.ones_like(a)
    for _ in range(60):
        y = y - (y**3 + y - a) / (3 * y * y + 1)
    return tensor(np.round(y, 12))


def root_backward(ctx, grad):
    return grad / (3 * ctx.saved_tensors[0] ** 2 + 1)


def amax(x):
    return tensor(array(x).max(-1))


def save_both(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], output)


def amax_backward(ctx, grad):
    x, y = ctx.saved_tensors
    chosen = (x == pb.reshape(y, (*y.shape, 1))).astype(x.dtype)
    return pb.reshape(grad, (*grad.shape, 1)) * chosen / pb.sum(chosen, axis=-1, keepdims=True)


def norm(x):
    return tensor(np.linalg.norm(array(x)))


def norm_backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * x / y


def sigmoid(x):
    return tensor(1 / (1 + np.exp(-array(x))))


def sigmoid_backward(ctx, grad):
    (y,) = ctx.saved_tensors
    return grad * y * (1 - y)


def tanh_backward(ctx, grad):
    (y,) = ctx.saved_tensors
    return grad * (1 - y**2)


def huber(x):
    a = array(x)
    return tensor(np.where(np.abs(a) < 1, 0.5 * a**2, np.abs(a) - 0.5))


def conjugating(ctx, grad):
    x, y = ctx.saved_tensors
    return pb.conj(y) * grad, pb.conj(x) * grad


def matmul_backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad @ y.T, x.T @ grad


def random_matrix(rows, columns, dtype="float64"):
    values = np.random.default_rng(rows).standard_normal((rows, columns))
    return leaf(values.tolist(), dtype=dtype)


def norm_arguments():
    return random_matrix(4, 5), leaf(0.3, -1.0, 2.0, 0.1, 0.7), leaf(0.0, 1.0, -1.0, 0.5, 0.2)


def scalar(x):
    return x.new_empty(())


def without_last(x):
    return x.new_empty(x.shape[:-1])


MATRICES = {"fake": lambda x, y: x.new_empty((x.shape[0], y.shape[1]))}
NORM = "(Tensor x, Tensor w, Tensor b, float eps=1e-5) -> Tensor"
ENTRIES = [
    Entry(
        "layer_norm",
        custom(layer_norm, layer_norm_backward, NORM, setup=layer_norm_setup),
        norm_arguments,
    ),
    Entry("root_by_iteration", custom(root, root_backward, setup=save_output), three),
    Entry("amax", custom(amax, amax_backward, setup=save_both, fake=without_last), table),
    Entry(
        "amax_at_ties",
        custom(amax, amax_backward, setup=save_both, fake=without_last),
        lambda: (leaf([[1.0, 1.0, 0.0], [2.0, 3.0, 3.0]]),),
    ),
    Entry("norm", custom(norm, norm_backward, setup=save_both, fake=scalar), three),
    Entry(
        "norm_at_zero",
        custom(norm, norm_backward, setup=save_both, fake=scalar),
        lambda: (leaf(0.0, 0.0),),
    ),
    Entry(
        "sigmoid_saturated",
        custom(sigmoid, sigmoid_backward, setup=save_output),
        lambda: (leaf(-40.0, 0.0, 40.0, 800.0),),
    ),
    Entry(
        "tanh_saturated",
        custom(lambda x: tensor(np.tanh(array(x))), tanh_backward, setup=save_output),
        lambda: (leaf(-30.0, 0.0, 18.5),),
    ),
    Entry(
        "huber_at_its_kinks",
        custom(huber, lambda ctx, g: g * pb.clip(ctx.saved_tensors[0], -1, 1)),
        lambda: (leaf(0.5, 1.0, -1.0, 3.0),),
    ),
    Entry(
        "logarithm_of_all_sizes",
        custom(lambda x: tensor(np.log(array(x))), lambda ctx, g: g / ctx.saved_tensors[0]),
        lambda: (leaf(1e-12, 1.0, 1e9),),
    ),
    Entry(
        "square_root_at_zero",
        custom(
            lambda x: tensor(np.sqrt(array(x))),
            lambda ctx, g: g / (2 * ctx.saved_tensors[0]),
            setup=save_output,
        ),
        lambda: (leaf(0.0, 1.0, 4.0),),
    ),
    Entry("conjugating_on_reals", custom(times, conjugating, TWO), pair),
    Entry(
        "conjugating",
        custom(times, conjugating, TWO),
        lambda: (
            pb.tensor([1 + 2j, -0.3 + 0.1j], requires_grad=True),
            pb.tensor([0.2 + 2j, 1.3 + 0.1j], requires_grad=True),
        ),
    ),
    Entry(
        "matmul_in_single",
        custom(lambda x, y: tensor(array(x) @ array(y)), matmul_backward, TWO, **MATRICES),
        lambda: (random_matrix(6, 30, "float32"), random_matrix(30, 7, "float32")),
    ),
    Entry(
        "cancelling_sum_in_single",
        custom(
            lambda x: tensor(array(x).sum()),
            lambda ctx, g: g * pb.ones_like(ctx.saved_tensors[0]),
            fake=scalar,
        ),
        lambda: (leaf(1e6, -1e6, 0.3, dtype="float32"),),
    ),
    Entry(
        "random_by_tag",
        custom(
            lambda x: tensor(array(x) * (np.random.rand(*x.shape) > 0.5)),
            tags=("nondeterministic_seeded",),
        ),
        lambda: (pb.tensor([1.0, 2.0, 3.0]),),
    ),
    Entry(
        "list_of_lists",
        custom(
            lambda xs: [tensor(2 * array(x)) for x in xs],
            lambda ctx, gs: [2 * g for g in gs],
            "(Tensor[] xs) -> Tensor[]",
            setup=lambda ctx, inputs, output: None,
            fake=lambda xs: [pb.empty_like(x) for x in xs],
        ),
        lambda: ([leaf(1.0, 2.0), leaf(3.0)],),
    ),
    Entry(
        "floor_and_square",
        custom(
            lambda x: (tensor(array(x) ** 2), tensor(np.floor(array(x)))),
            lambda ctx, a, b: 2 * ctx.saved_tensors[0] * a,
            BOTH,
        ),
        three,
    ),
]
