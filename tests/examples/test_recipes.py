"""The code in ``docs/recipes/`` runs, its own assertions hold, and it draws its pictures."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from pullback.interop.scipy_special import load_functions

ROOT = Path(__file__).parents[2]
RECIPES = sorted(path for path in (ROOT / "docs" / "recipes").glob("*.md") if path.stem != "index")
SINCE = {"pose_estimation": (1, 17)}  # the first SciPy whose Rotation is written in Python


@pytest.fixture(scope="module", autouse=True)
def _table():
    """Registers the operators of special functions once, so that no test leaves them behind."""
    pytest.importorskip("scipy.special")
    load_functions()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipe_runs(path, tmp_path, monkeypatch):
    pytest.importorskip("scipy.optimize")
    if SINCE.get(path.stem, (0, 0)) > tuple(map(int, version("scipy").split(".")[:2])):
        pytest.skip(f"it needs SciPy {SINCE[path.stem]}")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks, "a recipe has code"
    exec(compile("\n".join(blocks), str(path), "exec"), {"__name__": "recipe"})
    pictures = re.findall(r"\.\./pictures/(\w+\.png)", text)
    assert pictures, "a recipe has a picture"
    for name in pictures:
        assert (tmp_path / name).stat().st_size > 5_000
        committed = ROOT / "docs" / "pictures" / name
        assert 5_000 < committed.stat().st_size <= 100_000
