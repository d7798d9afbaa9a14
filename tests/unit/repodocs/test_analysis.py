"""Analysis of one file, links between files, workers, coverage files."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from pathlib import Path

import pytest

from tools.repodocs.analyse import Item, analyse_text, summarize
from tools.repodocs.coverage_data import load_coverage
from tools.repodocs.project import Place, Project, is_test, module_items
from tools.repodocs.prose import first_sentence, python_code
from tools.repodocs.records import FileRecord, empty_record
from tools.repodocs.workers import Progress, run_parallel


def analyse(source: str, path: str = "a.py", module: str = "a", language: str = "Python"):
    record = empty_record(path, "python" if language == "Python" else "prose")
    record["language"] = language
    is_package = path.endswith("__init__.py")
    analyse_text(record, source, Item(path, module, is_package))
    return record


def project_of(files: dict[str, str]) -> Project:
    items = module_items(sorted(files), "root")
    records = {}
    for item in items:
        language = "Python" if item.path.endswith(".py") else "Markdown"
        records[item.path] = analyse(files[item.path], item.path, item.module, language)
    return Project([summarize(record, path) for path, record in records.items()], items)


def names(record: FileRecord, kind: str) -> list[str]:
    return [d["qualname"] for d in record["definitions"] if d["kind"] == kind]


def test_definitions_have_kinds_and_qualified_names():
    record = analyse(
        "A = 1\nclass C(B, metaclass=M):\n    LIMIT: int = 2\n"
        "    def m(self):\n        def inner(): ...\n"
        "        LOCAL = 3\nif x:\n    async def f(a, /, *, b=1) -> int: ...\n"
    )
    assert names(record, "class") == ["C"]
    assert names(record, "method") == ["C.m"]
    assert names(record, "function") == ["C.m.inner", "f"]
    assert names(record, "constant") == ["A", "C.LIMIT"]
    by_name = {d["qualname"]: d for d in record["definitions"]}
    assert by_name["C"]["bases"] == ["B", "metaclass=M"]
    assert by_name["f"]["signature"] == "(a, /, *, b=1) -> int"


def test_words_of_prose_are_no_definitions():
    """A text scan takes ``class from`` in a comment for a class."""
    record = analyse('"""The class from above, def for all, import nothing."""\n# class from x\n')
    assert record["definitions"] == []
    assert record["imports"] == []


def test_overloads_have_sections_of_their_own():
    record = analyse("def f(): ...\ndef f(): ...\n")
    assert [d["anchor"] for d in record["definitions"]] == ["function-f", "function-f-2"]


@pytest.mark.parametrize(
    ("statement", "path", "module", "target"),
    [
        ("from . import x", "p/q/__init__.py", "p.q", "p.q"),
        ("from . import x", "p/q/r.py", "p.q.r", "p.q"),
        ("from ..s import x", "p/q/r.py", "p.q.r", "p.s"),
        ("from ..... import x", "p/q/r.py", "p.q.r", ""),
    ],
)
def test_relative_imports_are_made_absolute(statement, path, module, target):
    assert analyse(statement, path, module)["imports"][0]["module"] == target


def test_references_follow_aliases_and_leave_out_hidden_names():
    record = analyse(
        "import numpy as np\nimport a.b\n\ndef f(np):\n    return np.hidden\n\n"
        "def g():\n    return np.linalg.norm(a.b.c)\n"
    )
    targets = {r["target"]: r["line"] for r in record["references"]}
    assert targets["numpy.linalg.norm"] == 8
    assert targets["a.b.c"] == 8
    assert "numpy.hidden" not in targets


def test_patterns_are_those_of_the_tree():
    record = analyse(
        "import functools\n@functools.lru_cache(None)\ndef f():\n    import json\n"
        "    for a in x:\n        for b in x:\n            while c: pass\n"
        "class C:\n    __slots__ = ()\n    def __enter__(self): ...\n    def __exit__(self): ...\n"
        "def outer():\n    def inner(): yield 1\n    return inner\n"
    )
    assert {(n["name"], n["line"]) for n in record["patterns"]} == {
        ("cache", 3),
        ("context manager", 8),
        ("closure", 12),
        ("generator", 13),
    }
    assert {(n["name"], n["line"]) for n in record["performance"]} == {
        ("cache", 3),
        ("deferred import", 4),
        ("nested loops", 3),
        ("slots", 8),
    }


def test_code_of_documents_is_found():
    text = (
        "Text\n\n```python\nimport p\n```\n\n```text\nno code\n```\n\n>>> p.f(\n...     1)\n2\n\n"
        ".. code-block:: python\n\n    p.g()\n\nEnd\n"
    )
    blocks = [(line, block.strip()) for line, block in python_code(text)]
    assert blocks == [(4, "import p"), (11, "p.f(\n    1)"), (16, "p.g()")]
    record = analyse(text, "a.md", "", "Markdown")
    found = {r["target"]: r["line"] for r in record["references"]}
    assert found == {"p": 4, "p.f": 11, "p.g": 17}


def test_first_sentences():
    assert first_sentence("One, e.g. two. Three.") == "One, e.g. two."
    assert first_sentence("No end\n\nNext") == "No end"
    assert first_sentence("Version 1.2 of it. More.") == "Version 1.2 of it."


# --- links ----------------------------------------------------------------------------------------

PACKAGE = {
    "src/p/__init__.py": "from p.inner import f as g\nfrom p.stars import *\n",
    "src/p/inner.py": "def f(): ...\nclass C:\n    def m(self): ...\n",
    "src/p/stars.py": "from .inner import C\nVALUE = 1\n",
    "src/p/loop_a.py": "from p.loop_b import x\n",
    "src/p/loop_b.py": "from p.loop_a import x\n",
    "tests/test_p.py": "import p as q\nfrom p.inner import C\n\nq.g()\nC().m()\nq.VALUE\n",
    "README.md": "```python\nimport p\n\np.g()\n```\n",
}


def test_names_are_resolved_through_reexports_and_stars():
    project = project_of(PACKAGE)
    assert project.resolve("p.g") == Place("src/p/inner.py", "f")
    assert project.resolve("p.VALUE") == Place("src/p/stars.py", "VALUE")
    assert project.resolve("p.C.m") == Place("src/p/inner.py", "C.m")
    assert project.resolve("p.inner") == Place("src/p/inner.py", "")
    found = project.resolve("p.loop_a.x")  # imported in a circle: defined nowhere
    assert found is not None
    assert found.qualname == ""
    assert project.resolve("numpy.sin") is None


def test_imports_of_compiled_modules_end():
    """The module ``p.native`` is no file: each step would make the name longer."""
    files = {"p/__init__.py": "from p.native import *\nfrom p.native.x import native\n"}
    project = project_of(files | {"a.py": "import p\np.native.y\np.z\n"})
    assert project.resolve("p.native.y") == Place("p/__init__.py", "")
    assert project.resolve("p.z") == Place("p/__init__.py", "")


def test_users_of_names_are_found_with_their_lines():
    project = project_of(PACKAGE)
    users = project.users_of("src/p/inner.py", "f", "function")
    assert [(use.path, use.line) for use in users] == [
        ("README.md", 4),
        ("src/p/__init__.py", 1),
        ("tests/test_p.py", 4),
    ]
    methods = project.users_of("src/p/inner.py", "C.m", "method")
    assert [use.path for use in methods] == ["tests/test_p.py"]


def test_layers_count_chains_of_imports_and_join_circles():
    layers = project_of(PACKAGE).layers
    assert layers["src/p/inner.py"] == 1
    assert layers["src/p/stars.py"] == 2
    assert layers["src/p/loop_a.py"] == layers["src/p/loop_b.py"]
    assert layers["tests/test_p.py"] > layers["src/p/__init__.py"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("test_a.py", True), ("a/tests/b.py", True), ("a/contest.py", False), ("tests/a.md", False)],
)
def test_tests_are_known_by_name_and_folder(path, expected):
    assert is_test(path) is expected


# --- workers --------------------------------------------------------------------------------------


def _end_process(jobs):
    if 3 in jobs:
        os._exit(1)
    return [job * 2 for job in jobs]


@pytest.mark.parametrize("processes", [1, 2])
def test_all_chunks_are_run(processes, capsys):
    found = run_parallel(_double, list(range(10)), 3, processes, "work", lambda job: -job)
    assert sorted(found) == [job * 2 for job in range(10)]
    assert "work: 10 files" in capsys.readouterr().err


def _double(jobs):
    return [job * 2 for job in jobs]


def test_a_process_that_dies_costs_one_file():
    found = run_parallel(_end_process, list(range(8)), 4, 2, "work", lambda job: -job)
    assert sorted(found) == [-3, 0, 2, 4, 8, 10, 12, 14]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar():
    stream = Terminal()
    Progress("work", 2, stream).advance(2)
    assert stream.getvalue() == "\rwork [##############################] 2/2\n"


# --- coverage -------------------------------------------------------------------------------------


def test_tests_are_read_from_a_report(tmp_path):
    report = {"files": {"a.py": {"contexts": {"1": ["", "tests/t.py::test_a|run"]}}}}
    (tmp_path / "c.json").write_text(json.dumps(report))
    assert load_coverage(tmp_path / "c.json", tmp_path) == {"a.py": ["tests/t.py::test_a"]}


def test_tests_are_read_from_a_database(tmp_path: Path):
    path = tmp_path / ".coverage"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"""
        create table file (id integer, path text);
        create table context (id integer, context text);
        create table line_bits (file_id integer, context_id integer, numbits blob);
        create table arc (file_id integer, context_id integer, fromno integer, tono integer);
        insert into file values (1, '{tmp_path}/a.py'), (2, '/elsewhere/b.py');
        insert into context values (1, ''), (2, 'test_b');
        insert into line_bits values (1, 1, x'00'), (1, 2, x'00'), (2, 2, x'00');
        """
    )
    connection.commit()
    connection.close()
    assert load_coverage(path, tmp_path) == {"a.py": ["test_b"]}
