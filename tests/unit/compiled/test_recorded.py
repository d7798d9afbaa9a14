"""Recorded calls of compiled functions: related arguments, captured tensors, second derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

pytest.importorskip("llvmlite", reason="pip install 'pullback[compile]' runs these tests")
BACKENDS = ["llvm", "eager"]


def assert_close(found, expected):
    for f, e in zip(pb.utils.pytree.leaves(found), pb.utils.pytree.leaves(expected), strict=True):
        np.testing.assert_allclose(f.detach(), e.detach(), rtol=1e-12, atol=1e-12)


RELATED = {
    "one tensor twice": lambda f, x: f(x, x),
    "one computed from the other": lambda f, x: f(x, pb.sin(x)),
}


@pytest.mark.parametrize("name", RELATED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_by_related_arguments(name, backend):
    def function(a, b):
        return (a**2 * pb.exp(b)).sum()

    compiled = pb.compile(function, backend=backend)
    x = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    for f in compiled, compiled:
        found, expected = (RELATED[name](g, x) for g in (f, function))
        (first,) = pb.autograd.grad(found, x, create_graph=True)
        (right,) = pb.autograd.grad(expected, x, create_graph=True)
        assert_close(first, right)
        assert_close(pb.autograd.grad(first.sum(), x), pb.autograd.grad(right.sum(), x))
        y = x.detach()
        assert_close(
            pb.func.grad(lambda q, f=f: pb.func.grad(lambda q: RELATED[name](f, q))(q).sum())(y),
            pb.func.grad(lambda q: pb.func.grad(lambda q: RELATED[name](function, q))(q).sum())(y),
        )


def test_batched_cotangents_by_related_arguments():
    compiled = pb.compile(lambda a, b: a**2 * b)
    x = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    (rows,) = pb.autograd.grad(compiled(x, x + 1), x, pb.eye(3), is_grads_batched=True)
    assert_close(rows, pb.diag(3 * x**2 + 2 * x).detach())
    square = pb.compile(lambda a: a**2)
    assert_close(pb.func.jacrev(lambda q: square(q))(pb.ones(3)), 2 * pb.eye(3))


def test_second_derivative_refuses_arguments_computed_from_captured_tensors():
    model = pb.compile(pb.nn.Linear(3, 3))
    weights = list(model._func.parameters())
    loss = (model(pb.tanh(model(pb.ones((2, 3))))) ** 2).sum()
    pb.autograd.grad(loss, weights, retain_graph=True)
    with pytest.raises(AutogradError, match="computed from a tensor that the function captures"):
        pb.autograd.grad(loss, weights, create_graph=True)


def test_second_derivative_refuses_what_has_changed_outside():
    scale = [2.0]
    compiled = pb.compile(lambda a: (a**3 * scale[0]).sum())
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        scale[0] = 2.0
        result = compiled(x)
        scale[0] = 5.0
        with pytest.raises(AutogradError, match="element 0 from outside has changed"):
            pb.autograd.grad(result, x, create_graph=True)


@pytest.mark.parametrize("make", [lambda w: w + 1, lambda w: w[1:], pb.exp])
def test_captured_tensors_with_a_history(make):
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = make(w)

    def function(a):
        return (a * w).sum() + (h**2).sum()

    compiled = pb.compile(function)
    x = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="computed from others"):
        compiled(x)
    for _ in range(2):
        found = pb.autograd.grad(compiled(x), [x, w], retain_graph=True)
        assert_close(found, pb.autograd.grad(function(x), [x, w], retain_graph=True))
