"""Logistic regression: the Hessian of its loss, and the Hessian times a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Task, Workload, generator

RIDGE = 0.1


def loss(xp: Any, params: Any, consts: Any) -> Any:
    (w,) = params
    x, signs = consts[:2]
    margins = signs * (x @ w)
    return xp.sum(xp.log1p(xp.exp(-margins))) + 0.5 * RIDGE * xp.sum(w * w)


def _curvature(params: Arrays, consts: Arrays) -> Array:
    p = 1.0 / (1.0 + np.exp(-(consts[0] @ params[0])))
    return p * (1.0 - p)


def hessian_by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    x = consts[0]
    return [(x.T * _curvature(params, consts)) @ x + RIDGE * np.eye(x.shape[1])]


def hvp_by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    x, _, v = consts
    return [x.T @ (_curvature(params, consts) * (x @ v)) + RIDGE * v]


def functional_hvp_by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    return [np.asarray(loss(np, params, consts)), *hvp_by_hand(params, consts)]


def _data(n: int, d: int) -> tuple[Arrays, Arrays]:
    rng = generator()
    return (rng.normal(size=d) * 0.3,), (rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=n))


def hessian(n: int, d: int) -> Problem:
    return Problem(loss, *_data(n, d), hessian_by_hand)


def hvp(n: int, d: int) -> Problem:
    params, consts = _data(n, d)
    return Problem(loss, params, (*consts, generator(1).normal(size=d)), hvp_by_hand)


def functional_hvp(n: int, d: int) -> Problem:
    params, consts = _data(n, d)
    v = generator(1).normal(size=d)
    return Problem(loss, params, (*consts, v), functional_hvp_by_hand)


def _product(name: str, title: str, task: Task, target: Target | None = None) -> Workload:
    """The Hessian times a vector, in one of the ways to it."""
    sizes = {"n": 1000, "d": 30}, {"n": 12, "d": 3}
    return Workload(name, title, hvp, *sizes, task=task, target=target, allowance=1.2)


WORKLOADS = (
    Workload(
        "logreg_hessian",
        "Hessian of logistic regression, n=1,000, d=30",
        hessian,
        {"n": 1000, "d": 30},
        {"n": 12, "d": 3},
        task="hessian",
        target=Target(0.2, 0.1),
    ),
    _product("hvp", "the same Hessian times a vector", "hvp", Target(0.4, 0.3)),
    _product("jvp_grad", "the same product, by func.jvp of func.grad", "jvp_grad"),
    _product("double_backward", "the same product, by autograd.grad twice", "double_backward"),
    Workload(
        "functional_hvp",
        "value and the same product, by autograd.functional.hvp",
        functional_hvp,
        {"n": 1000, "d": 30},
        {"n": 12, "d": 3},
        task="functional_hvp",
        target=Target(0.4, 0.3),
    ),
)
