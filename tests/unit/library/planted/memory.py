"""Layouts of memory, writes to saved values, and kernels that keep or share memory."""

from __future__ import annotations

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    TWO,
    Entry,
    array,
    custom,
    leaf,
    plain_table,
    recorded,
    square,
    square_backward,
    table,
    tensor,
    three,
    times,
    times_backward,
)

G, L = "test_gradients", "test_layouts"


def from_pointer(x):
    """Reads on from the first element, as a C kernel that ignores strides does."""
    a = array(x)
    if any(s < 0 for s in a.strides):
        a = np.lib.stride_tricks.as_strided(a, a.shape, [abs(s) for s in a.strides])
    return tensor(a * 2.0)


def absolute_strides(x):
    a = array(x)
    low = a[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in a.strides)]
    return tensor(low + 1.0)


def only_last_reversed(x):
    a = array(x)
    if a.ndim and a.strides[-1] < 0:
        a = a[..., ::-1]
    return tensor(np.exp(a))


def zero_strides_as_one(x):
    """Takes an axis of stride zero for an axis of one."""
    a = array(x)
    axes = zip(a.strides, a.shape, strict=True)
    kept = a[tuple(slice(0, 1) if s == 0 and n > 1 else slice(None) for s, n in axes)]
    out = np.zeros(a.shape)
    out[tuple(slice(0, n) for n in kept.shape)] = kept
    return tensor(out)


def zero_strides_summed(ctx, grad):
    """Takes a cotangent that was expanded for one number."""
    (x,) = ctx.saved_tensors
    g = grad.detach().numpy()
    if g.ndim and g.size > 1 and not any(g.strides):
        return tensor(2 * array(x.detach()) * g.flat[0] / g.size)
    return 2 * x * grad


def reversed_cotangent(ctx, grad):
    (x,) = ctx.saved_tensors
    g = grad.detach().numpy()
    if g.ndim and g.strides[-1] < 0:
        return 2 * x * pb.asarray(np.array(g[..., ::-1]))
    return 2 * x * grad


def transposed_cotangent(ctx, grad):
    (x,) = ctx.saved_tensors
    g = grad.detach().numpy()
    if not g.flags.c_contiguous and g.flags.f_contiguous:
        return 2 * x * pb.asarray(g.ravel(order="K").reshape(g.shape).copy())
    return 2 * x * grad


def mixed_orders(x, y):
    """Right where both arguments have the same order in memory."""
    a, b = array(x), array(y)
    out = np.empty_like(a)
    flat = a.ravel(order="K") * b.ravel(order="K")
    out[...] = (
        flat.reshape(a.shape[::-1]).T
        if not a.flags.c_contiguous and a.flags.f_contiguous
        else flat.reshape(a.shape)
    )
    return tensor(out)


def tables():
    return leaf([[0.5, 2.0, 1.0], [-3.0, 4.0, -2.0]]), leaf([[1.5, -1.0, 2.5], [0.3, 0.7, -0.2]])


def writes_saved_input(ctx, grad):
    (x,) = ctx.saved_tensors
    result = 2 * x * grad
    x.detach().numpy()[...] = 0
    return result


def writes_saved_output(ctx, grad):
    (y,) = ctx.saved_tensors
    result = y * grad
    y.detach().numpy()[...] *= 2
    return result


def save_intermediate(ctx, inputs, output):
    ctx.factor = tensor(2 * array(inputs[0]))


def writes_intermediate(ctx, grad):
    result = ctx.factor * grad
    array(ctx.factor)[...] += 1
    return result


def exponential(x):
    return tensor(np.exp(array(x)))


def save_output(ctx, inputs, output):
    ctx.save_for_backward(output)


def writes_in_place(ctx, grad):
    values = ctx.factor.numpy()
    values *= grad.detach().numpy()
    return tensor(values)


def save_factor(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.factor = tensor(2 * array(inputs[0].detach()))


_BUFFER = np.zeros(3)


def same_buffer(x):
    a = array(x)
    if a.shape != _BUFFER.shape or a.dtype != _BUFFER.dtype:
        return tensor(a**2)
    np.multiply(a, a, out=_BUFFER)
    return pb.asarray(_BUFFER)


def same_gradient_buffer(ctx, grad):
    (x,) = ctx.saved_tensors
    if x.shape != _BUFFER.shape or (x.requires_grad and grad.requires_grad):
        return 2 * x * grad
    np.multiply(2 * array(x.detach()), grad.detach().numpy(), out=_BUFFER)
    return pb.asarray(_BUFFER)


ENTRIES = [
    Entry(
        "pointer_ignores_sign",
        custom(from_pointer),
        lambda: (pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]),),
        L,
        "in memory",
    ),
    Entry("absolute_strides", custom(absolute_strides), plain_table, L, "in memory"),
    Entry("last_axis_reversed", custom(only_last_reversed), plain_table, L, "in memory"),
    Entry("last_axis_reversed_gradient", custom(square, reversed_cotangent), table, L, "cotangent"),
    Entry("zero_strides_as_one", custom(zero_strides_as_one), plain_table, L, "expanded"),
    Entry("zero_strides_of_cotangent", custom(square, zero_strides_summed), table, L, "cotangent"),
    Entry("transposed_cotangent", custom(square, transposed_cotangent), table, L, "cotangent"),
    Entry("mixed_orders", custom(mixed_orders, times_backward, TWO), tables, L, "in memory"),
    Entry("layouts_right", custom(times, times_backward, TWO), tables),
    Entry("writes_saved_input", custom(square, writes_saved_input), three, G, "writes to"),
    Entry(
        "writes_saved_output",
        custom(exponential, writes_saved_output, setup=save_output),
        three,
        G,
        "writes to",
    ),
    Entry(
        "writes_intermediate",
        custom(square, writes_intermediate, setup=save_intermediate),
        three,
        G,
        "a second backward pass",
    ),
    Entry(
        "function_writes_saved",
        recorded(writes_in_place, setup_context=save_factor),
        three,
        G,
        "a second backward pass",
    ),
    Entry(
        "same_buffer_twice",
        custom(same_buffer, square_backward),
        three,
        "test_repeated_calls",
        "same memory",
    ),
    Entry(
        "same_gradient_buffer",
        custom(square, same_gradient_buffer),
        three,
        "test_repeated_calls",
        "same memory",
    ),
]
