"""Whole NumPy programs are differentiated as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import PullbackError

from .compare import _slopes, check_call, leaves, values
from .inplace_programs import CREATING
from .programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, arrays = PROGRAMS[name]
    check_call(function, *arrays)


@pytest.mark.parametrize("name", CREATING)
def test_program_that_creates_arrays(name: str) -> None:
    function, arrays = CREATING[name]
    run = pb.differentiable(function)

    def call(*given: Any) -> Any:
        return run(*given) if isinstance(given[0], pb.Tensor) else function(*given)

    check_call(call, *arrays)


def _total(function: Any) -> Any:
    """A program with one real number as its result, for tensors and for arrays."""

    def run(*given: Any) -> Any:
        total = 0.0
        for leaf in leaves(function(*given)):
            if np.asarray(values(leaf)).dtype.kind in "fc":
                weight = 1.0 + 0.1 * np.arange(np.size(leaf)).reshape(np.shape(leaf))
                total = total + np.sum(np.real(leaf * weight))
        return total

    return run


@pytest.mark.parametrize("name", [*PROGRAMS, *CREATING])
def test_program_by_plain_grad(name: str) -> None:
    """No decorator: ``pb.grad`` and ``pb.jacobian`` run the program in the mode."""
    function, arrays = {**PROGRAMS, **CREATING}[name]
    run = _total(function)
    given = [np.array(a) for a in arrays]
    # All of them: what the program writes to must be a tensor, and an argument may be.
    grads = pb.grad(run, tuple(range(len(arrays))))(*given)
    for number, array in enumerate(arrays):
        expected = _slopes(lambda *a: np.asarray(run(*a)), arrays, number, [np.float64(1)], 1e-6)
        np.testing.assert_allclose(grads[number], expected, rtol=1e-4, atol=1e-6)
        if np.asarray(array).dtype.kind == "f":
            slopes = pb.func.jacfwd(pb.differentiable(run), number)(*map(pb.asarray, given))
            np.testing.assert_allclose(values(slopes), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("error:.*no part of the graph")
@pytest.mark.parametrize("name", CREATING)
def test_undecorated_program_is_right_or_raises(name: str) -> None:
    """A program whose arrays cannot record, or lose saved values, raises; math warns."""
    function, arrays = CREATING[name]
    try:
        check_call(function, *arrays)
    except (PullbackError, UserWarning):
        return
    except ValueError as error:  # of NumPy, in front of ours
        if not isinstance(error.__cause__, PullbackError):
            raise


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) + len(CREATING) >= 68
    assert len(CREATING) >= 30
