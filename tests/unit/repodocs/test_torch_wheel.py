"""The index of PyTorch's own files, compared with one that a text scan made.

The files are read from the installed wheel and never copied. The recorded lists hold words of the
scan's page template and of prose beside identifiers; a recorded word counts if the file has it.
"""

from __future__ import annotations

import importlib.util
import io
import json
import keyword
import re
import tokenize
from pathlib import Path

import pytest

from tools.repodocs.analyse import Item, analyse_text
from tools.repodocs.build import Options, build
from tools.repodocs.links import broken_links
from tools.repodocs.prose import ORDINARY
from tools.repodocs.records import FileRecord
from tools.repodocs.textfile import read_contents

pytestmark = pytest.mark.oracle
RECORDED = json.loads((Path(__file__).parent / "recorded_keywords.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def packages() -> Path:
    found = importlib.util.find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        pytest.skip("pip install torch==2.13.0 runs the oracle tests")
    return Path(found.submodule_search_locations[0]).parent


def analyse(packages: Path, path: str) -> tuple[FileRecord, str]:
    record, text = read_contents(packages, path)
    analyse_text(record, text, Item(path, path.removesuffix(".py").replace("/", "."), False))
    assert not record["problem"]
    return record, text


def test_the_index_of_one_file_is_the_recorded_one_without_its_false_entries(packages):
    """``class from`` and ``def for`` of the record are words of comments."""
    record, _ = analyse(packages, "torchgen/api/autograd.py")
    recorded = RECORDED["torchgen/api/autograd.py"]
    classes = {d["name"] for d in record["definitions"] if d["kind"] == "class"}
    functions = {d["name"] for d in record["definitions"] if d["kind"] in ("function", "method")}
    assert classes == set(recorded["Classs"]) - {"from"}
    assert functions == set(recorded["Functions"]) - {"for"}


def test_imports_of_the_file_are_the_recorded_ones_and_the_names_that_the_scan_missed(packages):
    """The scan took the first name of each one-line import; ours has every name."""
    record, _ = analyse(packages, "torchgen/api/autograd.py")
    every, first = set(), set()
    for statement in record["imports"]:
        names = [entry for entry in statement["names"] if entry["name"]]
        every |= {statement["module"], *(entry["name"] for entry in names)}
        first |= {statement["module"]}
        first |= {entry["name"] for entry in names[:1] if entry["line"] == statement["line"]}
    recorded = set(RECORDED["torchgen/api/autograd.py"]["Imports"])
    assert first == recorded
    assert {"TYPE_CHECKING", "Binding", "NativeFunction", "SchemaKind"} <= every - recorded


@pytest.mark.parametrize(
    "path",
    [
        "torch/_python_dispatcher.py",
        "torch/_custom_op/autograd.py",
        "torch/testing/_internal/optests/autograd_registration.py",
    ],
)
def test_every_recorded_identifier_is_found(packages, path):
    record, text = analyse(packages, path)
    words = set(re.findall(r"\w+", text))
    real = [w for w in RECORDED[path]["Identifiers"] if w in words and w.lower() not in ORDINARY]
    assert len(real) > 15
    found = {d["name"] for d in record["definitions"]} | set(record["identifiers"])
    found |= set(record["terms"])
    literals = {"True", "False", "None"}
    assert [word for word in real if word not in found | literals] == []


@pytest.mark.parametrize("path", [path for path in RECORDED if "Identifiers" in RECORDED[path]])
def test_recorded_names_of_the_code_are_identifiers_of_the_index(packages, path):
    """Names in code, which no list of ordinary words can hide."""
    if not path.endswith(".py"):
        pytest.skip("prose has no identifiers")
    record, text = analyse(packages, path)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    recorded = {word for word in RECORDED[path]["Identifiers"] if word in names}
    recorded -= set(keyword.kwlist)
    assert len(recorded) >= 3
    assert recorded <= {d["name"] for d in record["definitions"]} | set(record["identifiers"])


@pytest.mark.slow
def test_the_folder_torchgen_builds(packages, tmp_path):
    outcome = build(Options(packages / "torchgen", tmp_path / "out"))
    assert outcome.problems == []
    assert outcome.files > 50
    assert broken_links(tmp_path / "out") == []
    page = (tmp_path / "out/api/autograd.py_docs.html").read_text(encoding="utf-8")
    assert "class DifferentiabilityInfo" in page
    assert "torchgen.api.autograd" in page
