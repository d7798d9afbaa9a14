"""The pages of the fixture repository: golden text, odd files, escaping, links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.repodocs.conftest import EXECUTED, HOSTILE, LONG_NAME, UNDECODABLE, git
from tools.repodocs.blocks import docs_page
from tools.repodocs.build import Options, build, stale_pages
from tools.repodocs.cli import main
from tools.repodocs.links import broken_links

GOLDEN = Path(__file__).parent / "golden.txt"


def make(root: Path, out: Path, **options) -> Path:
    outcome = build(Options(root, out, title="fixture", processes=1, **options))
    assert outcome.problems == []
    return out


def all_pages(out: Path, extension: str) -> dict[str, str]:
    return {
        path.relative_to(out).as_posix(): path.read_text(encoding="utf-8", errors="strict")
        for path in sorted(out.rglob(f"*{extension}"))
    }


def test_pages_are_the_golden_ones(checkout, tmp_path):
    """Every page in Markdown. ``REPODOCS_GOLDEN=1`` writes the file anew."""
    pages = all_pages(make(checkout, tmp_path / "out", format="md"), ".md")
    for name in list(pages):
        if "huge" in name or "deep" in name or "one_line" in name:
            del pages[name]  # long, and tested below
    text = "".join(f"=== {name}\n{page}" for name, page in pages.items())
    if os.environ.get("REPODOCS_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


SENTENCES = {
    "odd/broken.py": "not valid Python (line 1",
    "odd/nulls.py": "A binary file",
    "odd/empty.py": "The file is empty.",
    "odd/unknown_coding.py": "The declared encoding is wrong",
    "odd/bad_bytes.txt": "not valid utf-8; they are read as Latin-1",
    "odd/picture.png": "A binary file",
    "odd/loop_a": "The links form a loop.",
    "odd/up": "Symbolic link to ... It is not followed.",
    "odd/gone": "Its target does not exist.",
    "odd/pipe": "A special file",
    "odd/huge.txt": "5,004,890 bytes: only its first 500 lines",
    "odd/one_line.json": "more characters)",
    "odd/latin.py": "café",
    "odd/wide.txt": "in UTF-16",
    "odd/deep.py": "not valid Python",
    f"odd/{LONG_NAME}": "text",
    f"odd/{UNDECODABLE}": "name_?.txt",
}


def test_odd_files_get_a_page_that_says_so(repository, tmp_path):
    out = make(repository, tmp_path / "out")
    for path, sentence in SENTENCES.items():
        if os.path.lexists(repository / path):
            page = (out / (docs_page(path) + ".html")).read_text(encoding="utf-8")
            assert sentence in re.sub(r"<[^>]*>", "", page), path
    assert broken_links(out) == []


class Tags(HTMLParser):
    """The elements and the attributes that a browser sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.seen.update(name for name, _ in attrs if name.startswith("on"))
        self.seen.update(v for n, v in attrs if n == "href" and ":" in v.partition("/")[0])


def test_names_and_texts_cannot_become_markup(repository, tmp_path):
    out = make(repository, tmp_path / "out")
    tags = Tags()
    for page in all_pages(out, ".html").values():
        tags.feed(page)
        assert page.count("<script") == 1
    assert not tags.seen & {"img", "i", "b", "onerror"}
    assert not [value for value in tags.seen if "javascript" in value]
    assert (out / f"odd/{HOSTILE}_docs.html").is_file()
    assert "</script" not in (out / "repodocs-names.js").read_text(encoding="ascii")


def test_nothing_of_the_repository_runs(checkout, tmp_path, monkeypatch):
    """Neither its modules nor the programs that its configuration of Git names."""
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path / EXECUTED}'\n")
    program.chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "gpg.program", "diff.external"):
        git(checkout, "config", setting, str(program))
    git(checkout, "config", "log.showSignature", "true")
    (checkout / "ruff.toml").write_text("not valid [")
    (checkout / "sitecustomize.py").write_text(f"open({EXECUTED!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    make(checkout, tmp_path / "out")
    assert not list(tmp_path.rglob(EXECUTED))


def test_an_output_inside_of_the_repository_is_no_part_of_it(repository):
    make(repository, repository / "pages")
    first = len(all_pages(repository / "pages", ".html"))
    make(repository, repository / "pages")
    assert len(all_pages(repository / "pages", ".html")) == first


@pytest.mark.parametrize(
    ("home", "expected"),
    [("../site.html", "../../site.html"), ("https://x.org/", "https://x.org/")],
)
def test_every_page_leads_home(repository, tmp_path, home, expected):
    out = make(repository, tmp_path / "out", home=home)
    page = (out / "shapes/index.html").read_text(encoding="utf-8")
    assert f'<a class="home" href="{expected}">' in page
    assert broken_links(out) == []


# --- incremental builds ---------------------------------------------------------------------------


def test_unchanged_pages_are_not_written_again(repository, tmp_path):
    options = Options(repository, tmp_path / "out", processes=1)
    first = build(options)
    assert first.written > 60
    assert build(options).written == 0
    assert stale_pages(options) == []

    path = repository / "shapes/measure.py"
    path.write_text(path.read_text().replace("Areas.", "All areas."))
    stale = stale_pages(options)
    assert "shapes/measure.py_docs.html is stale" in stale
    assert not [sentence for sentence in stale if "guide.rst" in sentence]
    second = build(options)
    assert 0 < second.written < 20
    assert stale_pages(options) == []


def test_a_page_follows_what_other_files_say(repository, tmp_path):
    """A new user of a name changes the page of the file that defines it."""
    out = make(repository, tmp_path / "out")
    assert "new_user.py" not in (out / "shapes/measure.py_kw.html").read_text(encoding="utf-8")
    (repository / "new_user.py").write_text("import shapes as s\n\ns.area_of(None)\n")
    make(repository, out)
    assert "new_user.py:3" in (out / "shapes/measure.py_kw.html").read_text(encoding="utf-8")


def test_pages_of_removed_files_are_removed(repository, tmp_path, capsys):
    out = make(repository, tmp_path / "out")
    (repository / "guide.rst").unlink()
    assert main(["check", str(repository), "--out", str(out)]) == 1
    assert "guide.rst_docs.html belongs to no file" in capsys.readouterr().out
    make(repository, out)
    assert not (out / "guide.rst_docs.html").exists()
    assert main(["check", str(repository), "--out", str(out)]) == 0
    assert "no broken link" in capsys.readouterr().out


def test_markdown_pages_are_checked_as_they_were_built(repository, tmp_path, capsys):
    out = make(repository, tmp_path / "out", format="md", home="https://x.org/")
    assert main(["check", str(repository), "--out", str(out)]) == 0
    (repository / "guide.rst").write_text("New\n===\n")
    assert main(["check", str(repository), "--out", str(out)]) == 1
    assert "guide.rst_docs.md is stale" in capsys.readouterr().out


def test_a_change_of_format_replaces_the_pages(repository, tmp_path):
    out = make(repository, tmp_path / "out")
    make(repository, out, format="md")
    assert [path.name for path in out.rglob("*.html")] == ["search.html"]
    assert (out / "shapes/figures.py_docs.md").is_file()


def test_broken_links_and_lost_pages_are_reported(repository, tmp_path, capsys):
    out = make(repository, tmp_path / "out")
    (out / "shapes/figures.py_kw.html").unlink()
    assert main(["check", str(repository), "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert "shapes/figures.py_kw.html is missing" in said
    assert "broken link in shapes/figures.py_docs.html: shapes/figures.py_kw.html" in said


def test_a_damaged_state_is_made_again(repository, tmp_path):
    out = make(repository, tmp_path / "out")
    (out / ".repodocs/manifest.json").write_text('{"pages": {"../../victim": "x"}}')
    (tmp_path / "victim.html").write_text("stays")
    for path in (out / ".repodocs/records").glob("*/*.json"):
        path.write_text('{"record": {"path": 1}}')
    make(repository, out)
    assert (tmp_path / "victim.html").read_text() == "stays"
    assert "class Square" in (out / "shapes/figures.py_docs.html").read_text(encoding="utf-8")


# --- the command line -----------------------------------------------------------------------------


def test_the_command_builds_in_parallel(repository, tmp_path):
    command = ["python", "-m", "tools.repodocs", "build", str(repository)]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, *command[1:], "--out", tmp_path / "out", "--jobs", "2"],
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    assert "analyse:" in done.stderr
    assert "pages written" in done.stdout


def test_bad_arguments_are_reported(tmp_path, capsys):
    assert main(["build", str(tmp_path / "gone"), "--out", str(tmp_path / "out")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    bad = tmp_path / "coverage"
    bad.write_text("[]")
    arguments = ["build", str(tmp_path), "--out", str(tmp_path / "out"), "--coverage", str(bad)]
    assert main(arguments) == 2
    assert "is not a coverage file" in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_reported(tmp_path, capsys):
    (tmp_path / "root").mkdir()
    (tmp_path / "file").write_text("no folder")
    assert main(["build", str(tmp_path / "root"), "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_an_interrupt_ends_a_build_with_one_line(tmp_path, capsys, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("tools.repodocs.cli.build", interrupted)
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err.startswith("interrupted")


def test_folders_named_like_parts_of_the_output_have_their_own_pages(tmp_path):
    root, out = tmp_path / "root", tmp_path / "out"
    for folder in ("_names", "index.html", "a.py_docs.html", "repodocs.css", ".repodocs"):
        (root / folder).mkdir(parents=True)
        (root / folder / "a.py").write_text("x = 1\n")
    (root / "a.py").write_text("y = 2\n")
    (root / "empty").mkdir()
    for _ in range(2):
        outcome = build(Options(root, out, processes=1))
        assert outcome.problems == []
    assert (outcome.written, outcome.removed) == (0, 0)
    assert broken_links(out) == []
    assert "index of names" in (out / "_names/index.html").read_text("utf-8").lower()
    assert (out / "_names~/a.py_docs.html").is_file()
    assert (out / "a.py_docs.html~/a.py_docs.html").is_file()


def test_check_without_pages_says_so(tmp_path, capsys):
    assert main(["check", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "run build first" in capsys.readouterr().out


@pytest.mark.slow
def test_our_own_repository_has_no_broken_link(tmp_path):
    root = Path(__file__).parents[3]
    outcome = build(Options(root, tmp_path / "out", title="Pullback"))
    assert outcome.problems == []
    assert broken_links(tmp_path / "out") == []
    page = (tmp_path / "out/src/pullback/autograd/api.py_docs.html").read_text(encoding="utf-8")
    assert "tests/" in page
