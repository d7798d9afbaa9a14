"""Plain NumPy programs, written as their authors would: no word of tensors in them.

`PROGRAMS` run as they are. Those of `CREATING` write into arrays, of their own mostly, so they run
under `differentiable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
CREATING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}

_random = np.random.default_rng(11)
DATA = _random.normal(size=(8, 3))
LABELS = (DATA[:, 0] - DATA[:, 1] > 0).astype(float)
SIGNAL = np.sin(np.linspace(0, 6, 16)) + 0.1 * _random.normal(size=16)


def program(*arrays: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a program that runs as it is, and what it is called on."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (function, arrays)
        return function

    return add


def creating(*arrays: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a program that creates arrays and writes into them."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CREATING[function.__name__] = (function, arrays)
        return function

    return add


@program(DATA, np.array([0.2, 0.3, 0.5]))
def mean_variance(returns, weights):
    mean = returns.mean(axis=0)
    covariance = np.cov(returns, rowvar=False)
    return weights @ mean - 0.5 * weights @ covariance @ weights


@program(np.array([0.5, -1.0, 2.0]))
def softmax(x):
    shifted = np.exp(x - np.max(x))
    return shifted / shifted.sum()


@program(np.array([0.1, -0.2, 0.3]), np.array(0.05))
def logistic_regression(w, b):
    logits = DATA @ w + b
    losses = np.logaddexp(0, logits) - LABELS * logits
    return np.mean(losses) + 0.01 * np.sum(w**2)


@program(np.array([1.3, 0.7, 0.8, 1.9, 1.2]))
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)


@program(np.array([1.3, 0.7, 0.8]))
def rastrigin(x):
    return 10 * len(x) + sum(v * v - 10 * np.cos(2 * np.pi * v) for v in x)


@program(DATA)
def standardize(x):
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0, ddof=1)


@program(SIGNAL, np.array([0.25, 0.5, 0.25]))
def convolution_by_slices(signal, kernel):
    n = len(signal) - len(kernel) + 1
    return sum(kernel[i] * signal[i : i + n] for i in range(len(kernel)))


@program(SIGNAL)
def fourier_filter(signal):
    spectrum = np.fft.rfft(signal)
    cut = np.arange(len(spectrum)) > 4
    return np.fft.irfft(np.where(cut, 0, spectrum), n=len(signal))


@program(SIGNAL)
def power_spectrum(signal):
    window = np.hanning(len(signal))
    return np.log1p(np.abs(np.fft.fft(signal * window)[:8]) ** 2)


@program(_random.normal(size=(3, 3)), np.array([1.0, 2.0, 3.0]))
def cholesky_solve(root, b):
    a = root @ root.T + 3 * np.eye(3)
    lower = np.linalg.cholesky(a)
    y = np.linalg.solve(lower, b)
    return np.linalg.solve(lower.T, y)


@program(DATA[:5], np.array([0.7, 1.3]))
def gaussian_process(points, scales):
    gaps = points[:, None, :] - points[None, :, :]
    kernel = scales[1] * np.exp(-0.5 * np.sum(gaps**2, axis=-1) / scales[0] ** 2)
    kernel = kernel + 0.1 * np.eye(len(points))
    y = np.sin(points[:, 0])
    sign, logdet = np.linalg.slogdet(kernel)
    return 0.5 * y @ np.linalg.solve(kernel, y) + 0.5 * sign * logdet


@program(SIGNAL)
def trimmed_mean(x):
    ordered = np.sort(x)
    return ordered[2:-2].mean() + np.median(x) - np.percentile(x, 30)


@program(SIGNAL)
def quantile_loss(x):
    rest = LABELS[:4].sum() / 8 - x
    return np.mean(np.maximum(0.3 * rest, -0.7 * rest))


@program(SIGNAL)
def cumulative_returns(x):
    wealth = np.cumprod(1 + 0.1 * x)
    peak = np.maximum.accumulate(wealth)
    return np.max((peak - wealth) / peak)


@program(SIGNAL)
def masked_statistics(x):
    mask = x > 0.1
    return x[mask].sum() / np.count_nonzero(mask) + np.abs(x[~mask]).max()


@program(np.array([0.4, 0.9]))
def newton_root(p):
    x = 1.0
    for _ in range(20):
        x = x - (x**3 + p[0] * x - p[1]) / (3 * x**2 + p[0])
    return x


@program(np.array([0.7, 1.9]))
def fixed_point(p):
    x = p[0]
    while np.abs(np.cos(x * p[1]) - x) > 1e-12:
        x = 0.5 * (x + np.cos(x * p[1]))
    return x


@program(np.array([1.0, 0.5]), np.array(0.8))
def runge_kutta(state, mu):
    def field(s):
        return np.stack([s[1], mu * (1 - s[0] ** 2) * s[1] - s[0]])

    h = 0.05
    for _ in range(10):
        k1 = field(state)
        k2 = field(state + h / 2 * k1)
        k3 = field(state + h / 2 * k2)
        k4 = field(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


@program(_random.normal(size=(3, 4)), _random.normal(size=4), _random.normal(size=(4, 1)))
def neural_network(w1, b1, w2):
    hidden = np.tanh(DATA @ w1 + b1)
    out = 1 / (1 + np.exp(-(hidden @ w2)[:, 0]))
    return -np.mean(LABELS * np.log(out) + (1 - LABELS) * np.log(1 - out))


@creating(_random.normal(size=(4, 4)))
def attention(q):
    scores = np.einsum("id,jd->ij", q, q) / np.sqrt(q.shape[-1])
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ q


@program(np.array([0.3, 1.2]), np.array([-0.5, 0.8]))
def mixture_likelihood(means, log_scales):
    z = (SIGNAL[:, None] - means) / np.exp(log_scales)
    log_parts = -0.5 * z**2 - log_scales - 0.5 * np.log(2 * np.pi)
    top = log_parts.max(axis=1, keepdims=True)
    return np.sum(top[:, 0] + np.log(np.sum(np.exp(log_parts - top), axis=1)))


@program(DATA[:4])
def pairwise_distances(x):
    squared = np.sum(x**2, axis=1)
    d = squared[:, None] + squared[None, :] - 2 * x @ x.T
    upper = np.triu_indices(len(x), k=1)
    return np.sqrt(d[upper])


@program(DATA)
def principal_components(x):
    centered = x - x.mean(0)
    values, vectors = np.linalg.eigh(centered.T @ centered / len(x))
    return values[::-1], (centered @ vectors[:, -1]) ** 2


@program(DATA)
def singular_values(x):
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    low_rank = (u[:, :2] * s[:2]) @ vt[:2]
    return np.linalg.norm(x - low_rank), s


@program(np.array([2.0, -3.0, 0.5]))
def polynomial_curve(c):
    x = np.linspace(-1, 1, 7)
    y = np.polyval(c, x) + 0.1 * np.sin(5 * x)
    return np.polyfit(x, y, 2)


@program(SIGNAL)
def interpolation(y):
    x = np.arange(len(y))
    fine = np.linspace(0.3, len(y) - 1.7, 9)
    return np.trapezoid(np.interp(fine, x, y), fine)


@program(np.array([0.3, -0.7, 1.1]))
def rotation(angles):
    a, b, c = angles
    first = np.array([[1.0, 0.0, 0.0]])
    second = np.block([np.zeros((1, 1)), np.stack([np.cos(a), -np.sin(a)])[None]])
    third = np.block([np.zeros((1, 1)), np.stack([np.sin(a), np.cos(a)])[None]])
    rx = np.block([[first], [second], [third]])
    return rx @ np.stack([b, c, a * b])


@program(SIGNAL)
def total_variation(x):
    return np.sum(np.sqrt(np.diff(x) ** 2 + 1e-3)) + np.sum(np.gradient(x) ** 2)


@program(_random.normal(size=(5, 5)))
def image_blur(image):
    padded = np.pad(image, 1, mode="edge")
    blurred = sum(padded[i : i + 5, j : j + 5] for i in range(3) for j in range(3)) / 9
    return np.clip(blurred, -0.3, 0.3)


@program(_random.uniform(0.2, 1.0, size=(3, 3)))
def markov_chain(rates):
    p = rates / rates.sum(axis=1, keepdims=True)
    return np.linalg.matrix_power(p, 5)[0] @ np.array([1.0, 2.0, 3.0])


@program(np.array([0.9, 0.2, 0.05]))
def garch(p):
    variance = np.var(SIGNAL)
    total = 0.0
    for r in SIGNAL:
        total += np.log(variance) + r**2 / variance
        variance = p[2] + p[1] * r**2 + p[0] * variance * 0.7
    return total


@program(np.array([0.1, 0.4, 0.5]), np.array([0.3, 0.3, 0.4]))
def divergences(p, q):
    m = (p + q) / 2
    kl = np.sum(p * np.log(p / m)) + np.sum(q * np.log(q / m))
    return kl / 2, np.sqrt(np.sum((np.sqrt(p) - np.sqrt(q)) ** 2)), np.max(np.abs(p - q))


@program(SIGNAL[:6] + 2)
def choices(x):
    smooth = np.where(x > 2, np.sqrt(x), x**2)
    steps = np.select([x < 1.5, x < 2.5], [x, 2 * x], default=x**3)
    parts = np.piecewise(x, [x < 2], [np.sin, np.cos])
    return smooth + steps + parts


@program(np.array([1.0 + 0.5j, -0.3 + 2.0j]))
def complex_amplitudes(z):
    total = np.abs(np.sum(z * np.exp(1j * np.angle(z)))) ** 2
    return total + np.real(np.vdot(z, z)) + np.imag(z[0] * z[1].conj())


@program(np.array([1.0, 2.0]))
def nelder_target(p):
    x = np.arange(1.0, 6.0)
    model = p[0] * x / (p[1] + x)
    residual = model - np.array([0.3, 0.5, 0.6, 0.7, 0.71])
    return 0.5 * np.dot(residual, residual)


@program(np.array([0.2, 0.7, 0.1]))
def entropy_of_sorted(p):
    order = np.argsort(p)[::-1]
    ranked = np.take(p, order)
    return -(ranked * np.log(ranked)).sum() + np.dot(ranked, [3.0, 2.0, 1.0])
