"""Definitions, kernels, fallbacks and queries: rules 14.19, 14.27 to 14.30, 14.32, 14.34."""

from __future__ import annotations

import re
import warnings

import pytest

import pullback.ops
from pullback.dispatch import (
    DispatchKey,
    DispatchKeySet,
    Library,
    fallthrough_kernel,
    find_dangling_impls,
    get_kernel,
    get_operator,
    registry,
)
from pullback.dispatch.dump import dump_registrations
from pullback.errors import (
    DispatchKeyError,
    KernelNotFoundError,
    KernelTypeError,
    OperatorNotFoundError,
    RegistrationError,
    SchemaError,
)


def kernel_named(name):
    return lambda *args, **kwargs: name


@pytest.fixture
def f(lib):
    lib.define("f(Tensor x) -> str")
    return lib.operator("f")


@pytest.fixture
def _override_unwarned(monkeypatch):
    monkeypatch.setattr(registry, "_override_warned", False)


@pytest.fixture
def _override_warned(monkeypatch):
    monkeypatch.setattr(registry, "_override_warned", True)


def snapshot():
    """Everything the registry knows, as text."""
    entries = [dump_registrations(entry) for entry in registry.all_entries()]
    return entries, dict(registry.fallbacks()), find_dangling_impls()


# ---- fallbacks -----------------------------------------------------------------------------------


def test_a_fallback_serves_every_operator_and_gets_the_operator(f, value):
    """Rule 14.19."""
    x = value("Tracer", "CPU")
    with Library("_", "IMPL") as fallbacks:
        fallbacks.fallback(lambda op, *args: f"{op.name()}/{len(args)}", "Tracer")
        assert f(x) == f"{f.name()}/1"
    with pytest.raises(KernelNotFoundError, match="the 'Tracer' backend"):
        f(x)


def test_a_fallback_may_want_the_key_set(f, value):
    """Rule 14.19."""
    with Library("_", "IMPL", "Tracer") as fallbacks:
        fallbacks.fallback(lambda keys, op, x: f"{keys} {op.name()}", with_keyset=True)
        assert f(value("Tracer", "CPU")) == f"DispatchKeySet(CPU, Tracer) {f.name()}"


def test_one_fallback_a_key_in_namespace_underscore_with_a_key(lib):
    """Rule 14.19."""
    before = snapshot()
    with Library("_", "IMPL") as fallbacks:
        fallbacks.fallback(fallthrough_kernel, "Tracer")
        with pytest.raises(
            RegistrationError,
            match="Tried to register multiple backend fallbacks for the same dispatch key Tracer",
        ):
            fallbacks.fallback(fallthrough_kernel, "Tracer")
        with pytest.raises(RegistrationError, match="a fallback needs a dispatch key"):
            fallbacks.fallback(fallthrough_kernel)
        with pytest.raises(DispatchKeyError, match="Autograd is an alias key"):
            fallbacks.fallback(fallthrough_kernel, "Autograd")
        with pytest.raises(RegistrationError, match="only a library of namespace '_'"):
            lib.fallback(fallthrough_kernel, "Python")
        with pytest.raises(RegistrationError, match="the namespace '_' stands for every operator"):
            fallbacks.impl("f", fallthrough_kernel, "CPU")
    assert snapshot() == before


# ---- stacks --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_override_unwarned")
def test_the_newest_kernel_is_active_and_the_older_comes_back(lib, f, value):
    """Rule 14.27."""
    lib.impl("f", kernel_named("old"), "CPU")
    newer = Library(lib.ns, "IMPL")
    with pytest.warns(UserWarning, match="Overriding a previously registered kernel") as caught:
        newer.impl("f", kernel_named("new"), "CPU")
    assert caught[0].filename == __file__
    assert f(value("cpu")) == "new"
    lines = dump_registrations(registry.find(f.name())).splitlines()
    assert [line.split(":")[0] for line in lines[4:]] == ["CPU", "CPU (inactive)"]
    newer._destroy()
    assert f(value("cpu")) == "old"


@pytest.mark.usefixtures("_override_unwarned")
def test_overriding_warns_once_and_never_for_meta(lib, f):
    """Rule 14.27."""
    lib.impl("f", kernel_named("meta"), "Meta")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lib.impl("f", kernel_named("meta"), "Meta")
        lib.impl("f", kernel_named("one"), "CPU")
    with pytest.warns(UserWarning, match=re.escape(f"{f.name()} at CPU")):
        lib.impl("f", kernel_named("two"), "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lib.impl("f", kernel_named("three"), "CPU")


@pytest.mark.usefixtures("_override_warned")
def test_a_kernel_below_the_top_can_go_first(lib, f, value):
    """Rule 14.27."""
    handles = [lib.impl("f", kernel_named(name), "CPU") for name in ("a", "b", "c")]
    handles[1].destroy()
    assert f(value("cpu")) == "c"
    handles[2].destroy()
    assert f(value("cpu")) == "a"
    handles[2].destroy()
    assert f(value("cpu")) == "a"


def test_overriding_can_be_refused(lib, f, value):
    """Rule 14.28."""
    lib.impl("f", kernel_named("first"), "CPU")
    before = snapshot()
    with Library(lib.ns, "IMPL") as other:
        with pytest.raises(
            RegistrationError,
            match="This is not allowed since there's already a kernel registered from python",
        ) as error:
            other.impl("f", kernel_named("second"), "CPU", allow_override=False)
        assert f"registered at {__file__}" in str(error.value)
        assert snapshot() == before
        other.impl("f", kernel_named("meta"), "Meta", allow_override=False)
    assert f(value("cpu")) == "first"


@pytest.mark.usefixtures("_override_warned")
def test_the_older_claim_survives_the_end_of_an_override(lib, f):
    """Rule 14.28."""
    lib.impl("f", kernel_named("old"), "CPU")
    with Library(lib.ns, "IMPL") as newer:
        newer.impl("f", kernel_named("new"), "CPU")
    assert f.has_kernel_for_dispatch_key("CPU")
    with pytest.raises(RegistrationError, match="already a kernel registered"):
        lib.impl("f", kernel_named("third"), "CPU", allow_override=False)


# ---- definitions ---------------------------------------------------------------------------------


def test_one_definition_a_name_and_overload(lib, f):
    """Rule 14.29."""
    before = snapshot()
    with pytest.raises(RegistrationError, match=r"Tried to register an operator .* multiple times"):
        lib.define("f(Tensor x, int n) -> Tensor")
    with (
        Library(lib.ns, "FRAGMENT") as other,
        pytest.raises(RegistrationError, match=f"defined already, at {re.escape(__file__)}"),
    ):
        other.define("f(Tensor x) -> str")
    assert snapshot() == before
    lib.define("f.more(Tensor x, int n) -> str")
    assert f.overloadpacket.overloads() == ["default", "more"]


@pytest.mark.usefixtures("f")
def test_a_second_definition_is_reported_before_the_kernels_are_looked_at(lib):
    """Rule 14.29."""
    lib.impl("f", lambda x: x, "CPU")
    with pytest.raises(RegistrationError, match=r"Tried to register an operator .* multiple times"):
        lib.define("f(Tensor x, int n) -> str")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("f.default", "'default' is reserved, not a legal overload name"),
        ("f.a.b", "cannot contain a dot"),
        ("not a name!(", "expected the end of the name but found 'a'"),
        ("", "expected an operator name but found the end"),
        ("f.", "expected an overload name"),
    ],
)
def test_kernels_are_registered_to_legal_names_only(lib, name, message):
    """Rule 14.30."""
    before = snapshot()
    with pytest.raises(RegistrationError, match=re.escape(message)):
        lib.impl(name, kernel_named("x"), "CPU")
    assert snapshot() == before


def test_kernels_may_come_before_the_definition(lib, value):
    """Rule 14.30."""
    lib.impl("late", kernel_named("cpu"), "CPU")
    assert find_dangling_impls() == [f"{lib.ns}::late"]
    assert "schema: (none)" in dump_registrations(registry.find(f"{lib.ns}::late"))
    assert not hasattr(getattr(pullback.ops, lib.ns), "late")
    with pytest.raises(OperatorNotFoundError, match="kernels are registered for it, but no schema"):
        get_operator(f"{lib.ns}::late")
    lib.define("late(Tensor x) -> str")
    assert find_dangling_impls() == []
    assert getattr(pullback.ops, lib.ns).late(value("cpu")) == "cpu"


def test_kernels_of_others_outlive_the_definition(value):
    """Rule 14.30."""
    with Library("passing", "DEF") as definer, Library("passing", "IMPL") as implementer:
        definer.define("f(Tensor x) -> str")
        implementer.impl("f", kernel_named("cpu"), "CPU")
        old = definer.operator("f")
        definer._destroy()
        assert find_dangling_impls() == ["passing::f"]
        with pytest.raises(OperatorNotFoundError, match="passing::f is no longer defined"):
            old(value("cpu"))
        with Library("passing", "DEF") as again:
            again.define("f(Tensor x, int n=1) -> str")
            assert again.operator("f")(value("cpu"), 2) == "cpu"
            with pytest.raises(OperatorNotFoundError, match="no longer defined"):
                old(value("cpu"))


# ---- what impl checks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("f", 3, "CPU"), KernelTypeError, "required to be a callable but found type int"),
        ((3, kernel_named("x"), "CPU"), RegistrationError, "either a name or an OpOverload object"),
        (("f", kernel_named("x"), "CPUU"), DispatchKeyError, "could not parse dispatch key 'CPUU'"),
        (("f", lambda: None, "CPU"), KernelTypeError, "does not take the arguments of its schema"),
        (("f", lambda x, y: None, "CPU"), KernelTypeError, "missing a required argument: 'y'"),
    ],
)
def test_non_callable_kernel_is_refused(lib, f, arguments, error, message):
    """Rule 14.32."""
    before = snapshot()
    with pytest.raises(error, match=message):
        lib.impl(*arguments)
    assert snapshot() == before
    assert not f._entry.kernels


def test_built_in_types_of_the_refusals(lib):
    """Rule 14.32."""
    with pytest.raises(TypeError):
        lib.impl("f", 3, "CPU")
    with pytest.raises(RuntimeError):
        lib.impl(3, kernel_named("x"), "CPU")
    with pytest.raises(RuntimeError):
        lib.impl("f", kernel_named("x"), "nowhere")


def test_no_meta_kernel_over_a_composite(lib, f):
    """Rule 14.32."""
    lib.impl("f", kernel_named("math"), "CompositeImplicitAutograd")
    with pytest.raises(RegistrationError, match="should not register a meta kernel directly"):
        lib.impl(f, kernel_named("meta"), "Meta")
    assert not f.has_kernel_for_dispatch_key("Meta")


def test_a_kernel_that_came_first_is_checked_at_the_definition(lib):
    """Rule 14.32."""
    lib.impl("g", lambda x: x, "CPU")
    before = snapshot()
    with pytest.raises(KernelTypeError, match="too many positional arguments"):
        lib.define("g(Tensor x, Tensor y) -> Tensor")
    assert snapshot() == before
    lib.define("g(Tensor x) -> Tensor")


def test_kernels_with_a_key_set_take_one_argument_more(lib, f, value):
    """Rule 14.32."""
    with pytest.raises(KernelTypeError, match="after the key set"):
        lib.impl("f", lambda x: "cpu", "CPU", with_keyset=True)
    lib.impl("f", lambda keys, x: str(keys.highest()), "CPU", with_keyset=True)
    assert f(value("inference")) == "DispatchKey.CPU"


def test_a_schema_that_does_not_parse_defines_nothing(lib):
    before = snapshot()
    with pytest.raises(SchemaError, match=re.escape("^")):
        lib.define("g(Tensor x -> Tensor")
    assert snapshot() == before


# ---- queries -------------------------------------------------------------------------------------


def test_direct_and_computed_kernels(lib, f):
    """Rule 14.34."""
    lib.impl("f", kernel_named("math"), "CompositeImplicitAutograd")
    assert f.has_kernel_for_dispatch_key("CompositeImplicitAutograd")
    assert not f.has_kernel_for_dispatch_key("CPU")
    assert f.has_computed_kernel_for_dispatch_key("CPU")
    assert not f.has_computed_kernel_for_dispatch_key("Tracer")
    assert get_kernel(f, "CPU").key is DispatchKey.CompositeImplicitAutograd
    assert get_kernel(f.name(), DispatchKey.AutogradCPU).fn is get_kernel(f, "CPU").fn


def test_get_kernel_refuses_precisely(f):
    """Rule 14.34."""
    with pytest.raises(ValueError, match="Invalid dispatch key"):
        get_kernel(f, "CPUU")
    with pytest.raises(ValueError, match="Invalid dispatch key: Autograd is an alias key"):
        get_kernel(f, "Autograd")
    with pytest.raises(RuntimeError, match="no kernel for CPU"):
        get_kernel(f, "CPU")
    with pytest.raises(OperatorNotFoundError, match="no operator 'nowhere::f' is defined"):
        get_kernel("nowhere::f", "CPU")


def test_operators_are_reached_and_shown_by_name(lib, f):
    namespace = getattr(pullback.ops, lib.ns)
    assert namespace.f.default is f
    assert dir(namespace) == ["f"]
    assert repr(namespace) == f"<OpNamespace {lib.ns!r}: 1 operators>"
    assert repr(f) == f"<OpOverload(op='{lib.ns}.f', overload='default')>"
    assert repr(namespace.f) == f"<OpOverloadPacket(op='{lib.ns}.f')>"
    assert (f.namespace, f.name()) == (lib.ns, f"{lib.ns}::f")
    assert list(namespace.f) == ["default"]
    assert "default" in dir(namespace.f)
    with pytest.raises(AttributeError, match="Did you mean 'f'"):
        namespace.ff  # noqa: B018 - the access is what is tested
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        f.colour  # noqa: B018


def test_every_registration_handle_is_a_context_manager(lib, f, value):
    with lib.impl("f", kernel_named("inside"), "CPU") as handle:
        assert f(value("cpu")) == "inside"
    assert not f.has_kernel_for_dispatch_key("CPU")
    handle.destroy()


def test_key_sets_do_not_leak_the_requires_grad_bit(lib, f, value):
    sets = []
    lib.impl("f", lambda keys, x: sets.append(keys) or "", "CPU", with_keyset=True)
    f(value("inference", requires_grad=True))
    assert sets == [DispatchKeySet("CPU")]
