"""Element by element: the fixed cost of a gradient, chains of small operations, large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator


def tiny(n: int) -> Problem:
    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001 - every workload has them
        (x,) = params
        return xp.sum(x * x)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
        (x,) = params
        return [np.sum(x * x), x + x]

    def loops(params: Arrays, consts: Arrays) -> Any:  # noqa: ARG001
        (x,) = params
        total, g = 0.0, np.empty(n)
        for i in range(n):
            total += x[i] * x[i]
            g[i] = x[i] + x[i]
        return total, g

    return Problem(fn, (generator().normal(size=n),), hand=hand, loops=loops)


def chain(n: int, repeats: int) -> Problem:
    """Multiply, add, tanh, negate, exp; again and again."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        (x,) = params
        a, b = consts
        for _ in range(repeats):
            x = xp.exp(-xp.tanh(x * a + b))
        return xp.sum(x)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:
        (x,) = params
        a, b = consts
        saved = []
        for _ in range(repeats):
            t = np.tanh(x * a + b)
            x = np.exp(-t)
            saved.append((t, x))
        g = np.ones_like(x)
        for t, y in reversed(saved):
            g = -(g * y) * (1 - t * t) * a
        return [np.sum(x), g]

    def idiom(xp: Any, params: Any, consts: Any) -> Any:
        a, b = consts
        return xp.sum(xp.repeat(lambda x: xp.exp(-xp.tanh(x * a + b)), params[0], repeats))

    def loops(params: Arrays, consts: Arrays) -> Any:
        (start,) = params
        a, b = consts
        total, g = 0.0, np.empty(n)
        for i in range(n):
            x, slope = start[i], 1.0
            for _ in range(repeats):
                t = np.tanh(x * a[i] + b[i])
                x = np.exp(-t)
                slope *= -x * (1 - t * t) * a[i]
            total += x
            g[i] = slope
        return total, g

    rng = generator()
    x, a, b = (rng.normal(size=n) for _ in range(3))
    operations = 5 * repeats + 1
    return Problem(fn, (x,), (a, b), hand, idiom=idiom, loops=loops, operations=operations)


def pushed_chain(n: int, repeats: int) -> Problem:
    """The same chain without its sum, and a tangent for it."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        (x,) = params
        a, b = consts[:2]
        for _ in range(repeats):
            x = xp.exp(-xp.tanh(x * a + b))
        return x

    def hand(params: Arrays, consts: Arrays) -> list[Array]:
        (x,) = params
        a, b, v = consts
        for _ in range(repeats):
            t = np.tanh(x * a + b)
            x = np.exp(-t)
            v = -x * (1 - t * t) * a * v
        return [x, v]

    rng = generator()
    x, a, b, v = (rng.normal(size=n) for _ in range(4))
    return Problem(fn, (x,), (a, b, v), hand)


def jacobian_of_chain(n: int, repeats: int) -> Problem:
    problem = pushed_chain(n, repeats)

    def hand(params: Arrays, consts: Arrays) -> list[Array]:
        assert problem.hand is not None
        return [np.diag(problem.hand(params, (*consts[:2], np.ones(n)))[1])]

    return Problem(problem.fn, problem.params, problem.consts, hand)


def mixture(n: int) -> Problem:
    """The log-likelihood of a mixture of two normal distributions."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        mean, log_scale, logit = params
        (x,) = consts
        z0 = (x - mean[0]) * xp.exp(-log_scale[0])
        z1 = (x - mean[1]) * xp.exp(-log_scale[1])
        first = logit - log_scale[0] - 0.5 * (z0 * z0)
        second = -log_scale[1] - 0.5 * (z1 * z1)
        return xp.sum(xp.logaddexp(first, second)) - n * xp.log1p(xp.exp(logit))

    def hand(params: Arrays, consts: Arrays) -> list[Array]:
        mean, log_scale, logit = params
        (x,) = consts
        inverse = np.exp(-log_scale)
        z0, z1 = (x - mean[0]) * inverse[0], (x - mean[1]) * inverse[1]
        first = logit - log_scale[0] - 0.5 * (z0 * z0)
        second = -log_scale[1] - 0.5 * (z1 * z1)
        total = np.logaddexp(first, second)
        p = np.exp(first - total)  # the share of the first component
        q = 1 - p
        value = np.sum(total) - n * np.log1p(np.exp(logit))
        by_mean = np.array([np.dot(p, z0), np.dot(q, z1)]) * inverse
        by_scale = np.array([np.dot(p, z0 * z0) - np.sum(p), np.dot(q, z1 * z1) - np.sum(q)])
        return [value, by_mean, by_scale, np.sum(p) - n / (1 + np.exp(-logit))]

    params = (np.array([-1.0, 1.5]), np.array([0.1, -0.3]), np.array(0.4))
    return Problem(fn, params, (generator().normal(size=n),), hand)


WORKLOADS = (
    Workload(
        "tiny",
        "sum(x*x), 8 elements",
        tiny,
        {"n": 8},
        {"n": 8},
        target=Target(0.35, 0.2),
        is_small=True,
        allowance=1.2,
    ),
    Workload(
        "chain_small",
        "25 times mul, add, tanh, neg, exp on 8 elements",
        chain,
        {"n": 8, "repeats": 25},
        {"n": 3, "repeats": 4},
        target=Target(0.6, 0.45),
        is_small=True,
        saved=Target(1.0, 0.9),
    ),
    Workload(
        "jvp_chain",
        "func.jvp of 25 times mul, add, tanh, neg, exp on 8 elements",
        pushed_chain,
        {"n": 8, "repeats": 25},
        {"n": 3, "repeats": 4},
        task="jvp",
    ),
    Workload(
        "jacfwd_chain",
        "the same by func.jacfwd: an 8 x 8 matrix",
        jacobian_of_chain,
        {"n": 8, "repeats": 25},
        {"n": 3, "repeats": 4},
        task="jacobian",
    ),
    Workload(
        "chain_medium",
        "twice mul, add, tanh, neg, exp on 1,000 elements",
        chain,
        {"n": 1000, "repeats": 2},
        {"n": 5, "repeats": 2},
    ),
    Workload(
        "chain_large",
        "twice mul, add, tanh, neg, exp on 1,000,000 elements",
        chain,
        {"n": 1_000_000, "repeats": 2},
        {"n": 5, "repeats": 2},
        target=Target(2.0, 1.4),
    ),
    Workload(
        "mixture_large",
        "log-likelihood of two normals, 1,000,000 points",
        mixture,
        {"n": 1_000_000},
        {"n": 20},
        target=Target(1.5, 1.0),
    ),
)
