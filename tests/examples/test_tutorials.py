"""The cells of every tutorial run from top to bottom; those marked so raise."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from pullback.library.custom_op import CUSTOM_OPS

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("[!i]*.md"))
TUTORIALS += sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("in_*.md"))
CELL = re.compile(r"^```\{code-cell\}\n((?::[^\n]*\n)*)(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path):
    pytest.importorskip("scipy")
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    cells = CELL.findall(path.read_text(encoding="utf-8"))
    assert len(cells) >= 2
    names = {"__name__": "__main__"}
    defined = set(CUSTOM_OPS)
    for options, source in cells:
        code = compile(source, str(path), "exec")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anomaly mode warns that it is slow
            if "raises-exception" in options:
                with pytest.raises(Exception, match=r"\w"):
                    exec(code, names)
            else:
                exec(code, names)
    for name in set(CUSTOM_OPS) - defined:
        CUSTOM_OPS[name]._destroy()
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
