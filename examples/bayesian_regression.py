"""Bayesian logistic regression by stochastic variational inference.

The posterior of the weights is approximated by a normal distribution with a full covariance matrix
L L^T. Mean and L are found by gradients of the evidence lower bound through samples of the weights,
on small batches of the data. A long Metropolis chain is the reference.

Run it: python examples/bayesian_regression.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pullback as pb

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
TRUTH = np.array([0.5, 2.0, -1.0])  # offset and two weights
PRIOR = 3.0  # standard deviation of each


def make_data(rng, count=200):
    x = np.column_stack([np.ones(count), rng.normal(size=(count, 2))])
    y = (rng.random(count) < 1 / (1 + np.exp(-x @ TRUTH))).astype(float)
    return x, y


def log_posterior(weights, x, y, scale=1.0):
    """The logarithm of prior times likelihood of some weights, one row each, up to a constant."""
    logits = weights @ x.T
    likelihood = np.sum(y * logits - np.logaddexp(0.0, logits), axis=-1)
    return scale * likelihood - np.sum(weights**2, axis=-1) / (2 * PRIOR**2)


def negative_bound(parameters, x, y, scale, noise):
    """Minus the evidence lower bound, from samples of the approximate posterior."""
    factor = np.tril(parameters["factor"], -1) + np.diag(np.exp(np.diag(parameters["factor"])))
    weights = parameters["mean"] + noise @ factor.T
    entropy = np.sum(np.diag(parameters["factor"]))
    return -np.mean(log_posterior(weights, x, y, scale)) - entropy


def fit(x, y, steps, rng):
    """Adam on batches of 50 with 8 samples each; the rate falls to zero."""
    step_of = pb.value_and_grad(negative_bound)
    parameters = {"mean": np.zeros(3), "factor": np.zeros((3, 3))}
    moments = {name: [np.zeros_like(v), np.zeros_like(v)] for name, v in parameters.items()}
    bounds = []
    for step in range(1, steps + 1):
        batch = rng.choice(len(x), 50, replace=False)
        noise = rng.normal(size=(8, 3))
        value, gradient = step_of(parameters, x[batch], y[batch], len(x) / 50, noise)
        bounds.append(-value)
        for name, (first, second) in moments.items():
            first += 0.1 * (gradient[name] - first)
            second += 0.01 * (gradient[name] ** 2 - second)
            change = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
            parameters[name] = parameters[name] - 0.1 * (1 - step / (steps + 1)) * change
    factor = np.tril(parameters["factor"], -1) + np.diag(np.exp(np.diag(parameters["factor"])))
    return parameters["mean"], factor, bounds


def metropolis(x, y, rng, steps):
    """Samples of the posterior by a random walk."""
    current, value = TRUTH.copy(), float(log_posterior(TRUTH, x, y))
    samples = np.empty((steps, 3))
    for step in range(steps):
        proposed = current + 0.25 * rng.normal(size=3)
        new = float(log_posterior(proposed, x, y))
        if np.log(rng.random()) < new - value:
            current, value = proposed, new
        samples[step] = current
    return samples[steps // 10 :]


def main(picture=PICTURES / "bayesian_regression.png", steps=1500, chain=20_000):
    rng = np.random.default_rng(0)
    x, y = make_data(rng)
    mean, factor, bounds = fit(x, y, steps, rng)
    samples = metropolis(x, y, rng, chain)
    deviations = np.sqrt(np.diag(factor @ factor.T))
    for name, a, b in (
        ("mean", mean, samples.mean(axis=0)),
        ("standard deviation", deviations, samples.std(axis=0)),
    ):
        print(f"{name:18}  variational {a.round(3)}  chain {b.round(3)}")
    draw(picture, mean, factor, bounds, samples, (x, y))
    return mean, deviations, samples


def draw(picture, mean, factor, bounds, samples, data):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    left.plot(bounds, lw=0.3, color="0.7")
    left.plot(np.convolve(bounds, np.ones(50) / 50, "valid"))
    left.set(xlabel="step", ylabel="evidence lower bound, of a batch")
    middle.plot(*samples[::20, 1:].T, ".", ms=2, color="0.6", label="chain")
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    covariance = (factor @ factor.T)[1:, 1:]
    root = np.linalg.cholesky(covariance)
    for radius in (1, 2):
        ellipse = mean[1:, None] + radius * root @ circle
        middle.plot(*ellipse, color="tab:blue", label="variational" if radius == 1 else None)
    middle.plot(*TRUTH[1:], "kx", label="truth")
    middle.set(xlabel="first weight", ylabel="second weight")
    middle.legend(fontsize=8)
    x, y = data
    grid = np.stack(np.meshgrid(np.linspace(-3, 3, 80), np.linspace(-3, 3, 80)), axis=-1)
    inputs = np.concatenate([np.ones((80, 80, 1)), grid], axis=-1)
    weights = mean + np.random.default_rng(1).normal(size=(200, 3)) @ factor.T
    chance = (1 / (1 + np.exp(-inputs @ weights.T))).mean(axis=-1)
    shown = right.contourf(grid[..., 0], grid[..., 1], chance, 10, cmap="RdBu", vmin=0, vmax=1)
    right.scatter(x[:, 1], x[:, 2], c=y, cmap="RdBu", s=10, edgecolor="k", lw=0.3)
    right.set_title("predicted probability", fontsize=10)
    figure.colorbar(shown, ax=right)
    figure.savefig(picture, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
