"""Hessians of small problems of every kind, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional

torch = pytest.importorskip("torch", reason="pip install torch==2.13.0 runs the oracle tests")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]
RNG = np.random.default_rng(0)
DATA, LABELS = RNG.normal(size=(12, 4)), (RNG.random(12) < 0.5).astype(float)
POINTS = np.linspace(0.0, 1.0, 5)


class Ours:
    """What the problems call, under names that both libraries share."""

    array = staticmethod(pb.asarray)
    sin, exp, log, sqrt, tanh = pb.sin, pb.exp, pb.log, pb.sqrt, pb.tanh
    einsum, cholesky, solve = pb.einsum, pb.linalg.cholesky, pb.linalg.solve
    diag, logsumexp = staticmethod(pb.linalg.diagonal), staticmethod(lambda x: pb.logsumexp(x, -1))
    softplus = staticmethod(pullback.nn.functional.softplus)


class Theirs:
    array = staticmethod(torch.from_numpy)
    sin, exp, log, sqrt, tanh = torch.sin, torch.exp, torch.log, torch.sqrt, torch.tanh
    einsum, cholesky, solve = torch.einsum, torch.linalg.cholesky, torch.linalg.solve
    diag, logsumexp = (
        staticmethod(torch.linalg.diagonal),
        staticmethod(lambda x: torch.logsumexp(x, -1)),
    )
    softplus = staticmethod(torch.nn.functional.softplus)


def with_hook(x):
    y = x * x
    y.register_hook(lambda grad: grad * 2)
    return (y * y).sum()


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_products_see_hooks_and_no_grad_as_in_pytorch(name):
    x, v = RNG.normal(size=3), RNG.normal(size=3)
    for lib, tensor in ((pb, pb.tensor), (torch, torch.tensor)):

        def partly_recorded(x, lib=lib):
            with lib.no_grad():
                y = x * x
            return (y * x * x).sum()

        product = getattr(lib.autograd.functional, name)
        found = [product(f, tensor(x), tensor(v))[1].numpy() for f in (with_hook, partly_recorded)]
        if lib is pb:
            ours = found
    np.testing.assert_allclose(ours, found)


def rosenbrock(_, x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rastrigin(lib, x):
    return (x**2 - 10 * lib.sin(6.28 * x)).sum()


def logistic_regression(lib, x):
    scores = lib.array(DATA) @ x[:4] + x[4]
    return (lib.softplus(scores) - lib.array(LABELS) * scores).sum() + 0.1 * (x * x).sum()


def softmax_regression(lib, x):
    scores = lib.array(DATA) @ x.reshape(4, 2)
    return (lib.logsumexp(scores) - scores[:, 0]).sum()


def perceptron(lib, x):
    hidden = lib.tanh(lib.array(DATA) @ x[:8].reshape(4, 2) + x[8:10])
    return ((hidden @ x[10:12] - lib.array(LABELS)) ** 2).sum()


def gaussian_process(lib, x):
    """The likelihood of a Gaussian process: decomposition, solution, determinant."""
    points = lib.array(POINTS)
    distance = (points[:, None] - points[None, :]) ** 2
    kernel = lib.exp(x[0]) * lib.exp(-distance / (0.1 + x[1] ** 2))
    factor = lib.cholesky(kernel + (0.1 + x[2] ** 2) * lib.array(np.eye(5)))
    white = lib.solve(factor, lib.array(LABELS[:5]))
    return 0.5 * (white * white).sum() + lib.log(lib.diag(factor)).sum()


def pendulum(lib, x):
    angle, speed = x[0], x[1]
    for _ in range(20):
        speed = speed - 0.05 * x[2] * lib.sin(angle)
        angle = angle + 0.05 * speed
    return angle * angle + speed


def quadratic_form(lib, x):
    matrix = x[:9].reshape(3, 3)
    return lib.einsum("i,ij,j->", x[9:12], matrix, x[9:12]) ** 2


PROBLEMS = [
    (rosenbrock, 7),
    (rastrigin, 5),
    (logistic_regression, 5),
    (softmax_regression, 8),
    (perceptron, 12),
    (gaussian_process, 3),
    (pendulum, 3),
    (quadratic_form, 12),
]


@pytest.mark.parametrize(("problem", "size"), PROBLEMS, ids=lambda p: getattr(p, "__name__", ""))
def test_hessians_equal_torch(problem, size):
    x = np.random.default_rng(size).normal(size=size) * 0.7
    expected = torch.func.hessian(lambda x: problem(Theirs, x))(torch.from_numpy(x)).numpy()
    ours = pb.tensor(x)

    def f(x):
        return problem(Ours, x)

    scale = np.abs(expected).max()
    close = {"rtol": 1e-9, "atol": 1e-10 * scale}
    np.testing.assert_allclose(pb.func.hessian(f)(ours).numpy(), expected, **close)
    leaf = pb.tensor(x, requires_grad=True)
    (slope,) = pb.autograd.grad(f(leaf), leaf, create_graph=True)
    rows = [
        pb.autograd.grad(slope, leaf, pb.tensor(seed), retain_graph=True)[0].numpy()
        for seed in np.eye(size)
    ]
    np.testing.assert_allclose(np.array(rows), expected, **close)
    assert pb.autograd.gradgradcheck(f, leaf, check_fwd_over_rev=True, fast_mode=True, rtol=1e-4)
