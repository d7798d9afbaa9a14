"""Shapes and layouts: what is a view, what NumPy and PyTorch disagree on, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb


def grid(*shape):
    return pb.arange(float(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("shape", [(3, 2), ((3, 2),), ([3, 2],), (np.int64(3), -1)])
def test_lengths_come_in_a_row_or_as_one_sequence(shape):
    x = grid(2, 3)
    assert x.reshape(*shape).shape == (3, 2)
    assert x.view(*shape).shape == (3, 2)


def test_transposing_methods():
    x = grid(2, 3, 4)
    assert x.T.shape == x.transpose().shape == (4, 3, 2)
    assert x.mT.shape == (2, 4, 3)
    assert x.transpose(1, 0, 2).shape == x.transpose((1, 0, 2)).shape == (3, 2, 4)
    with pytest.raises(ValueError, match="at least two axes"):
        _ = pb.zeros(3).mT


def test_a_view_never_copies():
    x = grid(2, 3)
    with pytest.raises(RuntimeError, match=r"view size is not compatible.*Use .reshape"):
        x.T.view(6)
    with pytest.raises(ValueError, match="allow a copy"):
        pb.reshape(x.T, 6, copy=False)
    assert x.T.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]


def test_reshape_with_copy_is_no_view():
    x = grid(2, 3)
    assert not pb.reshape(x, (3, 2), copy=True)._is_view()
    assert pb.reshape(x, (3, 2), copy=False)._is_view()


def test_reshape_accepts_two_orders():
    x = grid(2, 3)
    assert pb.reshape(x, (3, 2), order="F").tolist() == [[0, 4], [3, 2], [1, 5]]
    with pytest.raises(ValueError, match="'C' or 'F'"):
        pb.reshape(x, (3, 2), order="A")


def test_memory_seen_as_another_dtype_shares_the_version():
    x = pb.ones(2)
    bits = x.view(np.int64)
    bits.zero_()
    assert x.tolist() == [0, 0]
    assert x._version == 1


def test_expand_keeps_lengths_and_refuses_too_few():
    x = grid(2, 1)
    assert x.expand(-1, 3).shape == (2, 3)
    assert x.expand(4, -1, 3).strides[0] == 0
    with pytest.raises(ValueError, match="expand"):
        x.expand(3)
    with pytest.raises(ValueError, match="expand"):
        x.expand(-1, 2, 3)


def test_as_strided_stays_within_the_memory():
    x = grid(6)
    assert x.as_strided((2, 2), (3, 1), 1).tolist() == [[1, 2], [4, 5]]
    assert x.as_strided((2,), (-2,), 5).tolist() == [5, 3]
    for arguments in (((4,), (2,)), ((2,), (-1,)), ((1,), (1,), 6)):
        with pytest.raises(ValueError, match="reaches elements"):
            x.as_strided(*arguments)
    with pytest.raises(ValueError, match="C-contiguous"):
        x[::2].as_strided((1,), (1,))
    with pytest.raises(ValueError, match="strides are given"):
        x.as_strided((1, 1), (1,))


def test_as_strided_is_differentiated_twice():
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x.as_strided((2, 2), (1, 1))
    (g,) = pb.autograd.grad((y**3).sum(), x, create_graph=True)
    assert g.tolist() == [3, 24, 27]
    assert pb.autograd.grad(g.sum(), x)[0].tolist() == [6, 24, 18]


def test_writing_through_as_strided_reaches_the_base():
    w = pb.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    a = w * 1
    a.as_strided((2,), (2,), 1).mul_(10)
    assert pb.autograd.grad(a.sum(), w)[0].tolist() == [1, 10, 1, 10]


def test_windows_and_narrowed_parts_must_fit():
    x = grid(4)
    with pytest.raises(ValueError, match="do not fit axis 0 of length 4"):
        x.unfold(0, 5, 1)
    with pytest.raises(IndexError, match="not within axis 0 of length 4"):
        x.narrow(0, 3, 2)
    with pytest.raises(np.exceptions.AxisError):
        x.select(1, 0)


def test_splits_must_be_equal_unless_they_are_array_splits():
    x = grid(5)
    with pytest.raises(ValueError, match="no 2 equal parts"):
        pb.split(x, 2)
    with pytest.raises(ValueError, match="no 2 equal parts"):
        pb.hsplit(x, 2)
    assert [part.size for part in pb.array_split(x, 2)] == [3, 2]
    assert [part.size for part in x.chunk(4)] == [2, 2, 1]


def test_unstack_is_a_tuple():
    assert isinstance(pb.unstack(grid(2, 2)), tuple)


@pytest.mark.parametrize("function", [pb.concatenate, pb.stack, pb.hstack, pb.vstack])
def test_joining_nothing_is_refused(function):
    with pytest.raises(ValueError, match="at least one"):
        function([])


def test_joined_dtypes_are_promoted_and_gradients_cast_back():
    x = pb.ones(2, dtype=np.float32, requires_grad=True)
    y = pb.ones(1, requires_grad=True)
    joined = pb.concatenate([x, y, pb.arange(2)])
    assert joined.dtype == np.float64
    joined.sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float64)


def test_a_contiguous_tensor_is_returned_as_it_is():
    x = grid(2, 3)
    assert pb.ascontiguousarray(x) is x
    assert pb.ascontiguousarray(x.T).strides == (16, 8)


def test_trivial_cases_of_many_arrays_return_what_was_given():
    x = grid(2, 3)
    assert pb.atleast_1d(x) is pb.atleast_2d(x) is x
    assert pb.broadcast_arrays(x)[0] is x


def test_rules_of_meshgrid_copies():
    x = grid(2)
    copied, shared = pb.meshgrid(x)[0], pb.meshgrid(x, copy=False)[0]
    x.zero_()
    assert copied.tolist() == [0, 1]
    assert shared.tolist() == [0, 0]
    with pytest.raises(ValueError, match="'xy' or 'ij'"):
        pb.meshgrid(x, indexing="no")


def test_pad_refuses_what_it_does_not_know():
    x = grid(3)
    with pytest.raises(NotImplementedError, match="mode must be one of"):
        pb.pad(x, 1, "mirror")
    with pytest.raises(ValueError, match="takes no option 'end_values'"):
        pb.pad(x, 1, "edge", end_values=1)
    with pytest.raises(ValueError, match="may not be negative"):
        pb.pad(x, -1)
    with pytest.raises(ValueError, match="has none"):
        pb.pad(pb.zeros(0), 1, "edge")


def test_pad_takes_a_dict_of_axes_and_integers():
    x = pb.arange(4).reshape(2, 2)
    assert pb.pad(x, {1: (0, 1)}).tolist() == [[0, 1, 0], [2, 3, 0]]
    assert pb.pad(x, {-2: 1}, "edge").tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert pb.pad(x * 1.0, {1: (0, 1)}).tolist() == [[0, 1, 0], [2, 3, 0]]


def test_select_and_piecewise_want_as_many_choices_as_conditions():
    x = grid(2)
    with pytest.raises(ValueError, match="2 choices"):
        pb.select([x > 0], [x, x])
    with pytest.raises(ValueError, match="one more"):
        pb.piecewise(x, [x > 0], [1, 2, 3])


def test_piecewise_functions_see_only_their_elements():
    x = pb.tensor([-4.0, 4.0], requires_grad=True)
    y = pb.piecewise(x, [x >= 0], [pb.sqrt, lambda v: pb.sqrt(-v)])
    y.sum().backward()
    assert y.tolist() == [2, 2]
    assert x.grad.tolist() == [-0.25, 0.25]


def test_fill_diagonal_needs_equal_axes():
    with pytest.raises(ValueError, match="equally long"):
        pb.fill_diagonal(pb.zeros((2, 2, 3)), 1.0)
    with pytest.raises(ValueError, match="at least 2 axes"):
        pb.zeros(2).fill_diagonal_(1.0)


def test_indices_outside_are_refused():
    x = grid(3)
    with pytest.raises(IndexError):
        pb.take(x, 3)
    with pytest.raises(IndexError, match="put_"):
        x.put_([3], 1.0)
    with pytest.raises(ValueError, match="mode must be one of"):
        pb.take(x, 0, mode="no")
    with pytest.raises(ValueError, match="does not fit"):
        x.gather(0, [[0]])
    with pytest.raises(ValueError, match="negative"):
        pb.choose([-1], [x])


def test_masks_must_be_bool():
    x = grid(3)
    with pytest.raises(TypeError, match="must be of bool"):
        x.masked_fill([0, 1, 0], 1.0)
    with pytest.raises(TypeError, match="must be of bool"):
        x.masked_select([0, 1, 0])
