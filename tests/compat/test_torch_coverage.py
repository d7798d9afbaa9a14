"""The page of coverage is up to date, and names that are absent raise with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pullback.compat.torch as ours

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date():
    command = [sys.executable, "scripts/torch_coverage.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["jit", "distributed", "stft", "quantize_per_tensor"])
def test_absent_names_raise_by_name(name):
    with pytest.raises(AttributeError, match=rf"torch\.{name} is not part .*: \w+"):
        getattr(ours, name)


def test_most_functions_and_methods_are_there():
    names = json.loads((ROOT / "scripts" / "torch_names.json").read_text())
    assert sum(hasattr(ours, name) for name in names["torch"]) >= 480
    assert sum(hasattr(ours.Tensor, name) for name in names["torch.Tensor"]) >= 520


@pytest.mark.oracle
def test_recorded_names_are_pytorchs(torch):
    names = json.loads((ROOT / "scripts" / "torch_names.json").read_text())
    assert names["version"] == torch.__version__.partition("+")[0]
    assert [name for name in names["torch.Tensor"] if not hasattr(torch.Tensor, name)] == []
