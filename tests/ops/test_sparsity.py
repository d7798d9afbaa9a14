"""The sparsity of every operator, driven by its record: no entry may be missing."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.sparse.pattern import dependencies
from tests.samples import OPS
from tests.samples.opinfo import Make

pytest.importorskip("scipy", reason="sparse derivatives are SciPy's sparse arrays")

differentiable = pytest.mark.parametrize(
    "op", [op for op in OPS if op.differentiable], ids=lambda op: op.name
)


def places_of(sample):
    """Where the sample has arrays to differentiate by, in positions and in lists."""
    for place, value in enumerate(sample.args):
        if isinstance(value, np.ndarray):
            yield place, None
        elif isinstance(value, list | tuple):
            yield from ((place, n) for n, v in enumerate(value) if isinstance(v, np.ndarray))


def functions(op, limit=3):
    """The samples as functions of one array each, with that array."""
    public = operator.attrgetter(op.name)(pb)
    public = public if op.through is None else op.through(public)
    for sample in list(op.samples(Make()))[:limit]:
        for place, inner in places_of(sample):
            array = sample.args[place] if inner is None else sample.args[place][inner]
            if array.dtype.kind != "f" or not 0 < array.size <= 40:
                continue

            def run(x, sample=sample, place=place, inner=inner):
                args = list(sample.args)
                if inner is None:
                    args[place] = x
                else:
                    args[place] = [*args[place][:inner], x, *args[place][inner + 1 :]]
                found = public(*args, **sample.kwargs)
                found = found if isinstance(found, tuple | list) else [found]
                return [y for y in found if isinstance(y, pb.Tensor) and y.dtype.kind in "fc"]

            yield run, array


def missing(y, x):
    """Entries of the derivative that are not in the pattern."""
    pattern = dependencies(y, x).toarray()
    assert pattern.shape == (y.size, x.size)
    if not y.requires_grad:
        return np.zeros((0, 0))
    seeds = np.eye(y.size).reshape(y.size, *y.shape).astype(y.dtype)
    parts = [seeds, seeds * 1j] if y.dtype.kind == "c" else [seeds]
    dense = np.zeros((y.size, x.size), bool)
    for part in parts:
        for row, seed in enumerate(part):
            (found,) = pb.autograd.grad(
                y, x, pb.tensor(seed), retain_graph=True, materialize_grads=True
            )
            dense[row] |= found.numpy().reshape(-1) != 0
    return np.argwhere(dense & ~pattern)


@differentiable
def test_patterns_miss_no_entry(op):
    for run, array in functions(op):
        x = pb.tensor(array, requires_grad=True)
        for y in run(x):
            if y.size <= 60:
                assert not missing(y, x).size


@differentiable
def test_patterns_of_gradients_miss_no_entry(op):
    if not op.twice:
        pytest.skip("not twice differentiable")
    rng = np.random.default_rng(0)
    for run, array in functions(op, 2):
        x = pb.tensor(array, requires_grad=True)
        results = [y for y in run(x) if y.requires_grad]
        weights = [pb.tensor(rng.uniform(-1, 1, y.shape).astype(y.dtype)) for y in results]
        if results:
            (slope,) = pb.autograd.grad(results, x, weights, create_graph=True)
            assert not missing(slope, x).size
