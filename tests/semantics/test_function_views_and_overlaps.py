"""Views from user functions, memory that overlaps, `requires_grad_` on views, odd layouts."""

from __future__ import annotations

import numpy as np
import pytest


def view_function(lib):
    class First(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def backward(ctx, grad):
            return lib.concatenate([grad, grad * 0])

    return First.apply


def same_function(lib, factor=7):
    class Same(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * factor

    return Same.apply


def test_write_to_view_returned_by_function_raises(lib):
    """Rule 4.28."""
    first = view_function(lib)
    w = lib.leaf(1.0, 2.0)
    a = w * 1
    v = first(a)
    assert v._is_view()
    assert v._base is a
    assert v.grad_fn.name() == "FirstBackward"
    for written in (v, v[:1]):
        with lib.raises("created inside a custom Function"):
            written.mul_(2)
    a.mul_(3)
    with lib.raises("created inside a custom Function"):
        v * 2
    plain = lib.tensor([1.0, 2.0])
    first(plain).mul_(5)
    assert plain.tolist() == [5.0, 2.0]


def test_write_to_one_of_two_views_of_function_raises(lib):
    """Rule 4.28."""

    class Both(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1], x[1:]

        @staticmethod
        def backward(ctx, first, second):
            return lib.concatenate([first, second])

    p, _ = Both.apply(lib.leaf(1.0, 2.0) * 1)
    with lib.raises("multiple views"):
        p.mul_(2)


def test_input_returned_by_function_is_new_view(lib):
    """Rule 4.29."""
    same = same_function(lib)
    w = lib.leaf(1.0, 2.0)
    y = same(w)
    assert y is not w
    assert y._is_view()
    y.sum().backward()
    assert w.grad.tolist() == [7.0, 7.0]
    z = same(w * 1)
    with lib.raises("created inside a custom Function"):
        z.mul_(2)
    plain = lib.tensor([1.0, 2.0])
    assert same(plain) is not plain


def test_detached_input_returned_by_function_is_no_view(lib):
    """Rule 4.30."""

    class Detached(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x.detach()

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    w = lib.leaf(1.0, 2.0)
    y = Detached.apply(w * 1)
    assert not y._is_view()
    assert y.grad_fn.name() == "DetachedBackward"
    y.sum().backward()
    assert w.grad.tolist() == [7.0, 7.0]


def test_write_to_expanded_tensor_raises(lib):
    """Rule 4.31."""
    key = "more than one element of the written-to tensor refers to a single memory location"
    a = lib.broadcast_to(lib.tensor([1.0, 2.0]), (3, 2))
    for write in (
        lambda: a.add_(1),
        lambda: a.copy_(lib.tensor([5.0, 6.0])),
        lambda: a.__setitem__(slice(None), 5.0),
    ):
        with lib.raises(key):
            write()
    a[0] = 5.0
    assert a.tolist() == [[5.0, 5.0]] * 3
    a.zero_()
    assert a.tolist() == [[0.0, 0.0]] * 3
    a.fill_(4.0)
    assert a.tolist() == [[4.0, 4.0]] * 3


def test_write_from_overlapping_input_raises(lib):
    """Rule 4.32."""
    key = "some elements of the input tensor and the written-to tensor refer"
    a = lib.tensor([1.0, 2.0, 3.0, 4.0])
    square = a.reshape(2, 2)
    for write in (
        lambda: a[1:].add_(a[:-1]),
        lambda: a.__setitem__(slice(1, None), a[:-1]),
        lambda: square.add_(square.T),
    ):
        with lib.raises(key):
            write()
    assert a.tolist() == [1.0, 2.0, 3.0, 4.0]
    a.add_(a)
    a[:2].add_(a[2:])
    assert a.tolist() == [8.0, 12.0, 6.0, 8.0]


def test_gradients_of_overlapping_reads_are_summed(lib):
    """Rule 4.34."""
    w = lib.leaf(1.0, 2.0, 3.0)
    weights = lib.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    (lib.broadcast_to(w, (2, 3)) * weights).sum().backward()
    assert w.grad.tolist() == [3.0, 5.0, 7.0]
    w.grad = None
    w[[0, 0, 1]].sum().backward()
    assert w.grad.tolist() == [2.0, 1.0, 0.0]
    for overlapping in (lambda x: x.as_strided((3, 2), (1, 1)), lambda x: x.unfold(0, 2, 1)):
        x = lib.leaf(1.0, 2.0, 3.0, 4.0)
        overlapping(x).sum().backward()
        assert x.grad.tolist() == [1.0, 2.0, 2.0, 1.0]


def test_view_that_requires_grad_is_leaf_of_its_own(lib, words):
    """Rule 4.35."""
    a = lib.tensor([1.0, 2.0])
    v = a[:1]
    v.requires_grad_()
    assert (v.is_leaf, a.requires_grad) == (True, False)
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0]
    assert a.grad is None
    with lib.raises(words.view_of_leaf):
        v.mul_(2)
    w = lib.leaf(5.0, 6.0)
    a.mul_(w)
    assert v.grad_fn is not None
    (v * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 0.0]


def test_requires_grad_can_be_taken_back_from_a_view(lib):
    a = lib.tensor([1.0, 2.0])
    v = a[:1].requires_grad_()
    v.requires_grad_(False)
    assert not v.requires_grad
    w = lib.leaf(5.0, 6.0)
    a.mul_(w)
    v.sum().backward()
    assert w.grad.tolist() == [1.0, 0.0]


def test_a_gradient_in_another_layout_is_written_in_the_right_place(lib):
    w = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    a = w * 1
    a.reshape(4)[1:3].mul_(10)
    seed = lib.tensor([[1.0, 2.0], [3.0, 4.0]]).T  # Fortran order
    a.backward(seed)
    assert w.grad.tolist() == [[1.0, 30.0], [20.0, 4.0]]


def test_a_write_through_a_complex_view(lib):
    z = lib.tensor([1 + 2j], "complex128", requires_grad=True)
    a = z * 1
    lib.real(a).mul_(10)
    a.backward(lib.tensor([1 + 1j], "complex128"))
    assert z.grad.tolist() == [10 + 1j]


def test_views_of_views_after_many_writes(lib):
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    v = a.reshape(2, 2)
    u = v.T[0]
    u.mul_(2)
    a[1:].add_(w[:3])
    v[1].mul_(w[2])
    u.mul_(u.clone())
    (g,) = lib.grad((a * a * v.reshape(4)).sum(), w)
    x = np.array([1.0, 2.0, 3.0, 4.0])

    def f(x):
        a = x.copy()
        v = a.reshape(2, 2)
        u = v.T[0]
        u *= 2
        a[1:] += x[:3]
        v[1] *= x[2]
        u *= u.copy()
        return (a**3).sum()

    eps = 1e-6
    expected = [(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(4)]
    np.testing.assert_allclose(g.tolist(), expected, rtol=1e-4)


def test_write_to_self_overlapping_view_raises(pb):
    """Rule 4.33.

    PyTorch writes, and the result depends on the order; here it is refused like stride 0.
    """
    windows = (pb.leaf(1.0, 2.0, 3.0, 4.0) * 1).as_strided((3, 2), (1, 1))
    with pb.raises("more than one element of the written-to tensor refers"):
        windows.mul_(2.0)
    assert windows.zero_().tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"),
    [
        ((2, 3), (1, 2), False),
        ((3, 2), (2, 3), False),  # steps that interleave: 0 2 4 3 5 7
        ((4, 2), (2, 3), False),
        ((4, 3), (2, 3), True),  # 6 twice
        ((2, 2), (1, 1), True),
        ((1, 3), (0, 1), False),
        ((0, 3), (1, 1), False),
    ],
)
def test_self_overlap_is_decided_by_strides(pb, shape, strides, overlaps):
    """Rule 4.33."""
    part = pb.tensor(np.arange(16.0)).as_strided(shape, strides)
    if overlaps:
        with pb.raises("more than one element of the written-to tensor refers"):
            part.add_(1.0)
    else:
        expected = part.clone() + 1
        assert part.add_(1.0).tolist() == expected.tolist()


def test_a_row_is_made_again_by_itself(pb):
    """Else a write to each of n rows would make n rows each time."""
    w = pb.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    base = w * 1
    for number, row in enumerate(base):
        row.mul_(number + 2.0)
        if number:
            assert row.grad_fn.name() == "GetitemBackward0"
    parts = pb.split(base, 3)
    base.mul_(1.0)
    assert parts[2].grad_fn.name() == "GetitemBackward0"
    base.sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("cuts", [2, [1], [3, 1], [1, 9]])
def test_a_part_is_made_again_at_its_own_place(pb, axis, cuts):
    w = pb.tensor(np.arange(16.0).reshape(4, 4), requires_grad=True)
    base = w * 1
    parts = pb.split(base, cuts, axis)
    base.mul_(2.0)
    places = np.split(np.arange(16).reshape(4, 4), cuts, axis)
    for part, place in zip(parts, places, strict=True):
        assert part.tolist() == (2.0 * place).tolist()
        (grad,) = pb.grad(part.sum(), w, retain_graph=True)
        expected = np.zeros(16)
        expected[place] = 2.0
        assert grad.ravel().tolist() == expected.tolist()
