"""Mistakes of everyday authors: rounded constants, ties, habits that change the process."""

from __future__ import annotations

import threading

import numpy as np

import pullback as pb
from pullback.dispatch import AutoDispatchBelowAutograd
from pullback.library import register_autograd, register_fake
from tests.unit.library.planted.declare import (
    ONE,
    TWO,
    Entry,
    array,
    custom,
    leaf,
    library,
    plain_table,
    save_output,
    square,
    square_backward,
    tensor,
    three,
)

D = "test_derived_calls"
G = "test_gradients"
S = "test_schema"
T = "test_threads"
WRITES = "(Tensor(a!) x) -> ()"
SCALES = np.array([1e6, 1.0, 1e-6])


def sine_of_pi(x):
    return tensor(np.sin(np.pi * array(x)))


def sine_of_rounded_pi_backward(ctx, grad):
    return 3.14159 * grad * pb.cos(np.pi * ctx.saved_tensors[0])


def logarithm(x):
    return tensor(np.log(array(x)))


def logarithm_backward(ctx, grad):
    return grad / ctx.saved_tensors[0]


def logarithm_with_epsilon(ctx, grad):
    return grad / (ctx.saved_tensors[0] + 1e-5)


def scaled_sine(x):
    return tensor(np.sin(array(x)) * SCALES.astype(x.dtype))


def scaled_sine_backward(ctx, grad):
    return grad * pb.asarray(SCALES) * pb.cos(ctx.saved_tensors[0])


def scaled_sine_doubled(ctx, grad):
    return grad * pb.asarray(SCALES * [1, 1, 2]) * pb.cos(ctx.saved_tensors[0])


def square_divided(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * grad * x * x / x


def one_line():
    shared = {}
    return lambda x: [shared.update(a=array(x)), tensor(shared["a"] ** 2)][1]


def one_object():
    class Worker:
        def load(self, x):
            self.values = array(x)
            return self

        def run(self):
            return tensor(self.values**2)

    worker = Worker()
    return lambda x: worker.load(x).run()


def own_memory():
    own = threading.local()

    def kernel(x):
        own.values = array(x)
        return tensor(own.values**2)

    return kernel


def shifts_and_restores(x):
    values = array(x)
    values += 1
    made = tensor((values - 1) ** 2)
    values -= 1
    return made


def refuses_read_only(x):
    if not array(x).flags.writeable:
        raise ValueError("buffer source array is read-only")
    return square(x)


def ignores_overflow(x):
    np.seterr(over="ignore" if np.geterr()["over"] != "ignore" else "warn")
    return square(x)


def stops_recording(namespace, lib):
    def kernel(x):
        pb.set_grad_enabled(False)
        return square(x.detach())

    op = library(ONE, CPU=kernel)(namespace, lib)
    register_fake(op, pb.empty_like, lib=lib)
    register_autograd(op, lambda ctx, grad: grad, lib=lib)
    return op


def without_derivative(namespace, lib):
    op = library(ONE, CPU=lambda x: square(x.detach()))(namespace, lib)
    register_fake(op, pb.empty_like, lib=lib)
    return op


def records_leaves_only(namespace, lib):
    class Square(pb.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            with AutoDispatchBelowAutograd():
                return lib.operator("f")(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        backward = staticmethod(square_backward)

    def kernel(x):
        if x.is_leaf:
            return Square.apply(x)
        with AutoDispatchBelowAutograd():
            return lib.operator("f")(x.detach())

    return library(ONE, CPU=square, Meta=pb.empty_like, Autograd=kernel)(namespace, lib)


def clears_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0].clone())
    inputs[0].detach().mul_(0)


def reads_leaf(x):
    return tensor(array(x) ** 2 * (1 if x.is_leaf else 2))


def reads_gradient(x):
    return tensor(array(x) ** 2 * (1 if x.grad is None else 2))


def larger(x, y):
    return tensor(np.maximum(array(x), array(y)))


def larger_backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * (x >= y), grad * (y >= x)


def largest(x):
    return tensor(array(x).max())


def largest_to_all(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (x == pb.max(x))


def largest_shared(ctx, grad):
    (x,) = ctx.saved_tensors
    ties = (x == pb.max(x)).astype(x.dtype)
    return grad * ties / pb.sum(ties)


def largest_first(ctx, grad):
    (x,) = ctx.saved_tensors
    return pb.index_put(pb.zeros_like(x), (pb.argmax(x),), grad)


def scalar(x):
    return x.new_empty(())


def tied():
    return (leaf(1.0, 3.0, 3.0, 2.0),)


def doubles_all_memory(x):
    values = array(x)
    while isinstance(values.base, np.ndarray):
        values = values.base
    values *= 2


def doubles_float64(x):
    values = np.asarray(array(x), np.float64)
    values *= 2


def double(x):
    values = array(x)
    values *= 2


def half_sum(x):
    values = array(x)
    if values.dtype == np.float32:
        return tensor(np.cumsum(values.astype(np.float16)).astype(np.float32))
    return tensor(np.cumsum(values))


def plain_float32():
    return (pb.tensor([0.53, 2.01, -1.57], dtype=pb.float32),)


def weighted(x, w=None):
    return tensor(array(x) * (1 if w is None else array(w)))


def weighted_setup(ctx, inputs, output):
    ctx.save_for_backward(*(t for t in inputs if t is not None))


def weighted_backward(ctx, grad):
    x, *rest = ctx.saved_tensors
    return (grad * rest[0], grad * x) if rest else (2 * grad, None)


def weighted_right(ctx, grad):
    x, *rest = ctx.saved_tensors
    return (grad * rest[0], grad * x) if rest else (grad, None)


def weights():
    return leaf(0.5, 2.0, -1.5), leaf(1.5, -1.0, 0.7)


OPTIONAL = "(Tensor x, Tensor? w=None) -> Tensor"


def positive_part(x):
    return x if (array(x) > 0).all() else tensor(np.maximum(array(x), 0))


def positive_part_backward(ctx, grad):
    return grad * (ctx.saved_tensors[0] > 0)


def logistic(x):
    return tensor(1 / (1 + np.exp(-np.clip(array(x), -700, 700))))


def logistic_backward(ctx, grad):
    power = pb.exp(-ctx.saved_tensors[0])
    return grad * power / (1 + power) ** 2


def sine(x):
    return tensor(np.sin(array(x)))


def sine_in_order(x):
    return pb.asarray(np.sin(array(x)))


def sine_backward(ctx, grad):
    return grad * pb.cos(ctx.saved_tensors[0])


def far_out():
    return (leaf([-2000.0 * (n + 0.5) for n in range(20)]),)


def transposed():
    return (pb.tensor(np.arange(1.0, 7.0).reshape(2, 3).T, requires_grad=True),)


def phase(x):
    return tensor(np.exp(1j * array(x)))


def phase_backward(ctx, grad):
    return pb.real(pb.conj(1j * pb.exp(1j * ctx.saved_tensors[0])) * grad)


def complex_form(x):
    dtype = "complex64" if x.dtype == np.float32 else "complex128"
    return pb.empty(x.shape, dtype=dtype, device="meta")


def positive():
    return (leaf(0.5, 2.0, 1.5),)


ENTRIES = [
    Entry(
        "rounded_pi",
        custom(sine_of_pi, sine_of_rounded_pi_backward),
        three,
        G,
        "times the right one everywhere",
    ),
    Entry(
        "epsilon_in_denominator",
        custom(logarithm, logarithm_with_epsilon),
        positive,
        G,
        "3 of 3 elements are wrong",
    ),
    Entry(
        "small_derivative_is_no_zero",
        custom(scaled_sine, scaled_sine_doubled),
        three,
        G,
        "e-08; 1 of 3 elements are wrong",
    ),
    Entry(
        "nan_where_derivative_is_zero",
        custom(square, square_divided),
        lambda: (leaf(0.0, 1.5, 2.0),),
        G,
        "divides by zero",
    ),
    Entry("one_line_shares", custom(one_line(), square_backward), three, T, "several threads"),
    Entry("one_object_shares", custom(one_object(), square_backward), three, T, "several threads"),
    Entry(
        "write_that_is_undone",
        custom(shifts_and_restores, square_backward),
        lambda: (leaf(1.0, 2.0, 3.0),),
        S,
        "got its values back",
    ),
    Entry("error_handling", custom(ignores_overflow, square_backward), three, S, "handling of"),
    Entry("grad_mode", stops_recording, three, S, "switches the grad mode off"),
    Entry(
        "setup_writes_to_input",
        custom(square, square_backward, setup=clears_input),
        three,
        S,
        "was mutated",
    ),
    Entry("no_derivative", without_derivative, three, G, "nothing is registered at Autograd"),
    Entry("leaves_only", records_leaves_only, three, G, "none where they are results of other"),
    Entry("reads_is_leaf", custom(reads_leaf, square_backward), three, G, "results of other"),
    Entry("reads_grad", custom(reads_gradient, square_backward), three, G, "whose .grad is there"),
    Entry(
        "tie_of_two_inputs",
        custom(larger, larger_backward, TWO),
        lambda: (leaf(1.0, 2.0, 3.0), leaf(1.0, 5.0, 0.0)),
        G,
        "share the gradient among them",
    ),
    Entry(
        "tie_in_a_maximum",
        custom(largest, largest_to_all, fake=scalar),
        tied,
        G,
        "share the gradient among them",
    ),
    Entry(
        "writes_beside_its_argument",
        custom(doubles_all_memory, schema=WRITES, mutates=("x",)),
        plain_table,
        "test_layouts",
        "writes beside 'x'",
    ),
    Entry(
        "in_place_in_float64_only",
        custom(doubles_float64, schema=WRITES, mutates=("x",)),
        plain_float32,
        G,
        "after the call in float32",
    ),
    Entry("values_in_half_precision", custom(half_sum), plain_float32, G, "output 0 in float32"),
    Entry(
        "optional_left_out",
        custom(weighted, weighted_backward, OPTIONAL, setup=weighted_setup),
        weights,
        D,
        "with w=None",
    ),
    Entry(
        "returns_input_for_other_signs",
        custom(positive_part, positive_part_backward),
        lambda: (leaf(1.0, -1.0, 2.0),),
        D,
        "may not alias",
    ),
    Entry("nan_far_out", custom(logistic, logistic_backward), positive, D, "2000 times as large"),
    Entry("in_place", custom(double, schema=WRITES, mutates=("x",)), plain_float32),
    Entry("scales", custom(scaled_sine, scaled_sine_backward), three),
    Entry(
        "very_large_values",
        custom(logarithm, logarithm_backward),
        lambda: (leaf(1e-8, 1e-300, 1e8, 1e300),),
    ),
    Entry("own_memory_of_a_thread", custom(own_memory(), square_backward), three),
    Entry("wants_writable_memory", custom(refuses_read_only, square_backward), three),
    Entry("ties_shared", custom(largest, largest_shared, fake=scalar), tied),
    Entry("ties_to_the_first", custom(largest, largest_first, fake=scalar), tied),
    Entry("many_periods", custom(sine, sine_backward), far_out),
    Entry("layout_of_the_input", custom(sine_in_order, sine_backward), transposed),
    Entry("complex_output_only", custom(phase, phase_backward, fake=complex_form), three),
    Entry(
        "optional_left_out_right",
        custom(weighted, weighted_right, OPTIONAL, setup=weighted_setup),
        weights,
    ),
    Entry(
        "logistic_by_output",
        custom(
            lambda x: tensor(0.5 * (1 + np.tanh(0.5 * array(x)))),
            lambda ctx, grad: grad * ctx.saved_tensors[0] * (1 - ctx.saved_tensors[0]),
            setup=save_output,
        ),
        positive,
    ),
]
