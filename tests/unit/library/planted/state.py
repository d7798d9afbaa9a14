"""State that outlives a call, and kernels that look at what they should not see."""

from __future__ import annotations

import itertools

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    TWO,
    Entry,
    array,
    custom,
    leaf,
    library,
    pair,
    recorded,
    square,
    square_backward,
    tensor,
    three,
    times,
    times_backward,
)

R, G = "test_repeated_calls", "test_gradients"


def counting(change):
    """A builder of operators whose kernel gets the number of the call."""

    def build(namespace, lib):
        numbers = itertools.count()
        return custom(lambda x: change(next(numbers), array(x)), square_backward)(namespace, lib)

    return build


def counting_backward(change):
    def build(namespace, lib):
        numbers = itertools.count()

        def backward(ctx, grad):
            return change(next(numbers), 2 * ctx.saved_tensors[0] * grad)

        return custom(square, backward)(namespace, lib)

    return build


def counting_setup(namespace, lib):
    """Saves the input of the first call only."""
    kept = []

    def setup(ctx, inputs, output):
        kept.append(inputs[0])
        ctx.save_for_backward(kept[0] if len(kept) > 4 else inputs[0])

    return custom(square, square_backward, setup=setup)(namespace, lib)


def cached_by_shape(namespace, lib):
    cache = {}

    def kernel(x):
        a = array(x)
        if a.shape not in cache:
            cache[a.shape] = np.linspace(1, 2, a.size).reshape(a.shape)
            return tensor(a**2)
        return tensor(a**2 * cache[a.shape])

    return custom(kernel, square_backward)(namespace, lib)


def running_mean(namespace, lib):
    state = {"mean": 0.0}

    def kernel(x):
        a = array(x)
        state["mean"] = 0.9 * state["mean"] + 0.1 * float(np.sum(a))
        return tensor(a - state["mean"])

    return custom(kernel, lambda ctx, g: g)(namespace, lib)


def looks_at_requires_grad(x):
    return tensor(array(x) ** 2 * (1.001 if x.requires_grad else 1.0))


def rounds_without_grad(x):
    a = array(x)
    return tensor(a**2 if x.requires_grad else np.round(a, 2) ** 2)


def looks_at_any(x, y):
    scale = 1.0 if x.requires_grad == y.requires_grad else 2.0
    return tensor(array(x) * array(y) * scale)


def looks_at_grad_mode(x):
    out = x * x
    return out if pb.is_grad_enabled() else out + 1e-3


def looks_at_create_graph(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad * (1.001 if pb.is_grad_enabled() else 1)


def looks_at_cotangent(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad + (0.5 * x * grad if grad.requires_grad else 0)


def needs_input_grad_wrong(ctx, grad):
    """Returns the gradients in the wrong places unless both are needed."""
    x, y = ctx.saved_tensors
    if all(ctx.needs_input_grad):
        return y * grad, x * grad
    return (x * grad, y * grad)


def needs_input_grad_lost(ctx, grad):
    x, y = ctx.saved_tensors
    both = all(ctx.needs_input_grad)
    return (y * grad if both else None), x * grad


def needs_input_grad_right(ctx, grad):
    x, y = ctx.saved_tensors
    first, second = ctx.needs_input_grad
    return (y * grad if first else None), (x * grad if second else None)


def random_kernel(x):
    return tensor(array(x) ** 2 + 1e-9 * np.random.rand())


def random_backward(ctx, grad):
    return 2 * ctx.saved_tensors[0] * grad * (1 + 1e-9 * np.random.rand())


def rarely_random(x):
    return tensor(array(x) ** 2 + (np.random.rand() < 0.5))


def like(x):
    return pb.empty_like(x)


def silent(x):
    with pb.no_grad():
        return x * x


def silent_detach(x):
    return x.detach() * x.detach()


def silent_numpy(x):
    return tensor(array(x.detach()) ** 2)


def silent_half(x):
    with pb.no_grad():
        factor = x * 1
    return x * factor


SPEC = "(Tensor x) -> Tensor"
LOST = "no history"
OTHER = "requires_grad"
skip = pb.library.fallthrough_kernel

ENTRIES = [
    Entry("first_call_wrong", counting(lambda n, a: tensor(a**2 + (n == 0))), three, R, "call 1"),
    Entry("first_call_zero", counting(lambda n, a: tensor(a**2 * (n > 0))), three, R, "call 1"),
    Entry(
        "only_first_call_right",
        counting(lambda n, a: tensor(a**2 + (n > 0) * 1e-3 * a)),
        three,
        R,
        "call",
    ),
    Entry("third_call_wrong", counting(lambda n, a: tensor(a**2 + (n == 2))), three, R, "call"),
    Entry("drifts", counting(lambda n, a: tensor(a**2 * (1 + 1e-6 * n))), three, R, "call"),
    Entry("later_calls_wrong", counting(lambda n, a: tensor(a**2 + (n > 40))), three, R, "call"),
    Entry(
        "first_backward_wrong", counting_backward(lambda n, g: g * (1 + (n == 0))), three, R, "call"
    ),
    Entry(
        "later_backward_wrong", counting_backward(lambda n, g: g * (1 + (n > 0))), three, R, "call"
    ),
    Entry("alternates", counting_backward(lambda n, g: g * (1 + n % 2)), three, R, "call"),
    Entry("setup_keeps_the_first", counting_setup, three, G, "63/64"),
    Entry("cached_by_shape", cached_by_shape, three, R, "call"),
    Entry("running_mean", running_mean, three, R, "call"),
    Entry("random_kernel", custom(random_kernel, square_backward), three, R, "random"),
    Entry("random_backward", custom(square, random_backward), three, R, "random"),
    Entry("rarely_random", custom(rarely_random, square_backward), three, R, "random"),
    Entry(
        "kernel_looks_at_requires_grad",
        custom(looks_at_requires_grad, square_backward),
        three,
        G,
        OTHER,
    ),
    Entry(
        "kernel_rounds_without_grad",
        custom(rounds_without_grad, square_backward),
        lambda: (leaf(0.1234, 2.7171),),
        G,
        OTHER,
    ),
    Entry(
        "kernel_compares_requires_grad", custom(looks_at_any, times_backward, TWO), pair, G, OTHER
    ),
    Entry(
        "composite_looks_at_grad_mode",
        library(SPEC, CompositeImplicitAutograd=looks_at_grad_mode),
        three,
        G,
        "no_grad",
    ),
    Entry(
        "backward_looks_at_grad_mode",
        custom(square, looks_at_create_graph),
        three,
        G,
        "create_graph",
    ),
    Entry(
        "backward_looks_at_cotangent", custom(square, looks_at_cotangent), three, G, "create_graph"
    ),
    Entry("needs_input_grad_swaps", custom(times, needs_input_grad_wrong, TWO), pair, G, "alone"),
    Entry("needs_input_grad_loses", custom(times, needs_input_grad_lost, TWO), pair, G, "alone"),
    Entry("needs_input_grad_right", custom(times, needs_input_grad_right, TWO), pair),
    Entry(
        "autograd_other_value",
        recorded(square_backward, change=lambda y: y * 1.00001),
        three,
        G,
        "backend kernel",
    ),
    Entry(
        "autograd_other_shape",
        recorded(lambda ctx, g: 2 * ctx.saved_tensors[0] * g[0], change=lambda y: y[None] * 1),
        three,
        G,
        "backend kernel",
    ),
    Entry(
        "autograd_other_dtype",
        recorded(square_backward, change=lambda y: y.astype("float32")),
        three,
        G,
        "backend kernel",
    ),
    Entry(
        "autograd_composite_other",
        library(SPEC, CPU=square, Meta=like, Autograd=lambda x: x * x + 1e-4 * x),
        three,
        G,
        "backend kernel",
    ),
    Entry("autograd_right", recorded(square_backward), three),
    Entry("silent_no_grad", library(SPEC, CompositeImplicitAutograd=silent), three, G, LOST),
    Entry("silent_detach", library(SPEC, CompositeImplicitAutograd=silent_detach), three, G, LOST),
    Entry("silent_numpy", library(SPEC, CompositeImplicitAutograd=silent_numpy), three, G, LOST),
    Entry("silent_autograd", library(SPEC, CPU=square, Meta=like, Autograd=silent), three, G, LOST),
    Entry(
        "silent_half", library(SPEC, CompositeImplicitAutograd=silent_half), three, G, "0.5 times"
    ),
    Entry(
        "fallthrough",
        library(SPEC, CPU=silent_numpy, Meta=like, Autograd=skip),
        three,
        G,
        "fallthrough",
    ),
    Entry(
        "fallthrough_detached",
        library(SPEC, CPU=silent_detach, Meta=like, Autograd=skip),
        three,
        G,
        "fallthrough",
    ),
    Entry(
        "fallthrough_cpu",
        library(SPEC, CPU=silent_numpy, Meta=like, AutogradCPU=skip),
        three,
        G,
        "fallthrough",
    ),
    Entry(
        "fallthrough_below",
        library(SPEC, CPU=lambda x: x * x, Meta=like, Autograd=skip),
        three,
        "test_autograd_registration",
        "fallthrough",
    ),
    Entry(
        "fallthrough_of_counts",
        library(SPEC, CPU=lambda x: tensor(np.floor(array(x.detach()))), Meta=like, Autograd=skip),
        three,
    ),
]
