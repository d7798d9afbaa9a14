"""Assignment and saved indices: the rules of the graph, with exact numbers."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import InplaceError, SavedVersionError


def leaf(*values):
    return pb.tensor(values, dtype=float, requires_grad=True)


def constant(values):
    return pb.tensor(np.asarray(values, dtype=float))


def gradient(output, x):
    output.sum().backward()
    return x.grad.tolist()


# --- in-place rules ----------------------------------------------------------------------------


def test_assignment_to_a_leaf_or_its_view_is_refused_and_changes_nothing():
    """Rule 4.1."""
    a = leaf(1, 2)
    with pytest.raises(InplaceError, match="a view of a leaf Variable"):
        a[0] = 5.0
    with pytest.raises(InplaceError, match="leaf Variable"):
        a[[0]] = 5.0
    assert a.tolist() == [1, 2]
    assert a._version == 0


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.zero_(),
        lambda y: y.fill_(3.0),
        lambda y: y.copy_(constant([1, 2])),
    ],
    ids=["zero_", "fill_", "copy_"],
)
def test_overwritten_values_have_exact_zeros_upstream(write):
    """Rule 4.5."""
    w = leaf(1, 2)
    y = w * 1
    write(y)
    assert gradient(y, w) == [0, 0]


def test_fill_passes_the_gradient_to_its_value():
    w, v = leaf(1, 2), pb.tensor(3.0, requires_grad=True)
    y = w * 1
    y.fill_(v)
    (y * constant([2, 5])).sum().backward()
    assert v.grad.item() == 7
    assert w.grad.tolist() == [0, 0]


def test_copy_casts_and_broadcasts():
    a = pb.tensor([1, 2, 3])
    a.copy_(pb.tensor(2.9))
    assert a.tolist() == [2, 2, 2]
    assert a.dtype == np.int64
    with pytest.raises(ValueError, match="broadcast"):
        a.copy_(pb.tensor([1, 2]))


# --- assignment ----------------------------------------------------------------------------------


def test_assignment_builds_the_graph():
    """Rule 4.18."""
    w, b = leaf(5, 6), pb.tensor(7.0, requires_grad=True)
    a = pb.zeros(3)
    a[:2] = w
    a[2] = b
    assert a.tolist() == [5, 6, 7]
    (a * constant([1, 2, 3])).sum().backward()
    assert w.grad.tolist() == [1, 2]
    assert b.grad.item() == 3


def test_overwritten_slots_get_zero():
    """Rule 4.18."""
    w = leaf(5, 6)
    a = pb.zeros(3)
    a[:2] = w
    a[0] = 7.0
    assert gradient(a, w) == [0, 1]


def test_assignment_by_an_array():
    """Rule 4.19."""
    w = leaf(1, 2, 3)
    a = w * 1
    a[[0, 1]] = constant([8, 9])
    assert a.tolist() == [8, 9, 3]
    assert gradient(a, w) == [0, 0, 1]


def test_accumulating_with_duplicates():
    """Rules 4.19, 12.24."""
    w, v = leaf(1, 2, 3), leaf(10, 20)
    a = w * 1
    a.index_put_([np.array([0, 0])], v, accumulate=True)
    assert a.tolist() == [31, 2, 3]
    a.sum().backward()
    assert w.grad.tolist() == [1, 1, 1]
    assert v.grad.tolist() == [1, 1]


def test_duplicates_without_accumulation_last_gets_the_gradient():
    """Rules 4.20, 12.24."""
    w, v = leaf(1, 2, 3), leaf(10, 20)
    a = w * 1
    a[[0, 0]] = v
    (a * 2).sum().backward()
    assert v.grad.tolist() == [0, 2]
    assert w.grad.tolist() == [0, 2, 2]


def test_assignment_by_a_mask():
    """Rule 4.21."""
    w, v = leaf(1, 2, 3), pb.tensor(5.0, requires_grad=True)
    a = w * 1
    a[w > 1] = v
    assert a.tolist() == [1, 5, 5]
    a.sum().backward()
    assert w.grad.tolist() == [1, 0, 0]
    assert v.grad.item() == 2


def test_in_place_arithmetic_by_a_mask():
    """Rule 4.21."""
    w = leaf(1, 2, 3)
    a = w * 1
    mask = pb.tensor([False, True, True])
    a[mask] *= 10
    assert gradient(a, w) == [1, 10, 10]


def test_second_derivatives_through_writes_to_views():
    """Rule 4.22."""
    w = leaf(2, 3)
    a = w * 1
    a[:1].mul_(w[1])
    (g,) = pb.autograd.grad((a * a).sum(), w, create_graph=True)
    assert g.tolist() == [36, 30]
    rows = [pb.autograd.grad(g[i], w, retain_graph=True)[0].tolist() for i in range(2)]
    assert rows == [[18, 24], [24, 10]]


def test_in_place_arithmetic_on_an_element_counts_two_writes():
    a = constant([1, 2])
    a[0] += 1
    assert a.tolist() == [2, 2]
    assert a._version == 2


def test_in_place_arithmetic_on_elements_is_differentiated():
    w, v = leaf(1, 2, 3), leaf(5, 7)
    a = w * 1
    a[:2] *= v
    a[[2]] += v[:1]
    assert a.tolist() == [5, 14, 8]
    a.sum().backward()
    assert w.grad.tolist() == [5, 7, 1]
    assert v.grad.tolist() == [2, 2]


def test_assigned_values_may_have_leading_axes_of_length_one():
    w = pb.tensor([[[1.0, 2.0]]], requires_grad=True)
    a = pb.zeros(2)
    a[:] = w
    b = pb.zeros(3)
    b[[0, 2]] = w
    (a.sum() + 3 * b.sum()).backward()
    assert b.tolist() == [1, 0, 2]
    assert w.grad.tolist() == [[[4, 4]]]


def test_assignment_casts_to_the_dtype_of_the_tensor():
    a = pb.tensor([1, 2, 3])
    a[0] = 7.9
    a[[1]] = 8.9
    assert a.tolist() == [7, 8, 3]
    assert a.dtype == np.int64


def test_nothing_is_recorded_for_integers():
    a = pb.tensor([1, 2])
    a[0] = pb.tensor(3.7, requires_grad=True)
    a[[1]] = pb.tensor(4.7, requires_grad=True)
    assert a.tolist() == [3, 4]
    assert not a.requires_grad
    assert a.grad_fn is None


# --- saved indices -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["integers", "truth values"])
def test_an_index_that_was_written_to_is_noticed(kind):
    """Rule 3.8."""
    x = leaf(1, 2, 3)
    index = pb.tensor([0, 2]) if kind == "integers" else pb.tensor([True, False, True])
    y = x[index]
    index.zero_()
    with pytest.raises(SavedVersionError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_scalar_tensor_as_index_may_change_afterwards():
    x, index = leaf(1, 2, 3), pb.tensor(1)
    y = x[index] + x[index : index + 2].sum()
    index.zero_()
    assert gradient(y, x) == [0, 2, 1]


def test_writing_a_power_of_a_view_back_is_refused_in_backward():
    """Rule 3.9."""
    a = leaf(2, 3) * 1
    a[0] = a[0] ** 3
    with pytest.raises(SavedVersionError):
        a.sum().backward()


def test_writing_a_multiple_of_a_view_back_is_fine():
    """Rule 3.9."""
    w = leaf(2, 3)
    a = w * 1
    a[0] = a[0] * 3
    assert gradient(a, w) == [3, 1]


def test_writing_a_power_of_a_copy_back_is_fine_twice():
    """Rule 3.9."""
    w = leaf(2, 3)
    a = w * 1
    a[0] = a[0].clone() ** 3
    (g,) = pb.autograd.grad(a.sum(), w, create_graph=True)
    assert g.tolist() == [12, 1]
    assert pb.autograd.grad(g[0], w)[0].tolist() == [12, 0]


@pytest.mark.parametrize(
    ("shape", "index", "message"),
    [
        ((0, 3), [-4], "index -4 is out of bounds for axis 1 with size 3"),
        ((2, 0), [1], "index 1 is out of bounds for axis 1 with size 0"),
        ((2, 3), [3], "index 3 is out of bounds for axis 1 with size 3"),
        ((3,), [0], "too many indices"),
    ],
)
def test_a_wrong_index_along_a_later_axis_is_refused_as_along_the_first(shape, index, message):
    with pytest.raises(IndexError, match=message):
        pb.zeros(shape)[:, pb.tensor(index)]
    target = pb.zeros(shape)
    with pytest.raises(IndexError, match=message):
        target[:, pb.tensor(index)] = 1.0
    with pytest.raises(IndexError, match=message):
        target[:, pb.tensor(index)] += 1.0


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint64])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.complex128])
def test_gradients_of_elements_that_are_picked_twice_are_added(axis, dtype, kind):
    rng = np.random.default_rng(0)
    x = pb.tensor(rng.normal(size=(4, 5, 3)).astype(kind)).requires_grad_()
    places = np.array([[0, 2, 0], [1, 2, 2]], dtype)
    if np.dtype(dtype).kind == "i":
        places[0, 0] = -1
    index = (*[slice(None)] * axis, pb.tensor(places))
    picked = x[index]
    weights = rng.normal(size=picked.shape).astype(kind)
    picked.backward(pb.tensor(weights))
    expected = np.zeros(x.shape, kind)
    np.add.at(expected, (*[slice(None)] * axis, places.astype(np.int64)), weights)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_a_gradient_for_no_places_is_zero():
    x = pb.ones(3).requires_grad_()
    pb.sum(x[pb.tensor(np.zeros(0, np.int64))]).backward()
    assert x.grad.tolist() == [0, 0, 0]
