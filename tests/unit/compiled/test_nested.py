"""Compiled functions inside of compiled functions, as methods and around modules; refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback import nn

pytest.importorskip("llvmlite", reason="pip install 'pullback[compile]' runs these tests")
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def _gradients(function, *tensors):
    return pb.autograd.grad(function(*tensors).sum(), tensors)


class Scaled(nn.Module):
    """A network whose forward is a compiled method."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.scale = 2.0

    @pb.compile
    def forward(self, x):
        return self.linear(x) * self.scale


def test_a_compiled_module_inside_of_a_compiled_function():
    np.random.seed(0)
    inner = pb.compile(nn.Linear(3, 4))
    outer = pb.compile(lambda x: pb.tanh(inner(x)).sum())
    x = pb.tensor(X, requires_grad=True)
    for _ in range(3):
        found = _gradients(outer, x)
        expected = _gradients(lambda x: pb.tanh(inner._func(x)).sum(), x)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        with pb.no_grad():
            inner.weight.mul_(1.5)
    assert outer.stats["eager"] == 0
    assert [p.shape for p in inner.parameters()] == [(4, 3), (4,)]


def test_a_compiled_module_follows_its_mode():
    inner = pb.compile(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    outer = pb.compile(lambda x: inner(x) * 2)
    x = pb.tensor(X)
    for call in (inner.eval, inner.train, inner.eval):
        call()
        state = {k: v.clone() for k, v in inner.state_dict().items()}
        found = outer(x)
        inner.load_state_dict(state)
        np.testing.assert_allclose(found.detach(), (inner._func(x) * 2).detach(), rtol=1e-12)
        assert inner.training == inner._func.training


def test_compiled_methods_are_bound_to_their_object():
    np.random.seed(0)
    nets = [Scaled(), Scaled()]
    x = pb.tensor(X, requires_grad=True)
    for net in (*nets, *nets):
        plain = net.linear(x) * net.scale
        np.testing.assert_allclose(net(x).detach(), plain.detach(), rtol=1e-12)
        net.scale += 1.0
    outer = pb.compile(lambda x: nets[0](x).sum() + nets[1].forward(x).sum())
    expected = (nets[0].linear(x) * nets[0].scale + nets[1].linear(x) * nets[1].scale).sum()
    np.testing.assert_allclose(outer(x).item(), expected.item(), rtol=1e-12)


def test_guards_of_inner_functions_are_those_of_the_outer():
    @pb.compile
    def innermost(x):
        return x * 2 if x.sum() > 0 else x * 3

    @pb.compile
    def middle(x):
        return innermost(x) + (innermost(-x) if x[0, 0] > 0 else 1.0)

    outer = pb.compile(lambda x: pb.exp(middle(x)))
    for sign in (1.0, -1.0, 1.0, -1.0):
        x = pb.tensor(sign * X, requires_grad=True)
        total = 2 * x if sign > 0 else 3 * x
        total = total + (-3 * x if sign > 0 else 1.0)
        assert_same = np.testing.assert_allclose
        assert_same(outer(x).detach(), pb.exp(total).detach(), rtol=1e-12)
        assert_same(_gradients(outer, x)[0], _gradients(lambda x: outer._func(x), x)[0], rtol=1e-12)
    assert outer.stats["eager"] == 0


# --- refusals that the function catches -----------------------------------------------------------


def _sum_or_minus_one(x):
    values = pb.nn.Parameter(x.detach().clone())
    try:
        values.grad = x.detach()
        hook = WEIGHT.register_hook(lambda grad: grad)
    except Exception:
        return x * 0 - 1.0
    hook.remove()
    return x * 2


WEIGHT = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_a_caught_refusal_leaves_no_graph():
    compiled = pb.compile(_sum_or_minus_one)
    with pytest.warns(UserWarning, match="a hook of a tensor is registered"):
        first = compiled(pb.tensor(X))
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(compiled(pb.tensor(X)), 2 * X)
    with pytest.raises(pb.errors.TraceError, match="a hook of a tensor"):
        pb.compile(_sum_or_minus_one, fullgraph=True)(pb.tensor(X))


def test_a_caught_read_of_make_fx_is_an_error():
    def branch(x):
        try:
            return x * 2 if x.sum() > 0 else x
        except Exception:
            return x

    with pytest.raises(pb.errors.TraceError, match="reads a value"):
        pb.fx.experimental.proxy_tensor.make_fx(branch)(pb.tensor(X))


def test_options_of_an_optimizer_by_its_dict_are_seen():
    weight = pb.tensor([1.0, 2.0], requires_grad=True)
    optimizer = pb.optim.SGD([weight], lr=0.5)
    compiled = pb.compile(lambda x: x * vars(optimizer)["param_groups"][0]["lr"])
    other = pb.compile(lambda x: x * optimizer.__dict__["defaults"]["lr"])
    for rate in (0.5, 0.25, 3.0):
        optimizer.param_groups[0]["lr"] = optimizer.defaults["lr"] = rate
        for function in (compiled, other, compiled):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.testing.assert_array_equal(function(pb.ones(2)), [rate, rate])


def test_containers_that_a_compiled_function_changes_inside_of_another_one():
    def inner(state):
        state["x"] = state["x"] + 1
        return state["x"].sum()

    compiled = pb.compile(inner)

    def outer(x):
        state = {"x": x}
        return compiled(state) + state["x"].sum()

    x = pb.tensor([1.0, 2.0])
    function = pb.compile(outer)
    assert [function(x).item() for _ in range(2)] == [10.0, 10.0]


def test_containers_of_arrays_that_a_compiled_function_changes_inside_of_another_one():
    array = np.array([1.0, 2.0])

    def inner(state):
        state["x"] = state["x"] + 1
        return (state["x"] * state["y"]).sum()

    compiled = pb.compile(inner)

    def outer(x):
        state = {"x": x, "y": array}
        return compiled(state) + state["x"].sum()

    x = pb.tensor([1.0, 2.0])
    function = pb.compile(outer)
    with pytest.warns(UserWarning, match="changes a list, dict or other container"):
        assert function(x).item() == 13.0
    assert function(x).item() == 13.0


def test_numbers_beside_tensors_with_tangents():
    def f(x, bound):
        return (np.clip(x, -bound, bound) ** 3).sum()

    compiled = pb.compile(pb.hessian(f))
    x = np.array([0.1, 0.4, -0.3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bound in (0.5, 0.2):
            np.testing.assert_allclose(compiled(x, bound), pb.hessian(f)(x, bound))
    assert compiled.stats["traces"] == 1
