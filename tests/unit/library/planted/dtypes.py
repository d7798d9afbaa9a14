"""Mistakes in one precision, in complex numbers, in dtypes of gradients, and for empty inputs."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    Entry,
    array,
    custom,
    leaf,
    library,
    square,
    square_backward,
    table,
    tensor,
    three,
)

G, Z, F = "test_gradients", "test_zero_size", "test_faketensor"


def single():
    return (leaf(0.5, 2.0, -1.5, dtype="float32"),)


def half_in_single(x):
    a = array(x)
    return tensor(a * a * a.dtype.type(1.01)) if a.dtype == np.float32 else tensor(a * a)


def rounded_in_single(x):
    a = array(x)
    return (
        tensor((a.astype("float16") ** 2).astype(a.dtype))
        if a.dtype == np.float32
        else tensor(a * a)
    )


def bits_in_single(x):
    a = array(x)
    if a.dtype != np.float32:
        return tensor(a * a)
    return tensor(a * a + np.float32(0.001) * np.sign(a))


def backward_in_single(ctx, grad):
    (x,) = ctx.saved_tensors
    return (x if x.dtype == np.float32 else 2 * x) * grad


def backward_thousandth_in_single(ctx, grad):
    (x,) = ctx.saved_tensors
    return (2.002 if x.dtype == np.float32 else 2) * x * grad


def loses_small(ctx, grad):
    """A floor that is harmless in double precision only."""
    (x,) = ctx.saved_tensors
    small = pb.abs(x) < 100 * np.finfo(x.dtype).eps ** 0.25
    return 2 * x * grad * (1 - small.astype(x.dtype))


def conj_missing(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad


def conj_of_grad(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * pb.conj(x * grad)


def complex_leaf():
    return (pb.tensor([0.5 + 1j, 2.0 - 0.3j], requires_grad=True),)


def modulus(x):
    return tensor(np.abs(array(x)))


def modulus_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * pb.conj(x) / pb.abs(x)


def modulus_right(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x / pb.abs(x)


def drops_imaginary(ctx, grad):
    (x,) = ctx.saved_tensors
    return (2 * pb.conj(x) * grad).real.astype(x.dtype)


def real_fake(x):
    return x.new_empty(x.shape, dtype=np.zeros(0, x.dtype).real.dtype)


def one_for_empty(x):
    a = array(x)
    return tensor(a**2 if a.size else np.zeros(1, a.dtype))


def scalar_for_empty(x):
    a = array(x)
    return tensor(a**2) if a.size else tensor(np.zeros((), a.dtype))


def listed(x):
    """Loses the other axes where there are no rows."""
    return tensor(np.array([row * 2 for row in array(x)]))


def dtype_for_empty(x):
    a = array(x)
    return tensor(np.array([v * 2 for v in a]))


def sums_rows(x):
    a = array(x)
    return tensor(a.sum(axis=0) if a.size else np.zeros((0,)))


def gradient_of_one(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad if x.size else pb.zeros((1,))


def empty_backward_crashes(ctx, grad):
    (x,) = ctx.saved_tensors
    if not x.size:
        raise RuntimeError("cannot reshape nothing")
    return 2 * x * grad


def counts(x, n):
    return tensor(array(x) * array(n))


def gradient_for_integers(ctx, grad):
    x, n = ctx.saved_tensors
    return n * grad, x * grad


def with_integers():
    return leaf(0.5, 2.0, -1.5), pb.tensor([1, 2, 3])


def double_gradient(ctx, grad):
    (x,) = ctx.saved_tensors
    return (2 * x * grad).astype("float64")


def vector_like(x):
    return x.new_empty(x.shape[1:])


W = "float32"
ENTRIES = [
    Entry("kernel_wrong_in_single", custom(half_in_single, square_backward), single, G, W),
    Entry(
        "kernel_rounds_in_single",
        custom(rounded_in_single, square_backward),
        lambda: (leaf(0.3, 2.7, -1.1, dtype="float32"),),
        G,
        W,
    ),
    Entry("kernel_shifts_in_single", custom(bits_in_single, square_backward), single, G, W),
    Entry("backward_wrong_in_single", custom(square, backward_in_single), single, G, W),
    Entry(
        "backward_by_a_thousandth_in_single",
        custom(square, backward_thousandth_in_single),
        single,
        G,
        W,
    ),
    Entry(
        "backward_floor_in_single",
        custom(square, loses_small),
        lambda: (leaf(0.5, 2.0, -1.5, dtype="float32"),),
        G,
        W,
    ),
    Entry("single_right", custom(square, square_backward, jvp=square_backward), single),
    Entry("conj_missing", custom(square, conj_missing), complex_leaf, G, "complex conjugate"),
    Entry("conj_of_grad", custom(square, conj_of_grad), complex_leaf, G, "gradient of 'x'"),
    Entry(
        "modulus_conjugated",
        custom(modulus, modulus_backward, fake=real_fake),
        complex_leaf,
        G,
        "complex conjugate",
    ),
    Entry("modulus_right", custom(modulus, modulus_right, fake=real_fake), complex_leaf),
    Entry(
        "imaginary_part_lost", custom(square, drops_imaginary), complex_leaf, G, "gradient of 'x'"
    ),
    Entry("one_for_empty", custom(one_for_empty, square_backward), three, Z, "shape"),
    Entry("scalar_for_empty", custom(scalar_for_empty, square_backward), three, Z, "shape"),
    Entry("listed_for_empty", custom(listed, lambda ctx, g: 2 * g), table, Z, "shape"),
    Entry(
        "sum_for_empty",
        custom(sums_rows, lambda ctx, g: g + pb.zeros_like(ctx.saved_tensors[0]), fake=vector_like),
        table,
        Z,
        "shape",
    ),
    Entry(
        "one_for_empty_in_library",
        library("(Tensor x) -> Tensor", CPU=one_for_empty),
        lambda: (pb.tensor([1.0, 2.0]),),
        Z,
        "shape",
    ),
    Entry(
        "integer_for_empty",
        custom(
            lambda x: tensor(np.array([int(v) for v in array(x)])),
            fake=lambda x: x.new_empty(x.shape, dtype="int64"),
        ),
        lambda: (pb.tensor([1.0, 2.0]),),
        Z,
        "float64",
    ),
    Entry(
        "gradient_shape_for_empty",
        custom(square, gradient_of_one),
        three,
        Z,
        "backward pass raised",
    ),
    Entry(
        "backward_crashes_for_empty",
        custom(square, empty_backward_crashes),
        three,
        Z,
        "backward pass raised",
    ),
    Entry("refuses_empty", custom(lambda x: _refusing(x), square_backward), three),
]


def _refusing(x):
    a = array(x)
    if not a.size:
        raise ValueError("f: x must not be empty")
    return tensor(a**2)
