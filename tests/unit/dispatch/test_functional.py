"""``define`` and ``impl`` as functions: whole or not at all, in the namespace that they name."""

from __future__ import annotations

import pytest

from pullback.dispatch import define, functional, impl, registry
from pullback.errors import DispatchKeyError, KernelTypeError, LibraryKindError, RegistrationError


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """The libraries that the functions keep; they end with the test."""
    libraries = []
    monkeypatch.setattr(functional, "_kept_libraries", libraries)
    yield libraries
    for library in libraries:
        library._destroy()


def test_a_library_of_another_namespace_is_refused(lib):
    with pytest.raises(RegistrationError, match="does not match namespace"):
        define("elsewhere::f", "(Tensor x) -> Tensor", lib=lib)
    with pytest.raises(RegistrationError, match="does not match namespace"):
        impl("elsewhere::f", "cpu", lambda x: x, lib=lib)
    assert registry.find("elsewhere::f") is None
    assert registry.find(f"{lib.ns}::f") is None


def test_registrations_without_a_library_stay(kept, value):
    define("stays::f", "(Tensor x) -> Tensor")
    impl("stays::f", ["cpu", "Autograd"], lambda x: x)
    assert len(kept) == 2
    x = value("cpu")
    assert registry.find_packet("stays::f")(x) is x


def test_several_keys_are_registered_together_or_not_at_all(kept, lib):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CompositeImplicitAutograd")
    for library in (lib, None):
        with pytest.raises(RegistrationError, match="We should not register a meta kernel"):
            impl(f"{lib.ns}::f", ["cpu", "Meta"], lambda x: x, lib=library)
        assert not lib.is_registered("f", "CPU")
    with pytest.raises(KernelTypeError, match="does not take the arguments"):
        impl(f"{lib.ns}::f", "cpu")(lambda: None)
    with pytest.raises(RegistrationError, match="multiple times"):
        define(f"{lib.ns}::f", "(Tensor x) -> Tensor")
    assert kept == []


def test_what_is_no_library_is_refused():
    with pytest.raises(LibraryKindError, match="expected lib to be a Library, but got 'cpu'"):
        impl("nobody::f", "cpu", lambda x: x, lib="cpu")


@pytest.mark.parametrize("types", [[], (), None, 3, {"cpu": 1}, [None], [[]]])
def test_types_are_one_or_several_names(types):
    with pytest.raises(DispatchKeyError):
        impl("nobody::f", types, lambda x: x)
    assert registry.find("nobody::f") is None


def test_a_library_and_a_schema_make_a_decorator(lib, value):
    @define(lib, "f(Tensor x) -> Tensor")
    def f(x):
        return x

    assert lib.is_registered("f", "CompositeImplicitAutograd")
    x = value("cpu")
    assert registry.find_packet(f"{lib.ns}::f")(x) is x
    assert f(3) == 3


def test_an_operator_and_its_function_are_registered_together_or_not_at_all(lib):
    with pytest.raises(KernelTypeError, match="does not take the arguments"):
        define(lib, "f(Tensor x) -> Tensor")(lambda: None)
    with pytest.raises(KernelTypeError, match="required to be a callable"):
        define(lib, "f(Tensor x) -> Tensor")(3)
    assert registry.find(f"{lib.ns}::f") is None
    define(lib, "f(Tensor x) -> Tensor", "FROM_SCHEMA")(lambda x: x)


def test_a_library_a_name_and_a_key_make_a_decorator(lib, value):
    lib.define("f(Tensor x) -> Tensor")

    @impl(lib, "f", "CPU")
    def f(x):
        return x

    assert lib.is_registered("f", "CPU")
    assert not lib.is_registered("f", "CompositeImplicitAutograd")
    x = value("cpu")
    assert registry.find_packet(f"{lib.ns}::f")(x) is x
    assert f(3) == 3


def test_a_library_and_a_name_register_at_the_key_of_the_library(lib):
    lib.define("f(Tensor x) -> Tensor")
    impl(lib, "f")(lambda x: x)
    assert lib.is_registered("f", "CompositeImplicitAutograd")


def test_the_form_with_a_library_takes_no_other_library(lib):
    with pytest.raises(LibraryKindError, match="takes neither lib nor tags"):
        define(lib, "f(Tensor x) -> Tensor", lib=lib)
    with pytest.raises(LibraryKindError, match="takes neither lib nor tags"):
        impl(lib, "f", "CPU", lib=lib)
    with pytest.raises(LibraryKindError, match="alias_analysis belongs to the form"):
        define(f"{lib.ns}::f", "(Tensor x) -> Tensor", "CONSERVATIVE")


def test_aliases_are_those_of_the_schema(lib):
    lib.define("f(Tensor x) -> Tensor", "CONSERVATIVE")
    with pytest.raises(RegistrationError, match="Invalid alias_analysis type PURE"):
        lib.define("g(Tensor x) -> Tensor", "PURE")
