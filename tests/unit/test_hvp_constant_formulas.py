"""The backward pass of a Hessian product: which formulas have constant coefficients."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.linearize import backward


@pytest.mark.parametrize("constant", [2.0, 3, pb.ones((2, 3))[0], pb.ones(3), pb.tensor(2.0)])
def test_products_with_numbers_and_views_have_constant_formulas(constant, monkeypatch):
    monkeypatch.setattr(backward, "_saves_constants", known := ({}, {}))
    found = pb.hvp(lambda x: pb.exp(x * constant).sum())(np.zeros(3), np.ones(3))
    factor = constant.numpy() if isinstance(constant, pb.Tensor) else constant
    np.testing.assert_allclose(found, np.ones(3) * factor**2)
    is_second, is_first = known
    assert not is_first  # the constant is the second argument
    assert {node.__name__: is_constant for node, is_constant in is_second.items()} == {
        "MulBackward0": True
    }
