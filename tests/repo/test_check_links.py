"""The checker of links in a built site finds what leads nowhere."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import pullback as pb

if TYPE_CHECKING:
    from pullback import Tensor

ROOT = Path(__file__).parents[2]


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("loaded", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["loaded"] = module  # dataclasses look for their module
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
    for package in ("llvmlite", "scipy"):
        pytest.importorskip(package)
    for folder in ("docs/_ext", "scripts"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    pages = load("docs/_ext/reference_pages.py").write_errors(tmp_path)
    assert {f"{page}.rst" for page in pages} == {path.name for path in tmp_path.iterdir()}
    assert set(pages) == set(load("scripts/check_links.py").error_classes())


def test_docstrings_get_the_sections_of_numpy():
    sections = load("docs/_ext/numpy_sections.py")

    def scale(x: Tensor, by: float | None = None, *, mode: Literal["a", "b"] = "a") -> list[Tensor]:
        """Scales a tensor.

        Args:
            x: what is scaled,
                by a factor.
            by, mode: options.

        The input stays as it is.

        >>> scale(1)
        1
        """

    made = sections.numpy_lines(inspect.getdoc(scale).splitlines(), scale, "function")
    assert [line for line in made if line] == [
        "Scales a tensor.",
        *("Parameters", "----------"),
        *("x : Tensor", "    What is scaled,", "    by a factor."),
        *("by : float, optional", "    Options."),
        *("mode : {'a', 'b'}, default 'a'", "    Options."),
        *("Returns", "-------", "list of Tensor"),
        *("Notes", "-----", "The input stays as it is."),
        *("Examples", "--------", ">>> scale(1)", "1"),
    ]
    text = ["Wrong.", "", "Cause: a write. Fix:", "write less."]
    made = sections.numpy_lines(text, ValueError, "exception")
    assert [line for line in made if line] == [
        "Wrong.",
        "**Cause.** A write. ",
        "**Fix.** Write less.",
    ]
    generated = sections.numpy_lines(["Sum."], pb.sum, "function")
    assert "axis : sequence of int or int, optional" in generated
    assert "keepdims : bool, default False" in generated


def test_every_function_of_the_reference_has_sections():
    sections = load("docs/_ext/numpy_sections.py")
    kinds = {name: getattr(pb, name) for name in pb.__all__}
    functions = {n: f for n, f in kinds.items() if inspect.isfunction(f) and f.__doc__}
    without = [
        name
        for name, function in functions.items()
        if "--------"
        not in sections.numpy_lines(inspect.getdoc(function).splitlines(), function, "function")
    ]
    assert len(functions) > 300
    assert set(without) <= {"zeta"}


def test_the_table_of_speeds_is_that_of_the_results():
    pytest.importorskip("docutils", reason="the extra docs has it")
    speed_rows = load("docs/_ext/speed_table.py").speed_rows
    text = (ROOT / "benchmarks/RESULTS.md").read_text("utf-8")
    head, row = speed_rows(text, ["tiny"])
    assert head[:3] == ["gradient of", "pullback", "/ torch"]
    assert row[0] == "sum(x*x), 8 elements"
    first = next(line for line in text.splitlines() if line.startswith("| tiny |"))
    assert f"| tiny | {row[1]} | {row[2]} | {row[3]} | {row[4]} | {row[5]} |" in first
    assert all(float(ratio) > 0 for ratio in row[2:6])
    page = (ROOT / "docs/index.md").read_text("utf-8")
    shown = re.search(r"\{speed-table\} (.*)", page).group(1).split()
    assert len(speed_rows(text, shown)) == len(shown) + 1
    with pytest.raises(ValueError, match="no rows"):
        speed_rows(text, ["nothing"])


def test_the_menu_of_versions_has_this_one_and_its_address():
    versions = json.loads((ROOT / "docs/_static/versions.json").read_text("utf-8"))
    site = load("scripts/check_links.py").SITE
    assert [v["url"] for v in versions if v["version"] == pb.__version__] == [site]
    assert f'Documentation = "{site}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_formulas_are_typeset():
    latex_of = load("docs/_ext/formula_latex.py").latex_of
    assert latex_of("grad * conj(cos(self))") == r"\bar{y} \, \cos\left(x\right)^{*}"
    assert latex_of("self_t / other_p") == r"\frac{\dot{x}}{\mathit{other}}"
    assert latex_of("grad - (self - other)") == r"\bar{y} - \left(x - \mathit{other}\right)"
    assert latex_of("where(self > 0, grad, 0)") == (
        r"\begin{cases} \bar{y} & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}"
    )
    assert latex_of("x = 1") is None
