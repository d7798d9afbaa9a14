"""Tensors from data and from nothing."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: pb.zeros((2, 3)), np.zeros((2, 3))),
        (lambda: pb.zeros(2, dtype=np.int32), np.zeros(2, np.int32)),
        (lambda: pb.ones((2,), np.float32), np.ones(2, np.float32)),
        (lambda: pb.full((2, 2), 7), np.full((2, 2), 7)),
        (lambda: pb.full(2, 7, float), np.full(2, 7.0)),
        (lambda: pb.eye(3), np.eye(3)),
        (lambda: pb.eye(2, 3, k=1, dtype=int), np.eye(2, 3, 1, int)),
        (lambda: pb.identity(2), np.identity(2)),
        (lambda: pb.tri(3, 2, -1), np.tri(3, 2, -1)),
        (lambda: pb.arange(4), np.arange(4)),
        (lambda: pb.arange(1, 2, 0.25), np.arange(1, 2, 0.25)),
        (lambda: pb.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32)),
        (lambda: pb.zeros_like([[1, 2]]), np.zeros_like([[1, 2]])),
        (lambda: pb.ones_like([1.5], dtype=int), np.ones(1, int)),
        (lambda: pb.full_like([1, 2], 3.9), np.full_like([1, 2], 3.9)),
        (lambda: pb.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (lambda: pb.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, False)),
        (lambda: pb.linspace(0, 9, 4, dtype=int), np.linspace(0, 9, 4, dtype=int)),
        (lambda: pb.logspace(0, 2, 3), np.logspace(0, 2, 3)),
        (lambda: pb.geomspace(1, 1000, 4), np.geomspace(1, 1000, 4)),
        (lambda: pb.vander(pb.ones(2), 0), np.vander(np.ones(2), 0)),
        (lambda: pb.indices((2, 3)), np.indices((2, 3))),
        (lambda: pb.array([1, 2], ndmin=3), np.array([1, 2], ndmin=3)),
    ],
)
def test_values_and_dtypes_are_those_of_numpy(made, expected):
    tensor = made()
    assert tensor.dtype == expected.dtype
    assert tensor.shape == expected.shape
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: pb.tensor([1.0], **options),
        lambda **options: pb.zeros(1, **options),
        lambda **options: pb.ones(1, **options),
        lambda **options: pb.empty(1, **options),
        lambda **options: pb.full(1, 2.0, **options),
        lambda **options: pb.eye(1, **options),
        lambda **options: pb.arange(1.0, **options),
        lambda **options: pb.zeros_like([1.0], **options),
        lambda **options: pb.ones_like([1.0], **options),
        lambda **options: pb.empty_like([1.0], **options),
        lambda **options: pb.full_like([1.0], 2.0, **options),
    ],
)
def test_leaves_are_made_on_request(make):
    assert not make().requires_grad
    leaf = make(requires_grad=True, device="cpu")
    assert leaf.requires_grad
    assert leaf.is_leaf
    with pytest.raises(ValueError, match="device must be 'cpu'"):
        make(device="cuda")


def test_integers_cannot_require_grad():
    """Rule 1.5."""
    for make in (lambda: pb.zeros(2, dtype=int, requires_grad=True), lambda: _leaf([1, 2])):
        with pytest.raises(AutogradError, match="only Tensors of floating point"):
            make()


def _leaf(data):
    return pb.tensor(data, requires_grad=True)


def test_likes_do_not_require_grad():
    """Rule 1.9."""
    x = _leaf([1.0, 2.0])
    for make in (pb.zeros_like, pb.ones_like, pb.empty_like):
        assert not make(x).requires_grad
    assert not pb.full_like(x, 3.0).requires_grad


def test_a_tensor_of_a_tensor_copies_and_warns():
    """Rule 1.9."""
    x = _leaf([1.0, 2.0])
    with pytest.warns(UserWarning, match="drops its history"):
        y = pb.tensor(x)
    assert not y.requires_grad
    assert y.numpy() is not x._array


def test_asarray_of_a_tensor_is_the_tensor():
    """Rule 1.9."""
    x = _leaf([1.0, 2.0])
    assert pb.asarray(x) is x
    assert pb.asarray(x, dtype=float) is x


def test_full_keeps_the_graph_of_its_value():
    v = _leaf(3.0)
    (pb.full((2, 2), v) + pb.full_like(pb.zeros((2, 2)), v)).sum().backward()
    assert v.grad.item() == 8
    assert not pb.full(3, v)._is_view()


def test_asarray_shares_memory_by_default():
    array = np.zeros(2)
    shared, copied = pb.asarray(array), pb.asarray(array, copy=True)
    array[0] = 1
    assert shared.tolist() == [1, 0]
    assert copied.tolist() == [0, 0]
    with pytest.raises(ValueError, match="copy"):
        pb.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        pb.asarray(shared, dtype=int, copy=False)


def test_copies_of_tensors_pass_gradients():
    x = _leaf([1.0, 2.0])
    for copy in (pb.asarray(x, copy=True), pb.array(x), pb.copy(x), x.copy()):
        assert copy is not x
        assert pb.autograd.grad(copy.sum(), x)[0].tolist() == [1, 1]


def test_a_conversion_of_dtype_passes_gradients():
    x = _leaf([1.0, 2.0])
    y = pb.asarray(x, dtype=np.float32)
    assert y.dtype == np.float32
    assert pb.autograd.grad(y.sum(), x)[0].dtype == np.float64


def test_lists_of_tensors_are_stacked_or_copied():
    x, y = _leaf(1.0), _leaf(2.0)
    joined = pb.asarray([[x, y], [x * y, 3.0]])
    assert joined.tolist() == [[1, 2], [2, 3]]
    joined.sum().backward()
    assert (x.grad.item(), y.grad.item()) == (3, 2)
    assert not pb.tensor([x, y]).requires_grad


def test_linspace_passes_gradients_to_its_ends():
    start, stop = _leaf(1.0), _leaf(3.0)
    points = pb.linspace(start, stop, 5)
    assert points.tolist() == [1, 1.5, 2, 2.5, 3]
    points[1].backward()
    assert (start.grad.item(), stop.grad.item()) == (0.75, 0.25)


def test_geomspace_refuses_zero():
    with pytest.raises(ValueError, match="may not be zero"):
        pb.geomspace(_leaf(0.0), 1.0)


def test_dlpack_shares_memory():
    array = np.zeros(2)
    x = pb.from_dlpack(array)
    array[0] = 1
    assert x.tolist() == [1, 0]


@pytest.mark.parametrize(("copy", "shares"), [(None, True), (False, True), (True, False)])
def test_dlpack_takes_its_options_on_both_sides(copy, shares):
    array = np.zeros(2)
    x = pb.from_dlpack(array, copy=copy)
    assert np.shares_memory(x.numpy(), array) is shares

    class Exchange:  # a consumer that says which version of the protocol it understands
        def __dlpack__(self, **_):
            return x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=copy)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    if x.numpy().flags.writeable:  # else it came from NumPy 2.0, which imports arrays to be read
        assert np.shares_memory(np.from_dlpack(Exchange()), x.numpy()) is shares
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_index_arrays_pick_what_numpys_pick():
    array = np.arange(9.0).reshape(3, 3)
    x = pb.asarray(array)
    for ours, theirs in (
        (pb.tril_indices(3), np.tril_indices(3)),
        (pb.triu_indices(3, 1), np.triu_indices(3, 1)),
        (pb.diag_indices(3), np.diag_indices(3)),
        (pb.ix_([0, 2], [1, 2]), np.ix_([0, 2], [1, 2])),
        (pb.unravel_index([1, 5], (3, 3)), np.unravel_index([1, 5], (3, 3))),
    ):
        assert x[ours].tolist() == array[theirs].tolist()


def test_arange_takes_tensors_as_numbers():
    assert pb.arange(pb.tensor(1), pb.tensor(3)).tolist() == [1, 2]


def test_memory_can_be_handed_to_other_libraries_but_not_history():
    x = pb.tensor([1.0, 2.0])
    shared = np.from_dlpack(x)
    x[0] = 5.0
    assert shared.tolist() == [5.0, 2.0]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.from_dlpack(pb.tensor([1.0], requires_grad=True))


def test_factories_can_be_called_as_operators():
    assert pb.ops.pullback.zeros([2]).tolist() == [0.0, 0.0]
    assert pb.ops.pullback.arange(3).tolist() == [0, 1, 2]
    with pb.inference_mode():
        assert pb.ops.pullback.ones([1]).is_inference()
    assert not pb.ops.pullback.ones([1]).is_inference()


@pytest.mark.filterwarnings("ignore:Overriding:UserWarning")
def test_a_backend_of_ones_own_replaces_a_factory():
    with pb.library.Library("pullback", "IMPL") as library:
        library.impl("ones", lambda shape, dtype=None: pb.full(shape, 7.0, dtype), "CPU")
        assert pb.ops.pullback.ones([1]).tolist() == [7.0]
        assert pb.ones(1).tolist() == [7.0]
    assert pb.ones(1).tolist() == [1.0]
