"""The checker of links in a built site finds what leads nowhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

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


def test_published_addresses_and_pages_of_errors_are_followed(tmp_path):
    script = load("scripts/check_links.py")
    (tmp_path / "errors").mkdir()
    for page in script.error_classes():
        (tmp_path / f"errors/{page}.html").write_text("")
    (tmp_path / "a.html").write_text(
        f'<a href="{script.SITE}/errors/bind.html">ok</a><a href="{script.SITE}/b.html">missing</a>'
    )
    assert script.broken_links(tmp_path) == [f"a.html: {script.SITE}/b.html: no such file"]
    assert script.missing_error_pages(tmp_path) == []
    (tmp_path / "errors/bind.html").unlink()
    assert script.missing_error_pages(tmp_path) == ["errors/bind.html: no such file"]


def test_the_site_has_a_page_for_each_error(tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    for folder in ("docs/_ext", "scripts"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    pages = load("docs/_ext/reference_pages.py").write_errors(tmp_path)
    assert {f"{page}.rst" for page in pages} == {path.name for path in tmp_path.iterdir()}
    assert set(pages) == set(load("scripts/check_links.py").error_classes())


def test_formulas_are_typeset():
    latex_of = load("docs/_ext/formula_latex.py").latex_of
    assert latex_of("grad * conj(cos(self))") == r"\bar{y} \, \cos\left(x\right)^{*}"
    assert latex_of("self_t / other_p") == r"\frac{\dot{x}}{\mathit{other}}"
    assert latex_of("grad - (self - other)") == r"\bar{y} - \left(x - \mathit{other}\right)"
    assert latex_of("where(self > 0, grad, 0)") == (
        r"\begin{cases} \bar{y} & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}"
    )
    assert latex_of("x = 1") is None
