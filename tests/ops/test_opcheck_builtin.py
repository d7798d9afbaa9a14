"""``opcheck`` passes on every operator of the tables: called as the records' functions call it."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.errors import BindError
from pullback.library import opcheck
from pullback.library.checks.case import Case
from pullback.library.checks.interception import watching
from pullback.testing.opinfo import Make
from pullback.testing.samples import OPS

# NumPy decides by the values what these return, so there is nothing to say without them.
BY_VALUE = {
    "pullback::linalg_eig": {"test_faketensor"},
    "pullback::linalg_eigvals": {"test_faketensor"},
    "pullback::put": {"test_faketensor", "test_aot_dispatch"},
    "pullback::histogram": {"test_faketensor", "test_aot_dispatch"},
}
FAMILIES = 8  # the operators are dealt out to so many tests, so that they can run side by side


def tensor(value):
    """A sample's value with arrays as tensors; those of numbers with a fraction require grad."""
    if isinstance(value, np.ndarray):
        return pb.tensor(value, requires_grad=value.dtype.kind in "fc")
    if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(map(tensor, value))
    return value


def kept(value):
    """A copy of an operator's argument, which a kernel may write to later."""
    if isinstance(value, pb.Tensor):
        return pb.tensor(np.array(value._array), requires_grad=value.requires_grad)
    if isinstance(value, list):
        return [kept(item) for item in value]
    return value


def rank(args, kwargs):
    """How well a call suits a check: it should have elements and gradients, and be small."""
    values = [*args, *kwargs.values()]
    flat = [t for v in values for t in (v if isinstance(v, list) else [v])]
    tensors = [t for t in flat if isinstance(t, pb.Tensor)]
    size = sum(t.size for t in tensors)
    return (any(t.size == 0 for t in tensors), not any(t.requires_grad for t in tensors), size)


@pytest.fixture(scope="module")
def calls():
    """For every operator that a record reaches, also inside of others, its most telling call."""
    best = {}

    def seen(op, args, kwargs, run):
        now = rank(args, kwargs)
        if op.name() not in best or now < best[op.name()][0]:
            try:
                Case(op, args, kwargs)
            except BindError:  # a function may accept more than the operator's schema says
                return run()
            best[op.name()] = (
                now,
                op,
                tuple(map(kept, args)),
                {k: kept(v) for k, v in kwargs.items()},
            )
        return run()

    with warnings.catch_warnings(), watching(seen, inside=True), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for op in OPS:
            function = operator.attrgetter(op.name)(pb)
            for sample in op.samples(Make(0)):
                function(
                    *map(tensor, sample.args), **{k: tensor(v) for k, v in sample.kwargs.items()}
                )
    return best


@pytest.mark.parametrize("family", range(FAMILIES))
def test_every_operator_passes(calls, family):
    failed = []
    for name in sorted(calls)[family::FAMILIES]:
        _, op, args, kwargs = calls[name]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            report = opcheck(op, args, kwargs, raise_exception=False)
        if {row.test for row in report.failures} != BY_VALUE.get(name, set()):
            failed.append(str(report))
    assert not failed, "\n\n".join(failed)


def test_nearly_all_operators_are_reached(calls):
    assert len(calls) >= 390
