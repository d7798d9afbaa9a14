"""Rules 11.1 to 11.4: one recomputation, early stop, passes, nesting."""

from __future__ import annotations

import gc
import importlib
import weakref

import numpy as np
import pytest


def of(lib):
    """The library's checkpoint module."""
    return importlib.import_module(f"{lib.module.__name__}.utils.checkpoint")


def checkpoint(lib, function, *args, **options):
    return of(lib).checkpoint(function, *args, use_reentrant=False, **options)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def test_forward_once_and_one_recomputation(lib):
    """Rule 11.1."""

    def function(x):
        return lib.sin(lib.exp(x) * x) * x

    plain, x = lib.leaf(0.1, 0.2), lib.leaf(0.1, 0.2)
    function(plain).sum().backward()
    counted = Counted(function)
    y = checkpoint(lib, counted, x)
    assert counted.calls == 1
    assert y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert counted.calls == 2
    assert x.grad.tolist() == plain.grad.tolist()


def test_any_structure_of_results(lib):
    """Rule 11.1."""
    x = lib.leaf(1.0, 2.0)
    found = checkpoint(lib, lambda x: {"a": [lib.sin(x)], "b": (x, 3)}, x)
    assert found["a"][0].grad_fn.name() == "SinBackward0"
    assert found["b"][0] is x
    assert found["b"][1] == 3


def test_intermediate_values_are_not_kept(pb):
    """Rule 11.1."""
    alive = []

    def function(x):
        middle = pb.exp(x)
        alive.append(weakref.ref(middle))
        return pb.sin(middle)

    y = checkpoint(pb, function, pb.leaf(1.0, 2.0))
    gc.collect()
    assert alive[0]() is None
    assert y.requires_grad


def test_recomputed_values_end_with_the_pass(pb):
    """Rule 11.1. Each recomputed value goes when it has been used, and the rest with the pass."""
    x = pb.leaf(1.0, 2.0)
    y = checkpoint(pb, lambda x: pb.exp(pb.exp(x)) * x, x)
    frame = y.grad_fn.self._unpack.__self__
    y.sum().backward(retain_graph=True)
    gc.collect()
    assert len(frame.values) == 0


def stages(lib, log):
    def function(x):
        y = lib.exp(x)
        log.append("saved")
        z = y * 2 + 1
        log.append("end")
        return z

    return function


def test_recomputation_stops_early(lib):
    """Rule 11.2."""
    log = []
    y = checkpoint(lib, stages(lib, log), lib.leaf(1.0))
    log.clear()
    y.sum().backward()
    assert log == []


def test_early_stop_can_be_turned_off(lib):
    """Rule 11.2."""
    log = []
    y = checkpoint(lib, stages(lib, log), lib.leaf(1.0), early_stop=False)
    log.clear()
    y.sum().backward()
    assert log == ["saved", "end"]
    with of(lib).set_checkpoint_early_stop(False):
        y = checkpoint(lib, stages(lib, log), lib.leaf(1.0))
    log.clear()
    y.sum().backward()
    assert log == ["saved", "end"]


def test_the_function_cannot_catch_the_stop(pb):
    """Rule 11.2."""
    log = []

    def function(x):
        try:
            return pb.exp(x)
        except Exception:
            log.append("caught")
            raise

    checkpoint(pb, function, pb.leaf(1.0)).sum().backward()
    assert log == []


def test_each_pass_recomputes(lib):
    """Rule 11.3."""
    counted = Counted(lib.exp)
    x = lib.leaf(1.0, 2.0)
    y = checkpoint(lib, counted, x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert counted.calls == 3


def test_double_backward_reuses_recomputed_values(lib):
    """Rule 11.3."""
    counted = Counted(lambda x: x**3)
    x = lib.leaf(1.0, 2.0)
    y = checkpoint(lib, counted, x).sum()
    (first,) = lib.grad(y, x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]
    assert counted.calls == 2  # the values of the first pass are still there


def test_higher_orders_equal_the_plain_run(lib):
    """Rule 11.3."""

    def function(x):
        return lib.exp(x * x) * lib.sin(x)

    found = []
    for wrapped in (function, lambda x: checkpoint(lib, function, x)):
        x = lib.leaf(0.3, 0.7)
        derivative = wrapped(x)
        for _ in range(3):
            (derivative,) = lib.grad(derivative.sum(), x, create_graph=True)
        found.append(derivative.tolist())
    assert found[0] == found[1]


def test_second_pass_without_retain_graph_raises(lib, words):
    """Rule 11.4."""
    y = checkpoint(lib, lib.exp, lib.leaf(1.0)).sum()
    y.backward()
    with lib.raises(words.freed):
        y.backward()


def test_checkpoint_works_with_grad_inputs_and_keywords(lib):
    """Rule 11.4."""
    x, w = lib.leaf(2.0), lib.leaf(3.0)

    def function(x, scale=1.0):
        return lib.exp(x * w) * scale

    y = checkpoint(lib, function, x, scale=2.0)
    expected = 2 * 3 * np.exp(6.0)
    (found,) = lib.grad(y, x, retain_graph=True)
    assert float(found) == pytest.approx(expected)
    y.backward(inputs=[w])
    assert x.grad is None
    assert float(w.grad) == pytest.approx(expected * 2 / 3)


def test_only_captured_parameters_require_grad(lib):
    """Rule 11.4."""
    w = lib.leaf(3.0)
    y = checkpoint(lib, lambda x: lib.exp(x * w), lib.tensor(2.0))
    y.backward()
    assert float(w.grad) == pytest.approx(2 * np.exp(6.0))


def test_nested_checkpoints_recompute_in_order(lib):
    """Rule 11.4."""
    log = []

    def inner(x):
        log.append("i")
        return lib.exp(lib.sin(x) * x)

    def outer(x):
        log.append("o")
        return lib.sin(checkpoint(lib, inner, x * 2))

    plain = lib.leaf(1.0, 2.0)
    lib.sin(lib.exp(lib.sin(plain * 2) * (plain * 2))).sum().backward()
    x = lib.leaf(1.0, 2.0)
    y = checkpoint(lib, outer, x).sum()
    assert log == ["o", "i"]
    log.clear()
    y.backward()
    assert log == ["o", "i", "i"]
    assert x.grad.tolist() == plain.grad.tolist()


def test_grad_inside_checkpointed_function(lib):
    """Rule 11.4."""

    def function(x):
        (slope,) = lib.grad((x**3).sum(), x, create_graph=True)
        return lib.sin(slope * slope)

    plain, x = lib.leaf(1.0, 2.0), lib.leaf(1.0, 2.0)
    function(plain).sum().backward()
    checkpoint(lib, function, x).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_checkpoint_takes_tensors_in_containers(pb):
    """Rule 11.4."""
    x, y = pb.leaf(1.0), pb.leaf(2.0)
    z = checkpoint(pb, lambda d: pb.exp(d["x"] * d["more"][0]), {"x": x, "more": [y]})
    z.backward()
    assert float(y.grad) == pytest.approx(np.exp(2.0))


def test_an_argument_that_was_detached_in_place_is_a_constant(lib):
    a = lib.leaf(0.5)
    b = a * 2
    b.detach_()
    y = checkpoint(lib, lambda p, q: p * q * q, a, b)
    assert lib.grad(y, a)[0].item() == 1.0


def test_an_argument_that_is_detached_in_place_later_is_refused(lib):
    a = lib.leaf(0.5)
    b = a * 2
    y = checkpoint(lib, lambda q: q * q, b)
    b.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        y.backward()
