"""The programs about clusters run, and find what they look for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def load(name: str) -> Any:
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_regressions_from_files_reach_the_optimum(tmp_path):
    for package in ("distributed", "pyarrow", "sklearn", "scipy.optimize"):
        pytest.importorskip(package)
    picture = tmp_path / "picture.png"
    found, expected, _ = load("glm_parquet").main(picture, rows=20_000)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.allclose(ours, theirs, atol=1e-5)
    assert picture.stat().st_size > 10_000


def test_efficiency_falls_with_workers_and_parameters(tmp_path):
    scaling = load("scaling")
    assert 0.5 < scaling.main(tmp_path / "picture.png") < 1.0
    few, many = (scaling.efficiency(n, 1000, 0.1, 1000) for n in (4, 1000))
    assert few > many
    small, large = (scaling.efficiency(64, 1000, 0.1, n) for n in (1000, 10**7))
    assert small > large
