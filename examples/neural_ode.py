"""Learn the right-hand side of a differential equation from a path.

Run it: python examples/neural_ode.py [picture.png]
"""

import sys
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"

TURN = np.array([[-0.1, 2.0], [-2.0, -0.1]])
TIMES = np.linspace(0.0, 6.0, 121)


def truth(y):
    """A spiral whose speed depends on the place."""
    return (y**3) @ TURN


def integrate(slope, start, steps):
    """The classical Runge-Kutta method, for several starts at once."""
    dt = TIMES[1] - TIMES[0]
    path = [start]
    for _ in range(steps):
        y = path[-1]
        k1 = slope(y)
        k2 = slope(y + dt / 2 * k1)
        k3 = slope(y + dt / 2 * k2)
        k4 = slope(y + dt * k3)
        path.append(y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return path


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, y):
        return self.net(y**3)


def main(picture=PICTURES / "neural_ode.png", iterations=300, window=10):
    rng = np.random.default_rng(1)
    np.random.seed(1)
    data = np.array(integrate(truth, np.array([1.5, 0.0]), len(TIMES) - 1))
    model = Slope()
    optimizer = pb.optim.Adam(model.parameters(), lr=1e-2)
    schedule = pb.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations, eta_min=1e-4)

    begin, losses = time.perf_counter(), []
    for iteration in range(iterations):
        starts = rng.integers(0, len(TIMES) - window, 20)
        optimizer.zero_grad()
        path = integrate(model, pb.asarray(data[starts]), window)
        targets = data[starts[None, :] + np.arange(window + 1)[:, None]]
        loss = abs(pb.stack(path) - targets).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (iteration + 1) % 50 == 0:
            print(f"iteration {iteration + 1:3d}  loss {losses[-1]:.4f}")
    print(f"{iterations} iterations in {time.perf_counter() - begin:.1f} s")

    with pb.no_grad():
        learned = np.array(
            [y.numpy() for y in integrate(model, pb.asarray(data[0]), len(TIMES) - 1)]
        )
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    left.plot(*data.T, "o", ms=3, label="data")
    left.plot(*learned.T, label="learned equation")
    left.set(xlabel="$y_1$", ylabel="$y_2$")
    left.legend()
    right.semilogy(losses)
    right.set(xlabel="iteration", ylabel="mean absolute error of short paths")
    figure.savefig(picture, dpi=80)
    plt.close(figure)
    return losses[0], np.mean(losses[-20:]), np.abs(learned - data).mean()


if __name__ == "__main__":
    main(*sys.argv[1:])
