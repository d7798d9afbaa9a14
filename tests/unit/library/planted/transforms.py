"""Forward rules and batching rules."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    TWO,
    Entry,
    array,
    custom,
    formulas,
    leaf,
    pair,
    square,
    square_backward,
    tensor,
    three,
    times,
    times_backward,
    triple,
)

G, V = "test_gradients", "test_vmap"
THREE = "(Tensor x, Tensor y, Tensor z) -> Tensor"


def writes_tangent(ctx, t):
    (x,) = ctx.saved_tensors
    t.numpy()[...] *= 2
    return x * t


def writes_second_tangent(ctx, t, u):
    x, y = ctx.saved_tensors
    result = y * t + x * u
    u.numpy()[...] = 0
    return result


def returns_tangent_written(ctx, t):
    (x,) = ctx.saved_tensors
    t.mul_(2 * x)
    return t


def writes_primal(ctx, t):
    (x,) = ctx.saved_tensors
    result = 2 * x * t
    x.numpy()[...] = 0
    return result


def jvp_in_memory_order(ctx, t):
    (x,) = ctx.saved_tensors
    values = t.numpy()
    if values.ndim and values.strides[-1] < 0:
        values = values[..., ::-1]
    return 2 * x * tensor(values)


def jvp_in_single(ctx, t):
    (x,) = ctx.saved_tensors
    return (2.01 if x.dtype == np.float32 else 2) * x * t


def jvp_first_wrong(namespace, lib):
    calls = []

    def jvp(ctx, t):
        calls.append(1)
        return ctx.saved_tensors[0] * t * (1 if len(calls) == 1 else 2)

    return custom(square, square_backward, jvp=jvp)(namespace, lib)


def detached_jvp(ctx, t):
    (x,) = ctx.saved_tensors
    return 2 * x.detach() * t


def quadratic_jvp(ctx, t):
    (x,) = ctx.saved_tensors
    return 2 * x * t + t * t


def fused(x, y, z):
    return tensor(array(x) * array(y) + array(z))


def fused_backward(ctx, grad):
    x, y, _ = ctx.saved_tensors
    return y * grad, x * grad, grad


def moved(value, dim, size):
    return value if dim is not None else pb.stack([value] * size)


def right_rule(op, info, in_dims, *args):
    size = info.batch_size
    return op(*(moved(a, d, size) for a, d in zip(args, in_dims, strict=True))), 0


def wrong_for(*wrong):
    """A rule that takes one sample for all where exactly these arguments are batched."""

    def rule(op, info, in_dims, *args):
        batched = tuple(n for n, d in enumerate(in_dims) if d is not None)
        if batched == wrong:
            args = list(args)
            first = args[wrong[-1]]
            args[wrong[-1]] = pb.stack([first[0]] * info.batch_size)
        return right_rule(op, info, in_dims, *args)

    return rule


def no_gradient_rule(op, info, in_dims, x):
    return op(x.detach()), 0


def half_gradient_rule(op, info, in_dims, x, y):
    x, y = moved(x, in_dims[0], info.batch_size), moved(y, in_dims[1], info.batch_size)
    return op(x, y.detach()), 0


def numpy_rule(op, info, in_dims, x):
    return tensor(array(x.detach()) ** 2), 0


def wrong_gradient_rule(op, info, in_dims, x):
    out = op(x)
    return out + 0.5 * (x - x.detach()), 0


def one_sample_rule(op, info, in_dims, x):
    return op(pb.squeeze(x)), 0


def total(x):
    return tensor(np.sum(array(x) ** 2))


def total_rule(op, info, in_dims, x):
    return pb.sum(x * x, axis=tuple(range(1, x.ndim))), 0


def total_rule_wrong(op, info, in_dims, x):
    return op(x) * pb.ones(info.batch_size), 0


BATCH_GRADIENT = "gradient"
ENTRIES = [
    Entry(
        "jvp_writes_tangent",
        custom(square, square_backward, jvp=writes_tangent),
        three,
        G,
        "writes to the tangent",
    ),
    Entry(
        "jvp_writes_second_tangent",
        custom(times, times_backward, TWO, jvp=writes_second_tangent),
        pair,
        G,
        "writes to the tangent",
    ),
    Entry(
        "jvp_returns_written_tangent",
        custom(square, square_backward, jvp=returns_tangent_written),
        three,
        G,
        "writes to the tangent",
    ),
    Entry(
        "jvp_writes_primal",
        custom(square, square_backward, jvp=writes_primal),
        three,
        G,
        "writes to",
    ),
    Entry(
        "jvp_in_memory_order",
        custom(square, square_backward, jvp=jvp_in_memory_order),
        three,
        G,
        "reversed in memory",
    ),
    Entry(
        "jvp_in_single",
        custom(square, square_backward, jvp=jvp_in_single),
        lambda: (leaf(0.5, 2.0, -1.5, dtype="float32"),),
        G,
        "float32",
    ),
    Entry("jvp_first_wrong", jvp_first_wrong, three, G, "changes with every call"),
    Entry(
        "jvp_detached", custom(square, square_backward, jvp=detached_jvp), three, G, "forward rule"
    ),
    Entry(
        "jvp_quadratic",
        custom(square, square_backward, jvp=quadratic_jvp),
        three,
        G,
        "not linear in the tangent",
    ),
    Entry(
        "jvp_swapped",
        custom(
            times,
            times_backward,
            TWO,
            jvp=lambda ctx, t, u: ctx.saved_tensors[0] * t + ctx.saved_tensors[1] * u,
        ),
        pair,
        G,
        "forward rule is wrong",
    ),
    Entry(
        "jvp_right",
        custom(
            times,
            times_backward,
            TWO,
            jvp=lambda ctx, t, u: ctx.saved_tensors[1] * t + ctx.saved_tensors[0] * u,
        ),
        pair,
    ),
    Entry(
        "auto_linear_of_square",
        formulas(lambda x: x * x, {"self": "grad * 2 * self", "result": "auto_linear"}),
        three,
        G,
        "auto_linear",
    ),
    Entry(
        "auto_linear_of_sine",
        formulas(np.sin, {"self": "grad * cos(self)", "result": "auto_linear"}),
        three,
        G,
        "auto_linear",
    ),
    Entry(
        "auto_linear_of_affine",
        formulas(lambda x: 2 * x + 1, {"self": "grad * 2", "result": "auto_linear"}),
        three,
        G,
        "auto_linear",
    ),
    Entry(
        "vmap_first_two_of_three",
        custom(fused, fused_backward, THREE, vmap=wrong_for(0, 1)),
        triple,
        V,
        "'x', 'y'",
    ),
    Entry(
        "vmap_last_two_of_three",
        custom(fused, fused_backward, THREE, vmap=wrong_for(1, 2)),
        triple,
        V,
        "'y', 'z'",
    ),
    Entry(
        "vmap_outer_two_of_three",
        custom(fused, fused_backward, THREE, vmap=wrong_for(0, 2)),
        triple,
        V,
        "'x', 'z'",
    ),
    Entry("vmap_right", custom(fused, fused_backward, THREE, vmap=right_rule), triple),
    Entry(
        "vmap_detaches",
        custom(square, square_backward, vmap=no_gradient_rule),
        three,
        V,
        BATCH_GRADIENT,
    ),
    Entry(
        "vmap_detaches_second",
        custom(times, times_backward, TWO, vmap=half_gradient_rule),
        pair,
        V,
        BATCH_GRADIENT,
    ),
    Entry("vmap_numpy", custom(square, square_backward, vmap=numpy_rule), three, V, BATCH_GRADIENT),
    Entry(
        "vmap_adds_gradient",
        custom(square, square_backward, vmap=wrong_gradient_rule),
        three,
        V,
        BATCH_GRADIENT,
    ),
    Entry(
        "vmap_squeezes", custom(square, square_backward, vmap=one_sample_rule), three, V, "1 sample"
    ),
    Entry(
        "vmap_of_reduction",
        custom(total, square_backward, vmap=total_rule, fake=lambda x: x.new_empty(())),
        three,
    ),
    Entry(
        "vmap_of_reduction_wrong",
        custom(total, square_backward, vmap=total_rule_wrong, fake=lambda x: x.new_empty(())),
        three,
        V,
        "vmap",
    ),
]
