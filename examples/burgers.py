"""A physics-informed network for Burgers' equation, u_t + u u_x = nu u_xx.

The network is a function of time and place. Its loss is the residual of the equation at random
points, with derivatives of the network by its inputs: u_x and u_t from one pass, u_xx from another.
A finite-difference solution is the reference.

Run it: python examples/burgers.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
NU, END = 0.1, 1.0


class Solution(nn.Module):
    """u(t, x) with the initial value -sin(pi x) and zeros at both ends, by construction."""

    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t, x):
        inputs = pb.stack([t, x], axis=-1)
        return -pb.sin(np.pi * x) + t * (1 - x**2) * self.net(inputs)[:, 0]


def residual(network, t, x):
    """The left side of the equation minus the right one at some points."""
    t, x = (pb.tensor(values, requires_grad=True) for values in (t, x))
    u = network(t, x)
    u_t, u_x = pb.autograd.grad(u.sum(), (t, x), create_graph=True)
    (u_xx,) = pb.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - NU * u_xx


def reference(points=201, steps=4000):
    """The solution by finite differences, central in space and explicit in time."""
    x = np.linspace(-1, 1, points)
    h, k = x[1] - x[0], END / steps
    u = -np.sin(np.pi * x)
    for _ in range(steps):
        flux = u**2 / 2
        u[1:-1] += k * NU * (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
        u[1:-1] -= k * (flux[2:] - flux[:-2]) / (2 * h)
    return x, u


def main(picture=PICTURES / "burgers.png", steps=1500):
    np.random.seed(0)
    rng = np.random.default_rng(0)
    network = Solution()
    optimizer = pb.optim.Adam(network.parameters(), lr=1e-2)
    schedule = pb.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (residual(network, rng.uniform(0, END, 200), rng.uniform(-1, 1, 200)) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 300 == 299:
            print(f"step {step + 1:4d}  mean squared residual {losses[-1]:.2e}")
    x, expected = reference()
    with pb.no_grad():
        found = network(pb.full(x.shape, END), pb.asarray(x)).numpy()
    error = float(np.sqrt(np.mean((found - expected) ** 2)))
    print(f"root mean square error at t = {END}: {error:.4f}")
    draw(picture, network, x, expected, losses)
    return losses, error


def draw(picture, network, x, expected, losses):
    times = np.linspace(0, END, 60)
    t, places = np.meshgrid(times, x, indexing="ij")
    with pb.no_grad():
        u = network(pb.asarray(t.ravel()), pb.asarray(places.ravel())).numpy().reshape(t.shape)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    left.semilogy(losses, lw=0.8)
    left.set(xlabel="step", ylabel="mean squared residual")
    mesh = middle.pcolormesh(times, x, u.T, cmap="RdBu", shading="gouraud")
    middle.set(xlabel="t", ylabel="x", title="u(t, x) of the network")
    figure.colorbar(mesh, ax=middle)
    right.plot(x, expected, color="0.6", lw=4, label="finite differences")
    right.plot(x, u[-1], "--", label="network")
    right.set(xlabel="x", title=f"u at t = {END}")
    right.legend()
    figure.savefig(picture, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
