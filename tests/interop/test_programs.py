"""Whole NumPy programs are differentiated as they are."""

from __future__ import annotations

from typing import Any

import pytest

import pullback as pb
from pullback.errors import PullbackError

from .compare import check_call
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
