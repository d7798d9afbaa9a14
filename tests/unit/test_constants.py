"""Python numbers beside tensors: the operands that are kept give what NumPy gives, unharmed."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.graph import saved_tensors_hooks
from pullback.tensor import constants
from pullback.tensor.constants import is_constant, operand_beside

OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne",
]  # fmt: skip
NUMBERS = [2, 2.0, -3, 0.5, 0, 0.0, -0.0, True, 2**53 + 1, 2**70, float("inf"), float("nan"), 2j]
KINDS = [np.float64, np.float32, np.int64, np.int8, np.complex128]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_operators_with_numbers_give_what_numpy_gives(name, kind):
    apply = getattr(operator, name)
    array = np.array([1, -2, 3]).astype(kind)
    with np.errstate(all="ignore"):
        for number in NUMBERS:
            for swapped in (False, True):
                try:
                    expected = apply(number, array) if swapped else apply(array, number)
                except (TypeError, ValueError, OverflowError):
                    continue
                tensor = pb.tensor(array)
                made = apply(number, tensor) if swapped else apply(tensor, number)
                assert made.dtype == expected.dtype, number
                assert np.array_equal(np.signbit(made.real), np.signbit(expected.real)), number
                np.testing.assert_array_equal(made.numpy(), expected)


def test_a_number_is_made_an_array_once():
    x = pb.tensor([1.0, 2.0])
    assert operand_beside(x, 3) is operand_beside(x, 3.0)
    assert not is_constant(x)
    assert is_constant(operand_beside(x, 0.0))


def test_zeros_keep_their_sign():
    x = pb.tensor([1.0])
    for _ in range(2):
        assert np.signbit((x * -0.0).item())
        assert not np.signbit((x * 0.0).item())


def test_numbers_that_change_do_not_fill_the_memory():
    x = pb.tensor([1.0])
    for step in range(1, 1000):
        assert (x * (step / 7)).item() == step / 7
    assert len(constants._known) <= 256


def test_a_saved_number_is_shown_as_a_copy():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    node = (x * 3.0).grad_fn
    shown = node._saved_other
    shown.add_(1)
    shown.requires_grad_()
    assert node._saved_other.tolist() == 3.0
    assert not (x.detach() * 3.0).requires_grad
    assert (x * 3.0).tolist() == [3.0, 6.0]


def test_saved_numbers_are_not_packed():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    seen = []

    def pack(tensor):
        seen.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        inside = x * 3.0
    outside = x * 3.0
    outside.grad_fn._raw_saved_other.register_hooks(pack, lambda tensor: tensor)
    assert seen == []
    (inside + outside).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_numbers_in_higher_derivatives():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    (first,) = pb.autograd.grad((2.0 / (x * 3.0 - 1.0)).sum(), x, create_graph=True)
    (second,) = pb.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(first.tolist(), -6 / (3 * np.array([1.0, 2.0]) - 1) ** 2)
    np.testing.assert_allclose(second.tolist(), 36 / (3 * np.array([1.0, 2.0]) - 1) ** 3)
