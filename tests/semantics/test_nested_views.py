"""Views of views, deeper than the recursion limit."""

from __future__ import annotations

import sys

import pytest

DEPTH = 3 * sys.getrecursionlimit()


def nested(tensor):
    for _ in range(DEPTH):
        tensor = tensor[:]
    return tensor


def test_write_to_base_reaches_nested_view(lib):
    w = lib.leaf([1.0, 2.0])
    a = w * 1
    v = nested(a)
    a.mul_(2)
    (v * v).sum().backward()
    assert w.grad.tolist() == [8.0, 16.0]


def test_write_to_nested_view_reaches_base(lib):
    w = lib.leaf([1.0, 2.0])
    a = w * 1
    v = nested(a)
    v.mul_(2)
    (slope,) = lib.grad((a**3).sum(), w, create_graph=True)
    assert slope.tolist() == [24.0, 96.0]
    slope.sum().backward()
    assert w.grad.tolist() == [48.0, 96.0]


@pytest.mark.parametrize("target", ["base", "view"])
def test_history_of_written_value_reaches_base_and_nested_view(lib, target):
    a = lib.tensor([0.0, 0.0])
    v = nested(a)
    w = lib.leaf([1.0, 2.0])
    (a if target == "base" else v).copy_(w)
    (a * v).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("target", ["base", "view"])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_tangent_of_written_value_reaches_base_and_nested_view(lib, target):
    fwd = lib.autograd.forward_ad
    with fwd.dual_level():
        a = lib.tensor([0.0, 0.0])
        v = nested(a)
        x = fwd.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 1.0]))
        (a if target == "base" else v).copy_(x)
        assert fwd.unpack_dual(a * v).tangent.tolist() == [2.0, 4.0]


def test_write_to_base_reaches_views_that_are_all_alive(lib):
    w = lib.leaf([1.0, 2.0])
    views = [w * 1]
    for _ in range(DEPTH):
        views.append(views[-1][:])
    views[0].mul_(2)
    (views[DEPTH // 2] * views[-1]).sum().backward()
    assert w.grad.tolist() == [8.0, 16.0]


@pytest.mark.parametrize("name", ["grad", "jacfwd", "hessian", "vmap(grad)"])
def test_write_to_nested_view_inside_transforms(pb, name):
    def f(x):
        a = x * 1
        v = nested(a)
        v.mul_(2)
        return (a * v).sum()

    x = pb.tensor([1.0, 2.0])
    if name == "vmap(grad)":
        assert pb.func.vmap(pb.func.grad(f))(x[None]).tolist() == [[8.0, 16.0]]
    else:
        expected = [[8.0, 0.0], [0.0, 8.0]] if name == "hessian" else [8.0, 16.0]
        assert getattr(pb.func, name)(f)(x).tolist() == expected
