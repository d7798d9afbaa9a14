"""HTML forms of objects: contents, escaping, and that texts stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.cli import main
from pullback.inspector import html_repr
from pullback.library import custom_op, opcheck


def test_tensors_show_values_history_and_a_picture():
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    text = (x * 2)._repr_html_()
    assert "MulBackward0" in text
    assert "<polyline" in text
    assert "tensor([2., 4., 6.]" in text
    assert "<rect" in pb.ones((3, 4))._repr_html_()
    assert "a leaf" in x._repr_html_()
    assert repr(x) == "tensor([1., 2., 3.], requires_grad=True)"


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0),
        np.zeros((0, 3)),
        np.array(1.0),
        np.array([np.nan, np.inf, 1.0]),
        np.full((2, 2), np.nan),
        np.array([1e308, -1e308]),
        np.arange(5000.0),
        np.ones((100, 90)),
        np.ones((2, 2, 2)),
        np.array([True, False]),
        np.array([1 + 2j, 3.0]),
        np.array([2, 3], dtype=np.uint8),
    ],
)
def test_every_kind_of_tensor_has_a_form(values):
    text = pb.asarray(values)._repr_html_()
    assert text.startswith("<table")
    assert len(text) < 60_000
    assert "nan," not in text.partition("<pre")[0]


def test_values_that_are_not_finite_are_marked():
    assert html_repr.sparkline(np.array([1.0, np.nan])).count("<circle") == 1
    assert "#d33" in html_repr.heat_map(np.array([[1.0, np.inf]]))


def test_tensors_without_data_have_a_form():
    assert "meta" in pb.empty((2, 3), device="meta")._repr_html_()


def test_nodes_and_operators_have_a_form():
    x = pb.tensor([1.0], requires_grad=True)
    node = (x * 2).grad_fn
    assert "pullback::mul" in node._repr_html_()
    assert "AccumulateGrad" in node._repr_html_()
    operator = pb.ops.pullback.mul.default
    assert "mul(Tensor self, Tensor other) -&gt; Tensor" in operator._repr_html_()
    assert "AutogradCPU" in operator._repr_html_()
    assert "<td>CPU</td>" in operator.dispatch_table()._repr_html_()
    assert "<td>out</td>" in pb.ops.pullback.mul._repr_html_()


def test_custom_operators_and_demonstrated_tables_have_a_form():
    @pb.library.custom_op("test_html::f", mutates_args=())
    def f(x: pb.Tensor) -> pb.Tensor:
        return x.clone()

    assert "test_html::f(Tensor x)" in f._repr_html_()
    f._destroy()
    dispatcher = pb.dispatch.PythonDispatcher()
    dispatcher.register(["CPU"])
    assert "<td>CPU</td>" in dispatcher._repr_html_()


def test_reports_and_failures_have_a_form():
    def cube(x: pb.Tensor) -> pb.Tensor:
        return pb.asarray(x.numpy() ** 3)

    operator = custom_op("inspected::cube", cube, mutates_args=())
    try:
        report = opcheck(operator, (pb.tensor([1.0]),), raise_exception=False)
    finally:
        operator._destroy()
    text = report._repr_html_()
    assert "inspected::cube" in text
    assert all(row.test in text for row in report.rows)
    error = pb.autograd.GradcheckError("mismatch <b>\nnumerical: 1")
    form = error._repr_html_()
    assert form.startswith(
        "<b>GradcheckError</b>: mismatch &lt;b&gt;<pre>numerical: 1\nSee https://"
    )


def test_compiled_functions_and_programs_have_a_form():
    compiled = pb.compile(lambda x: pb.sin(x))
    compiled(pb.tensor([1.0]))
    assert "sin" in compiled._repr_html_()
    assert "placeholder" in compiled.fx_graphs()[0]._repr_html_()


def test_sparse_patterns_are_drawn_in_the_colors_of_a_coloring():
    sparse = pytest.importorskip("scipy.sparse")
    pattern = sparse.eye_array(5, format="csr", dtype=bool)
    coloring = pb.sparse.color_jacobian(pattern)
    text = coloring.picture(pattern)._repr_html_()
    assert text.count("<rect") == 5
    assert "5 entries, 1 colors" in text
    assert "<td>1</td>" in coloring._repr_html_()


def test_texts_are_escaped():
    assert html_repr.table_html(["<a>"], [["<b>"]], "<c>").count("&lt;") == 3


# --- the command line -----------------------------------------------------------------------------

SCRIPT = """
import sys
import pullback as pb
x = pb.tensor([1.0, float(sys.argv[1])], requires_grad=True)
y = pb.sin(x).sum()
y.backward()
"""


def test_a_script_is_inspected(tmp_path, capsys, monkeypatch):
    (tmp_path / "script.py").write_text(SCRIPT)
    out = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "script.py"), "--out", str(out), "--", "2.0"]) == 0
    assert "wrote" in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert "SinBackward0" in page
    assert "script.py:5" in page
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", "script.py", "--", "2.0"]) == 0
    assert (tmp_path / "inspect.html").is_file()


def test_scripts_that_fail_or_leave_nothing_are_reported(tmp_path, capsys):
    script = tmp_path / "script.py"
    assert main(["inspect", str(script)]) == 2
    assert "there is no file" in capsys.readouterr().err
    script.write_text("raise ValueError('mine')")
    assert main(["inspect", str(script)]) == 1
    assert "ValueError: mine" in capsys.readouterr().err
    script.write_text("x = 1")
    assert main(["inspect", str(script)]) == 2
    assert "no tensor with a history" in capsys.readouterr().err


def test_a_page_without_a_folder_is_refused_before_the_script_runs(tmp_path, capsys):
    (tmp_path / "script.py").write_text("raise SystemExit(9)")
    out = str(tmp_path / "nowhere/page.html")
    assert main(["inspect", str(tmp_path / "script.py"), "--out", out]) == 2
    assert "there is no folder for --out" in capsys.readouterr().err


def test_dispatch_tables_are_pages(capsys):
    assert main(["dispatch", "CPU", "--html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert "fn_CPU [kernel]" in page
