"""Programs as scientists write them, compiled and as they are, over calls with other data."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")


def _flat(result):
    return [x for part in result for x in _flat(part)] if isinstance(result, tuple) else [result]


def _check(function, arguments, *, backend="llvm", rtol=1e-9, traces=1):
    """Compares three calls with other data; returns the compiled function."""
    compiled = pb.compile(function, backend=backend)
    for seed in (1, 2, 3):
        args = arguments(np.random.default_rng(seed))
        found, expected = (_flat(f(*args)) for f in (compiled, function))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)
    assert compiled.stats["traces"] == traces
    return compiled


def _garch(parameters, returns):
    omega, alpha, beta = parameters
    variance = np.zeros(len(returns))
    variance[0] = np.var(returns)
    for t in range(1, len(returns)):
        variance[t] = omega + alpha * returns[t - 1] ** 2 + beta * variance[t - 1]
    return 0.5 * np.sum(np.log(2 * np.pi * variance) + returns**2 / variance)


def test_gradient_of_a_garch_likelihood():
    # The backward loop carries the array before and after its write: the one in registers has to be
    # read before the one in memory changes.
    _check(pb.value_and_grad(_garch), lambda rng: (rng.uniform(0.1, 0.3, 3), rng.normal(size=30)))
