"""The backward pass of a Hessian product: which formulas have constant coefficients."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.linearize import backward


@pytest.mark.parametrize("constant", [2.0, 3, pb.ones((2, 3))[0], pb.ones(3), pb.tensor(2.0)])
def test_products_with_numbers_and_views_have_constant_formulas(constant, monkeypatch):
    kinds = {}
    find = backward._kinds

    def seen(level, inputs):
        for rule, *_ in level.notes.values():
            rule.steady.clear()  # what has been found out before
        kinds.update(find(level, inputs))
        return kinds

    monkeypatch.setattr(backward, "_kinds", seen)
    found = pb.hvp(lambda x: pb.exp(x * constant).sum())(np.zeros(3), np.ones(3))
    factor = constant.numpy() if isinstance(constant, pb.Tensor) else constant
    np.testing.assert_allclose(found, np.ones(3) * factor**2)
    assert [kind for node, kind in kinds.items() if node.name() == "MulBackward0"] == [True]
