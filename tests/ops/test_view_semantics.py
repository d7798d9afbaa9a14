"""Views and writes through them: the rules of the graph, with exact numbers."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import gradcheck
from pullback.errors import DerivativeMissingError, InplaceError


def leaf(*values):
    return pb.tensor(values, dtype=float, requires_grad=True)


def constant(values):
    return pb.tensor(np.asarray(values, dtype=float))


def gradient(output, x):
    output.sum().backward()
    return x.grad.tolist()


# --- views -------------------------------------------------------------------------------------

VIEWS = {
    "reshape": lambda a: a.reshape(3, 2),
    "ravel": lambda a: a.ravel(),
    "view": lambda a: a.view(6),
    "T": lambda a: a.T,
    "mT": lambda a: a.mT,
    "transpose": lambda a: a.transpose(1, 0),
    "moveaxis": lambda a: a.moveaxis(0, 1),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "expand_dims": lambda a: a.expand_dims(0),
    "squeeze": lambda a: a.squeeze(),
    "broadcast_to": lambda a: a.broadcast_to((2, 2, 3)),
    "expand": lambda a: a.expand(2, 2, 3),
    "select": lambda a: a.select(1, 0),
    "integer": lambda a: a[1],
    "slice": lambda a: a[:, 1:],
    "ellipsis": lambda a: a[...],
    "newaxis": lambda a: a[None],
    "narrow": lambda a: a.narrow(1, 0, 2),
    "diagonal": lambda a: a.diagonal(),
    "unfold": lambda a: a.unfold(1, 2, 1),
    "as_strided": lambda a: a.as_strided((2, 2), (1, 1)),
    "split": lambda a: pb.split(a, 3, 1)[1],
    "chunk": lambda a: a.chunk(2)[0],
    "unbind": lambda a: a.unbind()[1],
    "hsplit": lambda a: pb.hsplit(a, 3)[2],
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_views_share_memory_and_have_root_as_base(make):
    """Rule 4.9."""
    a = constant([[1, 2, 3], [4, 5, 6]])
    v = make(a)
    assert v._is_view()
    assert v._base is a
    assert make(a[...])._base is a
    a.zero_()
    assert v.tolist() == np.zeros(v.shape).tolist()


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_view_is_differentiated_and_follows_writes_to_its_base(make):
    values = np.arange(1.0, 7.0).reshape(2, 3)
    w = pb.tensor(values, requires_grad=True)
    a = w * 1
    v = make(a)
    weight = np.arange(1.0, v.size + 1).reshape(v.shape)
    a.mul_(2)
    (v * constant(weight)).sum().backward()
    probe = pb.tensor(values, requires_grad=True)
    (make(probe) * constant(weight)).sum().backward()
    assert w.grad.tolist() == (2 * probe.grad.numpy()).tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a[[0, 1]],
        lambda a: a[a > 2],
        lambda a: a.clone(),
        lambda a: pb.flip(a),
        lambda a: pb.rot90(a),
        lambda a: pb.rot90(a, 0),
        lambda a: pb.diag(a),
        lambda a: pb.tril(a),
        lambda a: a.flatten(),
        lambda a: a.T.reshape(-1),
        lambda a: pb.roll(a, 1),
        lambda a: pb.take(a, [0]),
    ],
)
def test_copies_share_nothing(make):
    """Rule 4.9."""
    a = constant([[1, 2], [4, 5]])
    copy = make(a)
    before = copy.tolist()
    assert not copy._is_view()
    a.zero_()
    assert copy.tolist() == before


def test_trivial_views_are_new_objects():
    """Rule 4.10."""
    a = constant([1, 2])
    for v in (a.squeeze(), a[...], a.view(2), a[:]):
        assert v is not a
        assert v._is_view()


def test_a_view_of_another_dtype_has_no_history():
    """Rule 4.11."""
    a = leaf(1, 2) * 1
    v = a.view(np.int64)
    assert v.grad_fn is None
    assert not v.requires_grad
    assert v.tolist() == np.array([1.0, 2.0]).view(np.int64).tolist()


# --- views and writes ----------------------------------------------------------------------------


def test_a_write_to_a_view_rewrites_the_base():
    """Rule 4.12."""
    w = leaf(1, 2, 3)
    a = w * 1
    a[:2].mul_(10)
    assert gradient(a, w) == [10, 10, 1]


def test_write_through_chained_views_rewrites_base():
    """Rules 4.13, 12.1."""
    w = leaf(1, 2, 3, 4)
    a = w * 1
    v = a.view(2, 2)
    u = v[0]
    u.mul_(10)
    assert gradient(v * constant([[1, 2], [3, 4]]), w) == [10, 20, 3, 4]


def test_writing_through_a_transpose():
    """Rule 4.13."""
    w = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a = pb.zeros(4)
    a.view(2, 2).T.copy_(w)
    assert a.tolist() == [1, 3, 2, 4]
    assert gradient(a * constant([1, 2, 3, 4]), w) == [[1, 3], [2, 4]]


def test_writing_through_a_diagonal():
    """Rule 4.13."""
    w = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a = w * 1
    a.diagonal().mul_(10)
    assert gradient(a, w) == [[10, 1], [1, 10]]


def test_writing_through_a_stride():
    """Rule 4.13."""
    w = leaf(1, 2, 3)
    a = w * 1
    a[::2].exp_()
    np.testing.assert_allclose(gradient(a, w), [np.e, 1, np.exp(3)])


def test_interleaved_writes_to_sibling_views_compose():
    """Rules 4.14, 12.2."""
    w = leaf(1, 2, 3, 4)
    a = w * 1
    a[:2].mul_(10)
    a[1:3].mul_(3)
    assert gradient(a, w) == [10, 30, 3, 1]


def test_a_write_to_the_base_reaches_its_views():
    """Rule 4.15."""
    w = leaf(1, 2, 3, 4)
    a = w * 1
    v = a.view(2, 2)
    before = v.grad_fn
    a.mul_(5)
    assert v.grad_fn is not before
    assert gradient(v[0] * constant([1, 2]), w) == [5, 10, 0, 0]


def test_a_view_of_a_plain_base_gets_history():
    """Rule 4.16."""
    w = leaf(3, 4)
    a = constant([1, 1])
    v = a[:1]
    a.mul_(w)
    assert gradient(v, w) == [1, 0]


def test_a_base_gets_history_through_its_view():
    """Rule 4.16."""
    w = leaf(3)
    a = constant([1, 1])
    a[:1].mul_(w)
    assert a.requires_grad
    assert gradient(a, w) == [1]


def test_earlier_results_keep_their_state():
    """Rules 4.17, 12.3."""
    w, b = leaf(1, 2), pb.tensor(3.0, requires_grad=True)
    a = w * 1
    v = a[:1]
    v.mul_(b)
    y = v * 1
    a.mul_(2)
    y.sum().backward()
    assert w.grad.tolist() == [3, 0]
    assert b.grad.item() == 1


@pytest.mark.parametrize(
    ("base", "view", "expected"),
    [
        (lambda w: w.T * 1, lambda a: a.T.reshape(-1)[:2], [[10, 10], [1, 1]]),
        (lambda w: pb.ascontiguousarray(w.T), lambda a: a.reshape(-1)[:2], [[10, 1], [10, 1]]),
        (lambda w: pb.tensor(np.asfortranarray(np.ones((2, 2)))).mul_(w), lambda a: a.T[0], None),
    ],
)
def test_writes_through_views_do_not_depend_on_the_layout_of_gradients(base, view, expected):
    """The gradient may come in any memory order; the part that was written to must be found."""
    w = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    results = []
    for order in "CF":
        for create_graph in (False, True):
            a = base(w)
            view(a).mul_(10)
            seed = pb.asarray(np.asarray(np.ones((2, 2)), order=order))
            (g,) = pb.autograd.grad(a, w, seed, create_graph=create_graph)
            results.append(g.tolist())
    assert all(result == results[0] for result in results)
    if expected is not None:
        assert results[0] == expected


# --- several views of one call -------------------------------------------------------------------


def test_splits_made_of_slices_can_be_written_to():
    """Rule 4.26."""
    w = leaf(1, 2, 3)
    a = w * 1
    pb.array_split(a, 2)[0].mul_(10)
    assert gradient(a, w) == [10, 10, 1]


def test_views_of_one_call_share_a_node():
    """Rule 4.27."""
    x = leaf(1, 2, 3)
    p, q, _ = (x * 1).unbind()
    assert p.grad_fn is q.grad_fn
    assert (p.output_nr, q.output_nr) == (0, 1)
    assert gradient(p * 2, x) == [2, 0, 0]


def test_iteration_gives_views_of_one_call():
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    rows = list(x)
    assert rows[0].grad_fn is rows[1].grad_fn
    assert gradient(rows[1], x) == [[0, 0], [1, 1]]


def test_iteration_over_a_tensor_without_axes_is_refused():
    with pytest.raises(TypeError, match="without axes"):
        iter(pb.tensor(1.0))


# --- overlapping memory --------------------------------------------------------------------------


def test_writes_to_repeated_elements_are_refused():
    """Rule 4.31."""

    def assign(a):
        a[:] = 5

    def put(a):
        a[[0]] = 5

    def fill(a):
        a.fill_(pb.tensor(5.0, requires_grad=True))

    for write in (lambda a: a.mul_(2), lambda a: a.copy_(constant(1)), assign, put, fill):
        a = constant([1]).expand(3)
        with pytest.raises(InplaceError, match="more than one element of the written-to tensor"):
            write(a)
        assert a.tolist() == [1, 1, 1]


def test_zeroing_filling_and_single_elements_are_allowed():
    """Rule 4.31."""
    a = constant([1]).expand(3)
    a.fill_(7)
    assert a.tolist() == [7, 7, 7]
    a.zero_()
    assert a.tolist() == [0, 0, 0]
    a[0] = 5
    assert a.tolist() == [5, 5, 5]


def test_assignment_of_an_overlapping_part_is_refused():
    """Rule 4.32."""
    a = constant([1, 2, 3])
    with pytest.raises(InplaceError, match="some elements of the input tensor and the written-to"):
        a[1:] = a[:-1]
    a[:] = a
    assert a.tolist() == [1, 2, 3]


def test_an_element_may_be_written_to_all_others():
    """PyTorch fills with the number, so that nothing overlaps."""
    a = leaf(1, 2, 3)
    b = a * 1
    b[:] = b[1]
    assert b.tolist() == [2, 2, 2]
    b.sum().backward()
    assert a.grad.tolist() == [0, 3, 0]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda w: w.expand(2, 3) * constant(np.arange(6.0).reshape(2, 3)), [3, 5, 7]),
        (lambda w: w[[0, 0, 1]], [2, 1, 0]),
        (lambda w: pb.take(w, [0, 0, 1]), [2, 1, 0]),
        (lambda w: w.index_select(0, [0, 0, 1]), [2, 1, 0]),
        (lambda w: w.gather(0, [0, 0, 1]), [2, 1, 0]),
    ],
    ids=["expand", "index", "take", "index_select", "gather"],
)
def test_gradients_of_repeated_reads_are_summed(read, expected):
    """Rule 4.34."""
    w = leaf(1, 2, 3)
    assert gradient(read(w), w) == expected


@pytest.mark.parametrize(
    "read",
    [lambda w: w.as_strided((3, 2), (1, 1)), lambda w: w.unfold(0, 2, 1)],
    ids=["as_strided", "unfold"],
)
def test_gradients_of_overlapping_windows_are_summed(read):
    """Rule 4.34."""
    w = leaf(1, 2, 3, 4)
    assert gradient(read(w), w) == [1, 2, 2, 1]


def test_the_memory_seen_as_another_type_keeps_its_history_or_raises():
    x = pb.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)
    z = pb.tensor([[1 + 2j, 3 - 1j]], requires_grad=True)
    for source, dtype in ((x, complex), (x, float), (z, float), (z, complex)):
        assert gradcheck(lambda t, d=dtype: (t * 2).view(d) ** 2, (source,))
        seen = (source * 2).view(dtype)
        assert seen.tolist() == (source * 2).detach().numpy().view(dtype).tolist()
    with pytest.raises(DerivativeMissingError, match=r"astype\(dtype\)"):
        x.view(np.float32)
    assert not x.view(np.int64).requires_grad


def test_put_along_axis_writes_in_place_as_numpys_does():
    x, v = pb.zeros((2, 3)), pb.tensor([[5.0], [6.0]], requires_grad=True)
    assert pb.put_along_axis(x, np.array([[2], [0]]), v, axis=1) is None
    assert x.tolist() == [[0.0, 0.0, 5.0], [6.0, 0.0, 0.0]]
    (slope,) = pb.autograd.grad((x * [1.0, 2.0, 3.0]).sum(), v)
    assert slope.tolist() == [[3.0], [1.0]]


def test_put_and_fill_diagonal_write_in_place_as_numpys_do():
    x, v = pb.zeros((2, 2)), pb.tensor([5.0, 6.0], requires_grad=True)
    assert pb.put(x, [3, 0], v) is None
    assert x.tolist() == [[6.0, 0.0], [0.0, 5.0]]
    assert pb.fill_diagonal(x, v * 2.0) is None
    assert x.tolist() == [[10.0, 0.0], [0.0, 12.0]]
    (slope,) = pb.autograd.grad((x * [[1.0, 2.0], [3.0, 4.0]]).sum(), v)
    assert slope.tolist() == [2.0, 8.0]
