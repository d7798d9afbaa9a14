"""``functionalize``: the same results without in-place operators."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError
from pullback.func import functionalize
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.utils import pytree


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


CASES = {"views": _views, "dtypes": _dtypes, "fill": _fill, "put": _put}


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
        functionalize(f)(pb.ones(2))


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
