"""Classify handwritten digits with a small convolutional network.

Run it: python examples/digits.py [picture.png]
"""

import sys
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import pullback as pb
from pullback import nn

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def load(rng):
    """Images of 8 by 8 pixels between 0 and 1, and their digits: for training, and for testing."""
    data = load_digits()
    images = (data.images[:, None] / 16.0).astype(np.float32)
    order = rng.permutation(len(images))
    test, train = order[:360], order[360:]
    return images[train], data.target[train], images[test], data.target[test]


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(128, 10),
    ).float()


def shifted(images, rng):
    """Images moved by up to one pixel, so that the network sees more of them."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    down, right = rng.integers(0, 3, 2)
    return padded[:, :, down : down + 8, right : right + 8]


def accuracy(network, images, digits):
    network.eval()
    with pb.no_grad():
        guesses = network(pb.asarray(images)).numpy().argmax(axis=1)
    network.train()
    return np.mean(guesses == digits), guesses


def main(picture=PICTURES / "digits.png", epochs=30):
    rng = np.random.default_rng(0)
    np.random.seed(0)
    images, digits, test_images, test_digits = load(rng)
    network = make_network()
    optimizer = pb.optim.Adam(network.parameters(), lr=3e-3)
    steps = epochs * -(-len(images) // 64)
    schedule = pb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps + 1)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.05)

    begin = time.perf_counter()
    losses, scores = [], []
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(images), 64):
            batch = order[start : start + 64]
            optimizer.zero_grad()
            output = network(pb.asarray(shifted(images[batch], rng)))
            loss = loss_function(output, digits[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        scores.append(accuracy(network, test_images, test_digits)[0])
        print(f"epoch {epoch + 1:2d}  loss {losses[-1]:.3f}  test accuracy {scores[-1]:.3f}")
    seconds = time.perf_counter() - begin
    print(f"{len(losses)} steps in {seconds:.1f} s")

    draw(picture, losses, scores, network, test_images, test_digits)
    return scores[-1], seconds


def draw(picture, losses, scores, network, images, digits):
    _, guesses = accuracy(network, images, digits)
    places = np.concatenate([np.flatnonzero(guesses != digits), np.arange(12)])[:12]
    figure = plt.figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.3, 1))
    axes = left.subplots()
    axes.plot(losses, color="0.6", lw=0.8)
    axes.set(xlabel="step", ylabel="loss of the batch")
    other = axes.twinx()
    other.plot(np.linspace(0, len(losses), len(scores) + 1)[1:], scores, "o-", ms=3)
    other.set(ylabel="test accuracy", ylim=(0.8, 1.005))
    for place, panel in zip(places, right.subplots(3, 4).flat, strict=True):
        panel.imshow(images[place, 0], cmap="gray_r")
        is_right = guesses[place] == digits[place]
        panel.set_title(f"{guesses[place]}", color="black" if is_right else "crimson", fontsize=9)
        panel.axis("off")
    right.suptitle("guesses, wrong ones first and in red", fontsize=9)
    figure.savefig(picture, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
