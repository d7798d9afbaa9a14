"""Behaviours that a naive implementation gets silently wrong, with the numbers that tell."""

from __future__ import annotations

import math

import numpy as np
import pytest


def test_write_through_chained_view_rewrites_base(lib):
    """Rule 12.1."""
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    v = a.reshape(2, 2)
    v[0].mul_(10)
    (v * lib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad.tolist() == [10.0, 20.0, 3.0, 4.0]


def test_interleaved_sibling_writes_compose(lib):
    """Rule 12.2."""
    w = lib.leaf(1.0, 1.0, 1.0, 1.0)
    a = w * 1
    a[:2].mul_(10)
    a[1:3].mul_(3)
    a.sum().backward()
    assert w.grad.tolist() == [10.0, 30.0, 3.0, 1.0]


def test_view_follows_base_but_earlier_results_do_not(lib):
    """Rule 12.3."""
    w, b = lib.leaf(1.0, 2.0), lib.leaf(3.0)
    a = w * 1
    v = a[:1]
    v.mul_(b)
    y = v * 1
    a.mul_(2)
    y.sum().backward()
    assert (w.grad.tolist(), b.grad.item()) == ([3.0, 0.0], 1.0)
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    v = a.reshape(2, 2)
    a.mul_(5)
    v.sum().backward()
    assert w.grad.tolist() == [5.0] * 4


def test_in_place_op_with_itself(lib, words):
    """Rule 12.4."""
    w = lib.leaf(1.0, 2.0)
    y = w * 1
    y.mul_(y)
    with lib.raises(words.version):
        y.sum().backward()
    found = []
    for change in (lambda y: y.mul_(w), lambda y: y.pow_(2), lambda y: y.sin_()):
        y = w * 1
        change(y)
        found.append(lib.grad(y.sum(), w)[0].tolist())
    expected = [[2.0, 4.0], [2.0, 4.0], [math.cos(1), math.cos(2)]]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_saved_result_versus_saved_input(lib, words):
    """Rule 12.5."""
    w = lib.leaf(1.0, 2.0)
    y = lib.exp(w)
    y.add_(1)
    with lib.raises(words.version):
        y.sum().backward()
    y = w * 3
    y.mul_(2)
    assert lib.grad(y.sum(), w)[0].tolist() == [6.0, 6.0]
    y = w * lib.tensor([3.0, 4.0])
    z = w * lib.leaf(3.0, 4.0)
    with lib.no_grad():
        w.add_(1)
    assert lib.grad(y.sum(), w)[0].tolist() == [3.0, 4.0]
    with lib.raises(words.version):
        z.sum().backward()


def test_write_is_detected_by_alias(lib, words):
    """Rule 12.6."""
    w = lib.leaf(1.0, 2.0)
    y = w * w
    w.detach().add_(1)
    with lib.raises(words.version):
        y.sum().backward()
    w = lib.leaf(1.0, 2.0)
    y = w * w
    w.data.add_(1)
    y.sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]
    w = lib.leaf(1.0, 2.0)
    y = w * w
    w.detach().numpy()[...] += 1
    y.sum().backward()
    assert (w.grad.tolist(), w._version) == ([4.0, 6.0], 0)


@pytest.mark.parametrize(("copies", "expected"), [(False, [4.0, 6.0]), (True, [2.0, 4.0])])
def test_saved_tensor_hooks_turn_version_check_off(lib, copies, expected):
    """Rule 12.7."""
    w = lib.leaf(1.0, 2.0)
    pack = (lambda t: t.clone()) if copies else (lambda t: t)
    with lib.graph.saved_tensors_hooks(pack, lambda t: t):
        y = w * w
    with lib.no_grad():
        w.add_(1)
    y.sum().backward()
    assert w.grad.tolist() == expected


def test_no_grad_view_is_disconnected(lib):
    """Rule 12.8."""
    a = lib.leaf(1.0, 2.0)
    with lib.no_grad():
        v = a[:1]
    (v * 2).sum().backward()
    assert v.requires_grad
    assert (a.grad, v.grad) == (None, None)


def test_hook_position_around_in_place_write(lib):
    """Rule 12.9."""
    a, log = lib.leaf(1.0, 2.0), []
    y = a * 2
    y.register_hook(lambda g: log.append(("h1", g.tolist())))
    y.mul_(5)
    y.register_hook(lambda g: log.append(("h2", g.tolist())))
    y.sum().backward()
    assert log == [("h2", [1.0, 1.0]), ("h1", [5.0, 5.0])]
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 3).sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([3.0, 3.0], [30.0, 30.0])


def test_retain_grad_runs_after_tensor_hooks(lib):
    """Rule 12.10."""
    a = lib.leaf(1.0)
    y = a * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.backward()
    assert (y.grad.item(), a.grad.item()) == (10.0, 20.0)


def test_hook_gets_total_gradient_once(lib):
    """Rule 12.11."""
    a, seen = lib.leaf(1.0), []
    y = a * 1
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 2 + y * 3).backward()
    assert seen == [5.0]


def test_undefined_gradient_is_not_zero(lib):
    """Rule 12.12."""

    def through(backward):
        namespace = {
            "forward": staticmethod(lambda ctx, x: x * 1),
            "backward": staticmethod(backward),
        }
        return type("Through", (lib.Function,), namespace).apply

    nothing = through(lambda ctx, grad: None)
    a = lib.leaf(1.0, 2.0)
    nothing(lib.exp(a)).sum().backward()
    assert a.grad is None
    nothing(through(lambda ctx, grad: grad)(a)).sum().backward()
    assert a.grad.tolist() == [0.0, 0.0]
    w = lib.leaf(1.0, 2.0)
    y = w * 1
    y.zero_()
    y.sum().backward()
    assert w.grad.tolist() == [0.0, 0.0]
    w.grad = None
    w.unbind()[0].backward()
    assert w.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("order", "expected"), [("yzu", 0.0), ("zyu", 1.0)])
def test_execution_order_decides_float_sums(lib, order, expected):
    """Rule 12.13."""
    x = lib.tensor(1.0, "float32", requires_grad=True)
    factors = {"y": 1e8, "z": 1.0, "u": -1e8}
    made = {name: x * factors[name] for name in order}
    (made["y"] + made["z"] + made["u"]).sum().backward()
    assert x.grad.item() == expected


def test_accumulate_grad_runs_before_older_nodes(lib):
    """Rule 12.14."""
    a, z, log = lib.leaf(1.0), lib.leaf(2.0), []
    b = a * 2
    s = (b * z).sum()
    b.grad_fn.register_prehook(lambda _: log.append("b"))
    z.register_post_accumulate_grad_hook(lambda _: log.append("z"))
    s.backward()
    assert log == ["z", "b"]


@pytest.mark.filterwarnings("ignore:.*create_graph")
def test_grad_keeps_identity_in_plain_passes(lib):
    """Rule 12.15."""
    x = lib.leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert (first.tolist(), first._version) == ([5.0, 5.0], 1)
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad is not first
    second = x.grad
    (x * 3).sum().backward(create_graph=True)
    assert x.grad is not second
    assert (second.tolist(), x.grad.tolist()) == ([2.0, 2.0], [5.0, 5.0])
    x.grad = None


def test_gradient_buffers_do_not_alias(pb):
    """Rule 12.16. PyTorch gives [6, 6] and [100, 100]."""
    x, z = pb.leaf(1.0, 2.0), pb.leaf(3.0, 4.0)
    for _ in range(2):
        ((x.reshape(2) + z.reshape(2)) * 2).sum().backward()
    assert x.grad.tolist() == z.grad.tolist() == [4.0, 4.0]
    x, g = pb.leaf(1.0, 2.0), pb.tensor([1.0, 1.0])
    x.reshape(2).backward(g)
    g.mul_(100)
    assert x.grad.tolist() == [1.0, 1.0]


def test_create_graph_of_linear_function_is_constant(lib):
    """Rule 12.17."""
    x = lib.leaf(1.0, 2.0)
    (g,) = lib.grad((x * 2).sum(), x, create_graph=True)
    assert not g.requires_grad
    with lib.raises("does not require grad"):
        lib.grad(g.sum(), x, allow_unused=True)


def test_only_executed_nodes_that_saved_values_are_freed(lib, words):
    """Rule 12.18."""
    x = lib.leaf(1.0, 2.0)
    y = (x + x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0]
    y = (x * 2).sum()
    y.backward()
    with lib.raises(words.freed):
        y.backward()
    y = x * x
    z = (y * y).sum()
    lib.grad(z, y)
    y.sum().backward()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("maximum", [[0.5, 1.0], [0.5, 0.0]]),
        ("minimum", [[0.5, 0.0], [0.5, 1.0]]),
        ("fmax", [[1.0, 1.0], [0.0, 0.0]]),
    ],
)
def test_conventions_of_maximum(lib, name, expected):
    """Rule 12.19."""
    a, b = lib.leaf(3.0, 3.0), lib.leaf(3.0, 1.0)
    getattr(lib, name)(a, b).sum().backward()
    assert [a.grad.tolist(), b.grad.tolist()] == expected


def test_conventions_of_max_reductions(lib):
    """Rule 12.19."""
    x = lib.leaf(3.0, 3.0, 1.0)
    x.max().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0]
    x = lib.leaf(1.0, 2.0, 2.0, 1.0)
    lib.cummax(x, 0)[0].sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("function", "points", "expected"),
    [
        (lambda x: x.clip(0, 1), [0.0, 1.0, 2.0], [1.0, 1.0, 0.0]),
        (lambda x: x.relu(), [0.0, 1.0, -1.0], [0.0, 1.0, 0.0]),
        (lambda x: abs(x), [0.0, -2.0, 2.0], [0.0, -1.0, 1.0]),
    ],
)
def test_conventions_at_bounds(lib, function, points, expected):
    """Rule 12.20."""
    x = lib.leaf(*points)
    function(x).sum().backward()
    assert x.grad.tolist() == expected
