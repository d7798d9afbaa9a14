"""Training programs written for PyTorch give the same losses here, from one source."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest

import pullback.compat.torch as ours

SCRIPTS = Path(__file__).with_name("torch_scripts")
NAMES = ["cnn", "gan", "lstm", "mlp", "vae"]


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    ours.set_default_dtype(ours.float32)


def run(name, package, weights=None):
    """Runs a script whose one line of import names a package."""
    source = (SCRIPTS / f"{name}.py").read_text()
    line = "import pullback.compat.torch as torch\n"
    assert source.count(line) == 1
    source = source.replace(line, f"import {package} as torch\n")
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module.train(weights, np.random.default_rng(5))


@pytest.mark.parametrize("name", NAMES)
def test_losses_fall(name):
    """Without PyTorch: the script runs and repeats."""
    np.random.seed(0)
    weights, losses = run(name, "pullback.compat.torch")
    again, repeated = run(name, "pullback.compat.torch", weights)
    assert repeated == losses
    assert np.isfinite(losses).all()
    assert again.keys() == weights.keys()


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_pytorch(torch, name):
    torch.manual_seed(0)
    try:
        weights, expected = run(name, "torch")
    finally:
        torch.set_default_dtype(torch.float32)
    _, found = run(name, "pullback.compat.torch", weights)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
