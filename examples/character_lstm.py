"""Train an LSTM on the characters of a text, and let it write.

Run it: python examples/character_lstm.py [picture.png]
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

TEXT = (
    "the gradient of a sum is the sum of the gradients. the gradient of a product is the first "
    "factor times the gradient of the second plus the second factor times the gradient of the "
    "first. the chain rule joins the gradients of functions that follow each other. "
) * 4
LETTERS = sorted(set(TEXT))
LENGTH, BATCH, HIDDEN = 24, 16, 64


class Writer(nn.Module):
    """Predicts the next character from those before it."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 16)
        self.lstm = nn.LSTM(16, HIDDEN)
        self.output = nn.Linear(HIDDEN, len(LETTERS))

    def forward(self, letters, state=None):
        steps, state = self.lstm(self.embedding(letters), state)
        return self.output(steps), state


def write(model, start, count):
    """The most probable continuation of a text."""
    numbers = [LETTERS.index(letter) for letter in start]
    with pb.no_grad():
        scores, state = model(np.array(numbers)[:, None])
        for _ in range(count):
            numbers.append(int(scores.numpy()[-1, 0].argmax()))
            scores, state = model(np.array(numbers[-1:])[:, None], state)
    return "".join(LETTERS[n] for n in numbers)


def main(picture=PICTURES / "character_lstm.png", steps=300):
    rng = np.random.default_rng(0)
    np.random.seed(0)
    numbers = np.array([LETTERS.index(letter) for letter in TEXT])
    model = Writer()
    optimizer = pb.optim.Adam(model.parameters(), lr=1e-2)
    loss_function = nn.CrossEntropyLoss()

    begin, losses = time.perf_counter(), []
    for step in range(steps):
        starts = rng.integers(0, len(numbers) - LENGTH - 1, BATCH)
        windows = numbers[starts[None, :] + np.arange(LENGTH + 1)[:, None]]
        optimizer.zero_grad()
        scores, _ = model(windows[:-1])
        loss = loss_function(scores.reshape(-1, len(LETTERS)), windows[1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:3d}  loss {losses[-1]:.3f}  {write(model, 'the ', 40)!r}")
    print(f"{steps} steps in {time.perf_counter() - begin:.1f} s")

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.semilogy(losses)
    axes.set(xlabel="step", ylabel="loss for each character", title=write(model, "the chain", 50))
    figure.savefig(picture, dpi=80)
    plt.close(figure)
    return np.mean(losses[-20:]), write(model, "the chain", 50)


if __name__ == "__main__":
    main(*sys.argv[1:])
