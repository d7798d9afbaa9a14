"""``hvp`` and ``hessian`` by one run on raw arrays: what the general way gives, in all cases."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback import func
from pullback.autograd import functional
from pullback.autograd.forward.jvp_rule import JVP_RULES
from pullback.autograd.function import Function
from pullback.autograd.linearize.tangent_tape import TangentTape
from pullback.errors import AutogradError

RNG = np.random.default_rng(0)
X, V, A = RNG.normal(size=4), RNG.normal(size=4), RNG.normal(size=(3, 4))


def general_product(f, x, v):
    """The gradient of the gradient's product with the vector: two backward passes."""
    slope = func.grad(f)
    return func.vjp(slope, pb.tensor(x))[1](pb.tensor(v))[0].numpy()


def general_hessian(f, x):
    return func.jacfwd(func.jacrev(f))(pb.tensor(x)).numpy()


def writes_in_place(x):
    y = x * 2
    kept = pb.exp(y)
    y += x * x
    y.mul_(3)
    return (y * kept).sum()


def writes_to_views(x):
    y = pb.zeros(4) + x * x
    y[1] = y[0].clone() * x[2]
    y[2:].mul_(x[:2])
    return (y.reshape(2, 2) @ y.reshape(2, 2).mT).sum()


def writes_to_what_has_been_used(x):
    y = x * 2
    z = y + pb.ones(4)
    y *= x * x  # z is still that of the old one, and so is its tangent
    y[0] = 5.0
    return (z * z * z + y * z).sum()


def writes_before_reading(x):
    y = pb.sin(x)
    part = y[1:3]
    y.mul_(x)
    return (part * part * x[1:3]).sum() + y.sum()


def branches(x):
    return (x**3).sum() if x[0].item() > 0 else (x**4).sum()


def shapes(x):
    m = x.reshape(2, 2).mT
    parts = pb.concatenate([m[0], m[:, 1], pb.stack([x[0], x[3]])])
    return (parts.reshape(3, 2) @ m).sum() * parts.mean()


def nested_gradient(x):
    return (func.grad(lambda y: (pb.sin(y) * x * x).sum())(x) * x).sum()


def nested_tangent(x):
    return func.jvp(lambda y: (y * y * x).sum(), (x,), (x * x,))[1]


def nested_map(x):
    return func.vmap(lambda a: (pb.sin(a) * x).sum())(x).sum() * x.sum()


def gradient_inside(x):
    (slope,) = pb.autograd.grad((pb.exp(x) * x).sum(), x, create_graph=True)
    return (slope * x).sum()


def logistic(x):
    margins = pb.tensor(A) @ x
    return pb.sum(pb.log1p(pb.exp(-margins))) + 0.05 * pb.sum(x * x)


def softmax(x):
    return pb.logsumexp(pb.tensor(A) @ x, 0) + (pb.nn.functional.softmax(x, 0) ** 2).sum()


FUNCTIONS = [
    branches,
    gradient_inside,
    logistic,
    nested_gradient,
    nested_map,
    nested_tangent,
    shapes,
    softmax,
    writes_before_reading,
    writes_in_place,
    writes_to_what_has_been_used,
    writes_to_views,
    lambda x: x.sum(),
    lambda x: (x.astype(np.int64) * x * x).sum(),
    lambda x: (x.detach() * x).sum(),
    lambda x: (x * 0.5).sum() * pb.tensor(A).sum(),
    lambda x: pb.where(x > 0, x * x, x).sum() + pb.maximum(x, x * x).prod(),
    lambda x: pb.linalg.norm(x) + pb.linalg.det(x.reshape(2, 2)),
    lambda x: pb.real(pb.fft.fft(x * x) * pb.exp(1j * x)).sum(),
    lambda x: pb.einsum("i,ji,j->", x, pb.tensor(A), pb.tensor(A) @ x),
    lambda x: pb.exp(x.astype(np.float32)).astype(np.float64).sum(),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_products_and_hessians_are_those_of_the_general_way(f):
    tolerance = {"rtol": 1e-5 if f is FUNCTIONS[-1] else 1e-10, "atol": 1e-12}
    product = general_product(f, X, V)
    np.testing.assert_allclose(pb.hvp(f)(X, V), product, **tolerance)
    whole = general_hessian(f, X)
    np.testing.assert_allclose(pb.hessian(f)(X), whole, **tolerance)
    np.testing.assert_allclose(whole @ V, product, **tolerance)
    for by_functional in (functional.hvp, functional.vhp):
        value, found = by_functional(f, pb.tensor(X), pb.tensor(V))
        assert value.item() == f(pb.tensor(X).requires_grad_()).item()
        np.testing.assert_allclose(found.numpy(), product, **tolerance)
    found = functional.hessian(f, pb.tensor(X), vectorize=True)
    np.testing.assert_allclose(found.numpy(), whole, **tolerance)


def count_calls(f):
    def counted(*args):
        counted.calls += 1
        return f(*args)

    counted.calls = 0
    return counted


@pytest.mark.parametrize("f", [logistic, shapes, softmax, branches, FUNCTIONS[13]])
def test_the_function_runs_once(f):
    f = count_calls(f)
    pb.hvp(f)(X, V)
    pb.hessian(f)(X)
    functional.hvp(f, pb.tensor(X), pb.tensor(V))
    functional.hessian(f, pb.tensor(X), vectorize=True)
    assert f.calls == 4
    f = count_calls(writes_in_place)
    pb.hvp(f)(X, V)
    assert f.calls == 1


def test_unneeded_tangents_are_not_computed(monkeypatch):
    computed = []
    end = TangentTape.end

    def seen(level):
        computed.extend(node.name() for node in level.tape if node in level.tangents)
        end(level)

    monkeypatch.setattr(TangentTape, "end", seen)
    pb.hvp(logistic)(X, V)
    assert sorted(computed) == ["ExpBackward0", "MatmulBackward0", "NegBackward0"]


# --- what is not plain ----------------------------------------------------------------------------


def test_what_captures_a_parameter_stays_differentiable():
    w = pb.tensor(A[0]).requires_grad_()
    product = pb.hvp(lambda x: (pb.sin(x) * w).sum())(pb.tensor(X), pb.tensor(V))
    np.testing.assert_allclose(product.detach().numpy(), -np.sin(X) * A[0] * V)
    (slope,) = pb.autograd.grad(product.sum(), w)
    np.testing.assert_allclose(slope.numpy(), -np.sin(X) * V)
    whole = pb.hessian(lambda x: (x * x * w).sum())(pb.tensor(X))
    np.testing.assert_allclose(pb.autograd.grad(whole.sum(), w)[0].numpy(), np.full(4, 2.0))


def test_an_argument_that_requires_grad():
    x = pb.tensor(X).requires_grad_()
    product = pb.hvp(lambda x: (x**3).sum())(x, pb.tensor(V))
    np.testing.assert_allclose(product.detach().numpy(), 6 * X * V)
    np.testing.assert_allclose(pb.autograd.grad(product.sum(), x)[0].numpy(), 6 * V)


def test_a_vector_that_requires_grad():
    v = pb.tensor(V).requires_grad_()
    product = pb.hvp(lambda x: (x**3).sum())(pb.tensor(X), v)
    np.testing.assert_allclose(pb.autograd.grad(product.sum(), v)[0].numpy(), 6 * X)


class Cube(Function):
    """Without a forward formula."""

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


def test_a_function_of_the_users_without_a_forward_formula():
    product = pb.hvp(lambda x: (Cube.apply(x) * x).sum())(X, V)
    np.testing.assert_allclose(product, 12 * X * X * V)


def test_hooks_see_the_gradient():
    seen = []

    def f(x):
        y = x * x
        y.register_hook(lambda grad: seen.append(1) or grad * 2)
        return (y * y).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), 24 * X * X * V)
    assert seen


def test_transforms_around():
    f = lambda x: (x**3).sum()  # noqa: E731
    product = lambda x, v: pb.hvp(f)(x, v)  # noqa: E731
    x, v = pb.tensor(X), pb.tensor(V)
    rows = func.vmap(product, (None, 0))(x, pb.tensor(A))
    np.testing.assert_allclose(rows.numpy(), 6 * X * A)
    gradient = func.grad(lambda x: product(x, v).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), 6 * V)
    slope = func.jvp(lambda x: product(x, v), (x,), (x,))[1]
    np.testing.assert_allclose(slope.numpy(), 6 * X * V)
    third = func.jacfwd(lambda x: func.hessian(f)(x))(x)
    np.testing.assert_allclose(third.numpy()[1, 1], [0, 6, 0, 0])


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_modes_around():
    f = lambda x: (x**3).sum()  # noqa: E731
    for mode in (pb.no_grad, pb.inference_mode, pb.autograd.detect_anomaly):
        with mode():
            np.testing.assert_allclose(pb.hvp(f)(X, V), 6 * X * V)
            np.testing.assert_allclose(pb.hessian(f)(X), np.diag(6 * X))


def test_errors_are_those_of_the_function_and_of_the_general_way():
    def fails(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pb.hvp(fails)(X, V)
    with pytest.raises(AutogradError, match="scalar"):
        pb.hvp(lambda x: x)(X, V)
    with pytest.raises(AutogradError, match="floating point"):
        pb.hvp(lambda x: pb.argmax(x))(X, V)

    def writes_to_its_input(x):
        x += 1
        return x.sum()

    with pytest.raises(AutogradError, match="in-place"):
        pb.hvp(writes_to_its_input)(X, V)
    np.testing.assert_array_equal(pb.hvp(lambda x: (x * x).sum())(X, V), 2 * V)  # nothing is left


# --- arguments and results ------------------------------------------------------------------------


def test_results_that_do_not_depend_on_the_argument():
    np.testing.assert_array_equal(pb.hvp(lambda _: pb.tensor(3.0))(X, V), np.zeros(4))
    np.testing.assert_array_equal(pb.hessian(lambda _: pb.tensor(3.0))(X), np.zeros((4, 4)))
    assert pb.hvp(lambda x: x)(2.0, 3.0) == 0.0
    assert pb.hvp(lambda x: x * x * x)(2.0, 3.0) == 36.0
    assert pb.hessian(lambda x: x * x * x)(2.0) == 12.0


def test_empty_and_other_dtypes():
    empty = np.zeros((0, 3))
    assert pb.hvp(lambda x: (x * x).sum())(empty, empty).shape == (0, 3)
    assert pb.hessian(lambda x: (x * x).sum())(np.zeros(0)).shape == (0, 0)
    x, v = X.astype(np.float32), V.astype(np.float32)
    product = pb.hvp(lambda x: (x**3).sum())(x, v)
    assert product.dtype == np.float32
    np.testing.assert_allclose(product, 6 * x * v, rtol=1e-6)
    assert pb.hessian(lambda x: (x**3).sum())(x).dtype == np.float32


def test_trees_and_positions():
    def f(scale, p, *, power):
        return scale * (p["w"] ** power * p["b"][0]).sum()

    p = {"w": X, "b": (2.0,)}
    v = {"w": V, "b": (1.0,)}
    product = pb.hvp(f, 1)(0.5, p, v, power=2)
    np.testing.assert_allclose(product["w"], 2.0 * V + X)
    np.testing.assert_allclose(product["b"][0], (X * V).sum())
    g = lambda x, y: (x * y**2).sum()  # noqa: E731
    x, y = pb.tensor(X), pb.tensor(V)
    found = func.hessian(g, (0, 1))(x, y)
    wanted = func.jacfwd(func.jacrev(g, (0, 1)), (0, 1))(x, y)
    for row, other in zip(found, wanted, strict=True):
        for part, same in zip(row, other, strict=True):
            np.testing.assert_allclose(part.numpy(), same.numpy())


def test_matrices_in_any_layout():
    f = lambda m: (pb.sin(m) @ m.mT).sum()  # noqa: E731
    m, v = np.asfortranarray(A), RNG.normal(size=(4, 3)).T
    np.testing.assert_allclose(pb.hvp(f)(m, v), general_product(f, A, v), rtol=1e-12)
    np.testing.assert_allclose(pb.hessian(f)(m), general_hessian(f, A), rtol=1e-12)


def test_result_owns_its_memory():
    x, v = pb.tensor(X), pb.tensor(V)
    product = pb.hvp(lambda x: 0.5 * (x * x).sum())(x, v)
    product += 1
    np.testing.assert_array_equal(v.numpy(), V)
    np.testing.assert_array_equal(x.numpy(), X)


def test_tensors_that_escape_are_constants_without_tangents():
    escaped = []

    def f(x):
        y = pb.sin(x)
        escaped.extend([x, y, y[1:], y.sum()])
        return (y * y).sum()

    pb.hvp(f)(X, V)
    pb.hessian(f)(X)
    for tensor in escaped:
        total = tensor.sum()
        assert not func.jvp(partial(pb.multiply, total), (pb.tensor(1.0),), (pb.tensor(0.0),))[1]
        again = pb.sin(tensor)
        assert pb.autograd.forward_ad.unpack_dual(again).tangent is None


def test_inner_tangents_are_seen_inside():
    seen = []

    def f(x):
        y = x * x
        seen.append(pb.autograd.forward_ad.unpack_dual(y).tangent)
        return (y * y).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), 12 * X * X * V)


def test_products_of_several_parts_share_no_memory():
    parts = {"a": pb.tensor(X), "b": pb.tensor(V)}
    found = pb.hvp(lambda p: ((p["a"] + p["b"]) ** 3).sum())(parts, parts)
    expected = found["b"].tolist()
    found["a"].zero_()
    assert found["b"].tolist() == expected
    blocks = func.hessian(lambda a, b: ((a + b) ** 3).sum(), (0, 1))(parts["a"], parts["b"])
    expected = blocks[1][0].tolist()
    blocks[0][0].zero_()
    assert blocks[1][0].tolist() == expected


def test_a_function_that_catches_everything_cannot_hide_that_it_must_run_again():
    def f(x):
        y = x * x
        try:
            y.mul_(x)  # many tangents cannot be written to
        except:  # noqa: E722 - that is the point
            y = x * 0
        return y.sum()

    assert func.hessian(f)(pb.tensor(X)).numpy() == pytest.approx(np.diag(6 * X))


def test_errors_of_forward_formulas_are_not_taken_for_those_of_operators(monkeypatch):
    def broken(*_):
        raise ValueError("a formula")

    pb.roll(pb.tensor(X), 1)
    monkeypatch.setattr(JVP_RULES["roll"], "function", broken)

    def f(x):
        try:
            y = pb.exp(pb.roll(x, 1))  # saves its result, whose tangent is computed at once
        except ValueError:
            y = x * 0
        return (y * x).sum()

    assert func.hessian(f)(pb.tensor(X)).numpy() == pytest.approx(general_hessian(f, X))
