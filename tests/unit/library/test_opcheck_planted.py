"""``opcheck`` on the corpus: planted mistakes are found and explained, correct operators pass."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pullback.dispatch.stock import forget_operators
from pullback.library import opcheck
from tests.unit.library.planted import (
    authors,
    blind,
    correct,
    cotangents,
    derived,
    dtypes,
    explained,
    general,
    inplace,
    memory,
    numerics,
    precision,
    scale,
    state,
    transforms,
)

FAMILIES = (
    scale,
    cotangents,
    memory,
    numerics,
    precision,
    state,
    dtypes,
    explained,
    inplace,
    transforms,
    general,
    correct,
    derived,
    authors,
    blind,
)
ENTRIES = [
    pytest.param(entry, id=f"{family.__name__.rpartition('.')[2]}-{entry.name}")
    for family in FAMILIES
    for entry in family.ENTRIES
]


@pytest.fixture
def report(entry, ns, lib):
    op = entry.build(ns, lib)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield opcheck(
            op, entry.args(), entry.kwargs, raise_exception=False, derive=entry.needs_derived_calls
        )
    forget_operators(ns)


@pytest.mark.parametrize("entry", [p for p in ENTRIES if p.values[0].is_mistake])
def test_the_planted_mistake_is_found_and_explained(entry, report):
    failed = {row.test: str(row.error) for row in report.failures}
    assert entry.test in failed, str(report)
    assert entry.words in failed[entry.test], str(report)


@pytest.mark.parametrize("entry", [p for p in ENTRIES if not p.values[0].is_mistake])
def test_the_correct_operator_passes(entry, report):
    assert not report.failures, str(report)


def test_the_corpus_has_three_variants_of_every_family():
    assert sum(p.values[0].is_mistake for p in ENTRIES) >= 275
    assert sum(not p.values[0].is_mistake for p in ENTRIES) >= 120
