"""The checker of links in a built site finds what leads nowhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("loaded", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_broken_links_and_anchors_are_found(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/index.html").write_text('<h1 id="top">x</h1><a href="../a.html#gone">a</a>')
    (tmp_path / "a.html").write_text(
        '<a href="folder/">ok</a> <a href="folder/#top">ok</a> <a href="https://example.org/x">ok</a>'
        '<a href="b.html">missing</a> <img src="picture.png"> <a href="#here" id="here">ok</a>'
    )
    found = load("scripts/check_links.py").broken_links(tmp_path)
    assert found == [
        "a.html: b.html: no such file",
        "a.html: picture.png: no such file",
        "folder/index.html: ../a.html#gone: no such anchor",
    ]


def test_formulas_are_typeset():
    latex_of = load("docs/_ext/formula_latex.py").latex_of
    assert latex_of("grad * conj(cos(self))") == r"\bar{y} \, \cos\left(x\right)^{*}"
    assert latex_of("self_t / other_p") == r"\frac{\dot{x}}{\mathit{other}}"
    assert latex_of("grad - (self - other)") == r"\bar{y} - \left(x - \mathit{other}\right)"
    assert latex_of("where(self > 0, grad, 0)") == (
        r"\begin{cases} \bar{y} & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}"
    )
    assert latex_of("x = 1") is None
