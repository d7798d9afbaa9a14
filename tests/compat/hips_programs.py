"""Typical programs for HIPS autograd, as functions of its package or of ours.

Each imports what it needs from `root`, "autograd" or "pullback.compat.autograd", as a program does
by its import lines, and returns numbers.
"""

from __future__ import annotations

from importlib import import_module

import numpy as onp

__all__ = ["PROGRAMS"]


def tanh_derivatives(root):
    np = import_module(f"{root}.numpy")
    derivative = import_module(root).elementwise_grad

    def f(x):
        return (1.0 - np.exp(-2 * x)) / (1.0 + np.exp(-2 * x))

    x, found = np.linspace(-3, 3, 7), []
    for _ in range(4):
        found.append(f(x))
        f = derivative(f)
    return found


def logistic_regression(root):
    np = import_module(f"{root}.numpy")
    inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30]])
    targets = np.array([True, True, False])

    def loss(weights):
        predicted = 0.5 * (np.tanh(np.dot(inputs, weights)) + 1)
        right = predicted * targets + (1 - predicted) * (1 - targets)
        return -np.sum(np.log(right))

    weights = np.array([0.0, 0.0, 0.0])
    for _ in range(50):
        weights -= import_module(root).grad(loss)(weights) * 0.01
    return [weights, loss(weights)]


def neural_network(root):
    np, random = import_module(f"{root}.numpy"), import_module(f"{root}.numpy.random")
    logsumexp = import_module(f"{root}.scipy.special").logsumexp
    state = random.RandomState(0)
    start = [(0.1 * state.randn(m, n), 0.1 * state.randn(n)) for m, n in ((4, 6), (6, 3))]
    images, labels = state.randn(10, 4), onp.eye(3)[state.randint(0, 3, 10)]

    def loss(params, _):
        values = images
        for weights, bias in params:
            outputs = np.dot(values, weights) + bias
            values = np.tanh(outputs)
        return -np.sum((outputs - logsumexp(outputs, axis=1, keepdims=True)) * labels)

    optimizers, losses = import_module(f"{root}.misc.optimizers"), []
    for name in ("adam", "sgd", "rmsprop"):
        found = getattr(optimizers, name)(
            import_module(root).grad(loss), start, lambda x, i, g: losses.append(loss(x, i)), 15
        )
        losses.append(found[0][1])
    return losses


def rosenbrock(root):
    np, autograd = import_module(f"{root}.numpy"), import_module(root)

    def f(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    x, curved = onp.array([0.3, 0.4]), lambda x: np.array([x[0] * x[1], np.sin(x[0])])
    return [
        *autograd.value_and_grad(f)(x),
        autograd.hessian(f)(x),
        autograd.jacobian(curved)(x),
        autograd.make_hvp(f)(x)[0](2 * x),
    ]


def gaussian_process(root):
    np = import_module(f"{root}.numpy")
    normal = import_module(f"{root}.scipy.stats.multivariate_normal")
    x = import_module(f"{root}.numpy.random").RandomState(1).randn(8, 1)
    y = np.sin(x[:, 0])

    def kernel(params):
        scaled = x / np.exp(params[1:])
        apart = np.expand_dims(scaled, 1) - np.expand_dims(scaled, 0)
        return np.exp(params[0]) * np.exp(-0.5 * np.sum(apart**2, axis=2))

    def likelihood(p):
        covariance = kernel(p[2:]) + np.exp(p[1]) * np.eye(len(y))
        return normal.logpdf(y, p[0] * np.ones(len(y)), covariance)

    return list(import_module(root).value_and_grad(likelihood)(onp.array([0.1, -1.0, 0.2, 0.3])))


def smoke(root):
    np = import_module(f"{root}.numpy")
    n = 6
    state = import_module(f"{root}.numpy.random").RandomState(2)
    start, picture = state.randn(2, n, n) * 0.3, state.rand(n, n)

    def moved(field, vx, vy):
        columns, rows = np.meshgrid(np.arange(n), np.arange(n))
        x, y = (rows - vx).ravel(), (columns - vy).ravel()
        left, top = np.floor(x).astype(int), np.floor(y).astype(int)
        right, down = x - left, y - top
        left, top = np.mod(left, n), np.mod(top, n)
        beside, below = np.mod(left + 1, n), np.mod(top + 1, n)
        upper = (1 - down) * field[left, top] + down * field[left, below]
        lower = (1 - down) * field[beside, top] + down * field[beside, below]
        return np.reshape((1 - right) * upper + right * lower, (n, n))

    def loss(velocity):
        vx, vy, field = velocity[0], velocity[1], picture
        for _ in range(3):
            vx, vy = moved(vx, vx, vy), moved(vy, vx, vy)
            vx = vx - 0.1 * (np.roll(vx, 1, axis=0) - np.roll(vx, -1, axis=0))
            field = moved(field, vx, vy)
        return np.mean((field - 0.5) ** 2)

    return list(import_module(root).value_and_grad(loss)(start))


def primitive_of_ones_own(root):
    np, extend = import_module(f"{root}.numpy"), import_module(f"{root}.extend")

    @extend.primitive
    def total(x):
        top = np.max(x)
        return top + np.log(np.sum(np.exp(x - top)))

    def rule(ans, x):
        return lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans))

    extend.defvjp(total, rule)
    check = import_module(f"{root}.test_util").check_grads
    check(lambda y: total(y**2), modes=["rev"])(onp.array([1.5, 2.7, 1e-10]))
    return [import_module(root).grad(lambda y: total(y**2))(onp.array([1.5, 2.7, 1e-10]))]


def variational_inference(root):
    np, norm = import_module(f"{root}.numpy"), import_module(f"{root}.scipy.stats.norm")
    noise = import_module(f"{root}.numpy.random").RandomState(0).randn(20, 2)

    def bound(p):
        x = noise * np.exp(p[2:]) + p[:2]
        density = norm.logpdf(x[:, 1], 0, 1.35) + norm.logpdf(x[:, 0], 0, np.exp(x[:, 1]))
        return np.sum(p[2:]) + np.mean(density)

    p = onp.array([-1.0, -1.0, -2.0, -2.0])
    for _ in range(10):
        p = p + 0.1 * import_module(root).grad(bound)(p)
    return [p, bound(p)]


def waves(root):
    np, autograd = import_module(f"{root}.numpy"), import_module(root)
    z = onp.array([1 + 2j, 0.5 - 1j, 2.0, -1j])
    return [
        autograd.grad(lambda z: np.real(np.sum(np.abs(np.fft.fft(z)) ** 2 * np.arange(4))))(z),
        autograd.holomorphic_grad(lambda z: np.sum(np.exp(z) * z))(z),
        autograd.grad(lambda x: np.real(np.fft.ifft(x)[1]))(onp.array([1.0, 2.0, 3.0])),
    ]


def containers_and_branches(root):
    np, autograd = import_module(f"{root}.numpy"), import_module(root)
    start = {"s": 0.5, "b": onp.array([1.0, 2.0]), "A": onp.array([[2.0, 0.3], [0.3, 1.0]])}

    def f(params, steps=3):
        x, total = np.linalg.solve(params["A"], params["b"]), 0.0
        for number in range(steps):
            if number % 2:
                total = total + params["s"] * np.linalg.norm(x)
            else:
                values, vectors = np.linalg.eigh(params["A"])
                size = np.sum(values**2) + np.sum(vectors[:, 0] ** 4)
                total = total + np.linalg.slogdet(params["A"])[1] * size
        return total

    found = autograd.grad(f)(start)
    repeated = autograd.checkpoint(lambda x: np.sum(np.sin(x) ** 2))
    flat, unflatten = import_module(f"{root}.misc.flatten").flatten(start)
    return [
        *(found[key] for key in "Abs"),
        autograd.grad(repeated)(onp.array([0.3, 0.4])),
        flat,
        unflatten(flat)["A"],
        autograd.grad(lambda x: np.sum(np.sort(x)[::2] * np.where(x > 0, x, 0.0)[:2]))(
            onp.array([0.3, -0.4, 0.7])
        ),
    ]


PROGRAMS = [
    tanh_derivatives,
    logistic_regression,
    neural_network,
    rosenbrock,
    gaussian_process,
    smoke,
    primitive_of_ones_own,
    variational_inference,
    waves,
    containers_and_branches,
]
