"""Forward mode: dual tensors, their level, writes and views (rules 9.1 to 9.11)."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad as fwd
from pullback.autograd import grad
from pullback.nn import functional


def t(*values, **options):
    return pb.tensor(list(values), **options)


@pytest.fixture
def level():
    with fwd.dual_level():
        yield


def tangent(tensor):
    return fwd.unpack_dual(tensor).tangent


def test_dual_is_made_and_unpacked():
    """Rule 9.1."""
    assert fwd._current_level == -1
    with fwd.dual_level():
        assert fwd._current_level == 0
        primal, tan = fwd.unpack_dual(fwd.make_dual(t(1.0, 2.0), t(3.0, 4.0)) * 2)
        assert (primal.tolist(), tan.tolist()) == ([2.0, 4.0], [6.0, 8.0])
        assert fwd.unpack_dual(primal).tangent is None
    assert fwd._current_level == -1


def test_dual_level_as_decorator_and_functions():
    """Rule 9.1."""

    @fwd.dual_level()
    def slope(x):
        return tangent(fwd.make_dual(x, pb.ones_like(x)) ** 2)

    assert [slope(t(3.0)).tolist() for _ in range(2)] == [[6.0], [6.0]]
    assert fwd.enter_dual_level() == 0
    fwd.exit_dual_level()


def test_dual_outside_level_has_no_tangent():
    """Rule 9.2."""
    with pytest.raises(RuntimeError, match="no level exists"):
        fwd.make_dual(t(1.0), t(1.0))
    with pytest.raises(RuntimeError, match="not the last one"):
        fwd.exit_dual_level()
    with fwd.dual_level():
        dual = fwd.make_dual(t(1.0), t(1.0))
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwd.enter_dual_level()
    assert tangent(dual) is None
    with fwd.dual_level():
        assert tangent(dual) is None
        assert tangent(dual * 2) is None


@pytest.mark.usefixtures("level")
def test_make_dual_checks_primal_and_tangent():
    """Rule 9.3."""
    with pytest.raises(RuntimeError, match="shape"):
        fwd.make_dual(t(1.0, 2.0), t(1.0))
    for primal, tan in ((t(1), t(1.0)), (t(1.0), t(1))):
        with pytest.raises(ValueError, match="floating point"):
            fwd.make_dual(primal, tan)
    dual = fwd.make_dual(t(1.0), t(1.0))
    for primal, tan in ((dual, t(1.0)), (t(1.0), dual)):
        with pytest.raises(RuntimeError, match="already"):
            fwd.make_dual(primal, tan)
    assert tangent(fwd.make_dual(t(1.0, dtype="float32"), t(2.0))).dtype == np.float64
    assert tangent(fwd.make_dual(t(1.0 + 1j), t(2.0))).tolist() == [2.0]
    with pytest.raises(TypeError, match="tangent must be a tensor, not float"):
        fwd.make_dual(t(1.0), 1.0)


@pytest.mark.usefixtures("level")
def test_a_dual_is_a_view_of_its_primal():
    """Rule 9.4."""
    x, tan = t(1.0), t(2.0)
    dual = fwd.make_dual(x, tan)
    assert dual is not x
    assert dual._base is x
    assert tangent(x) is None
    assert tangent(dual) is tan


@pytest.mark.usefixtures("level")
def test_results_without_tangent():
    """Rule 9.5."""
    dual = fwd.make_dual(t(1.5, -2.0), t(1.0, 1.0))
    assert tangent(t(1.0) * 2) is None
    assert tangent(dual > 0) is None
    assert tangent(pb.argmax(dual)) is None
    assert tangent(dual.detach()) is None
    assert tangent(dual.data) is None
    assert tangent(pb.round(dual)).tolist() == [0.0, 0.0]
    assert tangent((dual * 1).zero_()).tolist() == [0.0, 0.0]


@pytest.mark.usefixtures("level")
def test_tangents_propagate_under_no_grad_only():
    """Rule 9.6."""
    dual = fwd.make_dual(t(2.0), t(1.0))
    with pb.no_grad():
        assert tangent(dual * dual).tolist() == [4.0]
    with pb.inference_mode():
        assert tangent(dual * dual) is None
    with fwd._set_fwd_grad_enabled(False):
        product = dual * dual
        with fwd._set_fwd_grad_enabled(True):
            again = dual * dual
    assert (tangent(product), tangent(again).tolist()) == (None, [4.0])


@pytest.mark.usefixtures("level")
def test_a_write_changes_the_tangent_that_was_given():
    """Rule 9.7."""
    tan = t(1.0, 2.0, 3.0)
    dual = fwd.make_dual(t(1.0, 1.0, 1.0), tan)
    dual.mul_(2)
    assert tan.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.usefixtures("level")
def test_a_write_that_reads_what_it_writes_to():
    dual = fwd.make_dual(t(2.0, 3.0), t(1.0, 10.0))
    square = dual * 1
    square.mul_(square)
    assert tangent(square).tolist() == [4.0, 60.0]
    shifted = dual * 1
    shifted.mul_(pb.flip(shifted, 0))
    assert tangent(shifted).tolist() == [23.0, 23.0]


@pytest.mark.usefixtures("level")
def test_every_tangent_has_memory_of_its_own():
    dual = fwd.make_dual(t(2.0, 3.0), t(1.0, 10.0))
    for other in (dual + 1, dual - t(1.0, 1.0), pb.zeros(2).copy_(dual), dual.clone()):
        other.mul_(5)
        assert tangent(other).tolist() == [5.0, 50.0]
    assert tangent(dual).tolist() == [1.0, 10.0]


@pytest.mark.usefixtures("level")
def test_a_tangent_has_the_dtype_of_its_value():
    dual = fwd.make_dual(t(2.0, dtype="float32"), t(1.0, dtype="float32"))
    for other in (dual * t(3.0), dual + t(3.0), dual + t(1j)):
        assert tangent(other).dtype == other.dtype


@pytest.mark.usefixtures("level")
def test_what_has_no_tangent_adds_nothing_not_even_nan():
    dual = fwd.make_dual(t(-2.0, 0.0), t(1.0, 1.0))
    assert tangent(dual**3).tolist() == [12.0, 0.0]
    assert tangent(dual ** t(2.0, 2.0)).tolist() == [-4.0, 0.0]
    assert tangent(pb.maximum(dual, t(pb.nan, -1.0))).tolist()[1] == 1.0


@pytest.mark.usefixtures("level")
def test_writes_of_duals_reach_bases_and_views():
    """Rule 9.8."""
    base = pb.zeros(3)
    base[:1].copy_(fwd.make_dual(t(2.0), t(5.0)))
    assert tangent(base).tolist() == [5.0, 0.0, 0.0]
    dual = fwd.make_dual(t(1.0, 1.0, 1.0), t(1.0, 2.0, 3.0))
    view = dual[:1]
    view.mul_(10)
    assert tangent(dual).tolist() == [10.0, 2.0, 3.0]
    dual.mul_(2)
    assert tangent(view).tolist() == [20.0]


@pytest.mark.usefixtures("level")
def test_earlier_views_follow_a_base_that_becomes_dual():
    """Rule 9.8."""
    base = pb.zeros(3)
    view = base[1:]
    base.copy_(fwd.make_dual(t(1.0, 2.0, 3.0), t(4.0, 5.0, 6.0)))
    assert tangent(view).tolist() == [5.0, 6.0]
    other = pb.zeros(3)
    early = other[1:]
    other.copy_(fwd.make_dual(t(1.0, 2.0, 3.0), t(4.0, 5.0, 6.0)))
    assert tangent(early * early).tolist() == [20.0, 36.0]


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("how", ["base", "another view", "under no_grad"])
def test_earlier_views_of_a_base_that_requires_grad_follow_too(how):
    """Rule 9.8."""
    w = t(1.0, 2.0, 3.0, requires_grad=True)
    base = w * 1
    views = [base[1:], base[1:][:2]]
    factor = fwd.make_dual(t(1.0, 2.0, 3.0), t(4.0, 5.0, 6.0))
    if how == "base":
        base.mul_(factor)
    elif how == "another view":
        base[:].mul_(factor)
    else:
        with pb.no_grad():
            base.mul_(factor)
    for view in views:
        slope = tangent(view * view)
        assert slope.tolist() == [80.0, 324.0]
        with pb.no_grad():
            assert tangent(view * view).tolist() == [80.0, 324.0]
        if how != "under no_grad":  # the slope is 2 w² f f', and by w that is 4 w f f'
            (gradient,) = pb.autograd.grad(slope.sum(), w, retain_graph=True)
            assert gradient.tolist() == [0.0, 80.0, 216.0]


def test_earlier_views_follow_where_levels_nest():
    """Rule 9.8."""

    def f(x):
        def inner(s):
            base = x * 1
            view = base[1:]
            base.mul_(s)
            return view * view

        return pb.func.jvp(inner, (x,), (x,))[1].sum()

    # At x the tangent of x**2 * s**2 by s in the direction x is 2 * x**4.
    assert pb.func.grad(f)(t(1.0, 2.0, 3.0)).tolist() == [0.0, 64.0, 216.0]
    assert pb.func.jacfwd(f)(t(1.0, 2.0, 3.0)).tolist() == [0.0, 64.0, 216.0]


def test_unpack_dual_refuses_non_tensor():
    """Rule 9.2."""
    with pytest.raises(TypeError, match="unpack_dual: a tensor is expected, not int"):
        fwd.unpack_dual(3)


@pytest.mark.usefixtures("level")
def test_a_tangent_follows_into_out():
    """Rule 9.9."""
    # PyTorch refuses; here out= is a write like any other, with its history and its tangent.
    out = pb.zeros(1)
    pb.multiply(fwd.make_dual(t(3.0), t(1.0)), 2.0, out=out)
    assert tangent(out).tolist() == [2.0]


@pytest.mark.usefixtures("level")
def test_tangent_is_differentiable_by_reverse_mode():
    """Rule 9.10."""
    x = t(1.0, 2.0, requires_grad=True)
    tan = t(1.0, 0.0, requires_grad=True)
    y = (fwd.make_dual(x, tan) ** 3).sum()
    assert tangent(y).item() == 3.0
    by_x, by_tangent = grad(tangent(y), (x, tan))
    assert by_x.tolist() == [6.0, 0.0]
    assert by_tangent.tolist() == [3.0, 12.0]


FUNCTIONS = {
    "cube": lambda x: x**3,
    "exp": pb.exp,
    "tanh": pb.tanh,
    "sqrt": pb.sqrt,
    "softmax": lambda x: functional.softmax(x, -1) * x,
    "prod": lambda x: pb.prod(x) * x,
    "in place": lambda x: (x * 1).exp_() * x,
    "in place by itself": lambda x: (x * 1).mul_(x) * x,
    "view written": lambda x: _written(x),
    "norm": lambda x: pb.linalg.norm(x) * x,
}


def _written(x):
    y = x * 1
    y[:1].sin_()
    y[1:].mul_(x[:1])
    return y * x


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_over_reverse_equals_reverse_over_reverse(name):
    """Rule 9.10."""
    function = FUNCTIONS[name]
    direction = t(0.3, -1.2)
    x = t(0.7, 1.3, requires_grad=True)
    (first,) = grad(function(x).sum(), x, create_graph=True)
    (expected,) = grad((first * direction).sum(), x)
    dual = fwd.make_dual(x, direction)
    (gradient,) = grad(function(dual).sum(), dual)
    assert gradient.tolist() == pytest.approx(first.tolist())
    assert tangent(gradient).tolist() == pytest.approx(expected.tolist())


def test_forward_over_reverse_keeps_tangents_through_saved_tensor_hooks(level):
    x = t(0.5, requires_grad=True)
    dual = fwd.make_dual(x, t(1.0))
    with pb.autograd.graph.saved_tensors_hooks(lambda v: v.detach(), lambda v: v):
        y = (pb.exp(dual) * pb.sin(dual)).sum()
    (gradient,) = grad(y, dual)
    expected = 2 * np.exp(0.5) * np.cos(0.5)
    assert tangent(gradient).tolist() == pytest.approx([expected])


@pytest.mark.usefixtures("level")
def test_backward_stores_a_plain_gradient():
    """Rule 9.10."""
    x = t(2.0, requires_grad=True)
    (fwd.make_dual(x, t(1.0)) ** 3).sum().backward()
    held = x.grad
    assert held.tolist() == [12.0]
    assert tangent(held) is None
    (fwd.make_dual(x, t(1.0)) ** 3).sum().backward()
    assert x.grad is held
    assert held.tolist() == [24.0]


@pytest.mark.usefixtures("level")
def test_a_dual_of_a_leaf_is_no_leaf():
    """Rule 9.11."""
    dual = fwd.make_dual(t(1.0, requires_grad=True), t(1.0))
    assert dual.requires_grad
    assert not dual.is_leaf


def test_a_graph_with_tangents_dies_with_its_last_user():
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        with fwd.dual_level():
            y = pb.exp(fwd.make_dual(t(1.0, requires_grad=True), t(1.0)))
            y.grad_fn.metadata["alive"] = alive = t(1.0)
            node = weakref.ref(alive)
        del y, alive
        assert node() is None
    finally:
        gc.enable()


def test_transforms_enable_the_tangents_that_they_need(lib):
    fwd, func = lib.autograd.forward_ad, lib.func

    def f(x):
        return (x * x * x).sum()

    x, ones = lib.tensor([1.0, 2.0]), lib.tensor([1.0, 1.0])
    with fwd._set_fwd_grad_enabled(False):
        assert func.jvp(f, (x,), (ones,))[1].item() == 15.0
        assert func.jacfwd(f)(x).tolist() == [3.0, 12.0]
        assert func.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert func.jvp(func.grad(f), (x,), (ones,))[1].tolist() == [6.0, 12.0]
        assert func.grad(lambda y: func.jvp(f, (y,), (ones,))[1])(x).tolist() == [6.0, 12.0]


@pytest.mark.parametrize("kind", ["jvp", "grad", "vjp", "jacfwd"])
def test_a_disabled_block_is_a_constant_to_the_transform_around_it(lib, kind):
    fwd, func = lib.autograd.forward_ad, lib.func

    def f(x):
        return (x * x * x).sum()

    def g(x):
        with fwd._set_fwd_grad_enabled(False):
            if kind == "jvp":
                return func.jvp(f, (x,), (ones,))[1]
            if kind == "vjp":
                return func.vjp(f, x)[1](lib.tensor(1.0))[0].sum()
            return getattr(func, kind)(f)(x).sum()

    x, ones = lib.tensor([1.0, 2.0]), lib.tensor([1.0, 1.0])
    value, slope = func.jvp(g, (x,), (ones,))
    assert value.item() == 15.0
    assert slope.item() == 0.0


def test_write_to_value_that_a_recorded_tangent_needs_is_noticed(level):
    direction = t(1.0, 2.0, requires_grad=True)
    u = fwd.make_dual(t(0.5, 0.7), direction) * 1.0
    slope = tangent(u * u).sum()
    u.mul_(3.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        grad(slope, [direction])
