"""Errors that are small beside other numbers of the same call."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    BOTH,
    Entry,
    array,
    custom,
    formulas,
    leaf,
    recorded,
    square,
    square_backward,
    tensor,
    three,
)

G = "test_gradients"


def spread():
    return (leaf(1e-6, 1.0, 1e6),)


def wide():
    return (leaf(3e-9, 2e-4, 5.0, 7e8),)


def big_and_small(x):
    return tensor(array(x) ** 2 * 1e9), tensor(np.sin(array(x)))


def big_and_small_backward(wrong):
    def backward(ctx, big, small):
        (x,) = ctx.saved_tensors
        return 2e9 * x * big + wrong * pb.cos(x) * small

    return backward


def one_element(error, at):
    """The right gradient of a square, but for a relative error in one element."""

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        factor = np.ones(x.shape)
        factor.flat[at] += error
        return 2 * x * grad * pb.asarray(factor)

    return backward


def tiny_row(x):
    return tensor(np.stack([1e8 * array(x), 1e-8 * array(x) ** 2]))


def tiny_row_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return 1e8 * grad[0] + 1e-8 * x * grad[1]


def exponentials(x):
    return tensor(np.exp(array(x)))


def jvp_off(error):
    return lambda ctx, t: 2 * ctx.saved_tensors[0] * t * (1 + error)


def jvp_off_in_one(ctx, t):
    (x,) = ctx.saved_tensors
    factor = np.ones(x.shape)
    factor.flat[0] += 1e-6
    return 2 * x * t * pb.asarray(factor)


def total_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return pb.exp(x) * grad * pb.asarray(1 + 1e-4 * (np.arange(x.size) == 0))


DISAGREE = "forward and reverse rules disagree"

ENTRIES = [
    Entry(
        "small_output_negated",
        custom(big_and_small, big_and_small_backward(-1), BOTH),
        three,
        G,
        "output 1",
    ),
    Entry(
        "small_output_lost",
        custom(big_and_small, big_and_small_backward(0), BOTH),
        three,
        G,
        "output 1",
    ),
    Entry(
        "small_output_by_a_thousandth",
        custom(big_and_small, big_and_small_backward(1.001), BOTH),
        three,
        G,
        "output 1",
    ),
    Entry(
        "small_row_of_one_output",
        custom(tiny_row, tiny_row_backward, fake=lambda x: x.new_empty((2, *x.shape))),
        three,
        G,
        "the gradient of 'x'",
    ),
    Entry("small_output_right", custom(big_and_small, big_and_small_backward(1), BOTH), three),
    Entry("spread_smallest_wrong", custom(square, one_element(1.0, 0)), spread, G, "[0]"),
    Entry("spread_middle_wrong", custom(square, one_element(0.01, 1)), spread, G, "[1]"),
    Entry("spread_smallest_of_four", custom(square, one_element(-0.5, 0)), wide, G, "[0]"),
    Entry("spread_right", custom(square, square_backward, jvp=square_backward), spread),
    Entry("wide_right", custom(square, square_backward, jvp=square_backward), wide),
    Entry("one_element_by_1e_4", custom(square, one_element(1e-4, 2)), three, G, "[2]"),
    Entry("first_element_by_1e_4", custom(square, one_element(-1e-4, 0)), three, G, "[0]"),
    Entry(
        "formula_by_1e_4",
        formulas(lambda x: x**3, {"self": "grad * self * self * 3.0003"}),
        three,
        G,
        "times the right one",
    ),
    Entry(
        "exponential_by_1e_4",
        custom(exponentials, total_backward),
        lambda: (leaf(-9.0, 0.0, 9.0),),
        G,
        "[0]",
    ),
    Entry("jvp_by_1e_6", custom(square, square_backward, jvp=jvp_off(1e-6)), three, G, DISAGREE),
    Entry(
        "jvp_by_1e_6_in_one",
        custom(square, square_backward, jvp=jvp_off_in_one),
        three,
        G,
        DISAGREE,
    ),
    Entry(
        "formulas_by_1e_6",
        formulas(
            lambda x: np.sin(x),
            {"self": "grad * cos(self)", "result": "self_t * cos(self_p) * 1.000001"},
        ),
        three,
        G,
        DISAGREE,
    ),
    Entry(
        "function_by_1e_6",
        recorded(
            lambda ctx, g: 2.000002 * ctx.saved_tensors[0] * g,
            jvp=lambda ctx, t: 2 * ctx.saved_tensors[0] * t,
        ),
        three,
        G,
        "1.000001 times the right one everywhere",
    ),
    Entry("jvp_right", custom(square, square_backward, jvp=square_backward), three),
]
