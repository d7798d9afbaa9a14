"""Find the parameters of a differential equation: foxes and rabbits, by Lotka and Volterra.

The solver is a Runge-Kutta loop in plain NumPy that writes into an array it makes with np.zeros;
`pb.differentiable` lets the gradient through. Run it: python examples/fit_ode.py [picture.png]
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

TRUTH = np.array([1.1, 0.4, 0.4, 0.1, 8.0, 4.0])  # four rates, and how many there are at first
STEPS, STEP = 80, 0.2


def growth(state, alone, together):
    """Rabbits are born and eaten, foxes die and are fed."""
    return state * (alone + together * state[::-1])


@pb.differentiable
def solve(p):
    states = np.zeros((STEPS, 2))
    states[0] = p[4:]
    rates = np.array([p[0], -p[2]]), np.array([-p[1], p[3]])
    for n in range(STEPS - 1):
        k1 = growth(states[n], *rates)
        k2 = growth(states[n] + STEP / 2 * k1, *rates)
        k3 = growth(states[n] + STEP / 2 * k2, *rates)
        k4 = growth(states[n] + STEP * k3, *rates)
        states[n + 1] = states[n] + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return states


def main(picture=PICTURES / "fit_ode.png", iterations=60):
    rng = np.random.default_rng(1)
    seen = np.arange(0, STEPS, 4)
    truth = solve(TRUTH).numpy()
    data = truth[seen] * np.exp(0.08 * rng.standard_normal((len(seen), 2)))

    def loss(logs):
        return np.mean((np.log(solve(np.exp(logs))[seen]) - np.log(data)) ** 2)

    start = np.array([0.8, 0.3, 0.6, 0.15, 10.0, 3.0])
    fit = minimize(
        pb.value_and_grad(loss),
        np.log(start),
        jac=True,
        method="BFGS",
        options={"maxiter": iterations, "gtol": 1e-6},
    )
    found = np.exp(fit.x)

    time = STEP * np.arange(STEPS)
    before, after = solve(start).numpy(), solve(found).numpy()
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4), width_ratios=(2, 1), layout="constrained"
    )
    for kind, (name, color) in enumerate((("rabbits", "C0"), ("foxes", "C1"))):
        left.plot(time, before[:, kind], ":", color=color, alpha=0.6)
        left.plot(time, after[:, kind], color=color, label=name)
        left.plot(time[seen], data[:, kind], "o", ms=4, color=color)
    left.set(
        xlabel="time", ylabel="how many", title="Dotted: the start. Lines: the fit. Dots: data"
    )
    left.legend(frameon=False)
    right.plot(*before.T, ":", color="0.6", label="start")
    right.plot(*truth.T, color="0.8", lw=5, label="truth")
    right.plot(*after.T, color="C2", label="fit")
    right.plot(*data.T, "o", ms=4, color="C3")
    right.set(xlabel="rabbits", ylabel="foxes", title=f"{fit.nit} steps of BFGS")
    right.legend(frameon=False)
    figure.savefig(picture, dpi=90)
    plt.close(figure)
    print("truth", TRUTH, "found", found.round(3), "in", fit.nfev, "solutions")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2])
