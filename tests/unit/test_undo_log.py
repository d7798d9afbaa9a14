"""The undo log: values that in-place writes replace in `numpy_mode`, and writes that it misses."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd.graph.undo_log import find_log
from pullback.errors import InplaceError, SavedVersionError
from pullback.utils.checkpoint import checkpoint

LARGE = 4000  # elements: parts of this size may be covered


def _leaf(n: int = 3) -> Any:
    return pb.tensor(np.linspace(0.5, 1.5, n), requires_grad=True)


def _raises_stale(total: Any) -> None:
    with pytest.raises(SavedVersionError, match="modified by an inplace operation"):
        total.backward()


@pytest.mark.parametrize("writes_before", [False, True])
@pytest.mark.parametrize("where", ["after", "thread", "version", "array"])
def test_a_write_that_is_not_logged_raises(where: str, writes_before: bool) -> None:
    x = _leaf()
    with pb.numpy_mode():
        y = np.sin(x)
        total = (y * y).sum()
        if writes_before:
            y *= 2.0
            total = total + (y * y).sum()
    if where == "after":
        y[0] = 7.0
    elif where == "thread":
        thread = threading.Thread(target=lambda: y.mul_(3.0))
        thread.start()
        thread.join()
    elif where == "version":
        y.detach().numpy()[0] = 5.0
        pb.autograd.graph.increment_version(y)
    else:
        with pb.no_grad():
            y.add_(1.0)
    _raises_stale(total)


def test_a_write_after_the_mode_ends_the_log_for_a_later_mode() -> None:
    x = _leaf()
    with pb.numpy_mode():
        y = np.sin(x)
        total = (y * y).sum()
        y *= 2.0
    y.mul_(3.0)
    with pb.numpy_mode():
        y *= 2.0
        later = (y * y).sum()
        y[0] = 0.0
    later.backward()  # saved after the write that the log has missed
    np.testing.assert_allclose(
        x.grad.numpy(), 2 * 144 * np.sin(x.numpy(force=True)) * np.cos(x.numpy(force=True))
    )
    _raises_stale(total)


def test_a_failed_write_and_one_after_the_mode_raise() -> None:
    x = _leaf()
    with pb.numpy_mode():
        y = np.sin(x)
        total = (y * y).sum()
        with pytest.raises(InplaceError, match="shape"):
            y += np.ones((2, 3))
    y.mul_(3.0)
    _raises_stale(total)


def test_a_tangent_that_was_written_unlogged_raises() -> None:
    def f(x: Any) -> Any:
        with pb.numpy_mode():
            y = x * x
            total = (y * y).sum()
            y *= 2.0
        y.mul_(x)
        return total

    with pytest.raises(SavedVersionError, match="modified by an inplace operation"):
        func.jacfwd(func.grad(f))(pb.tensor([1.0, 2.0]))


def test_all_versions_of_a_loop_are_rebuilt_in_any_order() -> None:
    x = _leaf()
    with pb.numpy_mode():
        y = np.zeros((4, 3))
        totals = []
        for i in range(4):
            y[i] = x * (i + 1)
            totals.append((y * y * y).sum())
    for order in (range(4), reversed(range(4)), [2, 0, 3, 1]):
        for last in order:
            (grad,) = pb.autograd.grad(totals[last], x, retain_graph=True)
            factor = sum((k + 1) ** 3 for k in range(last + 1))
            np.testing.assert_allclose(grad.numpy(), 3 * factor * x.numpy(force=True) ** 2)


def test_large_parts_are_rebuilt_after_repeated_writes() -> None:
    x = _leaf(LARGE)
    with pb.numpy_mode():
        y = np.copy(x)
        total = 0.0
        for _ in range(4):
            total = total + (y[1:] * y[1:]).sum()
            y[1:] *= 2.0
            y[1:] += 0.0
            y *= 1.0
    total.backward()
    expected = 2 * x.numpy(force=True) * sum(4**k for k in range(4))
    expected[0] = 0.0
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_a_custom_function_may_save_what_is_written_over() -> None:
    class Square(pb.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * grads[0]

    x = _leaf(LARGE)
    with pb.numpy_mode():
        y = x * 1.0
        y *= 2.0
        y *= 0.5
        total = Square.apply(y).sum()
        y *= 3.0
    (grad,) = pb.autograd.grad(total, x, create_graph=True)
    np.testing.assert_allclose(grad.numpy(force=True), 2 * x.numpy(force=True))
    np.testing.assert_allclose(pb.autograd.grad(grad.sum(), x)[0].numpy(), 2.0)


def test_memory_that_no_node_saves_is_logged_once() -> None:
    x = _leaf(LARGE)
    with pb.numpy_mode():
        y = np.copy(x)
        for _ in range(50):
            y *= 0.9
            y[1:-1] += 0.1 * (y[2:] - y[:-2])
    log = find_log(y._counter)
    assert log is not None
    assert sum(getattr(old, "nbytes", 0) for old in log.olds if old is not None) <= 4 * y.nbytes


def test_the_memory_of_a_program_that_overwrites_stays_within_a_fifth() -> None:
    def program(x: Any, zeros: Any) -> Any:
        y = zeros(200_000)
        y += x.sum()
        for _ in range(20):
            y *= 0.99
            y[1:-1] += 0.1
        return y.sum()

    def peak(run: Any) -> int:
        run()
        tracemalloc.start()
        run()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    def inside() -> None:
        with pb.numpy_mode():
            program(_leaf(), np.zeros)

    assert peak(inside) <= 3 * 8 * 200_000 + 1.2 * peak(lambda: program(_leaf(), pb.zeros))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_parts_are_recomputed_in_the_mode(reentrant: bool) -> None:
    def part(x: Any) -> Any:
        made = np.zeros(3)
        made[0] = x[0]
        for i in range(1, 3):
            made[i] = np.sin(made[i - 1]) * x[i]
        kept = made * made
        made *= 2.0
        return kept + made

    def plain(x: Any) -> Any:
        return (part(x) * x).sum()

    def checkpointed(x: Any) -> Any:
        return (checkpoint(part, x, use_reentrant=reentrant) * x).sum()

    point = np.array([0.3, 0.7, -0.4])
    x = pb.tensor(point, requires_grad=True)
    pb.differentiable(checkpointed)(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), pb.grad(plain)(point))


def test_rows_of_batches_are_rebuilt() -> None:
    def f(x: Any) -> Any:
        made = np.zeros(3)
        made[0] = x[0]
        made[1:] = x[1:] * x[0]
        total = (made * made * made).sum()
        made *= 5.0
        return total + made[0]

    def pure(x: Any) -> Any:
        made = pb.concatenate([x[:1], x[1:] * x[0]])
        return (made * made * made).sum() + 5.0 * x[0]

    rows = pb.tensor(np.linspace(0.2, 1.4, 12).reshape(4, 3))
    for derivative in (func.grad, func.hessian):
        found = func.vmap(derivative(pb.differentiable(f)))(rows)
        np.testing.assert_allclose(found.numpy(), func.vmap(derivative(pure))(rows).numpy())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.clip(y, -x, x) * x,
        lambda x, y: np.clip(y, -0.3, 0.7) * y,
        lambda x, y: np.where(y > 0, y * x, x**2),
        lambda x, y: pb.lerp(y, x, y * x),
    ],
    ids=["clip", "clip by numbers", "where", "lerp"],
)
def test_second_derivatives_of_operators_of_three_operands_after_a_write(function):
    def value(v, writes):
        x, y = np.copy(v[:3]), np.copy(v[3:])
        found = function(x, y)
        if writes:
            y *= 2
            x += y
        return (found**2).sum()

    v = np.array([0.5, 1.5, -0.3, 0.2, 0.4, 0.9])
    expected = pb.hessian(lambda v: value(v, False))(v)
    np.testing.assert_allclose(pb.hessian(lambda v: value(v, True))(v), expected)
