"""Tensors made like another one lie in memory as it does, as NumPy's arrays do."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

VIEWS = {
    "rows": lambda x: x,
    "columns": lambda x: x.T,
    "swapped": lambda x: x.swapaxes(0, 1),
    "every second": lambda x: x[:, ::2],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", ["empty_like", "zeros_like", "ones_like"])
def test_tensors_made_like_another_have_its_layout(name, device, view):
    array = np.arange(24.0).reshape(2, 3, 4)
    given = VIEWS[view](pb.tensor(array).to_device(device))
    made, like = getattr(pb, name), getattr(np, name)(VIEWS[view](array))
    assert made(given).strides == like.strides
    assert made(given).device == device
    with np.errstate(all="ignore"):  # memory of empty_like may hold any number
        expected = like.astype("float32").strides
    assert made(given, dtype="float32").strides == expected
