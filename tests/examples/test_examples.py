"""The programs in ``examples/`` run, find what they look for, and draw their pictures."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DRAWN = [
    "bayesian_regression",
    "burgers",
    "character_lstm",
    "digits",
    "fit_curve",
    "fit_ode",
    "gaussian_process",
    "hogwild",
    "neural_ode",
    "tiny_transformer",
    "vae",
    "wave_lens",
]


def run(name, path, **options):
    pytest.importorskip("scipy.optimize")
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    picture = path / "picture.png"
    found = module.main(str(picture), **options)
    assert picture.stat().st_size > 10_000
    return module, found


def test_the_curve_is_found(tmp_path):
    module, found = run("fit_curve", tmp_path)
    np.testing.assert_allclose(found, module.TRUTH, atol=0.25)


def test_the_equation_comes_nearer_to_the_truth(tmp_path):
    module, found = run("fit_ode", tmp_path, iterations=12)
    start = np.array([0.8, 0.3, 0.6, 0.15, 10.0, 3.0])
    apart = [np.abs(np.log(p / module.TRUTH)).max() for p in (start, found)]
    assert apart[1] < 0.5 * apart[0]


def test_the_hyperparameters_explain_the_data(tmp_path):
    _, found = run("gaussian_process", tmp_path)
    assert np.exp(found[2]) == pytest.approx(0.15, rel=0.3)


def test_the_lens_collects_energy(tmp_path):
    _, gain = run("wave_lens", tmp_path, iterations=2)
    assert gain > 1.1


@pytest.mark.slow
def test_the_network_reads_digits(tmp_path):
    pytest.importorskip("sklearn")
    _, (accuracy, _) = run("digits", tmp_path)
    assert accuracy >= 0.98


def test_the_network_learns_digits_in_a_few_epochs(tmp_path):
    pytest.importorskip("sklearn")
    _, (accuracy, _) = run("digits", tmp_path, epochs=5)
    assert accuracy > 0.9


def test_the_network_learns_to_write(tmp_path):
    module, (loss, written) = run("character_lstm", tmp_path, steps=80)
    assert loss < 1.2
    assert written.startswith("the chain")
    assert set(written) <= set(module.LETTERS)


def test_the_equation_is_learned(tmp_path):
    _, (first, last, _) = run("neural_ode", tmp_path, iterations=60)
    assert last < 0.3 * first


@pytest.mark.parametrize("name", DRAWN)
def test_the_committed_picture_is_small(name):
    picture = ROOT / "docs" / "pictures" / f"{name}.png"
    assert 10_000 < picture.stat().st_size <= 100_000


def test_the_autoencoder_raises_its_bound(tmp_path):
    pytest.importorskip("sklearn")
    _, losses = run("vae", tmp_path, epochs=4)
    assert losses[-1] < 0.85 * losses[0]


def test_the_network_satisfies_the_equation(tmp_path):
    _, (losses, _) = run("burgers", tmp_path, steps=100)
    assert np.mean(losses[-20:]) < 0.3 * losses[0]


@pytest.mark.slow
def test_the_network_solves_the_equation(tmp_path):
    _, (_, error) = run("burgers", tmp_path, steps=1500)
    assert error < 0.01


def test_the_variational_posterior_is_that_of_the_chain(tmp_path):
    _, (mean, deviations, samples) = run("bayesian_regression", tmp_path, chain=10_000)
    spread = samples.std(axis=0)
    np.testing.assert_allclose(mean, samples.mean(axis=0), atol=0.4 * spread.min())
    np.testing.assert_allclose(deviations, spread, rtol=0.25)


def test_the_transformer_learns_to_sort(tmp_path):
    _, (losses, _) = run("tiny_transformer", tmp_path, steps=80)
    assert np.mean(losses[-5:]) < 0.8 * losses[0]


@pytest.mark.slow
def test_the_transformer_sorts(tmp_path):
    _, (_, is_right) = run("tiny_transformer", tmp_path, steps=700)
    assert is_right.mean() > 0.97


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the example forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_without_locks_reach_the_sequential_loss(tmp_path):
    _, found = run("hogwild", tmp_path)
    assert found["processes"] == pytest.approx(found["sequential"], rel=0.05)
    assert found["threads"] == pytest.approx(found["sequential"], rel=0.05)
