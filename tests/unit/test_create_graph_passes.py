"""Passes with ``create_graph``: the order by sequence number equals that by counting."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.engine import graph_task
from pullback.autograd.function import Function

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(name="counted")
def _counted(monkeypatch):
    """How often a pass has to count dependencies."""
    calls = []
    real = graph_task.count_dependencies

    def noted(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(graph_task, "count_dependencies", noted)
    # Nodes of traced programs, which other tests may have left, are looked for by counting, too.
    monkeypatch.setattr(graph_task, "marked", ())
    return calls


def several(x):
    values, vectors = pb.linalg.eigh(pb.outer(x, x) + pb.diag(x))
    return (values * vectors * vectors).sum() + pb.exp(x[1:]).prod() * x.max()


def test_second_derivatives_are_those_of_counting(counted, monkeypatch):
    def hessian():
        x = pb.tensor(X, requires_grad=True)
        (slope,) = pb.autograd.grad(several(x), x, create_graph=True)
        rows = [pb.autograd.grad(s, x, retain_graph=True)[0].numpy() for s in slope]
        return np.stack(rows)

    found = hessian()
    assert not counted
    monkeypatch.setattr(graph_task.GraphTask, "counts_dependencies", True)
    np.testing.assert_array_equal(found, hessian())
    assert counted


def test_backward_adds_to_leaves_and_keeps_their_history(counted):
    x = pb.tensor(X, requires_grad=True)
    y = pb.tensor(X, requires_grad=True)
    with pytest.warns(UserWarning, match="reference cycle"):
        (x * x * y).sum().backward(create_graph=True)
    np.testing.assert_allclose(x.grad.detach().numpy(), 2 * X * X)
    np.testing.assert_allclose(y.grad.detach().numpy(), X * X)
    np.testing.assert_allclose(pb.autograd.grad(y.grad.sum(), x)[0].numpy(), 2 * X)
    assert not counted


def test_inner_results_may_be_inputs(counted):
    x = pb.tensor(X, requires_grad=True)
    y = x * x
    z = pb.sin(y)
    of_y, of_x = pb.autograd.grad((z * y).sum(), (y, x), create_graph=True)
    (again,) = pb.autograd.grad(of_y.sum(), x, retain_graph=True)
    squares = X * X
    np.testing.assert_allclose(of_y.detach().numpy(), np.sin(squares) + squares * np.cos(squares))
    np.testing.assert_allclose(of_x.detach().numpy(), 2 * X * of_y.detach().numpy())
    slope = 2 * np.cos(squares) - squares * np.sin(squares)
    np.testing.assert_allclose(again.numpy(), slope * 2 * X)
    assert not counted


@pytest.mark.parametrize("where", ["leaf", "inner", "late"])
def test_hooks_are_run(where):
    x = pb.tensor(X, requires_grad=True)
    y = x * x
    seen = []

    def hook(grad):
        seen.append(grad.detach().numpy().copy())
        return grad * 2

    class Late(Function):
        """Hooks the tensor that its gradient goes to, while the pass runs."""

        @staticmethod
        def forward(_, value):
            return value.clone()

        @staticmethod
        def backward(_, grad):
            y.register_hook(hook)
            return grad

    z = Late.apply(y) if where == "late" else y
    if where != "late":
        (x if where == "leaf" else y).register_hook(hook)
    (slope,) = pb.autograd.grad((z**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(slope.detach().numpy(), 12 * X**5)
    np.testing.assert_allclose(seen[0], 6 * X**5 if where == "leaf" else 3 * X**4)
    assert slope.requires_grad


class Fails(Function):
    @staticmethod
    def forward(_, value):
        return value.clone()

    @staticmethod
    def backward(_, __):
        raise ArithmeticError("mine")


def test_an_error_leaves_complete_leaves_their_gradients():
    x, y = (pb.tensor(X, requires_grad=True) for _ in range(2))
    loss = (Fails.apply(x * 1.0) * y).sum()
    with pytest.warns(UserWarning, match="cycle"), pytest.raises(ArithmeticError, match="mine"):
        loss.backward(create_graph=True)
    np.testing.assert_allclose(y.grad.detach().numpy(), X)
    assert x.grad is None
    assert pb.is_grad_enabled()


@pytest.mark.parametrize("create_graph", [True, False])
def test_an_error_of_a_pass_for_inputs_changes_nothing(create_graph):
    x, y = (pb.tensor(X, requires_grad=True) for _ in range(2))
    loss = (Fails.apply(x * 1.0) * y).sum()
    with pytest.raises(ArithmeticError, match="mine"):
        pb.autograd.grad(loss, (x, y), create_graph=create_graph)
    assert x.grad is None
    assert y.grad is None


def test_a_function_with_several_results_of_which_one_is_used():
    x = pb.tensor(X, requires_grad=True)
    value, _ = pb.linalg.eigh(pb.outer(x, x))
    (slope,) = pb.autograd.grad(value[-1], x, create_graph=True)  # x·x, the largest one
    np.testing.assert_allclose(slope.detach().numpy(), 2 * X)
    (again,) = pb.autograd.grad(slope.sum(), x)
    np.testing.assert_allclose(again.numpy(), np.full(3, 2.0), atol=1e-6)
