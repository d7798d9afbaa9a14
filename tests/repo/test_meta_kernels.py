"""Every operator of the tables knows the shape of its result."""

from __future__ import annotations

import json
from pathlib import Path

import pullback
from pullback.codegen.native import META_RULES
from pullback.meta import RULES

# Operators whose shape depends on values: they say so, and nothing else may.
DATA_DEPENDENT = {
    "argwhere",
    "bincount",
    "flatnonzero",
    "unique_all",
    "unique_dim",
    "unique_counts",
    "unique_inverse",
    "unique_values",
}


def _kernels() -> dict[str, dict[str, str]]:
    path = Path(pullback.__file__).parent / "_generated" / "catalogue.json"
    records = json.loads(path.read_text(encoding="utf-8"))
    return {record["name"].removeprefix("pullback::"): record["kernels"] for record in records}


def test_every_operator_has_a_meta_kernel_or_is_made_of_others():
    missing = [
        name
        for name, kernels in _kernels().items()
        if "Meta" not in kernels and "CompositeImplicitAutograd" not in kernels
    ]
    assert missing == []


def test_only_known_operators_depend_on_values():
    found = {
        name for name, kernels in _kernels().items() if kernels.get("Meta") == "data_dependent"
    }
    assert found == DATA_DEPENDENT


def test_generator_lists_the_rules_that_exist():
    assert set(META_RULES) == set(RULES)
