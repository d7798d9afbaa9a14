"""A thread's include and exclude sets, and their guards: rules 14.9, 14.11, 14.13, 14.23."""

from __future__ import annotations

import threading
from contextvars import copy_context

import pytest

from pullback.dispatch import (
    AutoDispatchBelowADInplaceOrView,
    AutoDispatchBelowAutograd,
    AutoGradMode,
    DispatchKeySet,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    InferenceModeGuard,
    excluded_keys,
    included_keys,
    is_grad_enabled,
)
from pullback.dispatch.modes import DEFAULT_STATE, get_state
from pullback.errors import DispatchError, DispatchKeyError


def test_exclusion_beats_inclusion(lib, value):
    """Rule 14.9."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", lambda x: "tracer", "Tracer")
    lib.impl("f", lambda x: "cpu", "CPU")
    f = lib.operator("f")
    x = value("inference")
    assert f(x) == "cpu"
    with IncludeDispatchKeyGuard("Tracer"):
        assert f(x) == "tracer"
        with ExcludeDispatchKeyGuard("Tracer"):
            assert f(x) == "cpu"
        assert f(x) == "tracer"
    assert f(x) == "cpu"


def test_default_include_and_exclude_sets():
    """Rule 14.11."""
    assert included_keys() == DispatchKeySet("BackendSelect", "ADInplaceOrView")
    assert excluded_keys() == DispatchKeySet()
    assert is_grad_enabled()


def test_a_new_thread_starts_from_the_defaults():
    """Rule 14.11."""
    seen = []
    with ExcludeDispatchKeyGuard("Tracer"), AutoGradMode(False), InferenceModeGuard():
        thread = threading.Thread(target=lambda: seen.append(get_state()))
        thread.start()
        thread.join()
    assert seen == [DEFAULT_STATE]


def test_leaving_a_guard_removes_only_what_it_added():
    """Rule 14.11."""
    with ExcludeDispatchKeyGuard("Tracer"):
        with ExcludeDispatchKeyGuard("Tracer", "Python"):
            assert set(excluded_keys()) == set(DispatchKeySet("Tracer", "Python"))
        assert excluded_keys().has("Tracer")
        assert not excluded_keys().has("Python")
    first, second = ExcludeDispatchKeyGuard("Tracer"), ExcludeDispatchKeyGuard("Python")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not excluded_keys().has("Tracer")
    assert excluded_keys().has("Python")
    second.__exit__(None, None, None)
    assert get_state() == DEFAULT_STATE


@pytest.mark.parametrize(
    "make",
    [
        lambda: IncludeDispatchKeyGuard("Tracer"),
        lambda: ExcludeDispatchKeyGuard(DispatchKeySet("Tracer", "CPU")),
        AutoDispatchBelowAutograd,
        AutoDispatchBelowADInplaceOrView,
        InferenceModeGuard,
        lambda: AutoGradMode(False),
    ],
)
def test_guards_restore_the_state_after_an_error(make):
    """Rule 14.11."""

    def fail():
        with make():
            assert get_state() != DEFAULT_STATE
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fail()
    assert get_state() == DEFAULT_STATE


def test_a_guard_serves_one_block_at_a_time():
    """Rule 14.11."""
    guard = ExcludeDispatchKeyGuard("Tracer")
    with guard, pytest.raises(DispatchError, match="ExcludeDispatchKeyGuard is active already"):
        guard.__enter__()
    with guard:
        assert excluded_keys().has("Tracer")
    assert get_state() == DEFAULT_STATE


def test_no_grad_changes_neither_set():
    """Rule 14.13."""
    before = included_keys(), excluded_keys()
    with AutoGradMode(False):
        assert not is_grad_enabled()
        assert (included_keys(), excluded_keys()) == before
        with AutoGradMode(True):
            assert is_grad_enabled()
        assert not is_grad_enabled()


def test_inference_mode_takes_adinplaceorview_and_autograd_away():
    """Rule 14.13."""
    with InferenceModeGuard():
        assert included_keys() == DispatchKeySet("BackendSelect")
        assert excluded_keys().has("AutogradCPU")
        assert excluded_keys().has("AutogradOther")
        assert not excluded_keys().has("ADInplaceOrView")


def test_the_guards_below_autograd():
    """Rule 14.23."""
    with AutoDispatchBelowAutograd():
        assert excluded_keys().has("AutogradXLA")
        assert excluded_keys().has("AutogradOther")
        assert not excluded_keys().has("ADInplaceOrView")
    with AutoDispatchBelowADInplaceOrView():
        assert excluded_keys().has("AutogradXLA")
        assert excluded_keys().has("ADInplaceOrView")


def test_nested_calls_inside_the_guard_skip_autograd_too(lib, value):
    """Rule 14.23."""
    lib.define("inner(Tensor x) -> str")
    lib.define("outer(Tensor x) -> str")
    lib.impl("inner", lambda x: "autograd", "Autograd")
    lib.impl("inner", lambda x: "cpu", "CPU")
    lib.impl("outer", lambda x: lib.operator("inner")(x), "CPU")
    outer = lib.operator("outer")
    assert outer(value("cpu")) == "autograd"
    with AutoDispatchBelowAutograd():
        assert outer(value("cpu")) == "cpu"


def test_guards_refuse_alias_and_unknown_keys():
    with pytest.raises(DispatchKeyError, match="Autograd is an alias key"):
        ExcludeDispatchKeyGuard("Autograd")
    with pytest.raises(DispatchKeyError, match="could not parse dispatch key 'Trace'"):
        IncludeDispatchKeyGuard("Trace")
    assert get_state() == DEFAULT_STATE


def test_a_guard_that_ends_in_another_context_changes_only_its_own_bits():
    """Rule 14.13."""

    def generator():
        with ExcludeDispatchKeyGuard("Tracer"), AutoGradMode(False):
            yield

    suspended = generator()
    copy_context().run(next, suspended)
    assert get_state() is DEFAULT_STATE
    suspended.close()  # in this context, where the guards never began
    assert get_state() is DEFAULT_STATE


def test_a_guard_cannot_end_before_it_begins():
    """Rule 14.13."""
    guard = ExcludeDispatchKeyGuard("Tracer")
    for _ in range(2):
        with pytest.raises(DispatchError, match="ExcludeDispatchKeyGuard is not active"):
            guard.__exit__(None, None, None)
        with guard:
            pass
    assert get_state() is DEFAULT_STATE
