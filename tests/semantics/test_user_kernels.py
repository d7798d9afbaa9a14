"""A user's kernel under an in-place or view operator: versions, views and history as for ours."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.tensor.tensor import wrap

DATA = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def plain(data, requires_grad=False):
    return pb.tensor(data, dtype=float, requires_grad=requires_grad)


@pytest.fixture
def lib():
    with (
        pb.library.Library("pullback", "IMPL") as library,
        warnings.catch_warnings(action="ignore"),  # that a kernel is overridden
    ):
        yield library


def test_user_kernel_of_in_place_operator_counts_the_write(lib):
    def mul_(self, other):
        self.copy_(pb.multiply(self, other) * 10.0)
        return self

    lib.impl("mul_", mul_, "CPU")
    x = plain([1.0, 2.0], requires_grad=True)
    y = x * 1.0
    before = y._version
    y.mul_(3.0)
    assert y.tolist() == [30.0, 60.0]
    assert y._version == before + 1
    assert y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x.mul_(2.0)
    part = plain([1.0, 2.0], requires_grad=True) * 1.0
    part[:1].mul_(2.0)
    assert part.grad_fn.name() == "CopySlices"
    assert part.tolist() == [20.0, 2.0]


def test_user_kernel_of_view_operator_tracks_the_view(lib):
    def reshape(self, shape, order, **_):
        return wrap(self._array.reshape(shape, order=order))

    lib.impl("reshape", reshape, "CPU")
    x = plain(DATA, requires_grad=True)
    y = x * 1.0
    row = y.reshape(6)
    assert row._base is y
    row.mul_(2.0)
    assert y.grad_fn.name() == "CopySlices"
    (y.sum() + row.sum()).backward()
    assert x.grad.tolist() == [[4.0] * 3] * 2
    assert y.T.reshape(6)._base is None


def test_user_kernel_of_list_of_views_tracks_them(lib):
    lib.impl(
        "unbind", lambda self, axis=0: list(map(wrap, np.moveaxis(self._array, axis, 0))), "CPU"
    )
    x = plain(DATA, requires_grad=True)
    y = x * 1.0
    first, second = pb.unbind(y)
    assert first._base is y
    first.mul_(2.0)
    (first + second).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3, [1.0] * 3]
