"""Rules for blocks in the tables of operators: all of them exist, and wrong ones are refused."""

from __future__ import annotations

import pytest

from pullback._generated.dask_rules import DASK_RULES
from pullback.codegen.load_ops import read_ops
from pullback.codegen.load_yaml import parse_yaml
from pullback.codegen.native import DASK_RULES as WORDS
from pullback.errors import CodegenError


def test_every_rule_of_the_tables_can_be_made():
    pytest.importorskip("dask", reason="needs dask")
    rules = __import__("pullback.dask.rules", fromlist=["make_rule"])
    assert len(DASK_RULES) > 120
    for words in DASK_RULES.values():
        assert callable(rules.make_rule(words))
    assert set(WORDS) == {*rules._WORDS, *rules._WITH_ARGUMENTS}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("alogn(axis)", "unknown rule 'alogn'.*along"),
        ("along(axes)", "has no argument 'axes'.*axis"),
        ("along(axis", "is no rule for 'Dask'"),
        ("along axis", "is no rule for 'Dask'"),
    ],
)
def test_wrong_rules_are_refused(rule, message):
    table = f"""
- func: turn(Tensor self, int axis=-1) -> Tensor
  doc: Turns.
  dispatch: {{CPU: numpy.sort, Dask: {rule}}}
  derivatives: {{self: non_differentiable}}
"""
    with pytest.raises(CodegenError, match=message):
        read_ops([parse_yaml(table)])
