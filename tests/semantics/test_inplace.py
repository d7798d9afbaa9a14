"""In-place operations: what may be written to, and how history follows."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("view", [False, True])
def test_write_to_requiring_leaf_raises_and_changes_nothing(lib, words, view):
    """Rule 4.1."""
    a = lib.leaf(1.0, 2.0)
    writes = {
        False: [lambda: a.add_(1), lambda: a.zero_(), lambda: a.__iadd__(1)],
        True: [
            lambda: a[:1].add_(1),
            lambda: a.reshape(2, 1).add_(1),
            lambda: a.__setitem__(0, 5.0),
        ],
    }
    for write in writes[view]:
        with lib.raises(words.view_of_leaf if view else words.leaf):
            write()
    assert (a.tolist(), a._version) == ([1.0, 2.0], 0)


def test_in_place_op_replaces_grad_fn_and_consumers_keep_theirs(lib):
    """Rule 4.2."""
    w = lib.leaf(1.0, 2.0)
    y = w * 1
    old = y.grad_fn
    z = y + 0
    y.mul_(5)
    assert y.grad_fn is not old
    assert y.grad_fn.next_functions[0][0] is old
    (z + y).sum().backward()
    assert w.grad.tolist() == [6.0, 6.0]


def test_plain_leaf_gets_history_from_requiring_operand(lib):
    """Rule 4.3."""
    a, w = lib.tensor([1.0, 2.0]), lib.leaf(3.0, 4.0)
    a.mul_(w)
    assert (a.is_leaf, a.requires_grad) == (False, True)
    a.sum().backward()
    assert w.grad.tolist() == [1.0, 2.0]


def test_in_place_result_must_fit_dtype_and_shape(lib):
    """Rule 4.4."""
    with lib.raises("can't be cast"):
        lib.tensor([1, 2], "int64").mul_(1.5)
    with lib.raises("can't be cast"):
        lib.tensor([1.0, 2.0]).mul_(lib.tensor([1j, 1j], "complex128"))
    single, w = lib.tensor([1.0, 2.0], "float32"), lib.leaf(3.0, 4.0)
    single.mul_(w)
    single.sum().backward()
    assert single.dtype == lib.dtype("float32")
    assert w.grad.dtype == lib.dtype("float64")
    with lib.raises("doesn't match the broadcast shape"):
        lib.tensor([1.0]).add_(lib.tensor([1.0, 2.0]))


def test_overwritten_values_get_zero_gradient(lib):
    """Rule 4.5."""
    for change in (
        lambda y: y.zero_(),
        lambda y: y.fill_(7.0),
        lambda y: y.copy_(lib.tensor([5.0, 6.0])),
    ):
        w = lib.leaf(1.0, 2.0)
        y = w * 1
        change(y)
        y.sum().backward()
        assert w.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(2,), (3,)])
def test_resize_of_requiring_tensor_raises(lib, shape):
    """Rule 4.6."""
    leaf = lib.leaf(1.0, 2.0)
    for tensor in (leaf, leaf * 1, leaf[:1]):
        with lib.raises("cannot resize variables that require grad"):
            tensor.resize_(*shape)


def test_resize_fills_new_elements_with_zeros(pb):
    """Rule 4.6. PyTorch leaves new elements as they are in memory; here they are zero."""
    a = pb.tensor([1.0, 2.0])
    assert a.resize_(2, 2).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    with pb.raises("a view cannot be resized"):
        a[0].resize_(3)


def test_out_argument_is_recorded_as_write(pb, words):
    """Rule 4.7. PyTorch refuses; a write that is mathematically sound is recorded here."""
    w = pb.leaf(1.0, 2.0)
    out = pb.tensor([0.0, 0.0])
    assert pb.multiply(w, 3.0, out=out) is out
    assert out.grad_fn is not None
    out.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with pb.raises(words.leaf):
        pb.multiply(w, 3.0, out=w)
    with pb.no_grad():
        pb.multiply(w, 3.0, out=w)
    assert (w.tolist(), w._version) == ([3.0, 6.0], 1)
    with pb.raises("shape", ValueError):
        pb.multiply(w, 3.0, out=pb.tensor([0.0]))
    with pb.raises("can't be cast"):
        pb.multiply(w.detach(), 1.5, out=pb.tensor([0, 0], "int64"))


def test_base_of_view_is_root_of_chain(lib):
    """Rule 4.8."""
    a = lib.tensor([1.0, 2.0, 3.0])
    v = a[:2][:1]
    assert v._base is a
    assert v._is_view()
    b = a.detach()
    assert b[:2]._base is b


def test_views_share_memory_and_copies_do_not(lib):
    """Rule 4.9."""
    a = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    views = [
        a.reshape(4),
        a.T,
        a.mT,
        a[None],
        a[0],
        a[:1],
        a[...],
        a.diagonal(),
        a.view(4),
        a.view(2, 2),
        a.ravel(),
        a.expand(3, 2, 2),
        a.select(0, 1),
        a.narrow(0, 0, 1),
        a.unfold(0, 1, 1),
        a.as_strided((2,), (1,)),
        *a.split(1),
        *a.chunk(2),
        lib.broadcast_to(a, (3, 2, 2)),
        lib.moveaxis(a, 0, 1),
        lib.swapaxes(a, 0, 1),
        *a.unbind(),
    ]
    assert all(v._is_view() and v._base is a for v in views)
    copies = [a[[0]], a[a > 1], a.clone(), lib.cast(a, "float32"), a.T.reshape(4)]
    assert not any(c._is_view() for c in copies)


def test_trivial_views_are_new_objects(lib):
    """Rule 4.10."""
    a = lib.tensor([1.0, 2.0])
    for v in (lib.squeeze(a), a[...], a.reshape(2)):
        assert v is not a
        assert v._base is a


@pytest.mark.parametrize("way", ["split", "chunk"])
def test_parts_of_split_can_be_written(pb, way):
    """Rule 4.23. PyTorch refuses to write to one of several views that one call has made."""
    w = pb.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    for number, part in enumerate(getattr(a, way)(2)):
        part.mul_(number + 2)
    a.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 3.0, 3.0]


def test_parts_made_of_slices_can_be_written(lib):
    """Rule 4.26."""
    cut = lib.module.tensor_split if lib.is_torch else lib.array_split
    w = lib.leaf(1.0, 2.0, 3.0)
    a = w * 1
    first, _ = cut(a, 2)
    first.mul_(10)
    a.sum().backward()
    assert w.grad.tolist() == [10.0, 10.0, 1.0]


def test_write_to_part_reaches_base_and_other_parts(pb):
    """Rule 4.26.

    PyTorch's unsafe_split gives a wrong gradient here without an error.
    """
    w = pb.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    first, second = pb.split(a, 2)
    first.mul_(10)
    second.mul_(first.clone())
    a.sum().backward()
    assert w.grad.tolist() == [40.0, 50.0, 10.0, 20.0]


def test_shapes_change_with_their_history(lib):
    w = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    y = w * 2
    y.t_()
    y.unsqueeze_(0).squeeze_()
    (y * lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert w.grad.tolist() == [[2.0, 6.0, 10.0], [4.0, 8.0, 12.0]]
    for change in (w.t_, lambda: w.unsqueeze_(0)):
        with lib.raises("leaf Variable that requires grad"):
            change()
    assert tuple(w.shape) == (2, 3)


def test_a_view_changes_its_shape_alone(lib):
    w = lib.leaf(1.0, 2.0, 3.0)
    base = w * 1
    view = base[:2]
    view.unsqueeze_(0)
    assert (tuple(view.shape), tuple(base.shape)) == ((1, 2), (3,))
    view.mul_(5.0)
    (base.sum() + view.sum()).backward()
    assert w.grad.tolist() == [10.0, 10.0, 1.0]


def test_a_saved_value_that_changed_its_shape_is_noticed(lib, words):
    y = lib.tensor([[1.0, 2.0]], requires_grad=True) * 1
    z = y * y
    y.t_()
    with lib.raises(words.version):
        z.sum().backward()


def test_a_view_is_left_behind_by_a_base_of_another_shape(pb):
    w = pb.leaf([[1.0, 2.0], [3.0, 4.0]])
    base = w * 1
    row = base[0]
    base.t_()
    with pb.raises("make the view anew"):
        row * 2
    plain = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
    row = plain[0]
    plain.t_()
    assert (row * 2).tolist() == [2.0, 4.0]
    with pb.raises("make the view anew"):
        row.mul_(w[0])
    assert plain.tolist() == [[1.0, 3.0], [2.0, 4.0]]


SHAPE_WRITES = {
    "transpose_": lambda x: x.transpose_(0, 1),
    "t_": lambda x: x.t_(),
    "squeeze_": lambda x: x.squeeze_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
}


@pytest.mark.parametrize("name", SHAPE_WRITES)
def test_a_leaf_changes_its_shape_in_no_grad_mode(lib, words, name):
    x = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    earlier = x * x
    with lib.no_grad():
        SHAPE_WRITES[name](x)
    assert x.is_leaf
    assert x.requires_grad
    assert x._version == 1
    with lib.raises(words.version):
        earlier.sum().backward()
    del earlier
    (x * x).sum().backward()
    assert x.grad.tolist() == (x * 2).tolist()
    with lib.raises(words.leaf):
        SHAPE_WRITES[name](x)


def test_a_leaf_gets_other_memory_in_no_grad_mode(lib, words):
    x = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    earlier = x * x
    with lib.no_grad():
        x.set_(lib.leaf([[9.0, 8.0]]))
    assert x.is_leaf
    assert x.requires_grad
    with lib.raises(words.version):
        earlier.sum().backward()
    del earlier
    (x * x).sum().backward()
    assert x.grad.tolist() == [[18.0, 16.0]]
    with lib.raises(words.leaf):
        x.set_(lib.tensor([[1.0]]))


@pytest.mark.parametrize("name", ["transpose_", "set_", "data"])
def test_a_gradient_of_the_old_shape_is_refused(lib, name):
    x = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = x * 2  # saves nothing of it
    with lib.no_grad():
        if name == "transpose_":
            x.transpose_(0, 1)
        elif name == "set_":
            x.set_(lib.tensor([[9.0, 8.0]]))
        else:
            x.data = lib.tensor([[9.0, 8.0]])
    with pytest.raises(RuntimeError):
        y.sum().backward()
    assert x.grad is None or lib.is_torch  # PyTorch has written it before it fails
    del y
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.shape == x.shape


def test_a_gradient_that_lacks_axes_of_length_one_fits(lib):
    x = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = x * 2
    with lib.no_grad():
        x.unsqueeze_(0)
    (y.sum() + (x * 3).sum()).backward()
    assert x.grad.tolist() == [[[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]]


@pytest.mark.parametrize("of_leaf", [False, True])
@pytest.mark.parametrize("name", SHAPE_WRITES)
def test_a_view_changes_its_shape_in_no_grad_mode(lib, name, of_leaf):
    w = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    v = w[:] if of_leaf else (w * 1)[:]
    with lib.no_grad():
        SHAPE_WRITES[name](v)
    (v * v).sum().backward()
    assert w.grad.tolist() == [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]


@pytest.mark.parametrize("name", SHAPE_WRITES)
def test_what_has_a_history_changes_its_shape_in_no_grad_mode(pb, name):
    w = pb.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    a = w * 1
    with pb.no_grad():
        SHAPE_WRITES[name](a)
    (a * a).sum().backward()
    assert w.grad.tolist() == [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]


def test_data_of_another_shape_cannot_be_differentiated(lib):
    w = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    a = w * 2
    a.data = lib.tensor([[9.0, 8.0]])
    with lib.raises("returned an invalid gradient"):
        (a * a).sum().backward()


def test_writes_go_where_numpy_writes(pb):
    """The history is laid over NumPy's own memory."""
    array = np.arange(6.0).reshape(2, 3)
    a = pb.from_numpy(array)
    a[:, 1:].mul_(10)
    assert array.tolist() == [[0.0, 10.0, 20.0], [3.0, 40.0, 50.0]]


def test_a_failed_write_leaves_no_trace(pb):
    w = pb.leaf(1.0, 2.0)
    y = w * 1
    node = y.grad_fn
    with pytest.raises(RuntimeError):
        y.mul_(pb.leaf([[1.0, 2.0], [3.0, 4.0]]))
    assert y.grad_fn is node
    assert (y._version, y.tolist()) == (0, [1.0, 2.0])


def test_read_only_memory_is_not_written_to(pb):
    array = np.array([1.0, 2.0])
    array.flags.writeable = False
    a = pb.from_numpy(array)
    with pb.raises("read-only"):
        a.add_(1)
    assert (a.tolist(), a._version) == ([1.0, 2.0], 0)
