"""Calls of ``conj`` that cancel in forward formulas: what is left, and that the values stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pullback
from pullback.codegen.emit.conjugates import cancel_conjugates
from pullback.codegen.emit.files import generate
from pullback.codegen.load_ops import load_ops
from pullback.operators.nn.activation import kernels as nn_activation

TABLES = sorted((Path(pullback.__file__).parent / "operators").rglob("table.yaml"))


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("conj(conj(t) * conj(y))", "t * y"),
        ("conj(-conj(t) * conj(sin(x)))", "-t * sin(x)"),
        ("conj(conj(t) / (conj(x) * 2.5))", "t / (x * 2.5)"),
        ("conj((conj(t) - conj(t) * conj(y)) * conj(y))", "(t - t * y) * y"),
    ],
)
def test_conj_passes_arithmetic_and_cancels_itself(formula, expected):
    assert cancel_conjugates(formula) == expected


def test_conj_stays_around_what_it_cannot_pass():
    assert cancel_conjugates("conj(helper(conj(t), y))") == "conj(helper(conj(t), y))"
    assert cancel_conjugates("conj(conj(t) ** 2)") == "conj(conj(t) ** 2)"
    assert cancel_conjugates("conj(conj(t) * 2j)") == "t * conj(2j)"
    assert cancel_conjugates("conj(x.real)") == "conj(x.real)"


def test_conj_goes_around_a_whole_rather_than_around_several_parts():
    assert cancel_conjugates("conj(conj(t) * (x * f(x)))") == "t * conj(x * f(x))"
    assert cancel_conjugates("conj(x * y)") == "conj(x * y)"


def test_conj_of_what_is_real_is_left_out():
    assert cancel_conjugates("conj(conj(t) / (1 + abs(x)))") == "t / (1 + abs(x))"
    assert cancel_conjugates("conj(conj(t) * scale * x)", {"scale"}) == "t * scale * conj(x)"
    assert cancel_conjugates("conj(conj(t) * scale)") == "t * conj(scale)"


def test_conj_passes_a_choice_between_elements():
    assert cancel_conjugates("conj(where(x > 0, conj(t), 2 * conj(t)))") == (
        "where(x > 0, t, 2 * t)"
    )
    assert cancel_conjugates("conj(_pass_above(conj(t), x, 0.0) / 6)") == (
        "_pass_above(t, x, 0.0) / 6"
    )
    by_keyword = "conj(where(x > 0, conj(t), other=conj(t)))"
    assert cancel_conjugates(by_keyword) == by_keyword


def test_formulas_without_conj_around_them_are_kept():
    assert cancel_conjugates("conj(t)*y") == "conj(t)*y"


def _forward_formulas() -> dict[str, str]:
    return {
        str(matched.func.func.name): forward.formula
        for table in TABLES
        for matched in load_ops(table).match()
        if matched.info
        for forward in matched.info["Default"].forward_derivatives
        if forward.original_formula == "auto_element_wise"
    }


class _Names(dict):
    """Complex values for the names of a formula, and functions that conjugation does not pass."""

    def __init__(self, formula, known):
        super().__init__(known)
        self.formula = formula

    def __missing__(self, name):
        a, b, c, d = np.random.default_rng(sum(map(ord, name))).normal(size=(4, 5))
        if f"{name}(" not in self.formula:
            return a + 1j * b
        return lambda *args, **_: sum(
            (a + 1j * b) * x + (c + 1j * d) * np.conj(x) for x in args if not isinstance(x, str)
        )


def test_no_formula_of_the_tables_changes_its_value():
    formulas = _forward_formulas()
    assert len(formulas) > 100
    real = {"input_scale": 3.0, "negative_slope": 0.3}
    known = {"conj": np.conj, "where": np.where, "abs": np.abs, **real}
    for way in ("above", "between", "leaky", "outside"):
        known[f"_pass_{way}"] = getattr(nn_activation, f"pass_{way}")
    for name, formula in formulas.items():
        shorter = cancel_conjugates(formula, real)
        names = _Names(formula, known)
        values = [eval(text, {"__builtins__": {}}, names) for text in (formula, shorter)]
        np.testing.assert_allclose(*values, rtol=1e-14, err_msg=name)
        assert shorter.count("conj(") < formula.count("conj(") or shorter == formula, name


def test_emitted_formulas_are_shorter_and_those_of_the_model_are_not(tmp_path):
    table = tmp_path / "mine.yaml"
    table.write_text("""
- func: fast_exp(Tensor self, float scale, Scalar shift=0) -> Tensor
  doc: Raises e to each element.
  dispatch: {CPU: mine.kernels.exp}
  derivatives:
    self: grad * conj(result) * scale * shift
    result: auto_element_wise
""")
    (matched,) = load_ops(table).match()
    (forward,) = matched.info["Default"].forward_derivatives
    assert forward.formula == "conj(conj(self_t) * conj(result) * scale * shift)"
    source = generate([table], namespace="mine")["kernels_mine.py"]
    assert "    return self_t * result * scale * xp.conj(shift)\n" in source
