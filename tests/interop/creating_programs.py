"""Programs that create arrays and write into them, element by element or by slices."""

from __future__ import annotations

import numpy as np

from .programs import CREATING, DATA, SIGNAL, creating

__all__ = ["CREATING"]


@creating(np.array([1.0, 0.5]), np.array(0.8))
def euler_steps(start, mu):
    steps = 12
    y = np.zeros((steps, 2))
    y[0] = start
    for i in range(steps - 1):
        y[i + 1, 0] = y[i, 0] + 0.1 * y[i, 1]
        y[i + 1, 1] = y[i, 1] + 0.1 * (mu * (1 - y[i, 0] ** 2) * y[i, 1] - y[i, 0])
    return y


@creating(SIGNAL, np.array(0.2))
def heat_equation(u, c):
    u = u.copy()
    for _ in range(8):
        u[1:-1] += c * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@creating(SIGNAL, np.array(0.3))
def burgers_equation(start, dt):
    u = np.array(start)
    for _ in range(5):
        previous = u.copy()
        u[1:] = previous[1:] - dt * previous[1:] * (previous[1:] - previous[:-1])
        u[0] = previous[-1]
    return u


@creating(SIGNAL[:8], np.array(0.4))
def wave_equation(shape, c):
    now, before = np.copy(shape), np.copy(shape)
    for _ in range(6):
        after = np.zeros_like(now)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + c**2 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now = now, after
    return now


@creating(np.array([0.5, 1.5]))
def logistic_map(p):
    x = np.empty(10)
    x[0] = p[0]
    for i in range(1, 10):
        x[i] = p[1] * x[i - 1] * (1 - x[i - 1])
    return x


@creating(SIGNAL)
def moving_average(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        low, high = max(0, i - 2), min(len(x), i + 3)
        out[i] = np.mean(x[low:high])
    return out


@creating(np.array([0.9, 0.3]))
def kalman_filter(p):
    mean, variance = np.zeros(len(SIGNAL)), np.ones(len(SIGNAL))
    for i in range(1, len(SIGNAL)):
        predicted, spread = p[0] * mean[i - 1], p[0] ** 2 * variance[i - 1] + 0.1
        gain = spread / (spread + p[1])
        mean[i] = predicted + gain * (SIGNAL[i] - predicted)
        variance[i] = (1 - gain) * spread
    return mean, variance


@creating(np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]]))
def cholesky_by_hand(a):
    n = len(a)
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            rest = a[i, j] - low[i, :j] @ low[j, :j]
            low[i, j] = np.sqrt(rest) if i == j else rest / low[j, j]
    return low


@creating(np.array([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0]))
def gauss_elimination(a, b):
    a, b = a.copy(), b.copy()
    n = len(b)
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    x = np.zeros(n)
    for i in reversed(range(n)):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


@creating(np.array([0.4, -0.2, 0.9]))
def rotation_matrix(angles):
    c, s = np.cos(angles), np.sin(angles)
    rx = np.array([[1, 0, 0], [0, c[0], -s[0]], [0, s[0], c[0]]])
    ry = np.array([[c[1], 0, s[1]], [0, 1, 0], [-s[1], 0, c[1]]])
    rz = np.eye(3)
    rz[:2, :2] = [[c[2], -s[2]], [s[2], c[2]]]
    return rx @ ry @ rz


@creating(SIGNAL)
def rectified(x):
    y = np.array(x)
    y[y < 0] *= 0.1
    y[y > 1] = 1 + np.log(y[y > 1])
    return y


@creating(np.array([3.0, 0.5, 2.0, 1.0]))
def edit_path(costs):
    table = np.zeros((4, 4))
    table[0, :] = np.cumsum(costs)
    for i in range(1, 4):
        table[i, 0] = table[i - 1, 0] + costs[i] * 0.5
        for j in range(1, 4):
            table[i, j] = np.minimum(table[i - 1, j], table[i, j - 1]) + costs[i] * costs[j]
    return table[-1, -1]


@creating(np.array([0.6, 0.3, 0.1]))
def forward_algorithm(start):
    moves = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    alpha = np.zeros((5, 3))
    alpha[0] = start
    for t in range(1, 5):
        alpha[t] = (alpha[t - 1] @ moves) * np.array([0.5, 0.1, 0.9]) ** (t % 2)
        alpha[t] /= alpha[t].sum() + 0.1
    return np.log(alpha.sum(axis=1))


@creating(np.array([0.5, 1.2]))
def finite_differences(p):
    x = np.linspace(0, 1, 6)
    stiffness = np.zeros((6, 6))
    np.fill_diagonal(stiffness, 2 * p[1])
    for i in range(5):
        stiffness[i, i + 1] = stiffness[i + 1, i] = -p[1]
    stiffness[0, :] = 0
    stiffness[0, 0] = 1
    load = np.full(6, p[0]) * x
    load[0] = 0
    return np.linalg.solve(stiffness, load)


@creating(DATA[:4, :2], np.array([1.0, 2.0, 0.5, 1.5]))
def gravity(positions, masses):
    force = np.zeros_like(positions)
    for i in range(len(positions)):
        for j in range(len(positions)):
            if i != j:
                gap = positions[j] - positions[i]
                force[i] += masses[i] * masses[j] * gap / (np.sum(gap**2) + 0.1) ** 1.5
    return force


@creating(SIGNAL)
def horner_blocks(x):
    blocks = np.reshape(x, (4, 4))
    out = np.ones((4, 4))
    for k in range(4):
        out *= 0.5
        out += blocks[k]
        out[:, k] -= np.roll(out, 1, axis=0)[:, k] * 0.1
    return np.hstack([out, np.ones((4, 1)) * out.mean()])


@creating(np.array([1.0, 2.0, 3.0]))
def exponential_in_place(x):
    y = x.copy()
    np.exp(y, out=y)
    np.multiply(y, x, out=y)
    y **= 0.5
    y -= y.mean()
    return y


@creating(SIGNAL[:6])
def histogram_by_hand(weights):
    counts = np.zeros(3)
    np.add.at(counts, [0, 2, 1, 2, 2, 0], weights)
    np.put(counts, [1], counts[1] * 2)
    return counts / counts.sum()
