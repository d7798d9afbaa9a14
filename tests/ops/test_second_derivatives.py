"""Every operator's second derivatives on raw dual numbers, driven by its record.

They are to be those of the general way: a tangent pushed through the gradient, on tensors.
"""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback import func
from pullback.func import hvp, vjp_graph
from tests.samples import OPS
from tests.samples.opinfo import Make

from .sample_calls import SampleCall

pytestmark = pytest.mark.filterwarnings("ignore")
LIMIT = 2  # samples of an operator

# What may take the general way: formulas that ask for more than dual numbers of arrays can do.
GENERAL = {
    "_generated.functions_indexing._fill_diagonal",
    "_generated.functions_indexing._put",
    "histogram",
    "linalg.expm",
    "linalg.lstsq",
    "linalg.matrix_power",
    "linalg.qr",
    "linalg.solve",
    "linalg.svd",
    "linalg.tensorsolve",
    "polyval",
    "split",
    "unbind",
    "unstack",
    "Tensor.chunk",
    "Tensor.gather",
    "Tensor.scatter",
    "Tensor.scatter_add",
    "Tensor.scatter_reduce",
}


class Problem(SampleCall):
    """A scalar function of the real arrays of a sample, with second derivatives everywhere."""

    def __init__(self, op, sample):
        super().__init__(op, sample, is_real)
        self.leaves = [pb.tensor(array) for array in self.arrays]
        rng = np.random.default_rng(0)
        self.vectors = [
            [pb.tensor(rng.normal(size=leaf.shape)) for leaf in self.leaves] for _ in range(2)
        ]

    def __call__(self, parts):
        total = pb.tensor(0.0)
        for number, part in enumerate(super().__call__(*parts)):
            if isinstance(part, pb.Tensor) and part.dtype.kind in "fc":
                size = pb.real(part * pb.conj(part)) if part.dtype.kind == "c" else part
                weights = np.cos(np.arange(size.size) + number).reshape(size.shape)
                total = total + (pb.sin(size * 0.7) * pb.tensor(weights)).sum()
        return total

    def general(self, vector):
        """A tangent through the gradient, on tensors."""
        places = tuple(range(len(self.leaves)))
        slope = func.grad(lambda *parts: self(parts), places)
        return func.jvp(slope, tuple(self.leaves), tuple(vector))[1]


def is_real(value):
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def problems(op):
    samples = list(op.samples(Make()))
    made = (Problem(op, sample) for sample in samples[:: max(1, len(samples) // LIMIT)][:LIMIT])
    return [problem for problem in made if problem.leaves]


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.differentiable and op.twice], ids=lambda op: op.name
)
def test_dual_numbers_of_arrays_agree_with_dual_tensors(op, monkeypatch):
    for problem in problems(op):
        with monkeypatch.context() as patch:
            patch.setattr(vjp_graph.VjpGraph, "_run_on_dual_arrays", lambda *_: None)
            wanted = [problem.general(vector) for vector in problem.vectors]
        one = hvp.curvature(problem, problem.leaves, problem.vectors[0], by_tangents=True)
        stacked = [
            pb.tensor(np.stack([part.numpy() for part in pair]))
            for pair in zip(*problem.vectors, strict=True)
        ]
        many = hvp.curvatures(problem, problem.leaves, stacked)
        if op.name not in GENERAL:
            assert one is not None
            assert many is not None
        for place in range(len(problem.leaves)):
            if one is not None:
                same(one[1][place], wanted[0][place])
            if many is not None:
                for number in range(2):
                    same(many[place][number], wanted[number][place])


def same(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-10)
