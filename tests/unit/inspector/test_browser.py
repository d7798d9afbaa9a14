"""The inspector and the pages of ``tools.repodocs`` in a headless browser."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

import pullback as pb
from tests.unit.inspector.test_page import hostile_page, leaf
from tests.unit.repodocs.conftest import HOSTILE, make_repository
from tools.repodocs.build import Options, build


def small_page(tmp_path: Path) -> Path:
    x = leaf(1.0, 2.0)
    w = leaf(3.0)
    y = (pb.exp(pb.sin(x)) * w).sum()
    return pb.inspect(y, inputs=[x, w]).save(tmp_path / "page.html")


def test_the_page_loads_without_errors(browser, tmp_path):
    browser.open(small_page(tmp_path))
    assert browser.errors() == []
    assert browser.text("#counts") == "6 nodes, 6 shown"
    for tab in ("Inputs", "First NaN", "Memory", "Operators", "Details"):
        browser.script(
            "[...document.querySelectorAll('#tabs button')]"
            ".find(b => b.textContent === arguments[0]).click()",
            tab,
        )
        assert browser.text("#panel")
    assert browser.errors() == []


def test_search_finds_a_node_and_leads_to_it(browser, tmp_path):
    browser.open(small_page(tmp_path))
    browser.type("#search", "expback")
    assert browser.text("#results li") == "ExpBackward0 (3) [2] "
    browser.script("document.querySelector('#results li').click()")
    assert browser.text("#panel h2") == "ExpBackward0"
    assert "grad * conj(result)" in browser.text("#panel")
    browser.type("#search", "no such node")
    assert browser.text("#results") == "Nothing found."


def test_a_click_shows_details_and_the_path_to_the_output(browser, tmp_path):
    browser.open(small_page(tmp_path))
    browser.click(*browser.script("return inspector.place(2)"))
    assert browser.text("#panel h2") == "SinBackward0"
    assert "pullback::sin" in browser.text("#panel")
    assert browser.script("return inspector.pathLength()") == 4
    assert browser.errors() == []


def test_the_page_follows_the_preferred_colors(browser, tmp_path):
    path = small_page(tmp_path)
    grounds = []
    for is_dark in (False, True):
        browser.use_dark(is_dark)
        browser.open(path)
        grounds.append(browser.script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(16, 21, 29)"]
    browser.script("document.getElementById('theme').click()")
    assert browser.script("return document.documentElement.dataset.theme") == "light"


def test_the_page_works_in_a_sandboxed_frame(browser, tmp_path):
    x = leaf(1.0, 2.0)
    frame = pb.inspect(pb.sin(x).sum())._repr_html_()
    (tmp_path / "frame.html").write_text(f"<!doctype html>{frame}", encoding="utf-8")
    browser.open(tmp_path / "frame.html")
    browser.driver.switch_to.frame(0)
    assert browser.text("#counts") == "3 nodes, 3 shown"
    browser.driver.switch_to.default_content()
    assert browser.errors() == []


def test_groups_open_and_close(browser, tmp_path):
    def loop(x):
        for _ in range(5):
            x = pb.sin(x)
        return x.sum()

    browser.open(pb.inspect(loop, leaf(1.0)).save(tmp_path / "page.html"))
    shown = "return inspector.shown()"
    assert browser.script(shown) == 7
    browser.script("document.getElementById('collapse').click()")
    assert browser.script(shown) == 2  # the leaf, and the group of everything else
    browser.script("document.getElementById('expand').click()")
    assert browser.script(shown) == 7
    assert browser.errors() == []


def test_the_first_cotangent_that_is_not_finite_is_shown_with_its_line(browser, tmp_path):
    def loss(x):
        return (pb.sqrt(x - 1.0) * 0.0).sum()

    browser.open(pb.inspect(loss, leaf(1.0)).save(tmp_path / "page.html"))
    panel = browser.text("#panel")
    assert "The first cotangent that is not finite is returned by SqrtBackward0." in panel
    assert "test_browser.py" in panel
    assert "Returned to" in panel
    assert browser.errors() == []


def test_ten_thousand_nodes_are_drawn_in_three_seconds(browser, tmp_path):
    y = leaf(1.0)
    for _ in range(10_000):
        y = pb.sin(y)
    browser.open(pb.inspect(y).save(tmp_path / "page.html"))
    assert browser.script("return inspector.firstDraw") < 3000
    assert browser.text("#counts").startswith("10,001 nodes")
    browser.script("document.getElementById('expand').click()")
    assert browser.script("return inspector.shown()") == 10_001
    browser.type("#search", "sinbackward0 9999")
    browser.script("document.querySelector('#results li').click()")
    assert browser.text("#panel h2") == "SinBackward0"
    assert browser.errors() == []


def test_names_are_shown_as_text(browser, tmp_path):
    browser.open(hostile_page(tmp_path))
    browser.script("document.getElementById('expand').click()")
    browser.type("#search", "mulbackward")
    browser.script("document.querySelector('#results li').click()")
    details = browser.text("#panel")
    assert "window.injected = 1" in details
    assert "<b>folder</<i>file.py:2" in details
    assert "Bad<u> 1" in details
    assert browser.script("return window.injected") is None
    assert browser.script("return document.querySelectorAll('img, i, b, u').length") == 0
    assert browser.errors() == []


# --- pages about repositories ---------------------------------------------------------------------


@pytest.fixture
def repository_pages(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "fixture")
    build(Options(root, tmp_path / "out", title="fixture", processes=1))
    return tmp_path / "out"


def test_pages_of_a_repository_load_and_search(browser, repository_pages):
    browser.open(repository_pages / "shapes/figures.py_docs.html")
    assert browser.text("#L16").startswith("16class Square")
    browser.type("#search", "area_of")
    browser.driver.implicitly_wait(2)
    result = browser.driver.find_element("css selector", "#results li:not(.none) a")
    assert result.text.startswith("area_of")
    assert result.get_attribute("href").endswith("shapes/measure.py_docs.html#L9")
    browser.script("arguments[0].click()", result)
    assert browser.text("h1") == "shapes/measure.py"
    assert browser.errors() == []


def test_hostile_names_of_files_are_text(browser, repository_pages):
    browser.open(repository_pages / f"odd/{HOSTILE}_docs.html")
    assert browser.text("h1") == f"odd/{HOSTILE}"
    assert html.escape("<i>") in browser.script("return document.body.innerHTML")
    browser.type("#search", "onerror")
    browser.driver.implicitly_wait(2)
    result = browser.driver.find_element("css selector", "#results li:not(.none) a")
    browser.script("arguments[0].click()", result)
    assert browser.text("h1") == f"odd/{HOSTILE}"
    assert browser.script("return document.querySelectorAll('img, i').length") == 0
    assert browser.errors() == []


@pytest.mark.parametrize("is_dark", [False, True])
def test_pages_follow_the_preferred_colors(browser, repository_pages, is_dark):
    browser.use_dark(is_dark)
    browser.open(repository_pages / "index.html")
    ground = browser.script("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(16, 21, 29)" if is_dark else "rgb(255, 255, 255)")
    assert browser.errors() == []
