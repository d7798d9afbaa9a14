"""Transforms inside transforms: all orders agree, and perturbations are never confused."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp
from pullback.nn import functional

# PyTorch compiles some of its forward mode when it is first used, and warns about how it does that.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def t(value):
    return pb.tensor(value)


def by_jvp(f):
    return lambda x: jvp(f, (x,), (pb.ones_like(x),))[1]


def by_vjp(f):
    def slope(x):
        output, pull = vjp(f, x)
        return pull(pb.ones_like(output))[0]

    return slope


def by_linearize(f):
    return lambda x: linearize(f, x)[1](pb.ones_like(x))


# Each gives the derivative of a function of one number.
WAYS = {"grad": grad, "jvp": by_jvp, "vjp": by_vjp, "jacrev": jacrev, "jacfwd": jacfwd}
WAYS["linearize"] = by_linearize

# value -> derivatives of order 1, 2 and 3 at 0.7
X = 0.7
E, S, C = np.exp(X), np.sin(X), np.cos(X)
FUNCTIONS = {
    "power": (lambda x: x**4, (4 * X**3, 12 * X**2, 24 * X)),
    "exp": (lambda x: pb.exp(x) * x, (E * (1 + X), E * (2 + X), E * (3 + X))),
    "sin": (lambda x: pb.sin(x) * pb.exp(x), (E * (S + C), 2 * E * C, 2 * E * (C - S))),
    "log": (pb.log, (1 / X, -1 / X**2, 2 / X**3)),
    "in place": (lambda x: (x * 1).mul_(x).exp_().sum(), None),
    "views": (lambda x: _through_views(x), None),
}
_G = np.exp(X * X)
_SQUARE_EXP = (2 * X * _G, (2 + 4 * X**2) * _G, (12 * X + 8 * X**3) * _G)
FUNCTIONS["in place"] = (FUNCTIONS["in place"][0], _SQUARE_EXP)
FUNCTIONS["views"] = (FUNCTIONS["views"][0], (4 * X**3, 12 * X**2, 24 * X))


def _through_views(x):
    buffer = pb.zeros(3)
    buffer[0] = x
    buffer[1:].copy_(buffer[:1].clone() * x)
    buffer[2:].mul_(buffer[1].clone())
    return buffer[2]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_pairs_of_transforms(name):
    f, (first, second, _) = FUNCTIONS[name]
    x = t(X)
    for way in WAYS.values():
        assert way(f)(x).item() == pytest.approx(first, rel=1e-12)
    for (outer, g), (inner, h) in itertools.product(WAYS.items(), repeat=2):
        assert g(h(f))(x).item() == pytest.approx(second, rel=1e-12), (outer, inner)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_triples_of_transforms(name):
    f, (_, _, third) = FUNCTIONS[name]
    x = t(X)
    for names in itertools.product(("grad", "jvp", "vjp", "linearize"), repeat=3):
        a, b, c = (WAYS[n] for n in names)
        assert a(b(c(f)))(x).item() == pytest.approx(third, rel=1e-11), names


PAIRS = list(itertools.product(("grad", "jvp", "vjp", "linearize"), repeat=2))


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_perturbations_are_not_confused(outer, inner):
    d, e = WAYS[outer], WAYS[inner]
    # Siskind and Pearlmutter: d/dx (x · d/dy (x + y)) is 1; a confusion gives 2.
    assert d(lambda x: x * e(lambda y: x + y)(t(1.0)))(t(1.0)).item() == 1.0
    # d/dx (x · d/dy (x · y)) = d/dx x², at 3
    assert d(lambda x: x * e(lambda y: x * y)(t(2.0)))(t(3.0)).item() == 6.0
    # the same variable in both: d/dx (x · [d/dy (x · y²)](x)) = d/dx 2x³
    assert d(lambda x: x * e(lambda y: x * y * y)(x))(t(2.0)).item() == 24.0
    # an inner derivative that is thrown away, and one of a constant
    assert d(lambda x: x + 0 * e(lambda y: y * y)(x))(t(2.0)).item() == 1.0
    assert d(lambda x: x * e(lambda _: x * x)(t(5.0)))(t(2.0)).item() == 0.0


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_a_derivative_of_a_returned_function(outer, inner):
    # Manzyuk et al.: the derivative of a curried function, used at two places.
    d, e = WAYS[outer], WAYS[inner]

    def shifted(u):
        return lambda f: lambda x: f(x + u)

    def slope(f, x):
        return d(lambda u: shifted(u)(f)(x))(t(0.0))

    assert slope(lambda y: e(lambda z: pb.exp(z) * y)(y), t(1.0)).item() == pytest.approx(
        2 * np.e, rel=1e-14
    )


def test_three_levels_with_captured_variables():
    def f(x):
        def g(y):
            def h(z):
                return x * x * y * y * y * z**4

            return by_jvp(h)(y)

        return grad(g)(x)

    # h' = 4 x² y³ z³ at z = y: 4 x² y⁶; its derivative 24 x² y⁵ at y = x: 24 x⁷
    assert by_jvp(f)(t(2.0)).item() == 168 * 2.0**6
    assert grad(f)(t(2.0)).item() == 168 * 2.0**6


def test_derivatives_by_the_direction():
    x, v = t([1.0, 2.0]), t([1.0, 0.0])

    def product(v):
        return (jvp(grad(lambda x: (x**3).sum()), (x,), (v,))[1] * t([1.0, 2.0])).sum()

    assert grad(product)(v).tolist() == [6.0, 24.0]
    assert jvp(product, (v,), (v,))[1].item() == 6.0
    leaf = pb.tensor([1.0, 0.0], requires_grad=True)
    product(leaf).backward()
    assert leaf.grad.tolist() == [6.0, 24.0]


def test_forward_over_reverse_equals_reverse_over_forward():
    rng = np.random.default_rng(0)
    a, x = pb.tensor(rng.normal(size=(4, 4))), pb.tensor(rng.normal(size=4))

    def f(x):
        return pb.log(pb.sum(pb.exp(a @ x))) + pb.prod(pb.tanh(x))

    hessians = [outer(inner(f))(x) for outer in (jacfwd, jacrev) for inner in (jacfwd, jacrev)]
    for found in hessians[1:]:
        np.testing.assert_allclose(found.numpy(), hessians[0].numpy(), rtol=1e-12, atol=1e-13)


THIRD = {
    "exp": pb.exp,
    "log": pb.log,
    "sin": pb.sin,
    "tanh": pb.tanh,
    "sqrt": pb.sqrt,
    "reciprocal": lambda x: 1 / x,
    "power": lambda x: x**2.5,
    "sigmoid": pb.sigmoid,
    "softplus": pb.softplus,
    "product": lambda x: x * pb.prod(x),
    "softmax": lambda x: functional.softmax(x, -1),
    "logsumexp": lambda x: functional.log_softmax(x, -1),
    "matmul": lambda x: pb.linalg.inv(pb.reshape(x, (2, 2)) + 3 * pb.eye(2)),
    "norm": pb.linalg.norm,
    "cumulative": lambda x: pb.cumulative_prod(x),
    "atan2": lambda x: pb.atan2(x, x[0] + 2),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", THIRD)
def test_third_derivatives_against_torch(name):
    torch = pytest.importorskip("torch")
    f = THIRD[name]
    twins = {
        "exp": torch.exp,
        "log": torch.log,
        "sin": torch.sin,
        "tanh": torch.tanh,
        "sqrt": torch.sqrt,
        "sigmoid": torch.sigmoid,
        "softplus": torch.nn.functional.softplus,
        "product": lambda x: x * torch.prod(x),
        "softmax": lambda x: torch.softmax(x, -1),
        "logsumexp": lambda x: torch.log_softmax(x, -1),
        "matmul": lambda x: torch.linalg.inv(x.reshape(2, 2) + 3 * torch.eye(2, dtype=x.dtype)),
        "norm": torch.linalg.norm,
        "cumulative": lambda x: torch.cumprod(x, 0),
        "atan2": lambda x: torch.atan2(x, x[0] + 2),
    }
    start = np.array([0.4, 1.1, 0.7, 0.9])

    def scalar(g):
        return lambda x: (g(x) ** 2).sum()

    mine = pb.tensor(start)
    theirs = torch.tensor(start)
    g, h = scalar(f), scalar(twins.get(name, f))
    v, w = np.array([1.0, -0.5, 0.3, 2.0]), np.array([0.2, 1.5, -1.0, 0.4])

    def torch_third(x):
        leaf = x.clone().requires_grad_()
        value = h(leaf)
        for direction in (v, w):
            (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
            value = (slope * torch.tensor(direction)).sum()
        return torch.autograd.grad(value, leaf)[0].numpy()

    expected = torch_third(theirs)

    def pushed(f, direction):
        return lambda x: jvp(f, (x,), (pb.tensor(direction),))[1]

    def pulled(f, direction):
        return lambda x: (grad(f)(x) * pb.tensor(direction)).sum()

    for ways in (
        grad(pushed(pushed(g, v), w)),
        grad(pulled(pulled(g, v), w)),
        grad(pushed(pulled(g, v), w)),
        pushed(grad(pushed(g, v)), w),
        pushed(pushed(grad(g), v), w),
    ):
        np.testing.assert_allclose(ways(mine).numpy(), expected, rtol=1e-9, atol=1e-10)


def _problems(xp, softplus, logsumexp):
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(40, 5)), rng.choice([-1.0, 1.0], size=40)
    points = rng.normal(size=(12, 2))

    def logistic(w):
        margins = xp.asarray(labels) * (xp.asarray(features) @ w)
        return softplus(-margins).sum() + 0.5 * (w * w).sum()

    def mixture(p):
        means, logits = p[:6].reshape(3, 2), p[6:9]
        scales = p[9:12]
        gaps = (xp.asarray(points)[:, None, :] - means) ** 2
        scores = logits - logsumexp(logits) - 2 * scales - 0.5 * gaps.sum(-1) * xp.exp(-2 * scales)
        return logsumexp(scores).sum()

    return {"logistic": (logistic, rng.normal(size=5)), "mixture": (mixture, rng.normal(size=12))}


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["logistic", "mixture"])
def test_hessians_against_torch(name):
    torch = pytest.importorskip("torch")
    f, start = _problems(pb, pb.softplus, lambda x: pb.logsumexp(x, -1))[name]
    h, _ = _problems(torch, torch.nn.functional.softplus, lambda x: torch.logsumexp(x, -1))[name]
    expected = torch.func.hessian(h)(torch.tensor(start)).numpy()
    for compute in (hessian, lambda f: jacrev(jacrev(f)), lambda f: jacrev(jacfwd(f))):
        found = compute(f)(pb.tensor(start)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        pb.autograd.functional.hessian(f, pb.tensor(start)).numpy(), expected, rtol=1e-9, atol=1e-11
    )


def test_threads_do_not_meet():
    wrong = []

    def work(number):
        for round_ in range(2000):
            x = float(1 + (number * 2000 + round_) % 17)
            way = (grad(grad(_cube)), by_jvp(grad(_cube)), grad(by_jvp(_cube)))[round_ % 3]
            if way(t(x)).item() != 6 * x:
                wrong.append((number, round_))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _cube(x):
    return x * x * x


def test_a_level_belongs_to_its_thread():
    inside, checked = threading.Event(), threading.Event()
    seen = []

    def f(x):
        inside.set()
        assert checked.wait(10)
        return x * x

    def other():
        assert inside.wait(10)
        leaf = pb.tensor(1.0).requires_grad_()  # forbidden in a transform, and this is none
        (leaf * 2).backward()
        seen.append(leaf.grad.item())
        checked.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert jvp(f, (t(3.0),), (t(1.0),))[1].item() == 6.0
    thread.join()
    assert seen == [2.0]
