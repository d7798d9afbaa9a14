"""Operators of every family, declared before ``opcheck`` was run on them."""

from __future__ import annotations

import threading

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    BOTH,
    ONE,
    TWO,
    Entry,
    array,
    custom,
    leaf,
    library,
    pair,
    recorded,
    save,
    square,
    square_backward,
    table,
    tensor,
    three,
    times,
    times_backward,
)

G, D, S, V, L = (
    "test_gradients",
    "test_derived_calls",
    "test_schema",
    "test_vmap",
    "test_layouts",
)
Z, T, R = "test_zero_size", "test_threads", "test_repeated_calls"


def scalar(x, *_):
    return x.new_empty(())


# 1. Scale: a weight of one element is off by a ten-thousandth.
def weighted(x):
    return tensor(array(x) ** 2 * np.array([1e-6, 1.0, 1e6], x.dtype)[: x.size])


def weighted_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    weights = np.array([1.0001e-6, 1.0, 1e6], x.dtype)[: x.size]
    return 2 * x * grad * pb.asarray(weights)


# 2. Scale: a Gaussian whose constant has six digits, in the forward rule only.
def gauss(x):
    return tensor(np.exp(-(array(x) ** 2)) / np.sqrt(np.pi))


def gauss_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return -2 * x * pb.exp(-x * x) / float(np.sqrt(np.pi)) * grad


def gauss_tangent(ctx, tangent):
    (x,) = ctx.saved_tensors
    return -2 * x * pb.exp(-x * x) * 0.564190 * tangent


# 3. Cotangents: an output that is left out counts as ones.
def sine_and_cosine(x):
    return tensor(np.sin(array(x))), tensor(np.cos(array(x)))


def without_materializing(ctx, inputs, output):
    save(ctx, inputs, output)
    ctx.set_materialize_grads(False)


def ones_for_none(ctx, a, b):
    (x,) = ctx.saved_tensors
    a = pb.ones_like(x) if a is None else a
    b = pb.zeros_like(x) if b is None else b
    return a * pb.cos(x) - b * pb.sin(x)


# 4. Second derivatives: the cotangent is detached.
def detached_cotangent(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad.detach()


# 5. Second derivatives: the saved input is detached.
def detached_input(ctx, grad):
    (x,) = ctx.saved_tensors
    return 3 * x.detach() * x.detach() * grad


def cubed(x):
    return tensor(array(x) ** 3)


# 6. Layouts: the last axis is taken for the one with the smallest stride.
def cumulative(x):
    a = array(x)
    axis = int(np.argmin(np.abs(a.strides))) if a.ndim else 0
    return tensor(np.cumsum(a, axis=axis))


def cumulative_backward(ctx, grad):
    return pb.flip(pb.cumsum(pb.flip(grad, -1), -1), -1)


# 7. Layouts: negative strides are ignored.
def positive_strides(x):
    a = array(x)
    strides = tuple(abs(s) for s in a.strides)
    base = a
    for axis, stride in enumerate(a.strides):
        if stride < 0:
            base = np.flip(base, axis)
    return tensor(np.lib.stride_tricks.as_strided(base, a.shape, strides) * 2.0)


# 8. Memory: backward scales a saved tensor and scales it back, but for the sign of zero.
def borrows_saved(ctx, grad):
    (x,) = ctx.saved_tensors
    values = array(x.detach())
    values *= 2
    result = x * grad
    values -= values / 2 * (1 + 1e-3)
    return result


# 9. State: right for the first two calls.
def third_call(namespace, lib):
    calls = [0]

    def kernel(x):
        calls[0] += 1
        return tensor(array(x) ** 2 * (1.5 if calls[0] % 7 == 0 else 1))

    return custom(kernel, square_backward)(namespace, lib)


# 10. State: backward uses the largest input ever seen.
def running_maximum(namespace, lib):
    seen = [0.0]

    def setup(ctx, inputs, output):
        save(ctx, inputs, output)
        if isinstance(inputs[0], pb.Tensor) and inputs[0].device == "cpu":
            seen[0] = max(seen[0], float(np.max(np.abs(array(inputs[0])), initial=0)))

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad * (1 if seen[0] < 40 else 0.5)

    return custom(square, backward, setup=setup)(namespace, lib)


# 11. Kernels that ask: more iterations where a gradient is wanted.
def asks_flag(namespace, lib):
    def kernel(x):
        return tensor(array(x) ** 2 * (1.0 if x.requires_grad else 1.001))

    return recorded(square_backward, kernel)(namespace, lib)


# 12. Single precision: a threshold of the machine's epsilon in the formula.
def guarded(ctx, grad):
    (x,) = ctx.saved_tensors
    eps = float(np.finfo(x.dtype).eps)
    return 2 * grad * x * x / (x + 1e3 * eps)


# 13. Empty: a mean of nothing is one number too many.
def padded_mean(x):
    a = array(x)
    return tensor(np.asarray(a.mean() if a.size else np.zeros(1, a.dtype)))


def padded_mean_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return pb.ones_like(x) * grad / max(x.size, 1)


# 14. Fallthrough and no_grad: a composite that computes below no_grad.
def composite_without_grad(x):
    with pb.no_grad():
        y = pb.exp(x)
    return y * x


# 15. An autograd kernel that adds what the backend does not.
def adds_something(result):
    return result + 1e-6


# 16. In place: forgets that the input may be a view with steps.
def in_place_flat(x):
    array(x).reshape(-1)[...] *= 2


# 17. In place: writes by a copy that is dropped for transposed memory.
def in_place_contiguous(x):
    a = np.ascontiguousarray(array(x))
    a += 1


# 18. In place: adds random numbers.
def in_place_noise(x):
    array(x)[...] += 1e-3 * np.random.standard_normal(x.shape)


# 19. A forward rule that changes its tangent.
def tangent_in_place(ctx, tangent):
    (x,) = ctx.saved_tensors
    array(tangent)[...] *= 2
    return x * tangent


# 20. vmap: the second argument counts as shared where the first one is.
def shared_too_often(op, info, in_dims, x, y):
    if in_dims[0] is None:
        return op(pb.broadcast_to(x, y.shape), pb.broadcast_to(y[0], y.shape)), 0
    if in_dims[1] is None:
        return op(x, pb.broadcast_to(y, x.shape)), 0
    return op(x, y), 0


# 21. vmap: the sample axis is put last.
def last_axis(op, info, in_dims, x):
    return pb.moveaxis(x * x, 0, -1), 0


# 22. Threads: a scratch array is kept on the function.
def scratch(namespace, lib):
    kept = {}

    def kernel(x):
        out = kept.setdefault(x.shape, np.empty(x.shape))
        np.multiply(array(x), array(x), out=out)
        result = out.copy()
        return tensor(result.astype(x.dtype))

    return custom(kernel, square_backward)(namespace, lib)


# 23. Clipping: gradient at both bounds of a clip leaks on one side.
def clip(x):
    return tensor(np.clip(array(x), -1.0, 1.0))


def clip_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (x < 1.0).astype(x.dtype)


# 24. A product over an axis, whose formula divides by an element.
def product(x):
    return tensor(np.prod(array(x), axis=-1))


def product_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return pb.prod(x, -1, keepdims=True) / x * grad[..., None]


# 25. A list: gradients for all but the last tensor.
def added(xs):
    return tensor(sum(array(x) for x in xs))


def added_backward(ctx, grad):
    return [grad] * (ctx.count - 1) + [0 * grad]


def added_setup(ctx, inputs, output):
    ctx.count = len(inputs[0])


# 26. An option that the formula reads from a global.
OPTION = {"power": 2}


def powered(x, power=2):
    return tensor(array(x) ** power)


def powered_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    power = OPTION["power"]
    return power * x ** (power - 1) * grad, None


def powered_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


# 27. Sizes: a stencil that forgets its last element beyond four.
def differences(x):
    a = array(x)
    return tensor(np.concatenate([a[1:], a[:1]]) - a)


def differences_backward(ctx, grad):
    n = grad.shape[0]
    rolled = pb.concatenate([grad[n - 1 :], grad[: n - 1]])
    mask = np.ones(n)
    mask[4:] = 0.0
    return rolled - grad * pb.asarray(mask.astype(grad.dtype))


# 28. Values: a series that holds near zero.
def sine(x):
    return tensor(np.sin(array(x)))


def series(ctx, grad):
    (x,) = ctx.saved_tensors
    s = x * x
    terms = 1 - s / 2 + s * s / 24 - s**3 / 720 + s**4 / 40320 - s**5 / 3628800 + s**6 / 479001600
    return grad * terms


# 29. A fake kernel that forgets the transposition, which a square table does not show.
def flipped(x):
    return tensor(array(x).T.copy())


def square_table():
    return (leaf([[0.5, 2.0], [-3.0, 4.0]]),)


# 30. Complex: the modulus squared, with the gradient of the square.
def modulus_squared(x):
    a = array(x)
    return tensor((a * np.conj(a)).real)


def modulus_squared_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * pb.conj(x) * grad


def real_fake(x):
    return x.new_empty(x.shape, dtype=np.zeros(0, x.dtype).real.dtype)


def complex_leaf():
    return (pb.tensor([0.5 + 1j, 2.0 - 0.3j], requires_grad=True),)


# Correct operators.
def modulus_squared_right(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad


def cumulative_right(x):
    return tensor(np.cumsum(array(x), axis=-1))


def none_for_unused(ctx, a, b):
    (x,) = ctx.saved_tensors
    total = pb.zeros_like(x)
    if a is not None:
        total = total + a * pb.cos(x)
    if b is not None:
        total = total - b * pb.sin(x)
    return total


def right_product_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    parts = [
        pb.prod(pb.concatenate([x[..., :i], x[..., i + 1 :]], -1), -1) * grad
        for i in range(x.shape[-1])
    ]
    return pb.stack(parts, -1) if parts else pb.zeros_like(x)


def right_clip_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (pb.abs(x) < 1.0).astype(x.dtype)


def huber(x):
    a = array(x)
    return tensor(np.where(np.abs(a) < 1, a * a / 2, np.abs(a) - 0.5))


def huber_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * pb.clip(x, -1.0, 1.0)


def locked_scratch(namespace, lib):
    kept, lock = {}, threading.Lock()

    def kernel(x):
        with lock:
            out = kept.setdefault((x.shape, x.dtype.str), np.empty(x.shape, x.dtype))
            np.multiply(array(x), array(x), out=out)
            return tensor(out.copy())

    return custom(kernel, square_backward)(namespace, lib)


def norm(x):
    return tensor(np.sqrt(np.sum(array(x) ** 2, axis=-1)))


def norm_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    length = pb.sqrt(pb.sum(x * x, -1, keepdims=True))
    safe = pb.where(length == 0, pb.ones_like(length), length)
    return x / safe * grad[..., None]


def softplus(x):
    return tensor(np.logaddexp(0, array(x)).astype(x.dtype))


def softplus_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (0.5 + 0.5 * pb.tanh(0.5 * x))


def in_place_right(x):
    array(x)[...] += 1


def attention(q, k):
    scores = array(q) @ array(k).T
    return tensor(np.tanh(scores))


def attention_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output)


def attention_backward(ctx, grad):
    q, k, out = ctx.saved_tensors
    inner = grad * (1 - out * out)
    return inner @ k, pb.swapaxes(inner, -1, -2) @ q


def attention_fake(q, k):
    return q.new_empty((q.shape[0], k.shape[0]))


def matrices():
    return leaf([[0.5, 0.2], [-0.3, 0.4]]), leaf([[0.1, 0.9], [0.7, -0.6], [0.3, 0.2]])


def powered_right(ctx, grad):
    (x,) = ctx.saved_tensors
    return ctx.power * x ** (ctx.power - 1) * grad, None


def powered_setup_right(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.power = inputs[1]


def differences_right(ctx, grad):
    n = grad.shape[0]
    return pb.concatenate([grad[n - 1 :], grad[: n - 1]]) - grad if n else grad


def series_right(ctx, grad):
    return grad * pb.cos(ctx.saved_tensors[0])


def weighted_right(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad * pb.asarray(np.array([1e-6, 1.0, 1e6], x.dtype)[: x.size])


def refuses_other_sizes(x):
    if x.size not in (0, 3):
        raise ValueError("f: x must have three elements")
    return weighted(x)


WRITES = "(Tensor(a!) x) -> ()"
LIST = "(Tensor[] xs) -> Tensor"
POWER = "(Tensor x, int power=2) -> Tensor"
plain_table = lambda: (pb.tensor([[0.5, 2.0, 1.0], [-3.0, 4.0, -2.0]]),)  # noqa: E731
lists = lambda: ([leaf(0.5, 2.0), leaf(1.5, -1.0), leaf(0.3, 0.9)],)  # noqa: E731

ENTRIES = [
    Entry(
        "weight_of_a_small_element",
        custom(refuses_other_sizes, weighted_backward),
        three,
        G,
        "gradient of 'x'",
    ),
    Entry(
        "six_digits_in_the_tangent",
        custom(gauss, gauss_backward, jvp=gauss_tangent),
        three,
        G,
        "forward",
    ),
    Entry(
        "ones_for_none",
        custom(sine_and_cosine, ones_for_none, BOTH, setup=without_materializing),
        three,
        G,
        "alone in the loss",
    ),
    Entry("cotangent_detached", custom(square, detached_cotangent), three, G, "second derivative"),
    Entry("input_detached", custom(cubed, detached_input), three, G, "second derivative"),
    Entry("axis_by_strides", custom(cumulative, cumulative_backward), table, L, "in memory"),
    Entry(
        "strides_without_sign",
        custom(positive_strides, lambda ctx, g: 2 * g),
        table,
        L,
        "in memory",
    ),
    Entry("saved_borrowed", custom(square, borrows_saved), three, G, "writes to"),
    Entry("every_seventh_call", third_call, three, R, "call"),
    Entry("largest_ever_seen", running_maximum, three, D, "values"),
    Entry("kernel_asks_for_the_flag", asks_flag, three, G, "output 0"),
    Entry(
        "epsilon_in_the_formula",
        custom(square, guarded),
        lambda: (leaf(0.5, 2.0, -1.5, dtype="float32"),),
        G,
        "float32",
    ),
    Entry(
        "mean_of_nothing", custom(padded_mean, padded_mean_backward, fake=scalar), three, Z, "shape"
    ),
    Entry(
        "composite_without_grad",
        library(ONE, CompositeImplicitAutograd=composite_without_grad),
        three,
        G,
        "gradient",
    ),
    Entry(
        "autograd_kernel_adds",
        recorded(square_backward, change=adds_something),
        three,
        G,
        "backend kernel",
    ),
    Entry(
        "in_place_flat",
        custom(in_place_flat, schema=WRITES, mutates=("x",)),
        plain_table,
        L,
        "in memory",
    ),
    Entry(
        "in_place_contiguous",
        custom(in_place_contiguous, schema=WRITES, mutates=("x",)),
        plain_table,
        L,
        "in memory",
    ),
    Entry(
        "in_place_noise",
        custom(in_place_noise, schema=WRITES, mutates=("x",)),
        plain_table,
        R,
        "random",
    ),
    Entry(
        "tangent_in_place",
        custom(square, square_backward, jvp=tangent_in_place),
        three,
        G,
        "writes to the tangent",
    ),
    Entry(
        "shared_too_often",
        custom(times, times_backward, TWO, vmap=shared_too_often),
        pair,
        V,
        "vmap of 3 samples",
    ),
    Entry(
        "samples_in_the_last_axis",
        custom(square, square_backward, vmap=last_axis),
        three,
        V,
        "vmap of 3 samples",
    ),
    Entry("scratch_on_the_function", scratch, three, T, "several threads"),
    Entry(
        "clip_leaks_below",
        custom(clip, clip_backward),
        three,
        G,
        "where the output does not depend",
    ),
    Entry(
        "product_divides",
        custom(product, product_backward, fake=lambda x: x.new_empty(x.shape[:-1])),
        table,
        G,
        "NaN",
    ),
    Entry(
        "last_of_a_list",
        custom(
            added, added_backward, LIST, setup=added_setup, fake=lambda xs: pb.empty_like(xs[0])
        ),
        lists,
        G,
        "xs[2]",
    ),
    Entry(
        "option_of_a_global",
        custom(powered, powered_backward, POWER, setup=powered_setup),
        three,
        D,
        "power=3",
    ),
    Entry(
        "stencil_of_four", custom(differences, differences_backward), three, D, "along every axis"
    ),
    Entry("series_near_zero", custom(sine, series), lambda: (leaf(0.05, -0.1),), D, "50 times"),
    Entry(
        "fake_of_square_tables",
        custom(flipped, lambda ctx, g: pb.swapaxes(g, 0, 1), fake=lambda x: x.new_empty(x.shape)),
        square_table,
        Z,
        "fake kernel says",
    ),
    Entry(
        "modulus_squared_conjugated",
        custom(modulus_squared, modulus_squared_backward, fake=real_fake),
        complex_leaf,
        G,
        "complex conjugate",
    ),
    # Correct.
    Entry(
        "modulus_squared",
        custom(modulus_squared, modulus_squared_right, fake=real_fake),
        complex_leaf,
    ),
    Entry("cumulative", custom(cumulative_right, cumulative_backward), table),
    Entry(
        "none_for_unused",
        custom(sine_and_cosine, none_for_unused, BOTH, setup=without_materializing),
        three,
    ),
    Entry(
        "product",
        custom(product, right_product_backward, fake=lambda x: x.new_empty(x.shape[:-1])),
        table,
    ),
    Entry("clip", custom(clip, right_clip_backward), three),
    Entry("huber", custom(huber, huber_backward), three),
    Entry("locked_scratch", locked_scratch, three),
    Entry("norm", custom(norm, norm_backward, fake=lambda x: x.new_empty(x.shape[:-1])), table),
    Entry("softplus", custom(softplus, softplus_backward), lambda: (leaf(0.5, 30.0, -20.0),)),
    Entry("in_place", custom(in_place_right, schema=WRITES, mutates=("x",)), plain_table),
    Entry(
        "attention",
        custom(
            attention,
            attention_backward,
            "(Tensor q, Tensor k) -> Tensor",
            setup=attention_setup,
            fake=attention_fake,
        ),
        matrices,
    ),
    Entry("powered", custom(powered, powered_right, POWER, setup=powered_setup_right), three),
    Entry("differences", custom(differences, differences_right), three),
    Entry("sine", custom(sine, series_right, jvp=series_right), lambda: (leaf(0.05, -0.1),)),
    Entry("weighted", custom(refuses_other_sizes, weighted_right), three),
]
