"""The command line: exit codes, and what goes to which stream."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pullback.cli import main
from pullback.cli.demo import run_demo


def test_dispatch_prints_the_table(capsys):
    assert main(["dispatch", "CPU"]) == 0
    assert "CPU             fn_CPU [kernel]" in capsys.readouterr().out


@pytest.mark.parametrize(("key", "shown"), [("GPU", "GPU"), ("C\nPU\x1b", "C\\nPU\\x1b")])
def test_a_wrong_key_is_one_line_on_stderr(capsys, key, shown):
    assert main(["dispatch", "CPU", key]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pullback dispatch: {shown} is not supported")
    assert len(err.splitlines()) == 1


def test_the_commands_do_without_docstrings_and_assertions():
    command = [sys.executable, "-OO", "-m", "pullback", "dispatch", "CPU"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fn_CPU" in done.stdout


def test_a_reader_that_leaves_early_gets_no_traceback():
    command = [sys.executable, "-m", "pullback", "dispatch", "CPU"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(20) == 1


def test_the_demo_shows_where_its_own_kernels_are_registered(capsys):
    run_demo()
    assert f"registered at {run_demo.__code__.co_filename}:" in capsys.readouterr().out
