"""Lower precision inside of float64, cancellation in float32, derived dtypes."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    ONE,
    TWO,
    Entry,
    array,
    custom,
    formulas,
    leaf,
    pair,
    recorded,
    square,
    square_backward,
    tensor,
    three,
    times,
)

G, D = "test_gradients", "test_derived_calls"
LOWER = "lower precision"


def odd():
    """Numbers that float32 cannot represent."""
    return (leaf(0.3, -1.7, 2.1, 0.9),)


def odd_in_single():
    return (leaf(0.3, -1.7, 2.1, 0.9, dtype="float32"),)


def near_one():
    return (leaf(0.9, -1.1, 1.3, dtype="float32"),)


def sine_in_single(x):
    return tensor(np.sin(array(x).astype(np.float32)).astype(x.dtype))


def sine(x):
    return tensor(np.sin(array(x)))


def sine_backward(ctx, grad):
    return grad * pb.cos(ctx.saved_tensors[0])


def sine_backward_in_single(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * pb.cos(x.astype("float32")).astype(x.dtype)


def cotangent_in_single(ctx, grad):
    (x,) = ctx.saved_tensors
    return (grad.astype("float32") * 1).astype(x.dtype) * pb.cos(x)


def one_factor_in_single(x):
    return tensor(array(x) * array(x).astype(np.float32).astype(x.dtype))


def small_part_in_single(x):
    a = array(x)
    return tensor(a * a + (0.1 * np.sin(a)).astype(np.float32))


def small_part_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (2 * x + 0.1 * pb.cos(x))


def total_in_single(x):
    return tensor(np.asarray(np.sum(array(x) ** 2, dtype=np.float32), x.dtype))


def total_backward(ctx, grad):
    return grad * 2 * ctx.saved_tensors[0]


def buffer_in_single(x):
    buffer = np.empty(x.shape, np.float32)
    np.exp(array(x), out=buffer, casting="same_kind")
    return tensor(buffer.astype(x.dtype))


def exponential_backward(ctx, grad):
    return grad * pb.exp(ctx.saved_tensors[0])


def in_half(x):
    return tensor(np.sin(array(x).astype(np.float16)).astype(x.dtype))


def second_in_single(x, y):
    return tensor(array(x) * array(y).astype(np.float32).astype(x.dtype))


def times_backward(ctx, grad):
    x, y = ctx.saved_tensors
    return y * grad, x * grad


def sine_tangent_in_single(ctx, tangent):
    (x,) = ctx.saved_tensors
    return (tangent.astype("float32") * 1).astype(x.dtype) * pb.cos(x)


def scalar(x):
    return x.new_empty(())


# Correct: as little resolution, for other reasons.
def rounded_steps(x):
    return tensor(np.floor(array(x) * 4) / 4)


def rounded_backward(ctx, grad):
    return pb.zeros_like(grad)


def single_result(x):
    return tensor(np.sin(array(x)).astype(np.float32))


def single_result_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad.astype(x.dtype) * pb.cos(x)


def single_fake(x):
    return x.new_empty(x.shape, dtype="float32")


def offset(x):
    return tensor(array(x) + 1e6)


def versine(x):
    return tensor(1 - np.cos(array(x)))


def versine_backward(ctx, grad):
    return grad * pb.sin(ctx.saved_tensors[0])


# Gradients that cancel in float32.
def far_and_back(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * grad * ((x + 1000) - 1000)


def difference_of_squares(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * ((x + 1000) * (x + 1000) - x * x - 1000000) / 1000


def through_a_logarithm(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * grad * pb.log(pb.exp(x / 4096)) * 4096


def far_and_back_tangent(ctx, tangent):
    (x,) = ctx.saved_tensors
    return 2 * tangent * ((x + 3000) - 3000)


def tanh(x):
    return tensor(np.tanh(array(x)))


def tanh_backward(ctx, grad):
    return grad * (1 - ctx.saved_tensors[0] ** 2)


def keep_output(ctx, inputs, output):
    ctx.save_for_backward(output)


# Dtypes of fake kernels.
def promotes_by_ones(x):
    return tensor(array(x) * (2 * np.ones(x.shape)))


def promotes_by_list(x):
    return tensor(np.array([float(v) ** 2 for v in array(x).ravel()]).reshape(x.shape))


def promotes_by_table(x):
    return tensor(array(x) * np.linspace(1, 2, x.size).reshape(x.shape))


def table_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return (grad * pb.asarray(np.linspace(1, 2, x.size).reshape(x.shape))).astype(x.dtype)


def table_fake(x):
    return x.new_empty(x.shape, dtype=np.result_type(x.dtype, np.float64))


def doubles(x):
    return x.new_empty(x.shape, dtype="float64")


def singles(x):
    return x.new_empty(x.shape, dtype="float32")


# Complex numbers.
def conj_tangent_only(ctx, tangent):
    (x,) = ctx.saved_tensors
    return tangent * (x + x if x.dtype == np.complex128 else 2 * x)


def conj_of_grad(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * pb.conj(pb.conj(x) * grad)


def conj_right(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * pb.conj(x) * grad


def refuses_complex(x):
    if x.dtype.kind == "c":
        raise TypeError("f: x must be real")
    return square(x)


def half_conj(ctx, grad):
    x, y = ctx.saved_tensors
    return pb.conj(y) * grad, x * grad


def both_conj(ctx, grad):
    x, y = ctx.saved_tensors
    return pb.conj(y) * grad, pb.conj(x) * grad


PRODUCT = "(Tensor self, Tensor other) -> Tensor"
ENTRIES = [
    Entry("kernel_in_single", custom(sine_in_single, sine_backward), odd, G, LOWER),
    Entry(
        "kernel_in_single_of_round_numbers", custom(sine_in_single, sine_backward), three, G, LOWER
    ),
    Entry("factor_in_single", custom(one_factor_in_single, square_backward), odd, G, LOWER),
    Entry("part_in_single", custom(small_part_in_single, small_part_backward), odd, G, LOWER),
    Entry("sum_in_single", custom(total_in_single, total_backward, fake=scalar), odd, G, LOWER),
    Entry("buffer_in_single", custom(buffer_in_single, exponential_backward), odd, G, LOWER),
    Entry("second_in_single", custom(second_in_single, times_backward, TWO), pair, G, LOWER),
    Entry("kernel_in_half", custom(in_half, sine_backward), odd, G, LOWER),
    Entry(
        "kernel_in_single_without_gradient",
        custom(sine_in_single),
        lambda: (pb.tensor([0.3, -1.7]),),
        G,
        LOWER,
    ),
    Entry("function_in_single", recorded(sine_backward, sine_in_single), odd, G, LOWER),
    Entry("backward_in_single", custom(sine, sine_backward_in_single), odd, G, LOWER),
    Entry("cotangent_in_single", custom(sine, cotangent_in_single), odd, G, LOWER),
    Entry(
        "tangent_in_single",
        custom(sine, sine_backward, jvp=sine_tangent_in_single),
        odd,
        G,
        LOWER,
    ),
    Entry("steps", custom(rounded_steps, rounded_backward), odd),
    Entry("single_result", custom(single_result, single_result_backward, fake=single_fake), odd),
    Entry("offset", custom(offset, lambda ctx, g: g), odd),
    Entry("versine", custom(versine, versine_backward), lambda: (leaf(0.3, 0.1),)),
    Entry("sine", custom(sine, sine_backward, jvp=sine_backward), odd),
    Entry("gradient_far_and_back", custom(square, far_and_back), near_one, G, "float32"),
    Entry("gradient_of_squares", custom(square, difference_of_squares), near_one, G, "float32"),
    Entry("gradient_by_logarithm", custom(square, through_a_logarithm), near_one, G, "float32"),
    Entry("gradient_far_and_back_derived", custom(square, far_and_back), odd, D, "float32"),
    Entry(
        "tangent_far_and_back",
        custom(square, square_backward, jvp=far_and_back_tangent),
        near_one,
        G,
        "float32",
    ),
    Entry(
        "saturated",
        custom(tanh, tanh_backward, setup=keep_output),
        lambda: (leaf(5.0, 8.0, 0.1, dtype="float32"),),
    ),
    Entry("near_one_right", custom(square, square_backward, jvp=square_backward), near_one),
    Entry(
        "promotes_by_ones", custom(promotes_by_ones, lambda ctx, g: 2 * g), odd, D, "dtype float64"
    ),
    Entry("promotes_by_list", custom(promotes_by_list, square_backward), odd, D, "dtype float64"),
    Entry("promotes_by_table", custom(promotes_by_table, table_backward), odd, D, "dtype float64"),
    Entry(
        "fake_of_doubles", custom(square, square_backward, fake=doubles), odd, D, "dtype float32"
    ),
    Entry(
        "fake_of_singles",
        custom(square, square_backward, fake=singles),
        odd_in_single,
        D,
        "float64 tensors",
    ),
    Entry("promotes_and_says_so", custom(promotes_by_table, table_backward, fake=table_fake), odd),
    Entry(
        "exponential_without_conj",
        formulas(np.exp, {"self": "grad * result"}),
        three,
        D,
        "conj() is missing",
    ),
    Entry(
        "product_without_conj",
        formulas(np.multiply, {"self": "grad * other", "other": "grad * self"}, PRODUCT),
        pair,
        D,
        "conj() is missing",
    ),
    Entry(
        "square_without_conj",
        formulas(np.square, {"self": "2 * grad * self", "result": "auto_element_wise"}),
        three,
        D,
        "complex numbers",
    ),
    Entry("conj_of_the_wrong_factor", custom(square, conj_of_grad), three, D, "complex numbers"),
    Entry("one_of_two_conj", custom(times, half_conj, TWO), pair, D, "complex numbers"),
    Entry(
        "tangent_says_complex",
        custom(square, square_backward, jvp=conj_tangent_only),
        three,
        D,
        "complex numbers",
    ),
    Entry("exponential_with_conj", formulas(np.exp, {"self": "grad * conj(result)"}), three),
    Entry("square_with_conj", custom(square, conj_right), three),
    Entry("both_conj", custom(times, both_conj, TWO), pair),
    Entry("refuses_complex", custom(refuses_complex, conj_of_grad), three),
    Entry("real_code", custom(square, square_backward, ONE), three),
]
