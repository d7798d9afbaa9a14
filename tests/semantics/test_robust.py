"""What must hold under load: depth, memory, threads, and errors in the middle of things."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback.dispatch.modes import DEFAULT_STATE, get_state

DEPTH = 200_000


def test_a_deep_chain_runs_and_is_freed_without_recursion():
    x = pb.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(DEPTH):
        y = y + x
    y.backward()
    assert x.grad.item() == DEPTH + 1
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


@pytest.fixture
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("create_graph", [False, True])
def test_graphs_are_freed_by_reference_counting_alone(create_graph):
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.exp(x) * pb.sin(x)
    a = y[:1]
    a.mul_(2.0)
    total = pb.tanh(x * 3.0).sum() + a.sum()
    (grad,) = pb.autograd.grad(total, x, create_graph=create_graph, allow_unused=True)
    nodes = [weakref.ref(t.grad_fn) for t in (a, total)]
    tensors = [weakref.ref(t) for t in (y, a, total, grad)]
    del y, a, total, grad
    assert [ref() for ref in nodes + tensors] == [None] * 6


def test_threads_share_parameters_and_get_exact_gradients():
    w = pb.tensor(np.linspace(0.1, 1.0, 8), requires_grad=True)
    expected = np.cos(w.detach().numpy()) * 3.0
    wrong = []

    def work():
        for _ in range(200):
            (grad,) = pb.autograd.grad((pb.sin(w) * 3.0).sum(), w)
            if not np.array_equal(grad.numpy(), expected):
                wrong.append(grad)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert w.grad is None


def test_hogwild_accumulation_is_exact():
    w = pb.tensor([1.0, 2.0], requires_grad=True)

    def work():
        for _ in range(200):
            (w * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.tolist() == [800.0, 800.0]


def test_an_error_anywhere_leaves_modes_and_graphs_usable():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    handle = y.register_hook(_fail)
    z = (y * y).sum()
    with pytest.raises(ValueError, match="in a hook"):
        z.backward(retain_graph=True)
    assert get_state() is DEFAULT_STATE
    handle.remove()
    z.backward()
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(ValueError, match="broadcast"):
        pb.multiply(x, pb.tensor([1.0, 2.0, 3.0]))
    assert get_state() is DEFAULT_STATE


def _fail(grad):
    raise ValueError("in a hook")


def test_a_redispatching_kernel_meets_the_modes_of_its_thread():
    mul = pb.ops.pullback.mul.default
    below = pb.DispatchKeySet("Tracer")

    def pass_on(keys, x, y):
        return mul.redispatch(keys - below, x, y)

    packed = []
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    with (
        pb.library.Library("pullback", "IMPL") as lib,
        pb.dispatch.IncludeDispatchKeyGuard("Tracer"),
    ):
        lib.impl("mul", pass_on, "Tracer", with_keyset=True)
        assert pb.multiply(x, x).requires_grad
        with pb.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            y = pb.multiply(x, x)
        with pb.no_grad():
            assert not pb.multiply(x, x).requires_grad
    assert [t is x for t in packed] == [True, True]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_backward_passes_are_silent_at_singular_points():
    """PyTorch users expect inf and NaN, not warnings of NumPy; forward, NumPy users expect them."""
    x = pb.tensor([0.0, 1.0], requires_grad=True)
    pb.sqrt(x).sum().backward()
    assert x.grad.tolist() == [np.inf, 0.5]
    (first,) = pb.autograd.grad(pb.sqrt(x).sum(), x, create_graph=True)
    (second,) = pb.autograd.grad(first.sum(), x)
    assert second.tolist() == [-np.inf, -0.25]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        pb.log(x)
