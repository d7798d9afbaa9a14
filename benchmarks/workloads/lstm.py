"""ADBench's LSTM: two layers, gates that are products element by element, a letter at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator

LAYERS = 2


def lstm(length: int, width: int) -> Problem:
    """Parameters: of the layers, weights and biases (4, 4·width); of both ends (3, width)."""

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        layers, ends = params
        hidden0, cell0, hidden1, cell1, inputs, goals = consts
        weights = (layers[0], layers[1], layers[2], layers[3])
        scale, factor, offset = ends[0], ends[1], ends[2]

        def step(carry: Any, letter: Any, goal: Any) -> Any:
            total, h0, c0, h1, c1 = carry
            h0, c0 = layer(xp, weights[0], weights[1], h0, c0, letter * scale)
            h1, c1 = layer(xp, weights[2], weights[3], h1, c1, h0)
            guess = h1 * factor + offset
            guess = guess - xp.log(xp.sum(xp.exp(guess)) + 2.0)
            return total + xp.sum(goal * guess), h0, c0, h1, c1

        carry = (0.0, hidden0, cell0, hidden1, cell1)
        return xp.scan(step, carry, inputs, goals)[0] * (-1.0 / (width * (length - 1)))

    def layer(xp: Any, weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> Any:
        gates = xp.concatenate([x, hidden, x, hidden], axis=0) * weight + bias
        forget = xp.sigmoid(gates[0:width])
        admit = xp.sigmoid(gates[width : 2 * width])
        emit = xp.sigmoid(gates[2 * width : 3 * width])
        change = xp.tanh(gates[3 * width :])
        cell = cell * forget + admit * change
        return emit * xp.tanh(cell), cell

    rng = generator()
    params = (rng.normal(size=(2 * LAYERS, 4 * width)) * 0.5, rng.normal(size=(3, width)) * 0.5)
    letters = rng.integers(2, size=(length, width)).astype(float)
    states = tuple(rng.normal(size=width) * 0.5 for _ in range(2 * LAYERS))
    return Problem(fn, params, (*states, letters[:-1], letters[1:]), by_hand)


def by_hand(params: Arrays, consts: Arrays) -> list[Array]:
    """Backpropagation through time."""
    layers, ends = params
    inputs, goals = consts[4:]
    width = inputs.shape[1]
    state, saved, total = list(consts[:4]), [], 0.0
    for letter, goal in zip(inputs, goals, strict=True):
        x, steps = letter * ends[0], []
        for i in range(LAYERS):
            state[2 * i : 2 * i + 2], kept = _layer(layers[2 * i : 2 * i + 2], state[2 * i :], x)
            steps.append(kept)
            x = state[2 * i]
        guess = x * ends[1] + ends[2]
        powers = np.exp(guess)
        norm = powers.sum() + 2.0
        total += np.sum(goal * (guess - np.log(norm)))
        saved.append((letter, goal, steps, x, powers / norm))
    share = -1.0 / inputs.size
    by_layers, by_ends = np.zeros_like(layers), np.zeros_like(ends)
    grads = [np.zeros(width) for _ in range(2 * LAYERS)]
    for letter, goal, steps, x, softmax in reversed(saved):
        g = share * (goal - goal.sum() * softmax)
        by_ends[1] += g * x
        by_ends[2] += g
        g = g * ends[1]
        for i in reversed(range(LAYERS)):
            g = _layer_backward(layers[2 * i], steps[i], g, grads, by_layers, i)
        by_ends[0] += g * letter
    return [np.asarray(total * share), by_layers, by_ends]


def _layer(weights: Array, state: list[Array], x: Array) -> tuple[list[Array], Arrays]:
    hidden, cell = state[:2]
    width = len(x)
    joined = np.concatenate([x, hidden, x, hidden])
    gates = joined * weights[0] + weights[1]
    open_ = 1.0 / (1.0 + np.exp(-gates[: 3 * width]))
    change = np.tanh(gates[3 * width :])
    forget, admit, emit = open_[:width], open_[width : 2 * width], open_[2 * width :]
    new = cell * forget + admit * change
    bent = np.tanh(new)
    return [emit * bent, new], (joined, cell, forget, admit, emit, change, bent)


def _layer_backward(
    weight: Array, saved: Arrays, g: Array, grads: list[Array], by_layers: Array, i: int
) -> Array:
    """The gradient by the layer's input; `grads` become those of the state before the step."""
    joined, cell, forget, admit, emit, change, bent = saved
    width = len(g)
    g_hidden = g + grads[2 * i]
    g_cell = grads[2 * i + 1] + g_hidden * emit * (1 - bent * bent)
    g_gates = np.concatenate(
        [
            g_cell * cell * forget * (1 - forget),
            g_cell * change * admit * (1 - admit),
            g_hidden * bent * emit * (1 - emit),
            g_cell * admit * (1 - change * change),
        ]
    )
    by_layers[2 * i] += g_gates * joined
    by_layers[2 * i + 1] += g_gates
    g_joined = (g_gates * weight).reshape(4, width)
    grads[2 * i] = g_joined[1] + g_joined[3]
    grads[2 * i + 1] = g_cell * forget
    return g_joined[0] + g_joined[2]


UNROLLED = "the loop over the letters would be unrolled: minutes of compilation"
WORKLOADS = tuple(
    Workload(
        f"lstm_{length}",
        f"LSTM of 2 layers, {length:,} letters",
        lstm,
        {"length": length, "width": 14},
        {"length": 4, "width": 3},
        target=Target(0.6, 0.45),
        is_small=True,
        quick=length < 1000,
        absent={"torch.compile": UNROLLED},
    )
    for length in (128, 1024)
)
