"""Every operator, compiled: values and gradients are those of the operator."""

from __future__ import annotations

import importlib.util
import operator
import warnings

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from tests.samples import OPS
from tests.samples.opinfo import Make


def _function(op):
    public = operator.attrgetter(op.name)(pb)
    return public if op.through is None else op.through(public)


def _run(op, sample, is_differentiable):
    """The function of a sample's float arrays, with its results and gradients as a flat list."""

    def run(arrays):
        given = iter(arrays)

        def mapped(value):
            if isinstance(value, np.ndarray):
                return next(given) if value.dtype.kind in "fc" else pb.asarray(value)
            if isinstance(value, list | tuple):
                return type(value)(mapped(item) for item in value)
            return value

        results = _function(op)(
            *[mapped(value) for value in sample.args],
            **{name: mapped(value) for name, value in sample.kwargs.items()},
        )
        results = list(results) if isinstance(results, tuple | list) else [results]
        return [r for r in results if isinstance(r, pb.Tensor)]

    def both(arrays):
        leaves = [x.detach().requires_grad_() for x in arrays]
        results = run(leaves)
        roots = [r for r in results if r.requires_grad]
        gradients = []
        if roots and is_differentiable:
            seeds = [pb.ones_like(r) for r in roots]
            gradients = pb.autograd.grad(roots, leaves, seeds, allow_unused=True)
        return [r.detach() for r in results], [g for g in gradients if g is not None]

    return both


def _arrays(value):
    if isinstance(value, np.ndarray):
        return [value] if value.dtype.kind in "fc" else []
    if isinstance(value, list | tuple):
        return [array for item in value for array in _arrays(item)]
    return []


def _backend():
    return "llvm" if importlib.util.find_spec("llvmlite") else "eager"


def _check(op, samples):
    for sample in samples:
        arrays = _arrays([*sample.args, *sample.kwargs.values()])
        if not arrays:
            continue
        function = _run(op, sample, op.differentiable)
        compiled = pb.compile(function, backend=_backend())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = function([pb.asarray(a.copy()) for a in arrays])
            for _ in range(2):
                found = compiled([pb.asarray(a.copy()) for a in arrays])
                for ours, theirs in zip(
                    [*found[0], *found[1]], [*expected[0], *expected[1]], strict=True
                ):
                    assert ours.dtype == theirs.dtype
                    assert ours.shape == theirs.shape
                    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)
        yield compiled


def _one_in(op, make, most):
    samples = [s for s in op.samples(make) if _arrays([*s.args, *s.kwargs.values()])]
    return samples[:: max(1, len(samples) // most)]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_values_and_gradients_are_the_operator_s(op):
    for compiled in _check(op, _one_in(op, Make(), 1)):
        assert compiled.stats["traces"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPS if op.has_complex], ids=lambda op: op.name)
def test_complex_values_and_gradients_are_the_operator_s(op):
    if not op.differentiable:
        pytest.skip("not defined for complex numbers")
    list(_check(op, _one_in(op, Make(is_complex=True), 1)))
