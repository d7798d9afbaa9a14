"""Statistics of tables, and the command that prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.torchgen import load_tables, make_report
from tools.torchgen.cli import main

HERE = Path(__file__).parent
NATIVE, DERIVATIVES = str(HERE / "worked_native.yaml"), str(HERE / "worked_derivatives.yaml")
TWO_FILES = ["report", "--native-functions", NATIVE, "--derivatives", DERIVATIVES]


@pytest.fixture(scope="module")
def rows():
    return {row.label: row.counts for row in make_report(load_tables(NATIVE, DERIVATIVES)).rows}


@pytest.mark.parametrize(
    ("label", "counts"),
    [
        (
            "entries",
            {"entries": 13, "view copies": 1, "infos": 14, "view groups": 1, "with a copy": 1},
        ),
        ("sections", {"per-key entries": 1, "Default": 13, "AutogradNestedTensor": 1}),
        ("output flags", {"entries": 2, "all False": 0, "conditions": 1}),
        ("functions", {"declared": 22, "all": 22}),
        ("step 1, exact", {"functions": 14}),
        ("step 2, signature", {"functions": 5, "out": 2, "inplace": 3}),
        (
            "step 4, foreach",
            {
                "functions": 3,
                "made": 2,
                "in-place reuse": 1,
                "without reference": 0,
                "explicit": 0,
            },
        ),
        ("matched", {"functions": 22, "exact": 16, "with forward": 19}),
        (
            "backward formulas",
            {"formulas": 15, "multi-name": 1, "not_implemented": 0, "non_differentiable": 2},
        ),
        ("special words", {"grad_input_mask": 1, "retain_variables": 0, "wrap_opt_if": 0}),
        (
            "forward formulas",
            {
                "formulas": 11,
                "entries": 11,
                "explicit": 4,
                "auto_linear": 5,
                "auto_element_wise": 2,
                "multi-name": 1,
            },
        ),
        ("gradient style", {"grad": 14, "grads": 0, "named": 1, "none": 0}),
        ("in-place forward", {"copy_": 3, "direct": 1, "need original self": 2}),
    ],
)
def test_counts(rows, label, counts):
    assert rows[label] == counts


def test_coverage_by_kind():
    report = make_report(load_tables(NATIVE, DERIVATIVES))
    by_kind = {row.kind: (row.functions, row.backward, row.forward) for row in report.coverage}

    assert by_kind["inplace"] == (4, 4, 4)
    assert by_kind["all"] == (22, 22, 19)


def test_the_command_prints_the_table(capsys):
    assert main(TWO_FILES) == 0

    out = capsys.readouterr().out
    assert "entries               entries 13, view copies 1, infos 14" in out
    assert "all                           22        22 100.0%        19  86.4%" in out


def test_the_command_reads_tables_of_our_own_form(capsys):
    assert main(["report", "--ops", str(HERE.parent / "codegen/sample_ops.yaml")]) == 0
    assert "declared 15" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "--native-functions", NATIVE],
        ["report"],
        [*TWO_FILES, "--ops", NATIVE],
        ["report", "--native-functions", DERIVATIVES, "--derivatives", NATIVE],
        ["report", "--native-functions", str(HERE), "--derivatives", NATIVE],
        ["report", "--ops", "no-such-file.yaml"],
        [*TWO_FILES, "--tags", NATIVE],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments):
    assert main(arguments) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["reprot"])

    assert caught.value.code == 2
    assert "reprot" in capsys.readouterr().err
