"""The example and the guide run, and what they define ends with the test."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from pullback.dispatch.stock import forget_operators
from pullback.library.custom_op import CUSTOM_OPS

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def ended():
    before = set(CUSTOM_OPS)
    yield
    for name in set(CUSTOM_OPS) - before:
        CUSTOM_OPS[name]._destroy()
    forget_operators("guide")


def test_the_example_runs_and_is_short(capsys):
    path = ROOT / "examples" / "custom_op.py"
    runpy.run_path(str(path))
    assert "opcheck(example::softplus): all checks passed" in capsys.readouterr().out
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 30


def test_the_guide_runs(capsys):
    text = (ROOT / "docs" / "custom_operators.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "custom_operators.md", "exec"), names)
    assert blocks
    assert "all checks passed" in capsys.readouterr().out
