"""Random programs: what is compiled computes what the program computes, on each path."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import pullback as pb
from pullback.utils import pytree

UNARY = [pb.sin, pb.tanh, pb.exp, pb.abs, pb.negative, lambda x: x**2, lambda x: x * 0.5]
BINARY = [pb.add, pb.subtract, pb.multiply, pb.maximum, pb.arctan2]
DTYPES = ["float64", "float32", "complex128"]


class Program:
    """A program of one matrix and two numbers, made by a seed: the same for the same seed."""

    def __init__(self, seed, size=12):
        rng = np.random.default_rng(seed)
        self.steps = [(int(rng.integers(10)), rng.integers(1 << 30, size=4)) for _ in range(size)]
        self.writes = seed % 2 == 0  # programs without writes have loops of machine code
        self.captured = rng.uniform(-1, 1, (3, 4))

    def __call__(self, x, t, n):
        values = [x, x * t]
        for kind, picks in self.steps:
            a = values[picks[0] % len(values)]
            b = values[picks[1] % len(values)]
            values.append(self._step(kind, picks, a, b, x, t, n))
        return values[-1], sum((v.sum() for v in values[-4:]), 0.0)

    def _step(self, kind, picks, a, b, x, t, n):
        if kind <= 1:
            unary = UNARY[picks[2] % len(UNARY)]
            return unary(pb.tanh(a))  # bounded, so that nothing overflows
        if kind == 2:
            binary = BINARY[picks[2] % len(BINARY)]
            return binary(a, b) if a.dtype.kind != "c" else a * b + a
        if kind == 3:
            return a.sum(int(picks[2] % 2), keepdims=True) + b
        if kind == 4:
            return a[::-1, 1:].mean() * b + t
        if kind == 5 and self.writes:
            return self._write(a, b, picks)
        if kind == 6:
            return (a @ b.T) @ b / 10
        if kind == 7:
            return a * self.captured + n
        if kind == 8 and a.dtype.kind != "c":
            return a * 2 if a.sum() > 0 else b - a
        return pb.concatenate([a[:, :2], b[:, 2:]], 1) * 0.9

    def _write(self, a, b, picks):
        z = pb.zeros_like(a)
        row = z[int(picks[2] % 3)]
        z[1:, ::2] = b[1:, ::2]
        row += a[0]
        z *= 0.5
        row[1:3] = 1.5
        return z + a


def _inputs(seed, dtype):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (3, 4))
    if dtype.startswith("complex"):
        x = x + 1j * rng.uniform(-1, 1, (3, 4))
    return pb.asarray(x.astype(dtype)), float(rng.uniform(0.5, 1.5)), int(rng.integers(1, 4))


def _compare(eager, compiled, seed, dtype, runs):
    for run in range(runs):
        x, t, n = _inputs(seed * 100 + run, dtype)
        pairs = zip(pytree.leaves(compiled(x, t, n)), pytree.leaves(eager(x, t, n)), strict=True)
        for ours, theirs in pairs:
            ours, theirs = np.asarray(ours), np.asarray(theirs)
            assert ours.dtype == theirs.dtype
            tolerance = 2e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def _backend(seed):
    """Machine code for two of three, where it can be generated."""
    return "llvm" if seed % 3 and importlib.util.find_spec("llvmlite") else "eager"


def _transforms(program, dtype):
    yield program
    if dtype != "complex128":
        yield lambda x, t, n: pb.func.grad(lambda y: program(y, t, n)[1])(x)
        yield lambda x, t, n: pb.func.jvp(lambda y: program(y, t, n)[0], (x,), (x,))


def _check(seed):
    dtype = DTYPES[seed // 3 % len(DTYPES)]
    program = Program(seed)
    for transform in _transforms(program, dtype):
        _compare(transform, pb.compile(transform, backend=_backend(seed)), seed, dtype, runs=3)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_program_computes_the_same(seed):
    _check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 300, 20))
@pytest.mark.filterwarnings("ignore")
def test_more_compiled_programs_compute_the_same(first):
    for seed in range(first, first + 20):
        _check(seed)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore")
def test_compiled_programs_inside_vmap_compute_the_same(seed):
    program = Program(seed, size=6)
    program.steps = [(k if k not in (5, 8) else 2, p) for k, p in program.steps]

    def mapped(x, t, n):
        return pb.func.vmap(lambda y: program(y, t, n)[0])(pb.stack([x, x * 0.5]))

    _compare(mapped, pb.compile(mapped, backend=_backend(seed)), seed, "float64", runs=2)
    hessian = pb.func.hessian(lambda y, t, n: program(y, t, n)[1])
    _compare(hessian, pb.compile(hessian, backend=_backend(seed)), seed, "float64", runs=2)
