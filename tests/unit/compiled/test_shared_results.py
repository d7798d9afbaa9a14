"""Results of compiled functions that are arguments, captured tensors, or views of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install 'pullback[compile]' runs these tests")
BACKENDS = ["llvm", "eager"]
NET = pb.nn.Linear(3, 2)
TABLE = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
ARRAY = np.array([1.0, 2.0, 3.0])


def _mixed(x):
    y = x * 2
    return y, [y, {"again": y}], x, y.sum()


def _in_place(x):
    y = x.clone()
    y[0] = 5.0
    row = y[1]
    row += 1.0
    return row, y


def _cut(x):
    y = pb.exp(x)
    with pb.no_grad():
        z = y[0]
    return y, y.detach(), z, y.detach()[1:], x.detach(), x.detach().reshape(-1)


FUNCTIONS = {
    "an argument": lambda x: x,
    "an argument in containers": lambda x: (x, {"a": x, "b": [x + 1, x]}),
    "views of an argument": lambda x: (x[0], x.reshape(-1), x.T, x[:, ::2], x.mT[1]),
    "a view of a view": lambda x: (x.T.reshape(3, 2)[1:], x + 1),
    "several views": lambda x: (*x.unbind(1), *pb.split(x, 1)),
    "a result twice": _mixed,
    "a result and its view": lambda x: (lambda y: (y[0], y, y.T))(pb.sin(x)),
    "views of a hidden base": lambda x: tuple((x * 2).unbind(0)),
    "overlapping views": lambda x: (lambda y: (y[:, :2], y[:, 1:]))(x * 3.0),
    "views that are written": _in_place,
    "without history": _cut,
    "captured tensors": lambda x: (NET.weight, x * NET.bias.sum(), TABLE, TABLE[1], NET.weight[0]),
    "a captured tensor without history": lambda x: (NET.weight.detach(), x + 1),
    "memory of an array": lambda x: (pb.from_numpy(ARRAY), x + 1),
}


def _tensors(result):
    return [x for x in pb.utils.pytree.leaves(result) if isinstance(x, pb.Tensor)]


def _relations(x, tensors):
    """Identities, shared memory, versions and histories of results."""
    held = [x, NET.weight, NET.bias, TABLE, *tensors]
    arrays = [t.detach().numpy() for t in held]
    pairs = [(a, b) for a in range(len(held)) for b in range(a)]
    return {
        "same": [(a, b) for a, b in pairs if held[a] is held[b]],
        "memory": [(a, b) for a, b in pairs if np.shares_memory(arrays[a], arrays[b])],
        "requires_grad": [t.requires_grad for t in tensors],
        "leaves": [t.is_leaf for t in tensors],
        "versions": [t._version for t in tensors],
    }


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_share_what_those_of_the_function_share(name, backend, needs_grad):
    function = FUNCTIONS[name]
    compiled = pb.compile(function, backend=backend)
    for _ in range(3):
        found = []
        for call in (function, compiled):
            x = pb.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, 1.0]], requires_grad=needs_grad)
            tensors = _tensors(call(x))
            values = [t.detach().clone() for t in tensors]
            relations = _relations(x, tensors)
            leaves = [t for t in (x, NET.weight, NET.bias) if t.requires_grad]
            roots = [t for t in tensors if t.requires_grad]
            weights = [pb.asarray(np.arange(1.0, t.size + 1).reshape(t.shape)) for t in roots]
            total = sum((t * w).sum() for t, w in zip(roots, weights, strict=True))
            gradients = pb.autograd.grad(total, leaves, allow_unused=True) if roots else []
            found.append((relations, values, gradients))
        (own, values, gradients), (theirs, values2, gradients2) = found
        if name != "views that are written":  # writes of a program to its own memory do not count
            assert theirs["versions"] == own["versions"]
        del theirs["versions"], own["versions"]
        assert theirs == own
        for a, b in zip(values, values2, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)
        for a, b in zip(gradients, gradients2, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-12)
    assert compiled.stats["eager"] == 0


@pytest.mark.parametrize("name", ["a result and its view", "views of a hidden base"])
def test_writes_to_results_reach_their_views_and_histories(name):
    function = FUNCTIONS[name]
    compiled = pb.compile(function)
    found = []
    for call in (function, compiled, compiled):
        x = pb.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, 1.0]], requires_grad=True)
        first, second, *_ = call(x * 1.0)
        try:
            first.mul_(3.0)
            total = (first.sum() + (second**2).sum()).item()
            (gradient,) = pb.autograd.grad(first.sum() + (second**2).sum(), x)
            found.append((total, gradient.tolist(), first._version, second._version))
        except pb.errors.PullbackError as error:
            found.append(type(error).__name__)
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_arrays_share_memory_as_those_of_the_function():
    compiled = pb.compile(lambda x: (x, x * 1.0, x[::-1]))
    x = np.arange(3.0)
    for _ in range(3):
        same, copy, reverse = compiled(x)
        assert same is x
        assert not np.shares_memory(copy, x)
        reverse[0] = 8.0
        assert x.tolist() == [0.0, 1.0, 8.0]
        x[2] = 2.0


def test_a_result_follows_a_parameter_that_is_replaced():
    net = pb.nn.Linear(2, 2)
    compiled = pb.compile(lambda x: (net.weight, x * net.weight))
    for _ in range(3):
        assert compiled(pb.ones(2))[0] is net.weight
        net.weight = pb.nn.Parameter(pb.ones((2, 2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_of_results_that_are_views(backend):
    compiled = pb.compile(lambda x: (x**3).unbind(0), backend=backend)
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for _ in range(2):
        first, second = compiled(x)
        (g,) = pb.autograd.grad((first * second).sum(), x, create_graph=True)
        (h,) = pb.autograd.grad(g.sum(), x)
        plain = x**3
        (g,) = pb.autograd.grad((plain[0] * plain[1]).sum(), x, create_graph=True)
        (e,) = pb.autograd.grad(g.sum(), x)
        np.testing.assert_allclose(h, e, rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("index", [np.s_[::-1], np.s_[:, ::2], np.s_[1:2], np.s_[...], np.s_[:, 0]])
@pytest.mark.parametrize("make", [np.asarray, pb.asarray])
def test_ravel_copies_what_is_no_row_of_memory(make, index, order):
    def f(x):
        row = x[index].ravel(order)
        row[0] = 77.0
        return x * 2, row * 1

    x, y, z = np.arange(12.0).reshape(3, 4), *(make(np.arange(12.0).reshape(3, 4)) for _ in "ab")
    expected = [*f(x), x]
    for found in ([*f(y), y], [*pb.compile(f, fullgraph=True)(z), z]):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


GRADIENTS = {
    "equal": lambda x, y: (x + y).sum(),
    "transposed": lambda x, y: ((x + y.T) * 2.0).sum(),
    "zero": lambda x, y: (x.detach() * y.detach()).sum() + 0.0 * x[0, 0],
}


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_are_equal_have_memory_of_their_own(name: str, backend: str) -> None:
    x, y = pb.ones((3, 3)), pb.ones((3, 3))
    gradient = pb.func.grad(GRADIENTS[name], argnums=(0, 1))
    compiled = pb.compile(gradient, backend=backend)
    for _ in range(3):
        found, expected = compiled(x, y), gradient(x, y)
        assert not np.shares_memory(found[0].numpy(), found[1].numpy())
        np.testing.assert_array_equal(found[0].numpy(), expected[0].numpy())
        np.testing.assert_array_equal(found[1].numpy(), expected[1].numpy())
        found[0].mul_(5.0)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_pulled_back_cotangents_are_no_arguments(backend: str) -> None:
    def pull(x: Any, y: Any, cotangent: Any) -> Any:
        return pb.func.vjp(lambda a, b: a + b.T, x, y)[1](cotangent)

    compiled = pb.compile(pull, backend=backend)
    x, y, cotangent = pb.ones((2, 2)), pb.ones((2, 2)), pb.tensor([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        found = [tensor.numpy() for tensor in compiled(x, y, cotangent)]
        assert not any(np.shares_memory(array, cotangent.numpy()) for array in found)
        assert found[1].tolist() == [[1.0, 3.0], [2.0, 4.0]]
