"""ADBench's Gaussian mixture: log-likelihood with a Wishart prior on inverse covariance factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator

GAMMA, M = 1.0, 2.0  # of the prior


def gmm(d: int, k: int, n: int) -> Problem:
    """Parameters: weights (k), means (k, d), and factors (k, d + d(d-1)/2), diagonals first."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        alphas, means, factors = params
        points, place, zero = consts
        log_diagonals = factors[:, :d]
        diagonals = xp.exp(log_diagonals)
        below = factors[:, d:]
        lower = xp.concatenate([below, zero], axis=1)[:, place].reshape((k, d, d))
        sums = xp.sum(log_diagonals, axis=1)
        centered = points - means.reshape((k, d, 1))
        scaled = diagonals.reshape((k, d, 1)) * centered + lower @ centered
        inner = (alphas + sums).reshape((k, 1)) - 0.5 * xp.sum(scaled * scaled, axis=1)
        likelihood = xp.sum(xp.logsumexp(inner, axis=0)) - n * xp.logsumexp(alphas, axis=0)
        squares = xp.sum(diagonals * diagonals) + xp.sum(below * below)
        return likelihood + 0.5 * GAMMA**2 * squares - M * xp.sum(sums)

    rng = generator()
    params = (rng.normal(size=k), rng.normal(size=(k, d)))
    params += (rng.normal(size=(k, d + d * (d - 1) // 2)) * 0.3,)
    place = np.full((d, d), d * (d - 1) // 2)  # above the diagonal: the column of zeros
    place[np.tril_indices(d, -1)] = np.arange(d * (d - 1) // 2)
    consts = (rng.normal(size=(n, d)).T.copy(), place.ravel(), np.zeros((k, 1)))
    return Problem(fn, params, consts, gradient_by_hand)


def gradient_by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    alphas, means, factors = params
    points, place, zero = consts
    (k, d), n = means.shape, points.shape[1]
    diagonals, below = np.exp(factors[:, :d]), factors[:, d:]
    lower = np.concatenate([below, zero], axis=1)[:, place].reshape(k, d, d)
    lower[:, range(d), range(d)] = diagonals
    sums = factors[:, :d].sum(axis=1)
    centered = points - means[:, :, None]
    scaled = lower @ centered
    inner = (alphas + sums)[:, None] - 0.5 * np.einsum("kdn,kdn->kn", scaled, scaled)
    top = inner.max(axis=0)
    shares = np.exp(inner - top)
    total = shares.sum(axis=0)
    shares /= total
    prior = np.exp(alphas - alphas.max())
    value = np.sum(np.log(total) + top) - n * (np.log(prior.sum()) + alphas.max())
    value += 0.5 * GAMMA**2 * (np.sum(diagonals**2) + np.sum(below**2)) - M * sums.sum()
    counts = shares.sum(axis=1)
    scaled *= shares[:, None, :]
    by_factor = -scaled @ centered.swapaxes(1, 2)
    by_mean = (lower.swapaxes(1, 2) @ scaled.sum(axis=2)[:, :, None])[:, :, 0]
    by_diagonal = by_factor[:, range(d), range(d)] * diagonals + counts[:, None]
    by_diagonal += GAMMA**2 * diagonals**2 - M
    rows, columns = np.tril_indices(d, -1)
    by_below = by_factor[:, rows, columns] + GAMMA**2 * below
    by_alpha = counts - n * prior / prior.sum()
    return [value, by_alpha, by_mean, np.concatenate([by_diagonal, by_below], axis=1)]


WORKLOADS = tuple(
    Workload(
        f"gmm_d{d}_k{k}",
        f"Gaussian mixture of {k} in {d} dimensions, 1,000 points",
        gmm,
        {"d": d, "k": k, "n": 1000},
        {"d": 3, "k": 2, "n": 6},
        target=Target(0.95, 0.75),
        saved=Target(1.0, 0.9),
    )
    for d, k in ((10, 25), (64, 5))
)
