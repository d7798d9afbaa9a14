"""All operator records on dask arrays in two chunkings, against the same calls on arrays."""

from __future__ import annotations

import pytest

pytest.importorskip("dask", reason="needs dask")
from tests.dask.records import CHUNKINGS, check_record
from tests.samples import OPS

PARALLEL_FUNCTIONS = 280
SAMPLED = 20  # every twentieth record runs in the default tests
PARTS = 4


# Functions made of operators, and the operator that refuses.
REFUSED_BY = {
    "compress": "flatnonzero",
    "extract": "flatnonzero",
    "index_put": "index",
    "nonzero": "argwhere",
    "Tensor.masked_select": "index",
}
REASONS = ("depends on values", "random numbers", "whose values are not computed")


def _check_refusal(name: str, text: str) -> None:
    """A refusal begins with the operator's name and has a reason."""
    operator = REFUSED_BY.get(name, name.rpartition(".")[2])
    assert text.startswith(f"{operator}: "), text
    assert any(reason in text for reason in REASONS), text


@pytest.mark.parametrize("name", ["piecewise", "delete", "nn.functional.dropout", "compress"])
def test_refusals_name_operator_and_reason(name):
    info = next(info for info in OPS if info.name == name)
    outcome = check_record(info, "halves")
    assert outcome.refusals
    for text in outcome.refusals:
        _check_refusal(name, text)


@pytest.mark.parametrize("info", OPS[::SAMPLED], ids=lambda info: info.name)
def test_sampled_records(info):
    for chunking in CHUNKINGS:
        outcome = check_record(info, chunking)
        assert not outcome.wrong, outcome.wrong
        assert outcome.compared or outcome.refusals


@pytest.mark.parametrize("name", ["linalg.inv", "matmul", "einsum", "sum", "exp"])
def test_complex_records(name):
    info = next(info for info in OPS if info.name == name)
    outcome = check_record(info, "halves", is_complex=True)
    assert not outcome.wrong, outcome.wrong


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_records(part):
    """No wrong value, nothing computed while the graph is built, refusals with a reason."""
    parallel = 0
    for number, info in enumerate(OPS[part::PARTS]):
        outcome = check_record(info, CHUNKINGS[number % 2])
        assert not outcome.wrong, outcome.wrong
        parallel += outcome.parallel > 0
        for text in outcome.refusals:
            _check_refusal(info.name, text)
    assert parallel >= PARALLEL_FUNCTIONS / PARTS
