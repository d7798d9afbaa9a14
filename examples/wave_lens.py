"""Design a lens by differentiating through a simulation of waves.

The simulation is plain NumPy that writes into arrays in place. The speed of its waves, at every
point of a region, is chosen so that a plane wave meets itself in one point.
Run it: python examples/wave_lens.py [picture.png]
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

HEIGHT, WIDTH, STEPS = 50, 80, 200
ARRIVED = 130  # the step from which energy counts
LENS = (slice(8, 42), slice(18, 34))
FOCUS = (25, 60)
FREE, SLOW = 0.5, 0.25  # grid points a step: everywhere, and at least in the lens


def sponge():
    """How much of a wave is left after a step: less near the edges, so that nothing comes back."""
    rows, columns = np.arange(HEIGHT)[:, None], np.arange(WIDTH)[None, :]
    rim = np.minimum(np.minimum(rows, HEIGHT - 1 - rows), np.minimum(columns, WIDTH - 1 - columns))
    return 1 - 0.12 * np.clip(1 - rim / 8, 0, 1) ** 2


@pb.differentiable
def simulate(speed_in_lens):
    speed = np.full((HEIGHT, WIDTH), FREE)
    speed[LENS] = speed_in_lens
    now, before, left = np.zeros((HEIGHT, WIDTH)), np.zeros((HEIGHT, WIDTH)), sponge()
    energy = np.zeros((HEIGHT, WIDTH))
    for n in range(STEPS):
        bend = np.zeros((HEIGHT, WIDTH))
        bend[1:-1, 1:-1] = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
        bend[1:-1, 1:-1] -= 4 * now[1:-1, 1:-1]
        after = left * (2 * now - left * before + speed**2 * bend)
        after[8:-8, 9] += 0.1 * np.sin(2 * np.pi * n / 16)
        if n >= ARRIVED:
            energy += after**2
        before, now = now, after
    return energy, now


def loss(flat):
    energy, _ = simulate(flat.reshape(speed_shape()))
    row, column = FOCUS
    return -np.sum(energy[row - 1 : row + 2, column - 1 : column + 2])


def speed_shape():
    return tuple(part.stop - part.start for part in LENS)


def main(picture=PICTURES / "wave_lens.png", iterations=20):
    start = np.full(speed_shape(), FREE)
    fit = minimize(
        pb.value_and_grad(loss),
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(SLOW, FREE)] * start.size,
        options={"maxiter": iterations},
    )
    lens = fit.x.reshape(start.shape)
    before, _ = simulate(start)
    energy, wave = (part.numpy() for part in simulate(lens))

    figure, axes = plt.subplots(1, 3, figsize=(12, 2.7), layout="constrained")
    speed = np.full((HEIGHT, WIDTH), FREE)
    speed[LENS] = lens
    image = axes[0].imshow(speed, cmap="bone", vmin=SLOW, vmax=FREE)
    figure.colorbar(image, ax=axes[0], shrink=0.8)
    axes[0].set_title("speed of the waves in the lens; circle: focus")
    axes[1].imshow(energy, cmap="inferno", vmax=np.quantile(energy, 0.998))
    gain = float(energy[FOCUS] / before[FOCUS])
    axes[1].set_title(f"energy: {gain:.1f} times as much in the focus")
    limit = np.abs(wave).max() / 2
    axes[2].imshow(wave, cmap="RdBu", vmin=-limit, vmax=limit)
    axes[2].set_title("the wave at the end, from the left")
    for part in axes:
        part.set(xticks=[], yticks=[])
        part.plot(*FOCUS[::-1], "o", mfc="none", color="C2", ms=14)
    figure.savefig(picture, dpi=80)
    plt.close(figure)
    print(f"{gain:.1f} times the energy in the focus after {fit.nfev} simulations")
    return gain


if __name__ == "__main__":
    main(*sys.argv[1:2])
