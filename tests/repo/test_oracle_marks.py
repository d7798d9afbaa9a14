"""A test file that imports torch is marked `oracle`, or CI would never run it with torch."""

from __future__ import annotations

import re

IMPORTS_TORCH = re.compile(r"""^\s*(?:import|from) torch\b|importorskip\(["']torch""", re.MULTILINE)


def unmarked(source: str) -> bool:
    return bool(IMPORTS_TORCH.search(source)) and "mark.oracle" not in source


def test_files_that_import_torch_are_marked(code):
    tests = {p: t for p, t in code.items() if p.startswith("tests/") and p != "tests/conftest.py"}
    assert [path for path, text in tests.items() if unmarked(text)] == []


def test_an_unmarked_file_is_caught():
    for statement in ("import torch", "    from torch import nn", "t = x.importorskip('torch')"):
        assert unmarked(f"{statement}\n")
        assert not unmarked(f"{statement}\npytestmark = pytest.mark.oracle\n")
