"""Operators that write to their arguments."""

from __future__ import annotations

import itertools

import numpy as np

import pullback as pb
from tests.unit.library.planted.declare import (
    Entry,
    array,
    custom,
    formulas,
    library,
    plain_table,
    three,
)

L, T, R, S, G = (
    "test_layouts",
    "test_threads",
    "test_repeated_calls",
    "test_schema",
    "test_gradients",
)
NOTHING = "(Tensor(a!) x) -> ()"
INTO = "(Tensor(a!) out, Tensor x) -> ()"
RETURNED = "(Tensor(a!) x) -> Tensor(a!)"


def fill_flat(x):
    """Writes to a copy where the argument is not contiguous."""
    flat = array(x).reshape(-1)
    flat *= 2


def fill_in_memory_order(x):
    a = array(x)
    numbers = np.arange(1.0, a.size + 1)
    low = (
        np.lib.stride_tricks.as_strided(a, (a.size,), (a.itemsize,))
        if a.flags.forc
        else a.ravel(order="K")
    )
    if a.flags.forc:
        low *= numbers
    else:
        a *= numbers.reshape(a.shape)


def fill_contiguous_only(x):
    a = array(x)
    if a.flags.c_contiguous:
        a *= 2


def cumulate_in_memory_order(out, x):
    a, b = array(out), array(x)
    a[...] = np.cumsum(b.ravel(order="K")).reshape(b.shape)


def right_into(out, x):
    array(out)[...] = np.cumsum(array(x)).reshape(x.shape)


def right_fill(x):
    a = array(x)
    a *= 2


def two_tables():
    return pb.zeros((2, 3)), plain_table()[0]


class Shared:
    values = None


def through_shared(x):
    Shared.values = array(x)
    doubled = Shared.values * 2
    Shared.values[...] = doubled


def through_shared_into(out, x):
    Shared.values = array(x)
    target = array(out)
    target[...] = Shared.values + 1


def through_counter(out, x):
    Shared.values = 0
    target, source = array(out), array(x)
    for index in np.ndindex(source.shape):
        Shared.values = source[index]
        target[index] = Shared.values * 2


def random_fill(x):
    array(x)[...] += 1e-7 * np.random.rand()


def random_returned(x):
    array(x)[...] *= 1 + np.random.rand()
    return x


def random_into(out, x):
    array(out)[...] = array(x) + np.random.standard_normal(x.shape)


def counting(namespace, lib):
    numbers = itertools.count()

    def kernel(x):
        array(x)[...] += next(numbers) == 0

    return custom(kernel, None, "(Tensor(a!) x) -> ()", mutates=("x",))(namespace, lib)


def silent_write(x):
    array(x)[...] = 0


def silent_write_returned(x):
    a = array(x)
    a += 1
    return x


def silent_write_into(out, x):
    out.detach().numpy()[...] = array(x)


def ones():
    return (pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),)


class _Doubles(pb.autograd.Function):
    """x *= 2 with a wrong gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad


class _DoublesRight(pb.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def double_(x):
    return x.mul_(2)


def inplace_formula(derivative):
    def build(namespace, lib):
        formulas(
            lambda x: 2 * x,
            {"self": derivative},
            variants=["function", "inplace"],
        )(namespace, lib)
        return getattr(pb.ops, namespace).f_

    return build


W = {"mutates": ("x",)}
ENTRIES = [
    Entry("flat_copy", custom(fill_flat, None, NOTHING, **W), ones, L, "in memory"),
    Entry("memory_order", custom(fill_in_memory_order, None, NOTHING, **W), ones, L, "in memory"),
    Entry(
        "contiguous_only", custom(fill_contiguous_only, None, NOTHING, **W), ones, L, "in memory"
    ),
    Entry(
        "cumulates_in_memory_order",
        custom(cumulate_in_memory_order, None, INTO, mutates=("out",)),
        two_tables,
        L,
        "in memory",
    ),
    Entry("shared", custom(through_shared, None, NOTHING, **W), ones, T, "several threads"),
    Entry(
        "shared_into",
        custom(through_shared_into, None, INTO, mutates=("out",)),
        two_tables,
        T,
        "several threads",
    ),
    Entry(
        "shared_counter",
        custom(through_counter, None, INTO, mutates=("out",)),
        two_tables,
        T,
        "several threads",
    ),
    Entry("random_fill", custom(random_fill, None, NOTHING, **W), ones, R, "random"),
    Entry(
        "random_into", custom(random_into, None, INTO, mutates=("out",)), two_tables, R, "random"
    ),
    Entry(
        "random_returned",
        custom(random_returned, None, RETURNED, mutates=("x",), tags=("inplace",)),
        ones,
        R,
        "random",
    ),
    Entry("first_call", counting, ones, R, "call 1"),
    Entry("version_not_bumped", library(NOTHING, CPU=silent_write), ones, S, "version counter"),
    Entry(
        "version_not_bumped_returned",
        library(RETURNED, CPU=silent_write_returned),
        ones,
        S,
        "version counter",
    ),
    Entry(
        "version_not_bumped_into",
        library(INTO, CPU=silent_write_into),
        two_tables,
        S,
        "version counter",
    ),
    Entry(
        "gradient_wrong",
        library(RETURNED, CPU=double_, Meta=lambda x: x, Autograd=_Doubles.apply),
        three,
        G,
        "0.5 times",
    ),
    Entry(
        "gradient_right",
        library(RETURNED, CPU=double_, Meta=lambda x: x, Autograd=_DoublesRight.apply),
        three,
    ),
    Entry("formula_wrong", inplace_formula("grad * 3"), three, G, "1.5 times"),
    Entry("formula_right", inplace_formula("grad * 2"), three),
    Entry("into_right", custom(right_into, None, INTO, mutates=("out",)), two_tables),
    Entry("fill_right", custom(right_fill, None, NOTHING, **W), ones),
    Entry(
        "returned_right",
        custom(lambda x: (right_fill(x), x)[1], None, RETURNED, mutates=("x",), tags=("inplace",)),
        ones,
    ),
]
