"""A variational autoencoder of handwritten digits.

The encoder gives mean and log-variance of a normal distribution over two numbers, the decoder the
probability of each pixel. The evidence lower bound is trained through a sample of the first.

Run it: python examples/vae.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import pullback as pb
from pullback import nn
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.utils.data import DataLoader, TensorDataset

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


class Autoencoder(nn.Module):
    def __init__(self, hidden=128, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 64))
        self.latent = latent

    def encode(self, pixels):
        both = self.encoder(pixels)
        return both[:, : self.latent], both[:, self.latent :]

    def forward(self, pixels):
        mean, log_variance = self.encode(pixels)
        noise = np.random.normal(size=mean.shape).astype(np.float32)
        sample = mean + pb.exp(0.5 * log_variance) * noise  # reparameterised
        return self.decoder(sample), mean, log_variance


def loss_of(network, pixels):
    """The negative evidence lower bound for each image."""
    logits, mean, log_variance = network(pixels)
    misfit = F.binary_cross_entropy_with_logits(logits, pixels, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean**2 - pb.exp(log_variance)).sum()
    return (misfit + divergence) / len(pixels)


def main(picture=PICTURES / "vae.png", epochs=60):
    np.random.seed(0)
    data = load_digits()
    pixels = pb.asarray((data.data / 16).astype(np.float32))
    network = Autoencoder().float()
    optimizer = pb.optim.Adam(network.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(pixels), batch_size=64, shuffle=True, generator=0)
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for (batch,) in loader:
            optimizer.zero_grad()
            loss = loss_of(network, batch)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(pixels))
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:2d}  bound {-losses[-1]:.2f}")
    draw(picture, network, pixels, data.target, losses)
    return losses


def draw(picture, network, pixels, digits, losses):
    with pb.no_grad():
        places = network.encode(pixels)[0].numpy()
        grid = np.linspace(-2, 2, 8, dtype=np.float32)
        points = np.stack(np.meshgrid(grid, grid[::-1]), axis=-1).reshape(-1, 2)
        images = F.sigmoid(network.decoder(pb.asarray(points))).numpy()
    tiles = images.reshape(8, 8, 8, 8).transpose(0, 2, 1, 3).reshape(64, 64)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    left.plot(losses)
    left.set(xlabel="epoch", ylabel="negative evidence lower bound")
    dots = middle.scatter(*places[::3].T, c=digits[::3], cmap="tab10", s=5)
    middle.set_title("means of the encoder, by digit", fontsize=10)
    figure.colorbar(dots, ax=middle, ticks=range(10))
    right.imshow(tiles, cmap="gray_r", extent=(-2, 2, -2, 2), interpolation="nearest")
    right.set_title("what the decoder draws", fontsize=10)
    figure.savefig(picture, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
