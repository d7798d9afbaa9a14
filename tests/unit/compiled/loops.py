"""Random programs with loops, for the tests of re-rolling and of compiled loops."""

from __future__ import annotations

import numpy as np

import pullback as pb

_UNARY = [pb.sin, pb.tanh, pb.cos, lambda x: x * 0.5, lambda x: x + 0.25, lambda x: x * x * 0.5]


class LoopProgram:
    """A program of a sequence `xs` (length, 3), a state `h` (3,) and a number `t`; made by a seed.

    Each iteration computes some values of those before it: of the state, of the states of earlier
    iterations, of rows of the sequence and of its neighbours, of constants that depend on the
    iteration, and of memory that it writes to. What is returned are the last state, some states of
    the middle, sums and the memory.
    """

    def __init__(self, seed, length=12):
        rng = np.random.default_rng(seed)
        self.length = length + int(rng.integers(4))
        self.steps = [(int(rng.integers(12)), rng.integers(1 << 20, size=4)) for _ in range(5)]
        self.every = int(rng.choice([1, 1, 1, 2, 3]))  # what an iteration does may alternate
        self.distance = int(rng.integers(1, 4))  # of the earlier state that is read
        self.reverse = bool(rng.integers(2))
        self.inner = int(rng.choice([0, 0, 0, 2, 4]))  # a loop inside of the loop
        self.nonlinear = bool(rng.integers(2))

    def __call__(self, xs, h, t):
        table = pb.zeros((self.length, 3))
        line = pb.zeros(self.length + 1)
        states, total = [h, h * 0.5, h - 0.25], h.sum() * 0.0
        order = range(self.length)
        for k in reversed(order) if self.reverse else order:
            values = [states[-1], states[-self.distance]]
            for kind, picks in self.steps:
                values.append(self._step(kind, picks, values, k, xs, t, table, line))
            h = pb.tanh(values[-1]) if self.nonlinear else values[-1] * 0.5
            for _ in range(self.inner):
                h = h * 0.9 + values[2] * 0.1
            states.append(h)
            if picks[3] % 3 and k % self.every == 0:
                total = total + (h * xs[k]).sum()
        middle = states[self.length // 2]
        return h, total, middle, states[5] + states[3], table, line, xs[0] * t

    def _step(self, kind, picks, values, k, xs, t, table, line):
        a, b = values[picks[0] % len(values)], values[picks[1] % len(values)]
        if kind <= 2:
            return _UNARY[picks[2] % len(_UNARY)](a)
        if kind == 3:
            return (a + b) * 0.5
        if kind == 4:
            return a * 0.5 + xs[k] * t
        if kind == 5:
            return a * xs[min(k + 1, self.length - 1)] + xs[k, ::-1]
        if kind == 6:
            return a + 0.1 * k if k % self.every == 0 else a - b
        if kind == 7:
            table[k] = a
            return b + table[k] * 0.25
        if kind == 8:
            table[:, picks[2] % 3] += a.sum() * 0.01
            return b
        if kind == 9:
            line[k + 1] = line[k] * 0.5 + b[picks[2] % 3]
            return a + line[k + 1]
        if kind == 10:
            return pb.where(a > b, a, b * 0.5)
        return pb.stack([a[1], b[2], a[0] * b[0]])


def loop_arguments(seed, program):
    """Arguments for a program."""
    rng = np.random.default_rng(1000 + seed)
    return rng.uniform(-1, 1, (program.length, 3)), rng.uniform(-1, 1, 3), float(rng.uniform(0, 1))


def with_gradient(program):
    """The program, and the gradient of a sum of all its results."""

    def total(xs, h, t):
        results = program(xs, h, t)
        return sum((pb.sin(r).sum() for r in results), 0.0)

    def both(xs, h, t):
        value, pull = pb.func.vjp(lambda xs, h: total(xs, h, t), xs, h)
        return value, pull(pb.ones_like(value)), program(xs, h, t)

    return both
