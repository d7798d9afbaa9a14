"""Whole programs for HIPS autograd give the same numbers when only their imports change."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

_spec = importlib.util.spec_from_file_location(
    "hips_programs", Path(__file__).parent / "hips_programs.py"
)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


@pytest.mark.filterwarnings("ignore")  # theirs, of new versions of NumPy
@pytest.mark.parametrize("program", _module.PROGRAMS)
def test_a_program_gives_the_same_numbers(program):
    pytest.importorskip("scipy")
    pytest.importorskip("autograd")
    ours, theirs = program("pullback.compat.autograd"), program("autograd")
    for our, their in zip(ours, theirs, strict=True):
        assert not isinstance(our, pb.Tensor)
        np.testing.assert_allclose(our, their, rtol=1e-8, atol=1e-10)
