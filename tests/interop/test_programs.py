"""Whole NumPy programs are differentiated as they are."""

from __future__ import annotations

from typing import Any

import pytest

import pullback as pb

from .compare import check_call
from .creating_programs import CREATING
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


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) + len(CREATING) >= 50
    assert len(CREATING) >= 12
