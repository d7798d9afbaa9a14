"""A Gaussian process whose hyperparameters are learned by its marginal likelihood.

Run it: python examples/gaussian_process.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import pullback as pb

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def kernel(a, b, log_scale, log_length):
    apart = (a[:, None] - b[None, :]) / np.exp(log_length)
    return np.exp(2 * log_scale - apart**2 / 2)


def factors(p, x, y):
    """The Cholesky factor of the covariance of the data, and the weights of the data."""
    covariance = kernel(x, x, p[0], p[1]) + np.exp(2 * p[2]) * np.eye(len(x))
    return np.linalg.cholesky(covariance), np.linalg.solve(covariance, y)


def loss(p, x, y):
    """The negative logarithm of the marginal likelihood."""
    factor, weights = factors(p, x, y)
    return y @ weights / 2 + np.sum(np.log(np.diag(factor))) + len(x) / 2 * np.log(2 * np.pi)


def predict(p, x, y, at):
    factor, weights = factors(p, x, y)
    across = kernel(at, x, p[0], p[1])
    shrunk = np.linalg.solve(factor, across.T)
    return across @ weights, np.sqrt(np.exp(2 * p[0]) - np.sum(shrunk**2, axis=0))


def main(picture=PICTURES / "gaussian_process.png"):
    rng = np.random.default_rng(7)
    x = np.sort(np.concatenate([rng.uniform(0, 4, 22), rng.uniform(6, 10, 18)]))
    y = np.sin(1.7 * x) + 0.4 * np.cos(4.1 * x) + 0.15 * rng.standard_normal(40)
    start = np.log(np.array([1.0, 2.5, 0.5]))  # scale, length, noise

    path = [start]
    fit = minimize(
        pb.value_and_grad(loss), start, args=(x, y), jac=True, method="BFGS", callback=path.append
    )

    at = np.linspace(-0.5, 10.5, 400)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4), width_ratios=(2, 1), layout="constrained"
    )
    for p, color, name in ((start, "0.6", "start"), (fit.x, "C0", "learned")):
        mean, spread = predict(p, x, y, at)
        left.fill_between(at, mean - 2 * spread, mean + 2 * spread, color=color, alpha=0.25, lw=0)
        left.plot(at, mean, color=color, label=name)
    left.plot(x, y, "o", ms=4, color="C1", label="data")
    left.set(title=r"Gaussian process, $\pm 2\sigma$", xlabel="x", ylabel="y", ylim=(-2.2, 2.2))
    left.legend(frameon=False, ncols=3, loc="lower left")

    lengths, noises = np.linspace(-1.6, 1.2, 50), np.linspace(-2.6, 0.0, 50)
    surface = [[loss(np.array([fit.x[0], u, v]), x, y) for u in lengths] for v in noises]
    drawn = right.contourf(lengths, noises, np.maximum(-np.array(surface), -80), 24)
    figure.colorbar(drawn, ax=right, ticks=[-80, -60, -40, -20, 0])
    steps = np.array(path)
    right.plot(steps[:, 1], steps[:, 2], "o-", color="w", ms=3, lw=1, label="BFGS")
    right.plot(*fit.x[1:], "*", color="C3", ms=12, label="maximum")
    right.set(title="log likelihood", xlabel="log length", ylabel="log noise")
    right.legend(frameon=False, labelcolor="w", loc="lower right")
    figure.savefig(picture, dpi=80)
    plt.close(figure)
    scale, length, noise = np.exp(fit.x)
    print(f"scale {scale:.2f}, length {length:.2f}, noise {noise:.3f}, {fit.nit} steps of BFGS")
    return fit.x


if __name__ == "__main__":
    main(*sys.argv[1:2])
