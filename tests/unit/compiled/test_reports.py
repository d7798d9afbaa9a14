"""Looking inside: explain, report, the command compile-report, and progress."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

import pullback as pb
from pullback.compiled import progress
from pullback.compiled.report import record_functions


def branching(x, n):
    y = pb.linalg.solve(x @ x.T + pb.eye(3), pb.sin(x)) * n
    return y.sum() if y.sum() > 0 else y


def test_explain_names_segments_opaque_operators_guards_and_memory():
    function = pb.compile(branching, backend="eager")
    function(np.ones((3, 3)), 2.0)
    function(-np.ones((3, 3)), 2.0)
    text = function.explain(np.ones((3, 3)), 2.0)
    assert text.startswith("branching: 2 graph(s), backend eager")
    assert "2 segment(s): " in text
    assert "1 matmul" in text
    assert "opaque: linalg_solve.default: no lowering" in text
    assert "bytes of intermediate values" in text
    assert text.count("guard: bool() was ") == 2
    assert "test_reports.py" in text
    assert "trace 1: arguments float64[3, 3], float" in text
    assert "trace 2: another value at a guard, such as bool()" in text
    assert text.endswith("2 traces, 0 hits, 0 eager, 0 changes")


def test_explain_says_why_a_function_is_called_as_it_is():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    w.register_hook(lambda grad: grad)
    function = pb.compile(lambda x: x * w, backend="eager")
    with pytest.warns(UserWarning, match="cannot be one graph"):
        function(np.ones(2))
    reason = "called as it is: a captured tensor that requires grad has hooks"
    assert reason in function.explain(np.ones(2))
    assert reason in function.report()


def test_a_report_has_all_signatures():
    function = pb.compile(lambda x, flag: x * 2 if flag else x, backend="eager")
    function(np.ones(2), "yes")
    function(np.ones((2, 3), np.float32), "yes")
    report = function.report()
    assert report.startswith("2 signature(s), backend eager")
    assert "arguments float64[2], 'yes':" in report
    assert "arguments float32[2, 3], 'yes':" in report


def test_intermediate_values_count_while_they_are_needed():
    chain = pb.compile(lambda x: pb.sin(pb.sin(pb.sin(x))) * 2, backend="eager")
    wide = pb.compile(lambda x: pb.sin(x) + pb.cos(x) + pb.exp(x), backend="eager")
    x = np.ones(1000)
    assert "at most 16000 bytes" in chain.explain(x)
    assert "at most 24000 bytes" in wide.explain(x)


def test_functions_are_recorded_only_in_a_block():
    with record_functions() as found:
        inside = pb.compile(lambda x: x, backend="eager")
    pb.compile(lambda x: x + 1, backend="eager")
    assert found == [inside]


SCRIPT = """
import sys
import numpy as np
import pullback as pb

@pb.compile(backend="eager")
def double(x):
    return x * 2

unused = pb.compile(lambda x: x, backend="eager")
double(np.ones(2))
print(sys.argv[1:], __name__)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 3])
def test_the_command_reports_about_a_script(tmp_path, code):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "pullback", "compile-report", str(path), str(code), "--flag"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(f"['{code}', '--flag'] __main__\n")
    assert "compile-report: 2 compiled function(s)" in done.stdout
    assert f"double ({path}:6)" in done.stdout
    assert "1 segment(s): 1 elementwise" in done.stdout
    assert f"<lambda> ({path}:10)\n  never called" in done.stdout


ENDS = {
    "raise KeyError('boom')": (1, "KeyError: 'boom'"),
    "sys.exit('a message')": (1, "a message"),
    "raise KeyboardInterrupt": (130, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_module", [False, True])
def test_the_command_reports_about_a_script_however_it_ends(tmp_path, end, is_module):
    (tmp_path / "beside.py").write_text("FACTOR = 2", encoding="utf-8")
    text = SCRIPT.replace("import sys", "import sys, beside").replace(
        "sys.exit(int(sys.argv[1]))", end
    )
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    given = ["-m", "script"] if is_module else [str(tmp_path / "script.py")]
    command = [sys.executable, "-m", "pullback", "compile-report", *given, "-m", "--flag"]
    folder = tmp_path if is_module else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    code, message = ENDS[end]
    # Python ends itself by the signal where a program ends with KeyboardInterrupt.
    assert done.returncode in (code, -2 if code == 130 else code), done.stderr
    assert message in done.stderr
    assert done.stdout.startswith("['-m', '--flag'] __main__\n")
    assert "compile-report: 2 compiled function(s)" in done.stdout


def test_the_command_names_a_file_that_is_not_there():
    command = [sys.executable, "-m", "pullback", "compile-report", "nowhere.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no file nowhere.py" in done.stderr


def slow(x):
    time.sleep(0.2)
    return x * 2


def test_progress_of_a_long_first_call(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_DELAY", 0.05)
    monkeypatch.setattr(progress, "_INTERVAL", 0.05)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PULLBACK_PROGRESS", "1")
    function = pb.compile(slow, backend="eager")
    function(np.ones(2))
    shown = capsys.readouterr().err
    assert "compile slow: tracing, " in shown
    assert "compile slow: done, " in shown
    function(np.ones(2))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PULLBACK_PROGRESS", "0")
    pb.compile(slow, backend="eager")(np.ones(2))
    assert capsys.readouterr().err == ""


def test_no_progress_of_a_short_first_call_or_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("PULLBACK_PROGRESS", "1")
    pb.compile(lambda x: x * 2, backend="eager")(np.ones(2))
    monkeypatch.delenv("PULLBACK_PROGRESS")
    monkeypatch.setattr(progress, "_DELAY", 0.01)
    pb.compile(slow, backend="eager")(np.ones(2))
    assert capsys.readouterr().err == ""


def test_progress_with_tqdm(monkeypatch, capsys):
    pytest.importorskip("tqdm", reason="shows a bar of tqdm's")
    monkeypatch.setattr(progress, "_DELAY", 0.05)
    monkeypatch.setenv("PULLBACK_PROGRESS", "1")
    pb.compile(slow, backend="eager")(np.ones(2))
    assert "compile slow: tracing" in capsys.readouterr().err
