"""YAML with places."""

from __future__ import annotations

import sys

import pytest

from pullback.codegen.load_yaml import nearest, parse_yaml
from pullback.errors import CodegenError, message_of

STYLES = {
    "plain": "x: grad * bad",
    "single quotes": "x: 'grad * bad'",
    "double quotes": 'x: "grad * bad"',
    "plain on two lines": "x: grad *\n  bad",
    "folded": "x: >\n  grad *\n\n  bad",
    "folded without an end of line": "x: >-  # why\n  grad *\n  bad",
    "literal": "x: |\n    grad\n    * bad\n",
    "in a flow mapping": "{y: 1, x: grad * bad}",
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES.keys())
def test_place_of_a_word_inside_a_value(text):
    item = parse_yaml(text, "f.yaml").mapping()["x"]
    place = item.place(item.text().index("bad"))
    line = text.splitlines()[place.line - 1]

    assert line[place.column - 1 :].startswith("bad")


def test_the_place_in_an_escaped_text_is_its_start():
    item = parse_yaml('x: "a\\tb"').mapping()["x"]

    assert item.place(2)[1:] == (1, 5)


def test_the_place_of_a_key_differs_from_that_of_its_value():
    item = parse_yaml("x:\n  y: 1", "f.yaml").mapping()["x"]

    assert message_of(item.error("wrong")) == "f.yaml:2:3: wrong"
    assert message_of(item.key_error("wrong")) == "f.yaml:1:1: wrong"


def test_errors_in_a_block_get_the_place_of_the_value():
    item = parse_yaml("x: abcdef", "f.yaml").mapping()["x"]

    with pytest.raises(CodegenError, match=r"^f\.yaml:1:6: wrong\n"), item.locating():
        raise CodegenError("wrong", 2)


def test_keys_must_be_text():
    with pytest.raises(CodegenError, match=r"^<string>:1:1: a key of this value must be text"):
        parse_yaml("1: x").mapping()


def test_nesting_beyond_reason_is_an_error_of_the_file():
    with pytest.raises(CodegenError, match=r"^f\.yaml:1:51: nested more than 50 levels deep\n"):
        parse_yaml("[" * 100_000, "f.yaml")


@pytest.mark.parametrize("text", ["a: \x00", "a: *b", "!!python/object:x.Y {}", "a: b: c"])
def test_what_is_no_table_is_refused(text):
    with pytest.raises(CodegenError):
        parse_yaml(text).mapping()["a"].text()


def test_many_names_are_not_listed():
    assert nearest("x", [f"name{i}" for i in range(21)]) == ""


def test_without_pyyaml_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(CodegenError, match=r"pip install pullback\[codegen\]"):
        parse_yaml("x: 1")


def test_the_package_imports_without_pyyaml(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in [name for name in sys.modules if name.startswith("pullback.codegen")]:
        monkeypatch.delitem(sys.modules, name)

    import pullback.codegen

    assert callable(pullback.codegen.load_ops)
