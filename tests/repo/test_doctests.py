"""The examples in docstrings run, and so do the Python blocks of the README."""

from __future__ import annotations

import doctest
import importlib.util
import re

import pytest

from pullback.library.custom_op import CUSTOM_OPS

ON_DEMAND = "pullback._generated.scipy_special"
OPTIONAL = {"pullback.sparse": "scipy", "pullback.dask": "dask"}  # what examples need beside NumPy

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The Python blocks of a Markdown text, each with the number of lines before it."""
    return [(text.count("\n", 0, m.start(1)), m.group(1)) for m in PYTHON_BLOCK.finditer(text)]


def run_blocks(text: str, name: str) -> int:
    """Run the blocks in one namespace, those with prompts as doctests; return how many ran."""
    blocks, names = python_blocks(text), {"__name__": "__main__"}
    for line, block in blocks:
        if ">>>" in block:
            example = doctest.DocTestParser().get_doctest(block, names, name, name, line)
            doctest.DebugRunner().run(example, clear_globs=False)
            names = example.globs
        else:
            exec(compile("\n" * line + block, name, "exec"), names)
    return len(blocks)


def test_docstring_examples_hold(package_files, tool_files):
    attempted, before = 0, set(CUSTOM_OPS)
    for name in (*package_files, *tool_files):
        needed = next((p for part, p in OPTIONAL.items() if name.startswith(part)), "numpy")
        if importlib.util.find_spec(needed) is None:
            continue
        # Importing the first would run it, the second needs SciPy and registers its operators.
        if not name.endswith("__main__") and not name.startswith(ON_DEMAND):
            result = doctest.testmod(importlib.import_module(name))
            assert result.failed == 0, f"{name}: see the doctest report above"
            attempted += result.attempted
            for made in set(CUSTOM_OPS) - before:  # which last as long as the process, unless ended
                CUSTOM_OPS[made]._destroy()
    assert attempted > 0


def test_readme_examples_hold(root):
    before = set(CUSTOM_OPS)
    assert run_blocks((root / "README.md").read_text(encoding="utf-8"), "README.md") > 0
    for name in set(CUSTOM_OPS) - before:  # which last as long as the process, unless ended
        CUSTOM_OPS[name]._destroy()


@pytest.mark.parametrize(
    "name",
    [
        "transforms",
        "checking",
        "checkpointing",
        "compile",
        "dispatcher",
        "distributed",
        "guarantees",
        "hogwild",
        "interception",
        "loops",
        "migration",
        "modules",
        "nan_traps",
        "tracing",
        "vmap",
    ],
)
def test_examples_of_the_pages_hold(root, name):
    if name == "interception":
        pytest.importorskip("scipy", reason="pip install scipy runs these tests")
    if name == "distributed":
        for package in ("distributed", "scipy", "cloudpickle"):
            pytest.importorskip(package, reason="pip install 'pullback[dask]' runs these tests")
    page = root / f"docs/{name}.md"
    assert run_blocks(page.read_text(encoding="utf-8"), page.name) > 0


def test_a_wrong_example_is_caught():
    plain, prompt = "```python\nx = 1\n```\n", "```python\n>>> x + 1\n{}\n```\n"
    assert run_blocks(plain + prompt.format(2), "page") == 2
    with pytest.raises(doctest.DocTestFailure):
        run_blocks(plain + prompt.format(3), "page")
    with pytest.raises(ZeroDivisionError):
        run_blocks("```python\n1 / 0\n```\n", "page")
