"""The page that lists all operators says what compiled programs do with each of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

import compiled_operators


def test_the_page_is_up_to_date():
    """In a process of its own: tests load further operators."""
    command = [sys.executable, compiled_operators.__file__, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_outdated_page_is_found(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compiled_operators, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(sys, "argv", ["compiled_operators.py", "--check"])
    assert compiled_operators.main() == 1
    assert "out of date" in capsys.readouterr().err


X = np.array([[1.5, 0.5], [0.25, 2.0]])


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sin", pb.sin),
        ("sum", lambda x: x.sum(0)),
        ("matmul", lambda x: x @ x),
        ("permute_dims", lambda x: pb.permute_dims(x, (1, 0)) * 2),
        ("cumsum", lambda x: pb.cumsum(x, 0)),
        ("linalg_inv", lambda x: pb.linalg.inv(x)),
        ("sort", lambda x: pb.sort(x)),
    ],
)
def test_the_page_says_what_explain_says(name, function):
    by_name = {str(o.name()).partition("::")[2]: o for o in compiled_operators.operators()}
    kind, _ = compiled_operators.kind_of(by_name[name])
    is_opaque = "opaque: " in pb.compile(function, backend="eager").explain(X)
    assert kind == ("opaque" if is_opaque else "compiled")
