"""Every NumPy function on tensors: what the table says is what happens."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.interop import table

from .compare import check_call
from .more_calls import CALLS


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_right(name: str) -> None:
    for call, arrays in CALLS[name]:
        check_call(call, *arrays)


def test_every_differentiable_function_is_called() -> None:
    installed = {n for n in table.names() if _find(n) is not None}
    assert installed - set(CALLS) == set()


def _find(name: str) -> object:
    space, _, short = name.rpartition(".")
    return getattr(getattr(np, space) if space else np, short, None)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd"])
def test_moments_of_picked_elements_keep_the_precision(name: str, dtype: type) -> None:
    array = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.5]], dtype=dtype)
    mask = np.array([[True, False, True], [True, True, False]])
    function = getattr(np, name)
    for options in ({"where": mask}, {"where": mask, "axis": 1}):
        got, want = function(pb.tensor(array), **options), function(array, **options)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
