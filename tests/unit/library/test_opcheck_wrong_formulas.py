"""Custom operators with one mistake each, and the words by which ``opcheck`` finds it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.library import custom_op, opcheck

Function = Callable[..., Any]


@dataclass
class Wrong:
    """A custom operator with a mistake: its parts, a call, and the test and words that find it."""

    name: str
    test: str
    words: str
    kernel: Function
    backward: Function | None = None
    schema: str = "(Tensor x) -> Tensor"
    args: Function = lambda: (pb.tensor([0.5, 2.0, 3.0], requires_grad=True),)
    setup: Function | None = None
    jvp: Function | None = None
    fake: Function | None = None
    vmap: Function | None = None
    mutates: tuple[str, ...] = ()


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*(t for t in inputs if isinstance(t, pb.Tensor)))


def define(wrong: Wrong, namespace: str) -> pb.library.CustomOp:
    """The operator, with right parts where the record has none."""
    name = f"{namespace}::{wrong.name}"
    op = custom_op(name, wrong.kernel, mutates_args=wrong.mutates, schema=wrong.schema)
    if wrong.backward is not None:
        op.register_autograd(wrong.backward, setup_context=wrong.setup or save)
    if wrong.jvp is not None:
        op.register_jvp(wrong.jvp)
    op.register_fake(wrong.fake or (lambda x, *_: pb.empty_like(x)))
    if wrong.vmap is not None:
        op.register_vmap(wrong.vmap)
    return op


def array(t: pb.Tensor) -> Any:
    return t.numpy()


def square(x: pb.Tensor) -> pb.Tensor:
    return pb.asarray(array(x) ** 2)


def square_backward(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    return 2 * x * grad


def times(x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    return pb.asarray(array(x) * array(y))


def two() -> tuple[Any, ...]:
    x = pb.tensor([0.5, 2.0, 3.0], requires_grad=True)
    return x, pb.tensor([1.5, -1.0, 0.7], requires_grad=True)


def row_and_table() -> tuple[Any, ...]:
    return pb.tensor([0.5, 2.0], requires_grad=True), pb.tensor([[1.5, 1.0]] * 3)


def complex_input() -> tuple[Any, ...]:
    return (pb.tensor([0.5 + 1j, 2.0 - 0.3j], requires_grad=True),)


PAIR = "(Tensor x, Tensor y) -> Tensor"
table_like = lambda x, y: pb.empty_like(y)  # noqa: E731 - a shape in a table


def mutate(x: pb.Tensor) -> pb.Tensor:
    array(x)[...] *= 2
    return pb.asarray(array(x) + 1)


def mutate_second(x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    result = pb.asarray(array(x) * array(y))
    array(y)[0] = 0
    return result


def sinc(x: pb.Tensor) -> pb.Tensor:
    values = array(x)
    safe = np.where(values == 0, 1, values)
    return pb.asarray(np.where(values == 0, 1.0, np.sin(safe) / safe))


def sinc_backward(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    with np.errstate(all="ignore"):
        return grad * (pb.cos(x) / x - pb.sin(x) / (x * x))


def detached_backward(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    return grad * pb.asarray(2 * x.detach().numpy())


def in_memory_order(x: pb.Tensor) -> pb.Tensor:
    flat = np.ravel(array(x), order="K")
    return pb.asarray((flat * np.arange(1.0, flat.size + 1)).reshape(x.shape))


class Scratch:
    """Shared by all calls, which is the mistake."""

    values: Any = None


def through_scratch(x: pb.Tensor) -> pb.Tensor:
    Scratch.values = array(x)
    values = Scratch.values + 0
    values = values * Scratch.values
    return pb.asarray(values)


def remember(ctx: Any, inputs: Any, output: Any) -> None:
    Scratch.values = inputs[0]


def from_scratch(ctx: Any, grad: Any) -> Any:
    return 2 * Scratch.values * grad


def first_only(x: pb.Tensor) -> pb.Tensor:
    return pb.asarray(array(x) / array(x)[0])


def mean(x: pb.Tensor) -> pb.Tensor:
    with np.errstate(all="ignore"):
        return pb.asarray(np.sum(array(x)))


def mean_backward(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    count = np.float64(x.size)
    with np.errstate(all="ignore"):
        return pb.ones_like(x) * grad * (count / count)


def matrix() -> tuple[Any, ...]:
    return (pb.tensor([[0.5, 2.0, 1.0], [3.0, 4.0, 2.0]], requires_grad=True),)


WRONG = [
    Wrong(
        "sign", "test_gradients", "sign is wrong", square, lambda ctx, g: -square_backward(ctx, g)
    ),
    Wrong(
        "factor",
        "test_gradients",
        "is 0.5 times the right one",
        square,
        lambda ctx, g: ctx.saved_tensors[0] * g,
    ),
    Wrong("zero", "test_gradients", "there is no gradient for 'x'", square, lambda ctx, g: g * 0),
    Wrong("none", "test_gradients", "there is no gradient for 'x'", square, lambda ctx, g: None),
    Wrong(
        "power",
        "test_gradients",
        "elements are wrong",
        square,
        lambda ctx, g: g * ctx.saved_tensors[0] ** 2,
    ),
    Wrong(
        "forgets_grad",
        "test_gradients",
        "backward ignores the cotangent",
        square,
        lambda ctx, g: 2 * ctx.saved_tensors[0],
    ),
    Wrong(
        "swapped",
        "test_gradients",
        "it is the gradient of 'y'",
        times,
        lambda ctx, g: (ctx.saved_tensors[0] * g, ctx.saved_tensors[1] * g),
        PAIR,
        two,
        fake=table_like,
    ),
    Wrong(
        "second_missing",
        "test_gradients",
        "there is no gradient for 'y'",
        times,
        lambda ctx, g: (ctx.saved_tensors[1] * g, None),
        PAIR,
        two,
        fake=table_like,
    ),
    Wrong(
        "too_few",
        "test_gradients",
        "incorrect number of gradients",
        times,
        lambda ctx, g: g,
        PAIR,
        two,
        fake=table_like,
    ),
    Wrong(
        "one_copy",
        "test_gradients",
        "elements are wrong",
        times,
        lambda ctx, g: ((ctx.saved_tensors[1] * g)[0], None),
        PAIR,
        row_and_table,
        fake=table_like,
    ),
    Wrong(
        "mean_of_copies",
        "test_gradients",
        "times the right one everywhere",
        times,
        lambda ctx, g: (pb.mean(ctx.saved_tensors[1] * g, axis=0), None),
        PAIR,
        row_and_table,
        fake=table_like,
    ),
    Wrong(
        "wrong_axis",
        "test_gradients",
        "invalid gradient",
        times,
        lambda ctx, g: (pb.sum(ctx.saved_tensors[1] * g, axis=1), None),
        PAIR,
        row_and_table,
        fake=table_like,
    ),
    Wrong(
        "conjugate",
        "test_gradients",
        "complex conjugate",
        square,
        lambda ctx, g: 2 * ctx.saved_tensors[0] * g,
        args=complex_input,
    ),
    Wrong("nan_at_edge", "test_gradients", "NaN where 'x' is 0", sinc, sinc_backward),
    Wrong("not_twice", "test_gradients", "outside of the graph", square, detached_backward),
    Wrong(
        "tangent",
        "test_gradients",
        "the forward rule is wrong",
        square,
        square_backward,
        jvp=lambda ctx, t: ctx.saved_tensors[0] * t,
    ),
    Wrong(
        "tangent_lost",
        "test_gradients",
        "the forward rule is wrong",
        square,
        square_backward,
        jvp=lambda ctx, t: None,
    ),
    Wrong("no_formula", "test_gradients", "no autograd formula was registered", square),
    Wrong("raises", "test_gradients", "ZeroDivisionError", square, lambda ctx, g: g * (1 // 0)),
    Wrong(
        "mutation",
        "test_schema",
        "Argument x is not defined as mutable but was mutated",
        mutate,
        lambda ctx, g: 2 * g,
    ),
    Wrong(
        "mutation_of_second",
        "test_schema",
        "Argument y is not defined as mutable",
        mutate_second,
        lambda ctx, g: (g, g),
        PAIR,
        two,
        fake=table_like,
    ),
    Wrong(
        "returned_alias",
        "test_schema",
        "may not alias any inputs",
        lambda x: x[:2],
        lambda ctx, g: g,
    ),
    Wrong(
        "returned_input", "test_schema", "may not alias any inputs", lambda x: x, lambda ctx, g: g
    ),
    Wrong(
        "memory_order",
        "test_layouts",
        "in memory",
        in_memory_order,
        args=lambda: (matrix()[0].detach(),),
    ),
    Wrong("scratch", "test_threads", "several threads", through_scratch, square_backward),
    Wrong(
        "global_state",
        "test_threads",
        "the two calls share state",
        square,
        from_scratch,
        setup=remember,
    ),
    Wrong(
        "empty_crashes",
        "test_zero_size",
        "IndexError",
        first_only,
        args=lambda: (pb.tensor([1.0, 2.0]),),
    ),
]


def failure(report, test):
    return "\n".join(str(row.error) for row in report.failures if row.test == test)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_the_mistake_is_found(ns, wrong):
    op = define(wrong, ns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = opcheck(op, wrong.args(), raise_exception=False)
    found = failure(report, wrong.test)
    assert wrong.words in f"{type(report[wrong.test]).__name__}: {found}", str(report)
    assert "FAILED" in str(report)


def test_there_are_enough_mistakes():
    assert len(WRONG) >= 25


def test_arguments_are_left_as_they_were(ns):
    """Rule 16.3."""
    for wrong in WRONG:
        args = wrong.args()
        before = [t.tolist() for t in args]
        op = define(wrong, ns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opcheck(op, args, raise_exception=False, tests=["test_schema", "test_gradients"])
        assert [t.tolist() for t in args] == before
        assert all(t.grad is None for t in args)
    assert pb.is_grad_enabled()
