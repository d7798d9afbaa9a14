"""``functionalize``: the same results without in-place operators."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError
from pullback.func import functionalize
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.fx.node import schema_of
from pullback.utils import pytree
from pullback.utils._python_dispatch import TorchDispatchMode


def _views(x):
    z = pb.zeros((2, 3))
    row, columns = z[1], z.T
    row[1:] = x[:2]
    z += 1
    columns[0] *= x[0]
    row.reshape(3).sub_(1)
    return z, columns + row.sum()


def _dtypes(x):
    z = pb.zeros(3, dtype=np.float32)
    z += x
    z[0] = 2
    return z


def _fill(x):
    y = x.clone()
    y.fill_(3.0)
    y[1:].zero_()
    return y + x


def _put(x):
    y = x.clone()
    y[np.array([0, 2])] = x[0]
    return y


def _parts(x):
    y = pb.zeros((2, 3))
    first, second = pb.unbind(y)
    left, _ = pb.split(y, [1], axis=1)
    y += 1
    second.mul_(x)
    first.copy_(second)
    left += 2
    return y, first, second, left


CASES = {"views": _views, "dtypes": _dtypes, "fill": _fill, "put": _put, "parts": _parts}


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_the_same_and_no_operator_writes(name, remove):
    function = CASES[name]
    x = pb.tensor([0.5, -1.0, 2.0])
    module = make_fx(functionalize(function, remove=remove))(x)
    for node in module.graph.nodes:
        schema = getattr(node.target, "schema", None)
        assert schema is None or not schema.is_mutable, node
    pairs = zip(pytree.leaves(module(x)), pytree.leaves(function(x)), strict=True)
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_writes_to_arguments_happen_once_at_the_end():
    def f(x):
        x.mul_(2)
        x[0] = 7.0
        return x.sum()

    x = pb.tensor([1.0, 2.0])
    assert functionalize(f)(x).item() == 11.0
    assert x.tolist() == [7.0, 4.0]
    module = make_fx(functionalize(f))(pb.ones(2))
    assert [n.name for n in module.graph.nodes if n.name.endswith("_")] == ["copy_"]


def test_gradients_are_those_of_the_function():
    x = pb.tensor([0.5, -1.0, 2.0])
    ours = pb.func.grad(lambda y: functionalize(_views)(y)[1].sum())(x)
    theirs = pb.func.grad(lambda y: _views(y)[1].sum())(x)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_memory_that_two_inputs_share_is_refused():
    whole = np.ones(4)
    first, second = pb.asarray(whole[:2]), pb.asarray(whole[1:3])

    def f(x):
        first.mul_(x)
        return first + second

    with pytest.raises(TraceError, match="share"):
        make_fx(functionalize(f))(pb.ones(2))
    assert functionalize(f)(pb.full(2, 3.0)).tolist() == [6.0, 4.0]


def test_an_unknown_option_is_refused():
    with pytest.raises(ValueError, match="remove must be one of"):
        functionalize(_fill, remove="everything")


def test_keyword_arguments_are_passed_on():
    def f(x, *, scale):
        y = x.clone()
        y.mul_(scale["by"])
        return y

    x = pb.tensor([1.0, 2.0])
    assert functionalize(f)(x, scale={"by": pb.tensor(3.0)}).tolist() == [3.0, 6.0]
    assert functionalize(f)(x, scale={"by": 4.0}).tolist() == [4.0, 8.0]
    assert pb.func.vmap(lambda v: functionalize(f)(v, scale={"by": 4.0}))(x).tolist() == [4, 8]


def _rows(x):
    y = pb.zeros(3)
    y[0] = x[1]
    y[1:] += x[1:]
    y.mul_(x)
    return y


def _matrix(x):
    y = pb.zeros((3, 2))
    y[:, 1] = x
    y.T[0] = x[0]
    y += 1
    return y, y[1]


def _picks(x):
    y = x.clone()
    y.zero_()
    y[np.array([0, 2])] = x[:2]
    y[1] = 5.0
    return y


def _filled(x):
    y = x.clone() + x.sum()
    y += x.sum() * 2
    y.copy_(y.sum() + 1)
    y = y * x
    y.fill_(x[0])
    y[2] = 1.0
    return y


def _loss(f):
    return lambda x: sum((leaf**2).sum() for leaf in pytree.leaves(f(x)))


def _same(ours, theirs):
    for a, b in zip(pytree.leaves(ours), pytree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)


@pytest.mark.parametrize("f", [_rows, _matrix, _picks, _filled])
def test_writes_inside_vmap_have_a_functional_form(f):
    mapped = pb.func.vmap(f)
    x, v = (pb.asarray(np.random.default_rng(n).normal(size=(4, 3))) for n in range(2))
    module = make_fx(functionalize(mapped))(x)
    for node in module.graph.nodes:
        schema = schema_of(node.target)
        assert schema is None or not schema.is_mutable, node
    _same(module(v), mapped(v))
    _same(functionalize(mapped)(v), mapped(v))
    _same(pb.func.vmap(functionalize(f))(v), mapped(v))
    _same(pb.func.grad(_loss(module))(v), pb.func.grad(_loss(mapped))(v))
    _same(pb.func.jvp(module, (x,), (v,)), pb.func.jvp(mapped, (x,), (v,)))
    _same(make_fx(functionalize(pb.func.grad(_loss(mapped))))(x)(v), pb.func.grad(_loss(mapped))(v))
    twice = pb.func.vmap(mapped)
    both = pb.stack([x, v])
    _same(make_fx(functionalize(twice))(both * 2)(both), twice(both))


@pytest.mark.parametrize("in_mode", [False, True])
def test_a_write_to_captured_memory_happens_once(in_mode):
    total = pb.zeros(2)

    def f(x):
        total.add_(x)
        return total * 2

    with _Names() if in_mode else contextlib.nullcontext():
        assert functionalize(f)(pb.ones(2)).tolist() == [2.0, 2.0]
    assert total.tolist() == [1.0, 1.0]


class _Names(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_the_functional_form():
    x = pb.tensor([0.5, -1.0, 2.0])
    with _Names() as mode:
        found = functionalize(_fill)(x)
    _same(found, _fill(x))
    assert not any(name.endswith("_") for name in mode.names)


def _detaches(x):
    return (x.detach() * x).sum()


def _without_recording(x):
    with pb.no_grad():
        factor = x * 1
    return (factor * x).sum()


@pytest.mark.parametrize("in_mode", [False, True])
@pytest.mark.parametrize("f", [_detaches, _without_recording])
def test_what_is_not_differentiated_in_the_function_is_not(f, in_mode):
    x = pb.tensor([1.0, 2.0])
    with _Names() if in_mode else contextlib.nullcontext():
        assert pb.func.grad(functionalize(f))(x).tolist() == [1.0, 2.0]
        assert make_fx(pb.func.grad(functionalize(f)))(pb.ones(2))(x).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("in_mode", [False, True])
def test_captured_tensors_get_their_gradients(in_mode):
    x, y = pb.tensor([1.0, 2.0]), pb.tensor([3.0, 4.0])

    def closed(x):
        return functionalize(lambda y: _fill(y) * x)(y).sum()

    with _Names() if in_mode else contextlib.nullcontext():
        assert pb.func.grad(closed)(x).tolist() == _fill(y).tolist()
        assert pb.func.jvp(closed, (x,), (pb.ones(2),))[1].item() == _fill(y).sum().item()
        assert make_fx(closed)(x)(2 * x).item() == closed(2 * x).item()
        mapped = pb.func.vmap(closed)(pb.stack([x, 2 * x]))
    np.testing.assert_allclose(mapped.numpy(), [closed(x).item(), closed(2 * x).item()])


def test_arguments_may_share_memory_inside_of_a_mode():
    def f(x, y):
        x.add_(1)
        return y * 2

    x = pb.zeros(3)
    with _Names():
        assert functionalize(f)(x, x[1:]).tolist() == [2.0, 2.0]
        assert functionalize(f)(x, x).tolist() == [4.0, 4.0, 4.0]
    assert x.tolist() == [2.0, 2.0, 2.0]
