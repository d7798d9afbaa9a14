"""Correct operators that look suspicious: ill-conditioned, not smooth, random, views, integers."""

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
    recorded,
    save_output,
    square,
    square_backward,
    tensor,
    three,
    times,
)

once = pb.autograd.function.once_differentiable


@once
def once_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return tensor(2 * x.detach().numpy() * grad.detach().numpy())


@once
def once_backward_of_two(ctx, grad):
    x, y = (t.detach().numpy() for t in ctx.saved_tensors)
    g = grad.detach().numpy()
    return tensor(y * g), tensor(x * g)


def softmax(x):
    a = array(x)
    e = np.exp(a - a.max(axis=-1, keepdims=True)) if a.size else a
    return tensor(e / e.sum(axis=-1, keepdims=True) if a.size else a)


def softmax_backward(ctx, grad):
    (s,) = ctx.saved_tensors
    return s * (grad - pb.sum(grad * s, axis=-1, keepdims=True))


def logsumexp(x):
    a = array(x)
    top = a.max() if a.size else 0.0
    with np.errstate(divide="ignore"):
        return tensor(np.log(np.sum(np.exp(a - top))) + top)


def logsumexp_backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * pb.exp(x - y)


def variance(x):
    """One pass, which cancels where the mean is large."""
    a = array(x)
    return tensor(np.mean((a - a.mean()) ** 2))


def variance_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * 2 * (x - pb.mean(x)) / x.size


def inverse(x):
    return tensor(np.linalg.inv(array(x)))


def inverse_backward(ctx, grad):
    (y,) = ctx.saved_tensors
    return -(y.T @ grad @ y.T)


def relu(x):
    return tensor(np.maximum(array(x), 0))


def relu_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (x > 0).astype(grad.dtype)


def maximum(x, y):
    return tensor(np.maximum(array(x), array(y)))


def maximum_backward(ctx, grad):
    x, y = ctx.saved_tensors
    first = (x >= y).astype(grad.dtype)
    return grad * first, grad * (1 - first)


def rounding(x):
    return tensor(np.round(array(x)))


def straight_through_zero(ctx, grad):
    return pb.zeros_like(grad)


def sorting(x):
    a = array(x)
    order = np.argsort(a, axis=-1)
    return tensor(np.take_along_axis(a, order, -1)), tensor(order)


def sorting_setup(ctx, inputs, output):
    ctx.save_for_backward(output[1])


def sorting_backward(ctx, grad, _):
    (order,) = ctx.saved_tensors
    return pb.take_along_axis(grad, pb.argsort(order, -1), -1)


def seeded(x, seed):
    noise = np.random.default_rng(seed).standard_normal(x.shape)
    return tensor(array(x) * noise.astype(x.dtype))


def seeded_setup(ctx, inputs, output):
    x, seed = inputs
    noise = np.random.default_rng(seed).standard_normal(x.shape)
    ctx.noise = pb.asarray(noise.astype(x.dtype))


def gathered(x, index):
    return tensor(array(x)[array(index)])


def gathered_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])
    ctx.shape = inputs[0].shape


def gathered_backward(ctx, grad):
    (index,) = ctx.saved_tensors
    places = pb.reshape(index, (-1, 1)) == pb.asarray(np.arange(ctx.shape[0]))
    return pb.transpose(places.astype(grad.dtype)) @ grad, None


def cached(x):
    """A cache by content is no state."""
    a = array(x)
    key = (a.tobytes(), a.shape, a.dtype.str)
    if key not in _CACHE:
        _CACHE[key] = a**2
    return tensor(_CACHE[key])


_CACHE = {}


def optional(x, y=None):
    return tensor(array(x) * (1.0 if y is None else array(y)))


def optional_setup(ctx, inputs, output):
    ctx.has_y = inputs[1] is not None
    ctx.save_for_backward(*(t for t in inputs if t is not None))


def optional_backward(ctx, grad):
    if not ctx.has_y:
        return grad, None
    x, y = ctx.saved_tensors
    return y * grad, x * grad


def total(xs):
    return tensor(sum(array(x) for x in xs))


def total_setup(ctx, inputs, output):
    ctx.count = len(inputs[0])


def scaled(x, *, k=2.0):
    return tensor(array(x) * k)


def scaled_setup(ctx, inputs, keyword_only_inputs, output):
    ctx.k = keyword_only_inputs["k"]


def steps(x):
    """A slow saw: steep, with kinks far from the point."""
    a = array(x)
    return tensor(np.abs(a - np.round(a)))


def steps_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * pb.sign(x - pb.round(x))


def sine(frequency):
    return custom(
        lambda x: tensor(np.sin(frequency * array(x))),
        lambda ctx, g: g * frequency * pb.cos(frequency * ctx.saved_tensors[0]),
    )


def hypot(x, y):
    return tensor(np.hypot(array(x), array(y)))


def hypot_backward(ctx, grad):
    x, y = ctx.saved_tensors
    r = pb.hypot(x, y)
    return grad * x / r, grad * y / r


def not_differentiable_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.mark_non_differentiable(output[1])


def with_statistics(x):
    return tensor(array(x) ** 2), tensor(np.asarray(array(x) * 0.5))


def hilbert():
    n = 4
    return (leaf([[1.0 / (i + j + 1) for j in range(n)] for i in range(n)]),)


def scalar(x):
    return x.new_empty(())


def integers():
    return leaf([[0.5, 2.0], [1.0, -1.0], [3.0, 0.2]]), pb.tensor([2, 0, 0, 1])


KEYWORD = "(Tensor x, *, float k=2.0) -> Tensor"
MASKED = "(Tensor x, Tensor? y=None) -> Tensor"

ENTRIES = [
    Entry("once_differentiable", custom(square, once_backward), three),
    Entry("once_differentiable_of_two", custom(times, once_backward_of_two, TWO), pair),
    Entry(
        "once_differentiable_with_jvp", custom(square, once_backward, jvp=square_backward), three
    ),
    Entry("once_differentiable_function", recorded(once_backward), three),
    Entry(
        "softmax",
        custom(softmax, softmax_backward, setup=save_output),
        lambda: (leaf(0.5, 2.0, -1.5),),
    ),
    Entry(
        "softmax_saturated",
        custom(softmax, softmax_backward, setup=save_output),
        lambda: (leaf(0.0, 35.0, -700.0),),
    ),
    Entry(
        "softmax_of_rows",
        custom(softmax, softmax_backward, setup=save_output),
        lambda: (leaf([[0.1, 20.0], [-3.0, 1e3]]),),
    ),
    Entry(
        "logsumexp_large",
        custom(
            logsumexp,
            logsumexp_backward,
            setup=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output),
            fake=scalar,
        ),
        lambda: (leaf(1e4, 1e4 + 1, -1e4),),
    ),
    Entry(
        "variance_far_from_zero",
        custom(variance, variance_backward, fake=scalar),
        lambda: (leaf(1e6, 1e6 + 1, 1e6 - 3.0),),
    ),
    Entry(
        "hilbert_inverse",
        custom(inverse, inverse_backward, setup=save_output, fake=lambda x: x.new_empty(x.shape)),
        hilbert,
    ),
    Entry("relu_at_zero", custom(relu, relu_backward), lambda: (leaf(0.0, 1.0, -1.0),)),
    Entry("relu_near_zero", custom(relu, relu_backward), lambda: (leaf(1e-9, -1e-5, 1e-3),)),
    Entry(
        "maximum_at_ties",
        custom(maximum, maximum_backward, TWO),
        lambda: (leaf(1.0, 2.0), leaf(1.0, -1.0)),
    ),
    Entry("rounding", custom(rounding, straight_through_zero), lambda: (leaf(0.5, 1.2, 2.49999),)),
    Entry(
        "sorting",
        custom(
            sorting,
            sorting_backward,
            BOTH,
            setup=sorting_setup,
            fake=lambda x: (pb.empty_like(x), x.new_empty(x.shape, dtype="int64")),
        ),
        lambda: (leaf(3.0, 1.0, 2.0),),
    ),
    Entry(
        "sorting_ties",
        custom(
            sorting,
            sorting_backward,
            BOTH,
            setup=sorting_setup,
            fake=lambda x: (pb.empty_like(x), x.new_empty(x.shape, dtype="int64")),
        ),
        lambda: (leaf(2.0, 1.0, 2.0),),
    ),
    Entry(
        "seeded",
        custom(
            seeded,
            lambda ctx, g: (g * ctx.noise, None),
            "(Tensor x, int seed) -> Tensor",
            setup=seeded_setup,
        ),
        lambda: (leaf(0.5, 2.0, -1.5), 7),
    ),
    Entry(
        "gathered",
        custom(
            gathered,
            gathered_backward,
            "(Tensor x, Tensor index) -> Tensor",
            setup=gathered_setup,
            fake=lambda x, i: x.new_empty((*i.shape, *x.shape[1:])),
        ),
        integers,
    ),
    Entry("cached_by_content", custom(cached, square_backward), three),
    Entry(
        "optional_given", custom(optional, optional_backward, MASKED, setup=optional_setup), pair
    ),
    Entry(
        "optional_none", custom(optional, optional_backward, MASKED, setup=optional_setup), three
    ),
    Entry(
        "list_of_tensors",
        custom(
            total,
            lambda ctx, g: [g] * ctx.count,
            "(Tensor[] xs) -> Tensor",
            setup=total_setup,
            fake=lambda xs: pb.empty_like(xs[0]),
        ),
        lambda: ([leaf(0.5, 2.0), leaf(1.0, -1.0)],),
    ),
    Entry(
        "keyword",
        custom(
            scaled,
            lambda ctx, g: g * ctx.k,
            KEYWORD,
            setup=scaled_setup,
            fake=lambda x, *, k=2.0: pb.empty_like(x),
        ),
        three,
        kwargs={"k": 3.0},
    ),
    Entry("saw", custom(steps, steps_backward), lambda: (leaf(0.2, 7.9, -3.3),)),
    Entry("fast_sine", sine(300.0), three),
    Entry("large_sine", sine(1.0), lambda: (leaf(1e5, 1e7, 3.0),)),
    Entry(
        "hypot_small",
        custom(hypot, hypot_backward, TWO),
        lambda: (leaf(1e-7, 3.0), leaf(1e-7, 4e6)),
    ),
    Entry(
        "statistics_not_differentiable",
        custom(
            with_statistics,
            lambda ctx, g, _: 2 * ctx.saved_tensors[0] * g,
            BOTH,
            setup=not_differentiable_setup,
        ),
        three,
    ),
    Entry(
        "complex_square",
        custom(square, lambda ctx, g: 2 * pb.conj(ctx.saved_tensors[0]) * g),
        lambda: (pb.tensor([0.5 + 1j, 2.0 - 0.3j], requires_grad=True),),
    ),
    Entry(
        "tiny_values",
        custom(square, square_backward, jvp=square_backward),
        lambda: (leaf(1e-150, 1e-30, 0.0),),
    ),
    Entry(
        "huge_values",
        custom(square, square_backward, jvp=square_backward),
        lambda: (leaf(1e150, -1e100, 1e8),),
    ),
    Entry(
        "nan_and_infinity",
        custom(square, square_backward),
        lambda: (leaf(float("nan"), float("inf"), 1.0),),
    ),
    Entry(
        "one_number", custom(square, square_backward), lambda: (pb.tensor(1.5, requires_grad=True),)
    ),
    Entry(
        "many_elements",
        custom(square, square_backward, jvp=square_backward),
        lambda: (leaf(np.linspace(-2, 2, 400).tolist()),),
    ),
    Entry(
        "negative_strides_given",
        custom(square, square_backward),
        lambda: (pb.asarray(np.arange(6.0)[::-1]),),
    ),
]
