"""Random programs of loops: what is compiled computes what the program computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.fx.loop_call import LoopCall
from pullback.utils import pytree

UNARY = [pb.sin, pb.tanh, pb.cos, lambda x: x * 0.5, lambda x: x**2, pb.negative, pb.exp]
WIDTH = 3


class Program:
    """A scalar function of a vector, with loops, made by a seed: the same for the same seed."""

    def __init__(self, seed: int):
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.matrix = rng.normal(size=(WIDTH, WIDTH)) * 0.5
        self.table = rng.normal(size=(5, WIDTH))
        self.mode = int(rng.integers(9))

    def __call__(self, x: Any) -> Any:
        rng = np.random.default_rng(self.seed)
        x = pb.asarray(x)
        outside = [x, pb.tanh(x[::-1] * 2), pb.asarray(self.table)[1] * x[0]]
        found = self.loop(rng, outside, 0)
        found = found + self.loop(rng, [*outside, found], 0) if rng.integers(2) else found
        return (found * pb.asarray(self.table)[2]).sum()

    def loop(self, rng: Any, outside: list[Any], depth: int) -> Any:
        """A vector that a random loop computes."""
        plan = [rng.integers(1 << 30, size=4) for _ in range(int(rng.integers(2, 6)))]
        seed, kind, length = int(rng.integers(1 << 30)), rng.integers(4), int(rng.integers(1, 5))
        reverse, checkpoint = bool(rng.integers(2)), [None, None, "1KB"][rng.integers(3)]

        def step(carry: Any, u: Any) -> Any:
            inner = np.random.default_rng(seed)
            values = [carry["v"], *outside, carry["s"] * outside[0]]
            if u is not None:
                values.append(u[0] * outside[1] if isinstance(u, tuple) else u * values[0])
            for picks in plan:
                values.append(self.operation(picks, values, carry, inner, depth))
            v = pb.tanh(values[-1])
            y = [None, v.sum(), (v, carry["n"]), {"a": v * u if kind == 1 else v}][seed % 4]
            return {"v": v, "s": carry["s"] * 0.7 + v[0], "n": carry["n"] + 1}, y

        init = {"v": outside[seed % len(outside)], "s": 0.5, "n": 0}
        if kind == 0:
            last, ys = pb.scan(step, init, None, length, reverse=reverse, checkpoint=checkpoint)
        elif kind == 1:
            xs = pb.outer(pb.arange(length) + 1.0, outside[1])
            last, ys = pb.scan(step, init, xs, reverse=reverse, checkpoint=checkpoint)
        elif kind == 2:
            xs = (outside[0][:2] * 0.5, pb.arange(2))
            last, ys = pb.scan(step, init, xs, reverse=reverse)
        else:
            last = pb.fori_loop(1, 1 + length, lambda i, c: step(c, c["v"] * i)[0], init)
            ys = None
        total = last["v"] * last["s"]
        for leaf in pytree.flatten(ys)[0]:
            total = total + leaf.sum() * outside[0] * 0.1
        return total

    def operation(self, picks: Any, values: list[Any], carry: Any, rng: Any, depth: int) -> Any:
        a, b = (values[picks[n] % len(values)] for n in (0, 1))
        kind = picks[2] % 12
        if kind <= 1:
            return UNARY[picks[3] % len(UNARY)](pb.tanh(a))
        if kind == 2:
            return a * b
        if kind == 3:
            return pb.asarray(self.matrix) @ a + b
        if kind == 4:
            return pb.where(a > b, a * 2, b)
        if kind == 5:
            return a + pb.asarray(self.table)[carry["n"] % 5]
        if kind == 6:
            z = a.clone()
            z[1:] = b[:-1] * 0.5
            z[0] += carry["s"]
            z += b
            return z
        if kind == 7:
            with pb.no_grad():
                c = pb.sin(a)
            return c * b + a.detach()
        if kind == 8 and depth < 1:
            return self.loop(rng, [a, b, *values[:2]], depth + 1)
        if kind == 9:
            return pb.func.grad(lambda q: (pb.cos(q) * b).sum())(a)
        if kind == 10 and self.mode in (0, 3, 6):  # those without reverse mode
            bound = 1.0 + picks[3] % 5

            def body(c: Any) -> Any:
                return pb.tanh(c[0] + b), c[1] + 0.3 + abs(a[0])

            return pb.while_loop(lambda c: c[1] < bound, body, (a, carry["s"]))[0]
        return pb.concatenate([b[1:], a[:1]]) - a.sum() * 0.1

    def transformed(self) -> Any:
        """A transform of the program."""
        grad = pb.func.grad(self)

        def along(f: Any, x: Any) -> Any:
            return pb.func.jvp(f, (pb.asarray(x),), (pb.cos(pb.asarray(x)),))

        rows = pb.asarray([1.0, -0.5])
        return [
            self,
            pb.value_and_grad(self),
            pb.value_and_grad(self),
            lambda x: along(self, x),
            lambda x: along(grad, x),
            pb.hessian(self),
            lambda x: pb.func.vmap(lambda s: self(x * s))(rows),
            lambda x: pb.func.vmap(lambda s: grad(x * s))(rows),
            pb.grad(lambda x: pb.func.vmap(lambda s: self(x * s))(rows).sum()),
        ][self.mode]


def check(seed: int, backend: str) -> bool:
    """Compares a program with its compiled form; whether it has loops."""
    program = Program(seed)
    function = program.transformed()
    compiled = pb.compile(function, backend=backend, cache=False)
    for scale in (1.0, 1.0, 0.6):
        x = np.array([0.4, -0.8, 1.1]) * scale
        found, expected = compiled(x), function(x)
        left, right = pytree.flatten(found)[0], pytree.flatten(expected)[0]
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-7, atol=1e-9)
    assert compiled.stats["eager"] == 0
    return any(isinstance(n.target, LoopCall) for n in compiled.fx_graphs()[-1].nodes)


@pytest.mark.filterwarnings("ignore:scan. inside a transform")
@pytest.mark.parametrize(
    "first", [n if n < 10 else pytest.param(n, marks=pytest.mark.slow) for n in range(0, 40, 5)]
)
def test_random_programs(first: int) -> None:
    pytest.importorskip("llvmlite")
    for seed in range(first, first + 5):
        assert check(seed, "eager" if seed % 4 == 0 else "llvm"), seed
