"""Infinite and NaN gradients stay with the elements that they belong to.

A selection or a mask picks gradients. A product with zeros instead would make NaN of an infinite
gradient, beside elements that have nothing to do with it.
"""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.nn import functional as F  # noqa: N812 - the usual name

X = np.array([[1.0, 5.0, 3.0], [2.0, 4.0, 6.0], [9.0, 7.0, 8.0]])

# Functions of a matrix whose results each depend on few of its elements.
FUNCTIONS = {
    "einsum_diagonal": lambda x: np.einsum("aa->a", x),
    "einsum_trace": lambda x: np.einsum("aa", x),
    "einsum_diagonal_of_stack": lambda x: np.einsum("aab->ab", pb.stack([x, x * 2, x * 3], axis=2)),
    "einsum_three_times": lambda x: np.einsum("aaa->a", pb.stack([x, x * 2, x * 3])),
    "einsum_scattered": lambda x: np.einsum("aba->ba", pb.stack([x, x * 2, x * 3])),
    "max": lambda x: np.max(x),
    "max_of_rows": lambda x: np.max(x, 1),
    "max_of_columns": lambda x: np.max(x, 0, keepdims=True),
    "min": lambda x: np.min(x),
    "min_of_rows": lambda x: np.min(x, 1),
    "nanmax": lambda x: np.nanmax(x, 1),
    "nanmin": lambda x: np.nanmin(x, 0),
    "ptp": lambda x: np.ptp(x, 0),
    "median": lambda x: np.median(x, 1),
    "sort": lambda x: np.sort(x, 1),
    "clip": lambda x: np.clip(x, 2.5, 6.5),
    "where": lambda x: np.where(x > 4, x, 0.0),
    "maximum": lambda x: np.maximum(x, 4.5),
    "diagonal": lambda x: np.diagonal(x),
    "trace": lambda x: np.trace(x),
    "tril": lambda x: np.tril(x),
    "triu": lambda x: np.triu(x, 1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[0], [2], [1]]), 1),
    "index": lambda x: x[[0, 0, 2], [1, 2, 2]],
    "masked_fill": lambda x: x.masked_fill(pb.tensor(X > 4), 0.0),
    "relu": lambda x: F.relu(x - 4.5),
    "hardtanh": lambda x: F.hardtanh(x - 4.5),
    "hardswish": lambda x: F.hardswish(x - 6.7),
    "logit": lambda x: pb.logit(x / 10, eps=0.25),
    "angle": lambda x: np.angle(x),
    "pad_maximum": lambda x: np.pad(x, 1, mode="maximum"),
}


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_gradient_reaches_only_what_the_result_depends_on(name, bad):
    function = FUNCTIONS[name]
    x = pb.tensor(X, requires_grad=True)
    result = function(x * 1.0)
    jacobian = func.jacrev(function)(pb.tensor(X)).numpy().reshape(result.size, -1)
    for place in range(result.size):
        seed = np.ones(result.size)
        seed[place] = bad
        seed = pb.tensor(seed.reshape(result.shape))
        (found,) = pb.autograd.grad(result, x, seed, retain_graph=True)
        (recorded,) = pb.autograd.grad(result, x, seed, create_graph=True)
        apart = jacobian[place] == 0
        expected = jacobian.sum(0)[apart]
        assert found.numpy().reshape(-1)[apart].tolist() == pytest.approx(expected.tolist())
        assert recorded.detach().numpy().reshape(-1)[apart].tolist() == pytest.approx(
            expected.tolist()
        )


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_tangent_reaches_only_what_depends_on_it(name, bad):
    function = FUNCTIONS[name]
    jacobian = func.jacfwd(function)(pb.tensor(X)).numpy().reshape(-1, X.size)
    for place in range(X.size):
        tangent = np.ones(X.size)
        tangent[place] = bad
        _, found = func.jvp(function, (pb.tensor(X),), (pb.tensor(tangent.reshape(X.shape)),))
        apart = jacobian[:, place] == 0
        expected = jacobian.sum(1)[apart]
        assert found.numpy().reshape(-1)[apart].tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("aa->a", [(3, 3)]),
        ("aab->b", [(3, 3, 2)]),
        ("aaba->ab", [(3, 3, 2, 3)]),
        ("abab->ba", [(2, 3, 2, 3)]),
        ("iij,jk->ik", [(3, 3, 2), (2, 4)]),
        ("ij,jj->i", [(3, 2), (2, 2)]),
        ("ii,i->i", [(1, 1), (3,)]),
        ("bab,aa->b", [(3, 2, 3), (2, 2)]),
    ],
)
def test_einsum_with_a_repeated_label(subscripts, shapes):
    rng = np.random.default_rng(0)
    operands = [pb.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]

    def function(*operands):
        return np.einsum(subscripts, *operands)

    assert pb.autograd.gradcheck(function, operands, check_forward_ad=True)
    assert pb.autograd.gradgradcheck(function, operands)
    samples = [pb.tensor(rng.standard_normal((2, *shape))) for shape in shapes]
    found = func.vmap(func.jacrev(function))(*samples)
    for place in range(2):
        expected = func.jacrev(function)(*[sample[place] for sample in samples])
        np.testing.assert_allclose(found[place].numpy(), expected.numpy())


def test_elements_that_tie_share_an_infinite_gradient():
    x = pb.tensor([3.0, 1.0, 3.0], requires_grad=True)
    (found,) = pb.autograd.grad(np.max(x), x, pb.tensor(np.inf))
    assert found.tolist() == [np.inf, 0.0, np.inf]
    (found,) = pb.autograd.grad(np.max(x), x, pb.tensor(1.0))
    assert found.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradient_of_an_extreme_keeps_its_dtype(dtype):
    x = pb.tensor(np.array([[1, 2], [4, 3]], dtype), requires_grad=True)
    for axis in (None, 0, (0, 1), -1):
        for keepdims in (False, True):
            found = np.max(x, axis, keepdims=keepdims)
            (grad,) = pb.autograd.grad(found.sum(), x)
            assert grad.dtype == dtype
            assert grad.sum().item() == found.size


POINTS = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
ZERO_POWERS = {
    "int": lambda x: x**0,
    "float": lambda x: x**0.0,
    "number": lambda x: x ** pb.tensor(0.0),
    "array": lambda x: x ** pb.zeros(x.shape),
    "float_power": lambda x: pb.float_power(x, 0),
}


def derivatives_in_every_mode(function, bad):
    """The gradient for an infinite or NaN seed: plain, recorded, forward, and of many samples."""
    x = pb.tensor(POINTS, requires_grad=True)
    seed = pb.full(x.shape, bad)
    result = function(x)
    yield pb.autograd.grad(result, x, seed, retain_graph=True)[0]
    yield pb.autograd.grad(result, x, seed, create_graph=True)[0]
    plain = pb.tensor(POINTS)
    yield func.jvp(function, (plain,), (seed,))[1]
    yield func.vjp(func.vmap(function), plain)[1](seed)[0]
    yield func.vmap(lambda x, s: func.jvp(function, (x,), (s,))[1])(plain, seed)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("function", [pb.tanh, pb.sigmoid, F.sigmoid], ids=["tanh", "sigmoid", "F"])
def test_infinite_gradient_of_a_positive_slope_is_infinite(function, bad):
    for found in derivatives_in_every_mode(function, bad):
        assert found.tolist() == [bad] * len(POINTS)
    x = pb.tensor(POINTS.astype(np.float32), requires_grad=True)
    (found,) = pb.autograd.grad(function(x), x, pb.full(x.shape, bad, dtype=np.float32))
    assert found.dtype == np.float32
    assert found.tolist() == [bad] * len(POINTS)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ZERO_POWERS)
def test_infinite_gradient_of_a_power_of_zero_is_zero(name, bad):
    for found in derivatives_in_every_mode(ZERO_POWERS[name], bad):
        assert found.tolist() == [0.0] * len(POINTS)


def test_only_elements_with_the_exponent_zero_stop_an_infinite_gradient():
    x = pb.tensor([2.0, 2.0, 0.0], requires_grad=True)
    (found,) = pb.autograd.grad(x ** pb.tensor([0.0, 1.0, 0.0]), x, pb.full(3, np.inf))
    assert found.tolist() == [0.0, np.inf, 0.0]


def test_mixed_derivative_of_a_power_with_exponent_zero():
    x = pb.tensor([2.0, 4.0], requires_grad=True)
    p = pb.tensor([0.0, 0.0], requires_grad=True)
    (slope,) = pb.autograd.grad((x**p).sum(), x, create_graph=True)
    assert slope.tolist() == [0.0, 0.0]
    assert pb.autograd.grad(slope.sum(), p)[0].tolist() == [0.5, 0.25]


def test_infinite_gradient_of_sinc_is_zero_at_its_maximum():
    x = pb.tensor([0.0, 0.5], requires_grad=True)
    (found,) = pb.autograd.grad(pb.sinc(x), x, pb.full(2, np.inf))
    assert found.tolist() == [0.0, -np.inf]
    curvature = func.hessian(lambda x: pb.sinc(x).sum())(pb.tensor([0.0]))
    assert curvature.item() == pytest.approx(-(np.pi**2) / 3)
