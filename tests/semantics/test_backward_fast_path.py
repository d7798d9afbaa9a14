"""Passes on the fast path, which create no graph task: what user code observes."""

from __future__ import annotations

import warnings
from threading import Thread
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.engine.dependencies import is_ordered
from pullback.autograd.graph import current_graph_task_id, saved_tensors_hooks


def leaf(*values: float) -> pb.Tensor:
    return pb.tensor(values, requires_grad=True)


def surroundings() -> tuple[bool, bool]:
    """Whether there is a pass around the caller, and whether grad mode is on."""
    return current_graph_task_id() >= 0, pb.is_grad_enabled()


def in_thread(function):
    found = []
    thread = Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


class Seen(pb.autograd.Function):
    log: ClassVar[list[tuple[bool, bool]]] = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Seen.log.append(surroundings())
        return grad * 2


def test_a_custom_function_behind_plain_nodes_is_in_a_pass_without_recording():
    Seen.log.clear()
    x = leaf(1.0, 2.0)
    pb.tanh(Seen.apply(pb.exp(x))).sum().backward()
    assert Seen.log == [(True, False)]
    y = np.exp([1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * y * (1 - np.tanh(2 * y) ** 2))
    assert surroundings() == (False, True)


def test_a_written_view_of_a_custom_function_is_in_a_pass_without_recording():
    Seen.log.clear()
    x = leaf(1.0, 2.0)
    y = x * 1.0
    y[0] = Seen.apply(x)[1]
    y.sum().backward()
    assert Seen.log == [(True, False)]
    assert x.grad.tolist() == [0.0, 3.0]


def test_unpack_hooks_behind_plain_nodes_are_in_a_pass_without_recording():
    log = []

    def unpack(tensor):
        log.append(surroundings())
        return tensor

    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda tensor: tensor, unpack):
        squares = x * x
        roots = pb.tanh(x)
    pb.exp(squares + roots).sum().backward()
    assert log == [(True, False)] * 3
    values = x.detach().numpy()
    expected = np.exp(values**2 + np.tanh(values)) * (2 * values + 1 - np.tanh(values) ** 2)
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_hooks_behind_plain_nodes_are_in_a_pass_without_recording():
    log = []
    x = leaf(1.0, 2.0)
    y = x * 3.0
    y.register_hook(lambda grad: log.append(surroundings()))
    pb.exp(-y).sum().backward()
    assert log == [(True, False)]
    np.testing.assert_allclose(x.grad.numpy(), -3 * np.exp([-3.0, -6.0]))


def test_a_pass_is_silent_at_singular_points_and_leaves_numpys_settings_alone():
    before = np.geterr()
    x = leaf(0.0, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.sqrt(x).sum().backward()
    assert x.grad.tolist() == [np.inf, 0.25]
    assert np.geterr() == before


def test_a_pass_that_fails_leaves_nothing_behind():
    before = np.geterr()
    x = leaf(1.0, 2.0)
    y = pb.exp(x)
    loss = (y * 2.0).sum()
    y.add_(1.0)
    for _ in range(2):  # a root that is still taken would be waited for
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert np.geterr() == before
    assert surroundings() == (False, True)


def test_graphs_of_several_threads_are_run_in_the_right_order():
    x = leaf(1.0, 2.0)
    y = pb.exp(x)  # numbers of this thread that are as low as those of the other
    for _ in range(5):
        in_thread(lambda: x * 1.0)
    others = in_thread(lambda: [pb.tanh(x * k) for k in range(1, 40)])
    loss = (sum(others, start=y) * y).sum()
    loss.backward()
    values = x.detach().numpy()
    total = np.exp(values) + sum(np.tanh(values * k) for k in range(1, 40))
    slope = np.exp(values) + sum(k * (1 - np.tanh(values * k) ** 2) for k in range(1, 40))
    expected = slope * np.exp(values) + total * np.exp(values)
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_order_is_found_where_one_thread_has_recorded_a_graph():
    x = leaf(1.0)
    y = in_thread(lambda: pb.exp(x * 2.0) + x)
    assert is_ordered([y.grad_fn])
    first = in_thread(lambda: pb.exp(x))  # number 0, as `second` has
    second = in_thread(lambda: pb.tanh(x))
    both = first + second
    assert not is_ordered([both.grad_fn])
    both.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(1.0) + 1 - np.tanh(1.0) ** 2)
