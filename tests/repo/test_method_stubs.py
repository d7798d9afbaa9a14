"""The types of attached tensor methods are those of the methods themselves."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "method_stubs.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("method_stubs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_stub_is_what_the_methods_say():
    """In a process of its own: modules that are loaded later attach more."""
    checked = [sys.executable, str(SCRIPT), "--check"]
    done = subprocess.run(checked, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr


def test_another_stub_is_refused_and_written_anew(script, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(script, "TARGET", tmp_path / "attached_methods.pyi")
    script.TARGET.write_text("class AttachedMethods: ...\n")
    monkeypatch.setattr(sys, "argv", ["method_stubs.py", "--check"])
    assert script.main() == 1
    assert "run scripts/method_stubs.py" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["method_stubs.py"])
    assert script.main() == 0
    assert "    def detach(self) -> Tensor: ...\n" in script.TARGET.read_text()


def test_signatures_keep_kinds_and_defaults(script):
    def method(self: Tensor, a: int, /, b: Unknown = 2, *rest: Any, c=None, d: str = "x"):  # noqa: F821 - read as text
        raise NotImplementedError

    text = script.signature(method)
    assert text == (
        "(self, a: int, /, b: Any = 2, *rest: Any, c: ArrayLike | None = None, d: str = 'x') "
        "-> Tensor"
    )
    wanted = inspect.signature(method).parameters.values()
    made = {}
    exec(f"def made{text}: ...", dict.fromkeys(("Tensor", "Any"), int) | {"ArrayLike": int}, made)
    parameters = inspect.signature(made["made"]).parameters.values()
    assert [p.kind for p in wanted] == [p.kind for p in parameters]
