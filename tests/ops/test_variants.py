"""``out=`` and foreach: the functions that the generator makes beside an operator."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import BindError, InplaceError


def test_out_receives_the_result_and_is_returned():
    out = pb.tensor([0.0, 0.0])
    assert pb.multiply(pb.tensor([1.0, 2.0]), 3.0, out=out) is out
    assert out.tolist() == [3.0, 6.0]
    assert out._version == 1


def test_out_records_history():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    out = pb.tensor([0.0, 0.0])
    pb.multiply(x, x, out=out)
    assert out.requires_grad
    out.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_out_that_is_a_view_rewrites_its_base():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    base = pb.zeros((3,))
    pb.exp(x, out=base[:2])
    base.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]))


def test_out_of_the_wrong_kind_is_refused():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"out= has shape \(1,\), but the result has shape \(2,\)"):
        pb.multiply(x, x, out=pb.tensor([0.0]))
    with pytest.raises(BindError, match="'Tensor' for argument 'out'"):
        pb.multiply(x, x, out=np.zeros(2))
    with pytest.raises(InplaceError, match="leaf Variable that requires grad"):
        pb.multiply(x, x, out=x)
    assert x.tolist() == [1.0, 2.0]


def test_foreach_does_to_each_what_the_operator_does_to_one():
    xs = [pb.tensor([1.0, 2.0], requires_grad=True), pb.tensor([3.0], requires_grad=True)]
    results = pb.ops.pullback._foreach_mul(xs, xs)
    assert [r.tolist() for r in results] == [[1.0, 4.0], [9.0]]
    sum(r.sum() for r in results).backward()
    assert [x.grad.tolist() for x in xs] == [[2.0, 4.0], [6.0]]


def test_foreach_needs_lists_of_one_length():
    with pytest.raises(ValueError, match="shorter than"):
        pb.ops.pullback._foreach_add([pb.tensor(1.0)], [])
