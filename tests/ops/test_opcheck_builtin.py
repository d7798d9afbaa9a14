"""``opcheck`` passes on every operator of the tables: called as the records' functions call it.

In-place, ``out`` and ``_foreach`` variants are called like the operator that they come from.
"""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback._generated import operators
from pullback.dispatch.table import ENTRIES, OperatorEntry
from pullback.errors import BindError
from pullback.library import opcheck
from pullback.library.checks.case import Case
from pullback.library.checks.interception import watching
from tests.samples import OPS
from tests.samples.opinfo import Make

# Inside of vmap, of other operators' forward rules, or without tensors.
UNREACHED = {
    *["_add_level", "_elu_curve", "_expand_level", "_plane_gather", "_remove_level", "_sum_level"],
    *["_random_like", "_uniform_like", "arange", "as_strided", "empty", "eye", "full", "ones"],
    "tri",
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

    x = pb.tensor([1.0, 2.0])
    with warnings.catch_warnings(), watching(seen, inside=True), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        x.copy_(x + 1), x.fill_(2.0), x.zero_()  # no function of ours has these variants
        for op in OPS:
            function = operator.attrgetter(op.name)(pb)
            for number, sample in enumerate(op.samples(Make(0))):
                args = tuple(map(tensor, sample.args))
                kwargs = {k: tensor(v) for k, v in sample.kwargs.items()}
                result = function(*args, **kwargs)
                if number == 0 and op.differentiable:
                    differentiate([*args, *kwargs.values()], result)
    return best


def differentiate(inputs, result):
    """Runs the formulas as operators, some of which only they call."""
    leaves = [t for t in pb.utils.pytree.leaves(inputs) if requires_grad(t)]
    roots = [t for t in pb.utils.pytree.leaves(result) if requires_grad(t)]
    if leaves and roots:
        seeds = [pb.ones_like(root) for root in roots]
        pb.autograd.grad(roots, leaves, seeds, create_graph=True, allow_unused=True)


def requires_grad(value):
    return isinstance(value, pb.Tensor) and value.requires_grad


@pytest.mark.parametrize("family", range(FAMILIES))
def test_every_operator_passes(calls, family):
    failed = []
    for name in sorted(calls)[family::FAMILIES]:
        _, op, args, kwargs = calls[name]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            report = opcheck(op, args, kwargs, raise_exception=False)
        if report.failures:
            failed.append(str(report))
    assert not failed, "\n\n".join(failed)


def twice(value):
    """A tensor that holds another one two times."""
    return pb.tensor(np.stack([value._array] * 2), requires_grad=value.requires_grad)


def variants(calls):
    """A call of every variant, made from one of its operator: (name, operator, arguments)."""
    for name, entry in sorted(ENTRIES.items()):
        base = name.removesuffix(".out").removesuffix("_").replace("::_foreach_", "::")
        if name in calls or base not in calls or base == name:
            continue
        _, function, args, kwargs = calls[base]
        with warnings.catch_warnings(), np.errstate(all="ignore"), pb.no_grad():
            warnings.simplefilter("ignore")
            result = function(*map(kept, args), **{k: kept(v) for k, v in kwargs.items()})
        if "_foreach_" in name:
            listed = entry.schema.arguments.flat_positional
            args = [
                [kept(value), twice(value)] if str(argument.type) == "Tensor[]" else value
                for argument, value in zip(listed, args, strict=False)
            ]
        elif name.endswith(".out"):
            args = [a.detach() if isinstance(a, pb.Tensor) else a for a in args]
            kwargs = {**kwargs, "out": pb.empty_like(result)}
        else:
            fitting = np.broadcast_to(args[0]._array, result.shape).astype(result.dtype)
            args = [pb.tensor(fitting), *args[1:]]
        yield name, entry.operator, args, kwargs


def test_every_variant_passes(calls):
    failed, count = [], 0
    for _, op, args, kwargs in variants(calls):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            report = opcheck(op, args, kwargs, raise_exception=False)
        count += 1
        if report.failures:
            failed.append(str(report))
    assert not failed, "\n\n".join(failed)
    assert count >= 100


def test_nearly_all_operators_are_reached(calls):
    reached = {*calls, *(name for name, *_ in variants(calls))}
    # The operators of SciPy's functions, which are loaded on demand, have tests of their own.
    ours = {entry.name for entry in vars(operators).values() if isinstance(entry, OperatorEntry)}
    assert {name.removeprefix("pullback::") for name in ours - reached} <= UNREACHED
