"""A tiny transformer that learns to sort digits.

The sequence is eight digits, then the same digits in order. The decoder is one encoder layer with a
causal mask: each place sees itself and those before it, and predicts the next digit.

Run it: python examples/tiny_transformer.py [picture.png]
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
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
LENGTH, START = 8, 10  # digits, and the sign after which the sorted ones follow


class Sorter(nn.Module):
    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.digits = nn.Embedding(11, width)
        self.places = nn.Embedding(2 * LENGTH, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width))
        self.output = nn.Linear(width, 10)

    def forward(self, tokens):
        steps = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(steps, dtype=np.float32)
        x = self.digits(tokens) + self.places(np.arange(steps))
        return self.output(self.layers(x, mask, is_causal=True))


def make_batch(rng, count):
    """Tokens to read, and the sorted digits that the last places should predict."""
    digits = rng.integers(0, 10, (count, LENGTH))
    ordered = np.sort(digits, axis=1)
    signs = np.full((count, 1), START)
    return np.concatenate([digits, signs, ordered[:, :-1]], axis=1), ordered


def loss_of(network, tokens, ordered):
    logits = network(tokens)[:, LENGTH:]
    return F.cross_entropy(logits.reshape(-1, 10), ordered.reshape(-1))


def sort_by(network, digits):
    """Writes one digit after the other, each the most probable one."""
    tokens = np.concatenate([digits, np.full((len(digits), 1), START)], axis=1)
    with pb.no_grad():
        for _ in range(LENGTH):
            best = network(tokens).numpy()[:, -1].argmax(axis=-1)
            tokens = np.concatenate([tokens, best[:, None]], axis=1)
    return tokens[:, LENGTH + 1 :]


def main(picture=PICTURES / "tiny_transformer.png", steps=1200):
    np.random.seed(0)
    rng = np.random.default_rng(0)
    network = Sorter().float()
    optimizer = pb.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = pb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=steps + 1)
    losses, begin = [], time.perf_counter()
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(network, *make_batch(rng, 64))
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 200 == 199:
            print(f"step {step + 1:4d}  loss {np.mean(losses[-50:]):.4f}")
    digits = rng.integers(0, 10, (200, LENGTH))
    is_right = sort_by(network, digits) == np.sort(digits, axis=1)
    print(f"{is_right.all(axis=1).mean():.1%} of 200 new sequences are sorted without a fault")
    print(f"{steps} steps in {time.perf_counter() - begin:.1f} s")
    draw(picture, network, losses, digits[:1])
    return losses, is_right


def draw(picture, network, losses, digits):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
    left.semilogy(losses, lw=0.7)
    left.set(xlabel="step", ylabel="cross-entropy of a batch")
    ordered = np.sort(digits, axis=1)
    tokens = np.concatenate([digits, [[START]], ordered[:, :-1]], axis=1)
    with pb.no_grad():
        layer = network.layers.layers[-1]
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], dtype=np.float32)
        x = network.digits(tokens) + network.places(np.arange(tokens.shape[1]))
        for before in network.layers.layers[:-1]:
            x = before(x, mask)
        x = layer.norm1(x)
        _, weights = layer.self_attn(x, x, x, attn_mask=mask)
    names = [str(v) if v != START else ">" for v in tokens[0]]
    right.imshow(weights.numpy()[0, LENGTH:], cmap="Blues")
    right.set_xticks(range(len(names)), names)
    right.set_yticks(range(LENGTH), [str(v) for v in ordered[0]])
    right.set(xlabel="sequence that is read", ylabel="digit that is written")
    right.set_title("attention of the last layer, mean of its heads", fontsize=10)
    figure.savefig(picture, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
