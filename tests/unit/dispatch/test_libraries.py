"""Libraries, their kinds and their end: rules 14.31 and 14.33."""

from __future__ import annotations

import copy
import gc
import inspect
import linecache

import pytest

import pullback.ops
from pullback import dispatch
from pullback.dispatch import (
    Library,
    find_dangling_impls,
    registry,
)
from pullback.dispatch.dump import dump_registrations
from pullback.errors import (
    DestroyedLibraryError,
    LibraryKindError,
    OperatorNotFoundError,
    RegistrationError,
)


def kernel_named(name):
    return lambda *args, **kwargs: name


@pytest.fixture
def f(lib):
    lib.define("f(Tensor x) -> str")
    return lib.operator("f")


def snapshot():
    """All registrations, as text."""
    entries = [dump_registrations(entry) for entry in registry.all_entries()]
    return entries, dict(registry.fallbacks()), find_dangling_impls()


# ---- libraries -----------------------------------------------------------------------------------


def test_one_def_library_and_any_number_of_fragments(lib):
    """Rule 14.31."""
    with pytest.raises(RegistrationError, match="Only a single TORCH_LIBRARY") as error:
        Library(lib.ns, "DEF")
    assert f"made at {inspect.getsourcefile(type(error.value))}" not in str(error.value)
    with Library(lib.ns, "FRAGMENT") as one, Library(lib.ns, "FRAGMENT") as two:
        assert one.define("g(Tensor x) -> Tensor") == f"{lib.ns}::g"
        assert two.define("h(Tensor x) -> Tensor") == f"{lib.ns}::h"


def test_the_built_in_operators_are_defined_once():
    """Rule 14.31."""
    with pytest.raises(RegistrationError, match="Only a single TORCH_LIBRARY"):
        Library("pullback", "DEF")


def test_an_impl_library_defines_nothing(lib):
    """Rule 14.31."""
    with (
        Library(lib.ns, "IMPL") as impl,
        pytest.raises(
            RegistrationError,
            match="Cannot define an operator inside of a TORCH_LIBRARY_IMPL block",
        ),
    ):
        impl.define("g(Tensor x) -> Tensor")


@pytest.mark.parametrize(
    ("namespace", "kind", "message"),
    [
        ("mine", "FRAGMENTS", "Unsupported kind"),
        ("prim", "DEF", "reserved namespace"),
        ("prim", "FRAGMENT", "reserved namespace"),
        ("_", "DEF", "reserved namespace"),
        ("a.b", "DEF", "one identifier"),
        ("", "DEF", "one identifier"),
        (None, "DEF", "one identifier"),
    ],
)
def test_wrong_kinds_and_namespaces(namespace, kind, message):
    """Rule 14.31."""
    before = snapshot()
    with pytest.raises(LibraryKindError, match=message) as error:
        Library(namespace, kind)
    assert isinstance(error.value, ValueError)
    assert snapshot() == before


def test_a_keyed_library_refuses_another_key(lib, f):
    """Rule 14.31."""
    assert f.name()
    with Library(lib.ns, "IMPL", "CPU") as keyed:
        with pytest.raises(RegistrationError, match="inconsistent with the dispatch key"):
            keyed.impl("f", kernel_named("xla"), "XLA")
        keyed.impl("f", kernel_named("cpu"), "CPU")
        assert keyed.is_registered("f", "CPU")


def test_names_carry_the_namespace_of_the_library(lib):
    """Rule 14.31."""
    with pytest.raises(RegistrationError, match="does not match namespace"):
        lib.define("other::g(Tensor x) -> Tensor")
    with pytest.raises(RegistrationError, match="does not match namespace"):
        lib.impl("other::g", kernel_named("g"), "CPU")
    assert lib.define(f"{lib.ns}::g(Tensor x) -> Tensor") == f"{lib.ns}::g"
    assert str(lib.operator("g").schema) == f"{lib.ns}::g(Tensor x) -> Tensor"


# ---- the end of a library ------------------------------------------------------------------------


def test_everything_goes_with_its_library(value):
    """Rule 14.33."""
    before = snapshot()
    lib = Library("mortal", "DEF")
    lib.define("f(Tensor x) -> str")
    lib.impl("f", kernel_named("cpu"), "CPU")
    f = pullback.ops.mortal.f
    assert f(value("cpu")) == "cpu"
    lib._destroy()
    assert snapshot() == before
    with pytest.raises(AttributeError, match="no operator mortal::f is defined"):
        pullback.ops.mortal.f  # noqa: B018 - the access is what is tested
    with pytest.raises(OperatorNotFoundError, match="mortal::f is no longer defined"):
        f(value("cpu"))
    for use in (
        lambda: lib.define("g(Tensor x) -> Tensor"),
        lambda: lib.impl("g", kernel_named("x"), "CPU"),
        lambda: lib.fallback(kernel_named("x"), "CPU"),
    ):
        with pytest.raises(DestroyedLibraryError, match="Library object has been destroyed"):
            use()
    assert issubclass(DestroyedLibraryError, AssertionError)
    Library("mortal", "DEF")._destroy()
    lib._destroy()


def test_unreferenced_library_ends():
    """Rule 14.33."""
    before = snapshot()
    lib = Library("unheld", "DEF")
    lib.define("f(Tensor x) -> str")
    lib.impl("f", kernel_named("cpu"), "CPU")
    del lib
    gc.collect()
    assert snapshot() == before


def test_functional_forms_keep_their_registrations(monkeypatch, value):
    """Rule 14.33."""
    from pullback.dispatch import functional

    kept: list[Library] = []
    monkeypatch.setattr(functional, "_kept_libraries", kept)
    dispatch.define("kept::f", "(Tensor x) -> str")

    @dispatch.impl("kept::f", ["cpu", "Meta"])
    def kernel(x):
        return "ran"

    dispatch.impl("kept::f", "default", lambda x: "default")
    gc.collect()
    f = pullback.ops.kept.f
    assert kernel(None) == f(value("cpu")) == f(value("meta")) == "ran"
    assert f(value("xla")) == "default"
    for library in reversed(kept):
        library._destroy()
    assert not hasattr(pullback.ops.kept, "f")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f", "(Tensor x) -> Tensor"), "an operator is named by namespace and name"),
        (("a::b::f", "(Tensor x) -> Tensor"), "an operator is named by namespace and name"),
        ((3, "(Tensor x) -> Tensor"), "an operator is named by namespace and name"),
        (("kept::f", "f(Tensor x) -> Tensor"), "expected schema to look like"),
    ],
)
def test_functional_define_needs_name_and_nameless_schema(arguments, message):
    """Rule 14.33."""
    before = snapshot()
    with pytest.raises(ValueError, match=message):
        dispatch.define(*arguments)
    assert snapshot() == before


@pytest.mark.parametrize("namespace", ["é", "3a", "a b", "__mine", "__test__", None])
def test_namespaces_are_ascii_identifiers_that_python_does_not_use(namespace):
    """Rule 14.31."""
    with pytest.raises(LibraryKindError, match="namespace"):
        Library(namespace, "FRAGMENT")


def test_every_namespace_is_reached_by_its_name():
    with Library("annotations", "DEF") as lib:
        lib.define("add(Tensor x) -> Tensor")
        lib.define("o.add(Tensor x) -> Tensor")
        lib.define("o.discard(Tensor x) -> Tensor")
        assert pullback.ops.annotations.add.default is lib.operator("add")
        assert pullback.ops.annotations.o.add is lib.operator("o.add")
        assert pullback.ops.annotations.o.discard is lib.operator("o.discard")


def test_operator_whose_definition_ended_raises():
    """Rule 14.33."""
    with Library("ended", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x, "CPU")
        f = lib.operator("f")
        f.compiled()
        source = "<operator ended::f>"
        assert source in linecache.cache
    assert source not in linecache.cache
    packet = f.overloadpacket
    with Library("ended", "DEF") as again:
        again.define("f(Tensor x) -> Tensor")
        for ask in (
            lambda: f.schema,
            lambda: f.has_kernel_for_dispatch_key("CPU"),
            lambda: f.has_computed_kernel_for_dispatch_key("CPU"),
            f.dispatch_table,
            lambda: dispatch.get_kernel(f, "CPU"),
            lambda: f.explain(None),
            lambda: f.bind((), {}),
            lambda: copy.copy(f),
            lambda: packet(1),
            lambda: packet.explain(1),
            lambda: packet.default,
            lambda: again.impl(f, lambda x: x, "CPU"),
        ):
            with pytest.raises(OperatorNotFoundError, match="ended::f is no longer defined"):
                ask()
        assert not again.is_registered("f", "CPU")
    assert str(f) == "ended.f.default"
