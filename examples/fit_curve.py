"""Fit a curve with SciPy: the gradient and the Hessian come from the plain NumPy function.

Run it: python examples/fit_curve.py [picture.png]
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

TRUTH = np.array([1.4, 0.35, 2.6, 0.5])  # amplitude, damping, frequency, phase
NOISE = 0.12


def model(p, t):
    amplitude, damping, frequency, phase = p
    return amplitude * np.exp(-damping * t) * np.cos(frequency * t + phase)


def loss(p, t, y):
    return np.sum((model(p, t) - y) ** 2) / (2 * NOISE**2)


def main(picture=PICTURES / "fit_curve.png"):
    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0, 8, 60))
    y = model(TRUTH, t) + NOISE * rng.standard_normal(60)
    start = np.array([1.0, 0.1, 2.2, 0.0])

    fit = minimize(pb.value_and_grad(loss), start, args=(t, y), jac=True, method="BFGS")

    # How sure is the fit? The inverse Hessian is the covariance of the parameters, and the Jacobian
    # of the curve carries it over to every point of the curve.
    covariance = np.linalg.inv(pb.hessian(loss)(fit.x, t, y))
    grid = np.linspace(0, 10, 400)
    slopes = pb.jacobian(model)(fit.x, grid)
    spread = 2 * np.sqrt(np.einsum("ti,ij,tj->t", slopes, covariance, slopes))
    curve = model(fit.x, grid)

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(grid, model(start, grid), ":", color="0.6", label="start")
    axes.fill_between(grid, curve - spread, curve + spread, color="C0", alpha=0.25, lw=0)
    axes.plot(grid, curve, color="C0", label=rf"fit, {fit.nit} steps of BFGS, $\pm 2\sigma$")
    axes.plot(t, y, "o", ms=4, color="C1", label="data")
    axes.set(xlabel="t", ylabel="y", title="A damped oscillation, fitted with pb.value_and_grad")
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=90)
    plt.close(figure)
    for name, value, error in zip(
        ("amplitude", "damping", "frequency", "phase"),
        fit.x,
        np.sqrt(covariance.diagonal()),
        strict=True,
    ):
        print(f"{name:>10} {value:7.3f} ± {error:.3f}")
    return fit.x


if __name__ == "__main__":
    main(*sys.argv[1:2])
