"""Mistakes whose symptom shows elsewhere: the explanation has to name the cause."""

from __future__ import annotations

import numpy as np

from tests.unit.library.planted.declare import (
    BOTH,
    TWO,
    Entry,
    array,
    custom,
    leaf,
    named,
    pair,
    save,
    square,
    square_backward,
    table,
    tensor,
    three,
    times,
    times_backward,
)

G, S, T, V, L = "test_gradients", "test_schema", "test_threads", "test_vmap", "test_layouts"
FLAGS = "output_differentiability declares it"


def on_a_stack(namespace, lib):
    stack = []
    return custom(
        square,
        lambda ctx, grad: 2 * grad * stack.pop(),
        setup=lambda ctx, inputs, output: stack.append(inputs[0]),
    )(namespace, lib)


def in_a_queue(namespace, lib):
    """First in, first out: right for one call, and wrong once a pass is repeated or left out."""
    queue = []
    return custom(
        square,
        lambda ctx, grad: 2 * grad * queue.pop(0),
        setup=lambda ctx, inputs, output: queue.append(inputs[0]),
    )(namespace, lib)


def on_the_function(namespace, lib):
    def backward(ctx, grad):
        return 2 * grad * backward.x

    def setup(ctx, inputs, output):
        backward.x = inputs[0]

    return custom(square, backward, setup=setup)(namespace, lib)


def right_stack(namespace, lib):
    """A stack that lives on ctx."""

    def setup(ctx, inputs, output):
        ctx.stack = [*inputs]
        ctx.save_for_backward(*inputs)

    return custom(square, square_backward, setup=setup)(namespace, lib)


def adds_to_output(ctx, inputs, output):
    save(ctx, inputs, output)
    output.detach().add_(1)


def negates_output(ctx, inputs, output):
    save(ctx, inputs, output)
    np.negative(array(output), out=array(output))


def sorts_output(ctx, inputs, output):
    save(ctx, inputs, output)
    array(output).sort()


def clears_second(ctx, inputs, output):
    save(ctx, inputs, output)
    array(inputs[1])[...] = 0


def writes_in_save(inputs, output):
    array(output)[...] += 1
    return inputs.x


def clears_samples(op, info, in_dims, x):
    result = x * x
    array(x.detach())[...] = 0
    return result, 0


def scales_samples(op, info, in_dims, x):
    x.detach().mul_(2)
    return x * x / 4, 0


def sorts_shared(op, info, in_dims, x, y):
    result = x * y
    array(y.detach())[...] = 0
    return result, 0


def right_samples(op, info, in_dims, x):
    return op(x), 0


def of_base(x):
    a = array(x)
    whole = a if a.base is None else a.base
    return tensor((a if whole.shape == a.shape else np.resize(whole, a.shape)) ** 2)


def of_buffer(x):
    """Reads as many bytes as the argument has, from its first one on."""
    a = array(x)
    if not a.size:
        return tensor(a**2)
    flat = np.lib.stride_tricks.as_strided(a, (a.size,), (a.itemsize,))
    return tensor(flat.reshape(a.shape) ** 2)


def of_ravelled(x):
    a = array(x)
    return tensor(a.ravel(order="K").reshape(a.shape) ** 2)


def of_copy(x):
    return tensor(np.ascontiguousarray(array(x)) ** 2)


def two(x):
    return tensor(2 * array(x)), tensor(3 * array(x))


def two_of_two(x, y):
    return tensor(array(x) * array(y)), tensor(array(x) + array(y))


def with_mean(x):
    a = array(x)
    return tensor(a**2), tensor(np.full_like(a, a.mean()) if a.size else a)


def with_sign(x):
    return tensor(array(x) ** 2), tensor(np.sign(array(x)))


def with_count(x):
    return tensor(array(x) ** 2), tensor(np.full(x.shape, float(x.size), x.dtype))


def hides(kernel, formula, flags=(True, False), schema=BOTH):
    """Gradients by name, with flags."""
    return named(kernel, lambda inputs, output: inputs, formula, schema, list(flags))


PAIRS = "(Tensor x, Tensor y) -> (Tensor, Tensor)"
ENTRIES = [
    Entry("on_a_stack", on_a_stack, three, T, "the two calls share state"),
    Entry("in_a_queue", in_a_queue, three, G, "state that calls share"),
    Entry("on_the_function", on_the_function, three, T, "the two calls share state"),
    Entry("right_stack", right_stack, three),
    Entry(
        "setup_adds_to_output",
        custom(square, square_backward, setup=adds_to_output),
        three,
        S,
        "setup_context writes to output 0",
    ),
    Entry(
        "setup_adds_seen_in_replay",
        custom(square, square_backward, setup=adds_to_output),
        three,
        "test_aot_dispatch",
        "setup_context writes to output 0",
    ),
    Entry(
        "setup_adds_seen_in_modes",
        custom(square, square_backward, setup=adds_to_output),
        three,
        G,
        "setup_context writes to output 0",
    ),
    Entry(
        "setup_negates_output",
        custom(square, square_backward, setup=negates_output),
        three,
        G,
        "setup_context writes to output 0",
    ),
    Entry(
        "setup_sorts_output",
        custom(square, square_backward, setup=sorts_output),
        three,
        S,
        "setup_context writes to output 0",
    ),
    Entry(
        "setup_clears_second",
        custom(times, times_backward, TWO, setup=clears_second),
        pair,
        S,
        "setup_context writes to the input 'y'",
    ),
    Entry(
        "save_writes_output",
        named(square, writes_in_save, lambda ctx, saved, grad: {"x": 2 * saved * grad}),
        three,
        G,
        "save_for_backward writes to output 0",
    ),
    Entry(
        "rule_clears_samples",
        custom(square, square_backward, vmap=clears_samples),
        three,
        V,
        "the batching rule writes to 'x'",
    ),
    Entry(
        "rule_scales_samples",
        custom(square, square_backward, vmap=scales_samples),
        three,
        V,
        "the batching rule writes to",
    ),
    Entry(
        "rule_clears_second",
        custom(times, times_backward, TWO, vmap=sorts_shared),
        pair,
        V,
        "the batching rule writes to 'y'",
    ),
    Entry("rule_right", custom(square, square_backward, vmap=right_samples), three),
    Entry(
        "base_of_samples", custom(of_base, square_backward), table, V, "there is no batching rule"
    ),
    Entry("base_of_layouts", custom(of_base, square_backward), table, L, ".base"),
    Entry("bytes_of_layouts", custom(of_buffer, square_backward), table, L, "in memory"),
    Entry("memory_order", custom(of_ravelled, square_backward), table, L, "in memory"),
    Entry("own_copy", custom(of_copy, square_backward), table),
    Entry("flag_hides_second", hides(two, lambda ctx, saved, a, b: {"x": 2 * a}), three, G, FLAGS),
    Entry(
        "flag_hides_first",
        hides(two, lambda ctx, saved, a, b: {"x": 3 * b}, (False, True)),
        three,
        G,
        FLAGS,
    ),
    Entry(
        "flag_hides_one_of_two_inputs",
        hides(
            two_of_two, lambda ctx, saved, a, b: {"x": saved.y * a, "y": saved.x * a}, schema=PAIRS
        ),
        pair,
        G,
        FLAGS,
    ),
    Entry(
        "flag_hides_mean",
        hides(with_mean, lambda ctx, saved, a, b: {"x": 2 * saved.x * a}),
        three,
        G,
        FLAGS,
    ),
    Entry(
        "flag_for_sign", hides(with_sign, lambda ctx, saved, a, b: {"x": 2 * saved.x * a}), three
    ),
    Entry(
        "flag_for_count",
        hides(with_count, lambda ctx, saved, a, b: {"x": 2 * saved.x * a}),
        lambda: (leaf(0.5, 2.0, -1.5),),
    ),
    Entry(
        "no_flag", hides(two, lambda ctx, saved, a, b: {"x": 2 * a + 3 * b}, (True, True)), three
    ),
]
