"""An axis that a tensor does not have is refused by the call itself, not by a later backward."""

from __future__ import annotations

import inspect
import operator

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.kernels.platform import NUMPY
from tests.samples import OPS
from tests.samples.opinfo import Make

AxisError = np.exceptions.AxisError
AXES = ("axis", "axis1", "axis2", "axes", "source", "destination")


def signature(op):
    return inspect.signature(operator.attrgetter(op.name)(pb))


def is_axis(value):
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def with_wrong_axes(op):
    """The op's samples, each with every axis in turn replaced by one that is out of range."""
    parameters = signature(op)
    for sample in op.samples(Make(0)):
        for name in AXES:
            if name not in parameters.parameters:
                continue
            bound = parameters.bind(*sample.args, **sample.kwargs)
            bound.apply_defaults()
            value = bound.arguments[name]
            for wrong in (9, -9):
                if is_axis(value):
                    bound.arguments[name] = wrong
                elif isinstance(value, tuple | list) and value and all(map(is_axis, value)):
                    bound.arguments[name] = (wrong, *value[1:])
                else:
                    continue
                yield bound


HAS_AXIS = [op for op in OPS if op.through is None and set(AXES) & set(signature(op).parameters)]


@pytest.mark.parametrize("op", HAS_AXIS, ids=lambda op: op.name)
def test_operators_refuse_an_axis_out_of_range(op):
    call = operator.attrgetter(op.name)(pb)
    for bound in with_wrong_axes(op):
        if op.name == "diff" and bound.arguments["n"] == 0:
            continue  # NumPy returns the input, whatever the axis
        args = [pb.tensor(a) if isinstance(a, np.ndarray) else a for a in bound.args]
        # Where several axes are expected, a number is a TypeError.
        with pytest.raises((AxisError, IndexError, ValueError, TypeError)):
            call(*args, **bound.kwargs)


X = np.arange(6.0).reshape(2, 3)
PLACES = np.zeros((2, 3), int)


CALLS = {
    "put_along_axis": lambda x, axis: np.put_along_axis(x.clone(), PLACES, 1.0, axis),
    "take_along_axis": lambda x, axis: np.take_along_axis(x, PLACES, axis),
    "take": lambda x, axis: np.take(x, [0], axis),
    "apply_along_axis": lambda x, axis: np.apply_along_axis(np.sum, axis, x),
    "norm": lambda x, axis: pb.linalg.norm(x, axis=(axis, axis + 1)),
    "log_softmax_of_nothing": lambda x, axis: pb.nn.functional.log_softmax(x[:0], axis),
    "gather": lambda x, axis: x.gather(axis, pb.tensor(PLACES)),
    "scatter": lambda x, axis: x.scatter(axis, pb.tensor(PLACES), x),
    "scatter_add": lambda x, axis: x.scatter_add(axis, pb.tensor(PLACES), x),
    "scatter_reduce": lambda x, axis: x.scatter_reduce(axis, pb.tensor(PLACES), x, "sum"),
    "index_add": lambda x, axis: x.index_add(axis, pb.tensor([0]), x[:1]),
    "index_select": lambda x, axis: x.index_select(axis, pb.tensor([0])),
}
if NUMPY >= (2, 2):  # trim_zeros has no axis before
    CALLS["trim_zeros"] = lambda x, axis: np.trim_zeros(x, axis=axis)
    CALLS["trim_zeros_of_axes"] = lambda x, axis: np.trim_zeros(x, axis=(0, axis))


@pytest.mark.parametrize("axis", [2, -3, 5])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_numpys_error_is_raised_at_once(call, axis):
    for x in (pb.tensor(X), pb.tensor(X, requires_grad=True)):
        with pytest.raises(AxisError):
            call(x, axis)
    with pytest.raises(AxisError):
        pb.func.vmap(lambda x: call(x, axis))(pb.tensor([X, X]))


@pytest.mark.parametrize("axis", [1.5, "0"])
def test_an_axis_that_is_no_integer_is_a_type_error(axis):
    with pytest.raises(TypeError):
        np.put_along_axis(pb.tensor(X), PLACES, 1.0, axis)
