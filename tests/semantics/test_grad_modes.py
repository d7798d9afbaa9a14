"""Grad modes: `no_grad`, `enable_grad`, `set_grad_enabled`; as blocks and as decorators."""

from __future__ import annotations

import asyncio
import threading

import pytest


def in_thread(function):
    """The result of a function that runs in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_new_thread_starts_with_default_modes(lib):
    """Rule 2.1."""

    def modes():
        return lib.is_grad_enabled(), lib.is_inference_mode_enabled()

    assert modes() == (True, False)
    with lib.no_grad():
        assert in_thread(modes) == (True, False)
    with lib.inference_mode():
        assert in_thread(modes) == (True, False)
        assert modes() == (False, True)


def test_no_grad_records_nothing(lib):
    """Rule 2.2."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    with lib.no_grad():
        z = x * y
        assert (z.requires_grad, z.grad_fn) == (False, None)
        assert (x.requires_grad, y.requires_grad) == (True, True)


def test_factory_ignores_grad_mode(lib):
    """Rule 2.3."""
    with lib.no_grad():
        assert lib.tensor([1.0], requires_grad=True).requires_grad
        y = lib.leaf(1.0) * 2
        y.requires_grad_()
    assert (y.is_leaf, y.requires_grad) == (True, True)


def test_nested_modes_are_restored_exactly(lib):
    """Rule 2.4."""
    seen = []
    with lib.no_grad():
        seen.append(lib.is_grad_enabled())
        with lib.enable_grad():
            seen.append(lib.is_grad_enabled())
        seen.append(lib.is_grad_enabled())
    seen.append(lib.is_grad_enabled())
    assert seen == [False, True, False, True]

    @lib.no_grad()
    def fails():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        fails()
    with pytest.raises(ValueError), lib.no_grad():  # noqa: PT011 - it has no message
        raise ValueError
    assert lib.is_grad_enabled()


def test_modes_are_decorators(lib):
    """Rule 2.5."""

    def depth(n):
        """How deep the mode is off."""
        return lib.is_grad_enabled(), (depth(n - 1) if n else None)

    off, on = (False, (False, None)), (True, (True, None))
    for mode in (lib.no_grad, lib.inference_mode):
        assert mode(depth)(1) == mode()(depth)(1) == off
    with lib.no_grad():
        assert lib.enable_grad(depth)(1) == lib.enable_grad()(depth)(1) == on

    @lib.no_grad()
    def recursive(n):
        inner = recursive(n - 1) if n else []
        return [lib.is_grad_enabled(), *inner, lib.is_grad_enabled()]

    assert recursive(2) == [False] * 6
    assert recursive.__name__ == "recursive"
    assert lib.is_grad_enabled()


def test_generator_has_mode_only_while_it_runs(lib):
    """Rule 2.6."""
    seen = []

    @lib.no_grad()
    def generate():
        try:
            while True:
                try:
                    seen.append(lib.is_grad_enabled())
                    received = yield lib.is_grad_enabled()
                    if received == "stop":
                        return "done"
                    seen.append(received)
                except KeyError:
                    seen.append("caught")
        finally:
            seen.append(("finally", lib.is_grad_enabled()))

    g = generate()
    assert next(g) is False
    assert lib.is_grad_enabled()
    g.send("hello")
    g.throw(KeyError())
    with pytest.raises(StopIteration) as stop:
        g.send("stop")
    assert stop.value.value == "done"
    assert seen == [False, "hello", False, "caught", False, ("finally", False)]
    seen.clear()
    g = generate()
    next(g)
    g.close()
    assert seen == [False, ("finally", False)]
    assert lib.is_grad_enabled()


def test_coroutine_runs_in_default_mode(lib):
    """Rule 2.7."""

    @lib.no_grad()
    async def main():
        return lib.is_grad_enabled()

    assert asyncio.run(main())


def test_decorated_class_applies_mode_to_construction(lib):
    """Rule 2.8."""

    class Thing:
        def __init__(self):
            self.at_construction = lib.is_grad_enabled()

        def later(self):
            return lib.is_grad_enabled()

    with pytest.warns(FutureWarning):
        decorated = lib.no_grad()(Thing)
    thing = decorated()
    assert (thing.at_construction, thing.later()) == (False, True)


def test_set_grad_enabled_acts_as_function_context_and_decorator(lib):
    """Rule 2.9."""
    lib.set_grad_enabled(False)
    assert not lib.is_grad_enabled()
    lib.set_grad_enabled(True)
    with lib.set_grad_enabled(False):
        assert not lib.is_grad_enabled()
    assert lib.is_grad_enabled()
    decorate = lib.set_grad_enabled(False)
    assert not lib.is_grad_enabled()

    @decorate
    def inside():
        return lib.is_grad_enabled()

    assert lib.is_grad_enabled()
    assert inside() is False
    assert lib.is_grad_enabled()
    with pytest.raises(TypeError):
        lib.set_grad_enabled("no")


def test_mode_object_entered_twice_restores_outer_mode(pb):
    """Rule 2.10. PyTorch forgets the outer mode when one object is entered twice."""
    mode = pb.no_grad()
    with mode:
        with mode:
            assert not pb.is_grad_enabled()
        assert not pb.is_grad_enabled()
    assert pb.is_grad_enabled()


def test_a_mode_is_put_back_whatever_was_set_inside(lib):
    with lib.no_grad():
        lib.set_grad_enabled(True)
    assert lib.is_grad_enabled()
    with lib.enable_grad():
        lib.set_grad_enabled(False)
    assert lib.is_grad_enabled()


def test_no_grad_view_of_requiring_base_is_leaf_that_requires_grad(lib):
    """Rule 2.11."""
    a = lib.leaf(1.0, 2.0)
    with lib.no_grad():
        v = a[:1]
    assert v._is_view()
    assert v._base is a
    assert (v.grad_fn, v.is_leaf, v.requires_grad) == (None, True, True)


def test_no_grad_view_has_no_edge(lib):
    """Rule 2.12."""
    a = lib.leaf(1.0, 2.0)
    with lib.no_grad():
        v = a[:1]
    y = v * 3
    assert y.requires_grad
    assert y.grad_fn.next_functions[0] == (None, 0)
    for wanted in (a, v):
        with lib.raises("not have been used in the graph"):
            lib.grad(y.sum(), wanted, retain_graph=True)
    y.sum().backward()
    assert a.grad is None
    assert v.grad is None
    v.requires_grad_()
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0]
    assert a.grad is None


def test_view_taken_before_requires_grad_has_no_edge(lib):
    """Rule 2.13."""
    a = lib.tensor([1.0, 2.0])
    v = a[:1]
    a.requires_grad_()
    y = v * 3
    assert (v.requires_grad, v.grad_fn, y.requires_grad) == (True, None, True)
    y.sum().backward()
    assert a.grad is None


def test_write_to_no_grad_view_in_grad_mode_raises(lib):
    """Rule 2.14."""
    key = "view was created in no_grad mode and is being modified inplace with grad mode enabled"
    a = lib.leaf(1.0, 2.0) * 1
    plain = lib.tensor([1.0, 2.0])
    with lib.no_grad():
        v, u = a[:1], plain[:1]
    with lib.raises(key):
        v.mul_(2)
    with lib.raises(key):
        u.mul_(lib.leaf(1.0))
    assert v.tolist() == u.tolist() == [1.0]
    u.mul_(2)
    assert plain.tolist() == [2.0, 2.0]


def test_no_grad_view_raises_after_base_was_written(lib):
    """Rule 2.15."""
    a = lib.leaf(1.0, 2.0) * 1
    with lib.no_grad():
        v = a[:1]
    a.mul_(2)
    key = "created in no_grad mode and its base or another view of its base has been modified"
    with lib.raises(key):
        v.grad_fn  # noqa: B018 - reading it is the test
    with lib.raises(key):
        v * 2


def test_no_grad_view_is_usable_after_unrecorded_write(pb):
    """Rule 2.15. PyTorch raises here too, though the history of the base has not changed."""
    a = pb.leaf(1.0, 2.0) * 1
    with pb.no_grad():
        v = a[:1]
        a.mul_(2)
    assert v.grad_fn is None


def test_write_under_no_grad_keeps_history(lib):
    """Rule 2.16."""
    w = lib.leaf(1.0, 2.0)
    y = w * 1
    node = y.grad_fn
    with lib.no_grad():
        y.mul_(5)
        w.add_(1)
        w[:1].add_(1)
    assert y.grad_fn is node
    assert (y._version, w._version) == (1, 2)
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]
