"""Operators without an autograd kernel: rules 14.40 and 14.42."""

from __future__ import annotations

import warnings

import pytest

from pullback.dispatch import (
    AutoGradMode,
    DispatchKeySet,
    IncludeDispatchKeyGuard,
    after_ADInplaceOrView,
    autograd_fallback_mode,
    set_autograd_fallback_mode,
)
from pullback.errors import AutogradNotRegisteredError, DispatchError, KernelNotFoundError

COMPLAINT = r"an autograd kernel was not registered to the Autograd key\(s\)"


@pytest.fixture
def f(lib):
    lib.define("f(Tensor x) -> Tensor")
    lib.ran = []
    lib.impl("f", lambda x: lib.ran.append(x) or x, "CPU")
    return lib.operator("f")


def test_the_default_mode_is_warn():
    """Rule 14.40."""
    assert autograd_fallback_mode() == "warn"


def test_mode_nothing_runs_the_kernel_below(f, lib, value):
    """Rule 14.40."""
    x = value("cpu", requires_grad=True)
    with set_autograd_fallback_mode("nothing"):
        assert f(x) is x
    assert lib.ran == [x]


def test_mode_warn_warns_that_result_is_cut_off(f, value):
    """Rule 14.40."""
    x = value("cpu", requires_grad=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match=COMPLAINT) as caught:
            assert f(x) is x
    assert caught[0].filename == __file__
    assert f.name() in str(caught[0].message)


def test_mode_error_raises_before_the_kernel_runs(f, lib, value):
    """Rule 14.40."""
    x = value("cpu", requires_grad=True)
    with (
        set_autograd_fallback_mode("error"),
        pytest.raises(AutogradNotRegisteredError, match=COMPLAINT) as error,
    ):
        f(x)
    assert isinstance(error.value, RuntimeError)
    assert lib.ran == []


@pytest.mark.parametrize("mode", ["nothing", "warn", "error"])
def test_no_effect_without_a_gradient_to_lose(f, lib, value, mode):
    """Rule 14.40."""
    with set_autograd_fallback_mode(mode):
        f(value("cpu"))
        with AutoGradMode(False):
            f(value("cpu", requires_grad=True))
    assert len(lib.ran) == 2


@pytest.mark.parametrize(
    "schema", ["g(Tensor x) -> int", "g(Tensor(a!) x) -> ()", "g_(Tensor(a!) self) -> Tensor(a!)"]
)
def test_no_effect_on_results_that_are_no_new_tensors(lib, value, schema):
    """Rule 14.40."""
    lib.define(schema)
    name = schema.split("(")[0]
    results = {"int": 1, "()": None}
    lib.impl(name, lambda x: results.get(schema.split("-> ")[1], x), "CPU")
    with set_autograd_fallback_mode("error"):
        lib.operator(name)(value("cpu", requires_grad=True))


def test_the_mode_is_restored_also_after_an_error():
    """Rule 14.40."""
    with set_autograd_fallback_mode("error"):
        with pytest.raises(KeyError, match="inside"), set_autograd_fallback_mode("nothing"):
            raise KeyError("inside")
        assert autograd_fallback_mode() == "error"
    assert autograd_fallback_mode() == "warn"


def test_another_mode_is_refused():
    """Rule 14.40."""
    with pytest.raises(DispatchError, match="Unsupported AutogradFallbackMode: 'quiet'"):
        set_autograd_fallback_mode("quiet")
    assert autograd_fallback_mode() == "warn"


def test_an_autograd_kernel_ends_the_fallback(f, lib, value):
    """Rule 14.40."""
    x = value("cpu", requires_grad=True)
    with set_autograd_fallback_mode("error"):
        with lib.impl("f", lambda x: x, "Autograd"):
            assert f(x) is x
        with pytest.raises(AutogradNotRegisteredError):
            f(x)


def test_a_missing_backend_kernel_is_reported_for_the_backend(f, value):
    """Rule 14.40."""
    with pytest.raises(KernelNotFoundError, match="from the 'XLA' backend"):
        f(value("xla", requires_grad=True))


def test_adinplaceorview_sits_just_below_autograd_and_falls_through(f, lib, value):
    """Rule 14.42."""
    seen = []

    def bump(keys, x):
        seen.append(keys)
        return f.redispatch(keys & after_ADInplaceOrView, x)

    lib.impl("f", bump, "ADInplaceOrView", with_keyset=True)
    x = value("cpu")
    assert f(x) is x
    # The autograd fallback has gone on to what lies below autograd.
    assert seen == [DispatchKeySet("CPU", "ADInplaceOrView")]
    assert f(value("inference"))
    assert len(seen) == 2


def test_redispatch_from_above_autograd_keeps_requires_grad(f, lib, value):
    """Rule 14.24."""

    def trace(keys, x):
        return f.redispatch(keys.remove("Tracer"), x)

    lib.impl("f", trace, "Tracer", with_keyset=True)
    plain, learning = value("cpu"), value("cpu", requires_grad=True)
    with IncludeDispatchKeyGuard("Tracer"), set_autograd_fallback_mode("error"):
        assert f(plain) is plain
        with pytest.raises(AutogradNotRegisteredError):
            f(learning)
        with AutoGradMode(False):
            assert f(learning) is learning
        assert f(plain) is plain


def test_the_warning_stands_at_the_line_of_the_call(f, lib, value):
    """Rule 14.40."""
    lib.define("outer(Tensor x) -> Tensor")
    lib.impl("outer", lambda x: f(x), "CompositeImplicitAutograd")
    x = value("cpu", requires_grad=True)
    lines = []
    for call in (
        lambda: f(x),
        lambda: f.overloadpacket(x=x),
        lambda: lib.operator("outer")(x),
    ):
        with pytest.warns(UserWarning, match="cut from the graph") as told:
            call()
        assert [warning.filename for warning in told] == [__file__]
        lines.append(told[0].lineno)
    assert lines[1] == lines[0] + 1
    assert lines[2] < lines[0]  # the line inside the composite


def test_warning_filters_apply_to_the_line_of_the_call(f, value):
    """Rule 14.40."""
    x = value("cpu", requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            f(x)
    assert len(told) == 1
