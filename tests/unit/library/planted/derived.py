"""Mistakes that the given call cannot show: they need other sizes, values, options or objects."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    TWO,
    Entry,
    array,
    custom,
    leaf,
    pair,
    square,
    square_backward,
    tensor,
    three,
    times,
    times_backward,
)

D = "test_derived_calls"


def positive():
    return (leaf(0.5, 2.0, 1.5),)


def mean(x):
    return tensor(np.mean(array(x)))


def mean_of_three(ctx, grad):
    (x,) = ctx.saved_tensors
    return pb.ones_like(x) * grad / 3


def first_three(x):
    out = np.zeros_like(array(x))
    out[:3] = array(x)[:3] ** 2
    return tensor(out)


def three_weights(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad * pb.asarray(np.ones(3) if x.size else np.ones(0))


def modulus(x):
    return tensor(np.abs(array(x)))


def modulus_backward(ctx, grad):
    return grad


def small_only(ctx, grad):
    (x,) = ctx.saved_tensors
    inside = (pb.abs(x) < 10).astype(x.dtype)
    return 2 * x * grad * inside


def leaky(x, slope=0.0):
    a = array(x)
    return tensor(np.where(a > 0, a, slope * a))


def leaky_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def leaky_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (x > 0).astype(x.dtype), None


def scaled(x, *, k=1.0):
    return tensor(array(x) * k)


def centred(x, centre=True):
    a = array(x)
    return tensor(a - a.mean() if centre and a.size else a)


def centred_backward(ctx, grad):
    return grad - pb.mean(grad), None


def by_identity(namespace, lib):
    cache = {}

    def kernel(x):
        if id(x) not in cache:
            cache[id(x)] = (x, array(x) ** 2)
        return tensor(cache[id(x)][1])

    return custom(kernel, square_backward)(namespace, lib)


def by_address(namespace, lib):
    cache = {}

    def kernel(x):
        key = array(x).__array_interface__["data"][0], x.shape
        if key not in cache:
            cache[key] = (array(x), array(x) ** 2)
        return tensor(cache[key][1])

    return custom(kernel, square_backward)(namespace, lib)


def half(x):
    a = array(x)
    return tensor(a * a * (a.dtype.type(1.01) if a.dtype == np.float32 else 1))


def half_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return (x if x.dtype == np.float32 else 2 * x) * grad


def conj_in_the_wrong_place(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * pb.conj(grad)


def fake_of_three(x):
    return x.new_empty((3 if x.size else 0,))


KEYWORD = "(Tensor x, *, float k=1.0) -> Tensor"
ENTRIES = [
    Entry(
        "divides_by_three",
        custom(mean, mean_of_three, fake=lambda x: x.new_empty(())),
        three,
        D,
        "along every axis",
    ),
    Entry("kernel_of_three", custom(first_three, square_backward), three, D, "along every axis"),
    Entry("backward_of_three", custom(square, three_weights), three, D, "along every axis"),
    Entry("fake_of_three", custom(square, square_backward, fake=fake_of_three), three, D, "shape"),
    Entry("one_sign", custom(modulus, modulus_backward), positive, D, "sign"),
    Entry("range_of_values", custom(square, small_only), three, D, "50 times"),
    Entry(
        "option_ignored",
        custom(leaky, leaky_backward, "(Tensor x, float slope=0.0) -> Tensor", setup=leaky_setup),
        three,
        D,
        "slope=",
    ),
    Entry(
        "keyword_ignored",
        custom(
            scaled,
            lambda ctx, g: g,
            KEYWORD,
            setup=lambda ctx, inputs, keyword_only_inputs, output: None,
            fake=lambda x, *, k=1.0: pb.empty_like(x),
        ),
        three,
        D,
        "k=",
    ),
    Entry(
        "switch_ignored",
        custom(centred, centred_backward, "(Tensor x, bool centre=True) -> Tensor"),
        three,
        D,
        "centre=False",
    ),
    Entry("cached_by_identity", by_identity, three, D, "identity"),
    Entry("cached_by_address", by_address, three, D, "identity"),
    Entry("kernel_in_single", custom(half, square_backward), three, D, "float32"),
    Entry("backward_in_single", custom(square, half_backward), three, D, "float32"),
    Entry("complex_conjugate", custom(square, conj_in_the_wrong_place), three, D, "complex"),
    Entry("general", custom(times, times_backward, TWO), pair),
]
