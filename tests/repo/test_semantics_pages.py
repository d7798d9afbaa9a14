"""Rules on the pages of docs/semantics and tests that name a rule agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PAGES = "docs/semantics"
ANCHOR = re.compile(r'<a id="(\d+\.\d+)"></a>')
LINK = re.compile(r"\[`(test_\w+)`\]\(\.\./\.\./(tests/[\w/]+\.py)\)")
NUMBER = r"\d+\.\d+"
ITEM = rf"{NUMBER}(?: to {NUMBER})?"
LABEL = re.compile(rf"Rules? ({ITEM}(?:, {ITEM})*)\.(?=\s|$)")

Tests = dict[str, set[tuple[str, str]]]  # rule -> (file, name)


def expand(item: str) -> list[str]:
    """``"7.1 to 7.3"`` -> ``["7.1", "7.2", "7.3"]``."""
    first, _, last = item.partition(" to ")
    section, start = first.split(".")
    stop = (last or first).split(".")[1]
    return [f"{section}.{number}" for number in range(int(start), int(stop) + 1)]


def named_rules(docstring: str) -> list[str]:
    """The rules that a docstring names at its start."""
    label = LABEL.match(docstring)
    return [rule for item in label[1].split(", ") for rule in expand(item)] if label else []


def named_tests(code: dict[str, str]) -> Tests:
    """The tests whose docstrings name each rule."""
    found: Tests = {}
    for path, source in code.items():
        if not path.startswith("tests/") or "Rule" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for rule in named_rules(ast.get_docstring(node) or ""):
                    found.setdefault(rule, set()).add((path, node.name))
    return found


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Each rule of a page, and its text up to the next rule or heading."""
    anchors = list(ANCHOR.finditer(page))
    ends = [anchor.start() for anchor in anchors[1:]] + [len(page)]
    for anchor, end in zip(anchors, ends, strict=True):
        yield anchor[1], page[anchor.end() : end].partition("\n#")[0]


def links_by_rule(pages: dict[str, str]) -> Tests:
    """The tests that stand below each rule."""
    return {
        rule: {(path, name) for name, path in LINK.findall(text)}
        for page in pages.values()
        for rule, text in blocks(page)
    }


def read_pages(root: Path) -> dict[str, str]:
    paths = sorted((root / PAGES).glob("[0-9][0-9]_*.md"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def disagreements(links: Tests, tests: Tests) -> list[str]:
    """What has to change on the pages, or in the docstrings of tests."""
    found = [f"rule {rule} has no test" for rule, given in links.items() if not given]
    found += [f"{sorted(tests[rule])} name {rule}, no rule" for rule in tests if rule not in links]
    for rule, given in links.items():
        expected = tests.get(rule, set())
        for path, name in sorted(given - expected):
            found.append(f"below rule {rule}: no {name} with this number in {path}")
        for path, name in sorted(expected - given):
            found.append(f"below rule {rule}: add [`{name}`](../../{path})")
    return found


def test_pages_and_docstrings_agree(root, code):
    assert disagreements(links_by_rule(read_pages(root)), named_tests(code)) == []


def test_numbers_are_consecutive_within_the_section_of_the_page(root):
    pages = read_pages(root)
    assert [int(name[:2]) for name in pages] == list(range(1, len(pages) + 1))
    for name, text in pages.items():
        numbers = ANCHOR.findall(text)
        assert numbers == [f"{int(name[:2])}.{n}" for n in range(1, len(numbers) + 1)], name
        assert len(numbers) == len(re.findall(r"\*\*\d+\.\d+\*\*|^\| <a ", text, re.MULTILINE)), (
            name
        )


def test_the_index_names_every_page_and_its_rules(root):
    index = (root / PAGES / "index.md").read_text(encoding="utf-8")
    for name, text in read_pages(root).items():
        count = len(ANCHOR.findall(text))
        section = int(name[:2])
        assert re.search(rf"\]\({name}\) \| {section}\.1 to {section}\.{count} \|", index), name


def test_rules_are_read_from_the_start_of_a_docstring():
    assert named_rules("Rule 4.20.") == ["4.20"]
    assert named_rules("Rules 7.45, 8.1 to 8.3. More text.") == ["7.45", "8.1", "8.2", "8.3"]
    assert named_rules("As in rule 4.20.") == []
    assert named_rules("Rule 4.20 says more.") == []


def test_every_disagreement_is_caught():
    page = (
        '- <a id="1.1"></a>**1.1** One.\n  Tests: [`test_a`](../../tests/test_x.py).\n'
        '\n## Two\n\n- <a id="1.2"></a>**1.2** Two.\n'
    )
    links = links_by_rule({"01_x.md": page})
    assert links == {"1.1": {("tests/test_x.py", "test_a")}, "1.2": set()}
    source = 'def test_a():\n    """Rule 1.1."""\ndef test_b():\n    """Rules 1.2, 1.3."""\n'
    tests = named_tests({"tests/test_x.py": source})
    assert disagreements(links, tests) == [
        "rule 1.2 has no test",
        "[('tests/test_x.py', 'test_b')] name 1.3, no rule",
        "below rule 1.2: add [`test_b`](../../tests/test_x.py)",
    ]
    renamed = named_tests({"tests/test_x.py": source.replace("test_a", "test_c")})
    assert "below rule 1.1: no test_a with this number in tests/test_x.py" in disagreements(
        links, renamed
    )
