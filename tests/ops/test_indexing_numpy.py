"""``x[index]`` and ``x[index] = value`` against NumPy, for random indices of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback import func

LENGTHS = (1, 2, 3, 4)


def parts(n):
    """Strategies for one part of an index into an axis of length `n`."""
    number = st.integers(-n, n - 1)
    bound = st.none() | st.integers(-n - 1, n + 1)
    mask = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    return st.one_of(
        number,
        number.map(np.int64),
        number.map(np.array),
        st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1, -2])),
        st.none(),
        st.just(Ellipsis),
        st.lists(number, max_size=2),
        st.tuples(number, number).map(lambda pair: np.array(pair)[:, None]),
        mask,
        st.booleans(),
    )


@st.composite
def indexed_arrays(draw):
    shape = draw(st.lists(st.sampled_from(LENGTHS), max_size=3).map(tuple))
    count = draw(st.integers(1, len(shape) + 1))
    lengths = [shape[min(i, len(shape) - 1)] if shape else 1 for i in range(count)]
    if len(shape) > 1 and draw(st.booleans()) and draw(st.booleans()):
        lengths = [shape[0]]
        index = (np.arange(shape[0] * shape[1]).reshape(shape[:2]) % 2 == 0,)
    else:
        index = tuple(draw(parts(n)) for n in lengths)
    index = index[0] if len(index) == 1 and draw(st.booleans()) else index
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape), index


def attempt(function):
    try:
        return function(), None
    except Exception as error:
        return None, type(error)


@settings(max_examples=400, deadline=None)
@given(indexed_arrays())
def test_reading_equals_numpy_and_gradients_go_back_to_where_they_came_from(case):
    array, index = case
    expected, error = attempt(lambda: array[index])
    x = pb.tensor(array, requires_grad=True)
    result, our_error = attempt(lambda: x[index])
    assert our_error is error
    if error is not None:
        return
    assert result.shape == np.shape(expected)
    np.testing.assert_array_equal(result.detach().numpy(), expected)
    weight = np.arange(1.0, 1 + result.size).reshape(result.shape)
    (grad,) = pb.autograd.grad(result, x, pb.tensor(weight))
    total = np.zeros_like(array)
    np.add.at(total, index, weight)
    np.testing.assert_array_equal(grad.numpy(), total)


@settings(max_examples=400, deadline=None)
@given(indexed_arrays(), st.sampled_from(["whole", "row", "number"]))
def test_writing_equals_numpy_and_is_recorded(case, kind):
    array, index = case
    part, error = attempt(lambda: array[index])
    shape = () if error or kind == "number" else np.shape(part)[kind == "row" :]
    value = np.arange(101.0, 101 + np.prod(shape)).reshape(shape)
    expected = array.copy()
    _, error = attempt(lambda: expected.__setitem__(index, value))
    w, v = pb.tensor(array, requires_grad=True), pb.tensor(value, requires_grad=True)
    a = w * 1
    _, our_error = attempt(lambda: a.__setitem__(index, v))
    assert our_error is error
    np.testing.assert_array_equal(a.detach().numpy(), expected)
    if error is None:
        dw, dv = pb.autograd.grad(a.sum(), [w, v], materialize_grads=True)
        kept = np.ones_like(array)
        kept[index] = 0
        np.testing.assert_array_equal(dw.numpy(), kept)
        assert dv.sum().item() == np.count_nonzero(kept == 0)  # one value for each element


@pytest.mark.parametrize("index", [1.5, "a", object(), [0.5], ([0], 1.5)])
def test_what_is_no_index_is_refused(index):
    x = pb.tensor([1.0, 2.0])
    with pytest.raises(IndexError):
        x[index]
    with pytest.raises(IndexError):
        x[index] = 0.0
    assert x._version == 0


def test_an_empty_ellipsis_between_arrays_parts_them():
    array = np.arange(60.0).reshape(3, 4, 5)
    x = pb.tensor(array)
    assert x[:, [0, 1], ..., [0, 1]].shape == array[:, [0, 1], ..., [0, 1]].shape == (2, 3)
    assert x[:, [0, 1], [0, 1]].shape == (3, 2)
    x[:, [0, 1], ..., [0, 1]] = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    array[:, [0, 1], ..., [0, 1]] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    np.testing.assert_array_equal(x.numpy(), array)


def test_second_derivatives_pass_through_indexing():
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x[[0, 0, 2]] * x[:3]
    (g,) = pb.autograd.grad((y * y).sum(), x, create_graph=True)
    # y = [a*a, a*b, c*c]: the sum of squares is a^4 + a^2 b^2 + c^4
    assert g.tolist() == [4 + 2 * 4, 2 * 2, 4 * 27]
    (h,) = pb.autograd.grad(g[0], x)
    assert h.tolist() == [12 + 2 * 4, 4 * 2, 0]


@pytest.mark.parametrize(
    "index",
    [np.array(1), (np.array(-1), slice(None)), (slice(None), np.array(0)), (..., np.array(0))],
)
def test_what_an_array_of_one_integer_picks_is_a_copy(index):
    array = np.arange(6.0).reshape(2, 3)
    x = pb.tensor(array)
    picked, theirs = x[index], array[index]
    assert picked.tolist() == theirs.tolist()
    picked[...] = -1.0
    theirs[...] = -1.0
    assert x.tolist() == array.tolist()
    assert (
        func.jacfwd(lambda x: x[index] ** 2)(x).tolist()
        == func.jacrev(lambda x: x[index] ** 2)(x).tolist()
    )


@pytest.mark.parametrize("index", [1, np.int64(1), pb.tensor(1), slice(1, 2)])
def test_what_an_integer_picks_is_a_view(index):
    x = pb.zeros(3)
    x[index][...] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]


def test_writes_at_an_array_of_one_integer():
    x = pb.zeros(3)
    x[np.array(1)] += 2.0
    x[np.array(-1)] = 3.0
    assert x.tolist() == [0.0, 2.0, 3.0]
