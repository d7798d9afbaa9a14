"""An ordinary differential equation by the classical Runge-Kutta method, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Workload, generator

STEP = 1e-3


def predators(steps: int) -> Problem:
    """The last state of Lotka's and Volterra's equations, by four parameters and first state."""

    def slope(prey: Any, hunters: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        both = prey * hunters
        return a * prey - b * both, d * both - c * hunters

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        rates, start = params
        a, b, c, d = rates[0], rates[1], rates[2], rates[3]

        def step(state: Any, h: Any) -> Any:
            x, y = state
            half = 0.5 * h
            x1, y1 = slope(x, y, a, b, c, d)
            x2, y2 = slope(x + half * x1, y + half * y1, a, b, c, d)
            x3, y3 = slope(x + half * x2, y + half * y2, a, b, c, d)
            x4, y4 = slope(x + h * x3, y + h * y3, a, b, c, d)
            sixth = h / 6.0
            x = x + sixth * (x1 + 2.0 * (x2 + x3) + x4)
            return x, y + sixth * (y1 + 2.0 * (y2 + y3) + y4)

        x, y = xp.long_scan(step, (start[0], start[1]), consts[0])
        return x * x + x * y

    rng = generator()
    params = (np.array([1.1, 0.4, 0.4, 0.1]), np.array([10.0, 5.0]))
    widths = STEP * rng.uniform(0.9, 1.1, size=steps)
    return Problem(fn, params, (widths,), by_hand, loops=by_loops)


def _stages(x: float, y: float, h: float, rates: Array) -> Any:
    """The states at which a step computes slopes, and the slopes."""
    places, slopes = np.empty((4, 2)), np.empty((4, 2))
    for k in range(4):
        share = 0.0 if k == 0 else (h if k == 3 else 0.5 * h)
        px = x + share * slopes[k - 1, 0] if k else x
        py = y + share * slopes[k - 1, 1] if k else y
        places[k, 0], places[k, 1] = px, py
        slopes[k, 0] = rates[0] * px - rates[1] * px * py
        slopes[k, 1] = rates[3] * px * py - rates[2] * py
    return places, slopes


def _forward(rates: Array, start: Array, widths: Array) -> Array:
    states = np.empty((len(widths) + 1, 2))
    states[0, 0], states[0, 1] = start[0], start[1]
    for i in range(len(widths)):
        _, k = _stages(states[i, 0], states[i, 1], widths[i], rates)
        for j in range(2):
            total = k[0, j] + 2.0 * (k[1, j] + k[2, j]) + k[3, j]
            states[i + 1, j] = states[i, j] + widths[i] / 6.0 * total
    return states


def by_loops(params: Arrays, consts: Arrays) -> Any:
    """Reverse mode by hand, step by step."""
    rates, start = params
    (widths,) = consts
    states = _forward(rates, start, widths)
    x, y = states[-1, 0], states[-1, 1]
    value = x * x + x * y
    gx, gy = 2 * x + y, x
    by_rates = np.zeros(4)
    for i in range(len(widths) - 1, -1, -1):
        h = widths[i]
        p, _ = _stages(states[i, 0], states[i, 1], h, rates)
        bx, by = gx, gy  # of the state before the step
        lx, ly = 0.0, 0.0  # of a stage's place, times its share of the stage before
        for k in range(3, -1, -1):
            weight = h / 6.0 if k in (0, 3) else h / 3.0
            share = 0.0 if k == 3 else (h if k == 2 else 0.5 * h)
            sx, sy = weight * gx + share * lx, weight * gy + share * ly
            px, py = p[k, 0], p[k, 1]
            by_rates[0] += sx * px
            by_rates[1] -= sx * px * py
            by_rates[2] -= sy * py
            by_rates[3] += sy * px * py
            lx = sx * (rates[0] - rates[1] * py) + sy * rates[3] * py
            ly = -sx * rates[1] * px + sy * (rates[3] * px - rates[2])
            bx, by = bx + lx, by + ly
        gx, gy = bx, by
    return value, by_rates, np.array([gx, gy])


def by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    return [np.asarray(found) for found in by_loops(params, consts)]


WORKLOADS = (
    Workload(
        "ode_rk4",
        "10,000 Runge-Kutta steps of two equations with four parameters",
        predators,
        {"steps": 10_000},
        {"steps": 5},
        quick=False,
        absent={"torch.compile": "the loop would be unrolled: minutes of compilation"},
    ),
)
