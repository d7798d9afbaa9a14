"""More programs, as in textbooks: solvers in place, tables, stencils, ``out=`` and ``math``."""

from __future__ import annotations

import math

import numpy as np

from .creating_programs import CREATING
from .programs import DATA, SIGNAL, creating

__all__ = ["CREATING"]

DIAGONAL = np.array([4.0, 4.5, 5.0, 4.2])
IMAGE = np.random.default_rng(11).normal(size=(5, 6))


@creating(np.array([1.0, 0.5, 0.7]), DIAGONAL, np.array([0.8, 0.3, 0.6]), np.array([1, 2, 3, 4.0]))
def thomas_algorithm(a, b, c, d):
    n = len(d)
    cc, dd, x = np.zeros(n - 1), np.zeros(n), np.zeros(n)
    cc[0] = c[0] / b[0]
    dd[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i - 1] * cc[i - 1]
        if i < n - 1:
            cc[i] = c[i] / m
        dd[i] = (d[i] - a[i - 1] * dd[i - 1]) / m
    x[-1] = dd[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dd[i] - cc[i] * x[i + 1]
    return x


@creating(np.random.default_rng(1).normal(size=(4, 4)) + 4 * np.eye(4))
def lu_in_place(a):
    a = a.copy()
    n = a.shape[0]
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.tril(a, -1) + np.eye(n), np.triu(a)


@creating(np.random.default_rng(2).normal(size=(4, 3)))
def gram_schmidt(a):
    q, r = np.zeros_like(a), np.zeros((3, 3))
    for j in range(3):
        v = a[:, j].copy()
        for i in range(j):
            r[i, j] = q[:, i] @ a[:, j]
            v -= r[i, j] * q[:, i]
        r[j, j] = math.sqrt(v @ v)
        q[:, j] = v / r[j, j]
    return q, r


@creating(np.array([1.0, 0.0]), np.array([0.3, 2.0]))
def runge_kutta_buffers(y0, p):
    def f(t, y):
        dy = np.empty(2)
        dy[0] = y[1]
        dy[1] = -p[0] * y[1] - p[1] * math.sin(y[0]) + 0.1 * math.cos(t)
        return dy

    h, n = 0.1, 6
    ys = np.empty((n + 1, 2))
    ys[0] = y0
    for i in range(n):
        k1 = f(i * h, ys[i])
        k2 = f((i + 0.5) * h, ys[i] + 0.5 * h * k1)
        k3 = f((i + 0.5) * h, ys[i] + 0.5 * h * k2)
        k4 = f((i + 1) * h, ys[i] + h * k3)
        ys[i + 1] = ys[i] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return ys


@creating(np.array([0.2, 0.5]), np.array([1.0, 1.2, 0.9, 1.5]))
def kalman_matrices(noise, measured):
    x, p = np.zeros(2), np.eye(2)
    f, h = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    q, r = noise[0] * np.eye(2), np.full((1, 1), noise[1])
    track = []
    for z in measured:
        x = f @ x
        p = f @ p @ f.T + q
        gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        x = x + gain @ (z - h @ x)
        p = (np.eye(2) - gain @ h) @ p
        track.append(x)
    return np.array(track)


@creating(IMAGE, np.array([[0.1, 0.2, 0.1], [0.0, 0.5, 0.3], [0.2, -0.1, 0.1]]))
def image_convolution(image, kernel):
    padded = np.pad(image, 1, mode="edge")
    out = np.zeros(image.shape)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            out[i, j] = np.sum(padded[i : i + 3, j : j + 3] * kernel)
    return out


@creating(DATA, DATA[:2] + 0.1)
def k_means_step(points, centers):
    apart = np.linalg.norm(points[:, None, :] - centers[None, :, :], axis=2)
    label = np.argmin(apart, axis=1)
    new = np.zeros_like(centers)
    np.add.at(new, label, points)
    counts = np.bincount(label, minlength=len(centers))
    new /= np.maximum(counts, 1)[:, None]
    return new, np.sum((points - new[label]) ** 2)


@creating(np.array([2.0, 3.0, 1.5, 4.0]), np.array([0.5, 0.9, 0.3, 1.1]))
def knapsack_table(values, sizes):
    weights, room = [1, 2, 1, 3], 5
    best = np.zeros((len(values) + 1, room + 1))
    for i in range(1, len(values) + 1):
        for w in range(room + 1):
            best[i, w] = best[i - 1, w]
            if weights[i - 1] <= w:
                taken = best[i - 1, w - weights[i - 1]] + values[i - 1] * sizes[i - 1]
                if taken > best[i, w]:
                    best[i, w] = taken
    return best


@creating(np.random.default_rng(5).uniform(0.5, 2.0, size=(4, 4)))
def floyd_warshall(lengths):
    d = np.array(lengths)
    np.fill_diagonal(d, 0.0)
    for k in range(4):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d


@creating(SIGNAL, np.array(0.15))
def low_pass_by_fourier(signal, width):
    spectrum = np.fft.rfft(signal)
    frequency = np.fft.rfftfreq(len(signal))
    spectrum[frequency > 0.4] = 0
    spectrum *= np.exp(-((frequency / width) ** 2))
    return np.fft.irfft(spectrum, len(signal))


@creating(IMAGE, np.array(0.1))
def reaction_diffusion(start, rate):
    u, v = np.copy(start), np.ones_like(start) * 0.5
    for _ in range(3):
        lap = np.zeros_like(u)
        lap[1:-1, 1:-1] = (
            u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        )
        reaction = u * v**2
        u += rate * lap - reaction * 0.1
        v += 0.1 * reaction
        u[0], u[-1] = u[1], u[-2]
    return u, v


@creating(SIGNAL, np.array(0.5))
def a_string_of_out(x, c):
    buffer, other = np.empty_like(x), np.empty(x.shape)
    np.multiply(x, c, out=buffer)
    np.sin(buffer, out=buffer)
    np.add(buffer, x, out=other)
    np.exp(other * 0.1, out=other)
    np.multiply(other, buffer, out=other)
    np.subtract(other, c, out=other, where=x > 0)
    return np.cumsum(other, out=buffer)


@creating(SIGNAL, np.array([0.2, 1.5]))
def masks_updated(x, p):
    y = np.zeros_like(x)
    low, high = x < -0.5, x > 0.5
    y[low] = p[0] * x[low] ** 2
    y[high] = p[1] * np.log(x[high] + 1)
    y[~(low | high)] += 0.3 * p[0]
    y[y > 0.4] *= 0.5
    y[::2][high[::2]] -= p[1]
    return y


@creating(np.array([0.1, 0.4, 0.2, 0.3]), np.array([5.0, 4.0, 3.0]))
def scatter_forces(strengths, positions):
    left, right = np.array([0, 1, 0, 2]), np.array([1, 2, 2, 0])
    force = np.zeros(3)
    apart = positions[left] - positions[right]
    np.add.at(force, left, -strengths * apart)
    np.subtract.at(force, right, -strengths * apart)
    return force


@creating(np.array([1.0, 2.0, 0.5]), np.array(0.9))
def particles_with_math(masses, angle):
    total = 0.0
    c, s = math.cos(angle), math.sin(angle)
    place = np.zeros((3, 2))
    for i, m in enumerate(masses):
        place[i] = [c * m - s * i, s * m + c * i]
    for i in range(3):
        for j in range(i):
            dx, dy = place[i] - place[j]
            total += masses[i] * masses[j] / math.hypot(dx, dy) + math.log(1 + dx**2, 2)
    return np.array([total, math.exp(-total)])


@creating(np.random.default_rng(9).normal(size=(3, 3)) + 3 * np.eye(3), np.array([1.0, 2, 3]))
def jacobi_iteration(a, b):
    x = np.zeros_like(b)
    for _ in range(10):
        new = np.empty_like(x)
        for i in range(3):
            new[i] = (b[i] - a[i, :i] @ x[:i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
        x[:] = new
    return x


@creating(np.array(100.0), np.array([0.2, 0.05]))
def binomial_option(price, p):
    n, strike = 6, 98.0
    up = math.exp(p[0] * math.sqrt(1 / n))
    q = (math.exp(p[1] / n) - 1 / up) / (up - 1 / up)
    value = np.maximum(price * up ** (2 * np.arange(n + 1.0) - n) - strike, 0)
    for _ in range(n):
        value[:-1] = math.exp(-p[1] / n) * (q * value[1:] + (1 - q) * value[:-1])
        value = value[:-1]
    return value[0] * np.ones(1)


@creating(SIGNAL, np.array([0.6, 0.3]))
def joined_boundaries(u, ends):
    whole = np.concatenate([[ends[0]], u, [ends[1]]])
    table = np.zeros((3, len(u)))
    table[0] = whole[:-2]
    table[1] = whole[1:-1]
    table[2, :] = whole[2:]
    np.put(table, [0, 5], ends)
    return table.T @ whole[:3]
