"""The computed dispatch table: rules 14.14 to 14.18."""

from __future__ import annotations

import itertools

import pytest

from pullback.dispatch import (
    DispatchKey,
    InferenceModeGuard,
    Library,
    fallthrough_kernel,
)
from pullback.dispatch.dump import DispatchTable
from pullback.dispatch.registry import find
from pullback.errors import AmbiguousKernelError, DispatchKeyError, KernelNotFoundError

CIA = "CompositeImplicitAutograd"
CEA = "CompositeExplicitAutograd"
CEANF = "CompositeExplicitAutogradNonFunctional"


@pytest.fixture
def table(lib):
    """Registers kernels that return their key to a fresh operator; gives key to provenance."""
    numbers = itertools.count()

    def compute(*keys: str) -> dict[str, str]:
        name = f"f{next(numbers)}"
        lib.define(f"{name}(Tensor[] xs) -> str")
        for key in keys:
            lib.impl(name, kernel_named(key), key)
        lib.last = lib.operator(name)
        return {key.name: entry.provenance for key, entry in lib.last.dispatch_table().items()}

    return compute


def kernel_named(key: str):
    return lambda xs: key


def test_every_step_of_the_precedence(table):
    """Rule 14.14."""
    assert table("CPU")["CPU"] == "kernel"
    assert table("CPU", CEANF, CEA)["SparseCsrCPU"] == "default backend kernel"
    assert table(CEA)["XLA"] == "default backend kernel"
    assert table(CIA)["AutogradXLA"] == "math kernel"
    assert table("FPGA", CIA)["AutogradOther"] == "ambiguous autogradother"
    assert table("Autograd")["AutogradXLA"] == "autograd kernel"
    assert table("FuncTorchBatchedDecomposition")["FuncTorchBatched"] == "batched kernel"
    assert table()["AutogradCPU"] == "backend fallback"
    assert "CPU" not in table("XLA")


def test_non_functional_composite_beats_the_functional_one(table, lib):
    """Rule 14.14."""
    table(CEA, CEANF)
    entries = lib.last.dispatch_table()
    assert entries[DispatchKey.CPU].kernel.key.name == CEANF
    assert entries[DispatchKey.XLA].kernel.key.name == CEA
    assert entries[DispatchKey.CPU].step == 2
    assert entries[DispatchKey.XLA].step == 3


def test_registration_order_never_matters(table):
    """Rule 14.15."""
    keys = ["CPU", "Autograd", CIA, "FPGA"]
    tables = [table(*order) for order in itertools.permutations(keys)]
    assert all(other == tables[0] for other in tables)


def test_deregistration_is_the_exact_inverse(lib):
    """Rule 14.15."""
    lib.define("f(Tensor[] xs) -> str")
    entry = find(f"{lib.ns}::f")
    before = repr(DispatchTable(entry))
    handles = [lib.impl("f", kernel_named(key), key) for key in ("CPU", CIA, "Autograd")]
    middle = repr(DispatchTable(entry))
    handles.pop(1).destroy()
    assert "math kernel" in middle
    assert "math kernel" not in repr(DispatchTable(entry))
    for handle in handles:
        handle.destroy()
    assert repr(DispatchTable(entry)) == before


def test_a_backend_kernel_hides_the_composite_for_its_autograd_key(table):
    """Rule 14.16."""
    entries = table("CPU", CIA)
    assert entries["AutogradCPU"] == "backend fallback"
    assert entries["AutogradXLA"] == "math kernel"


def test_autograd_serves_the_backend_that_has_a_kernel(table):
    """Rule 14.16."""
    entries = table("CPU", "Autograd", CIA)
    assert entries["AutogradCPU"] == "autograd kernel"
    assert entries["AutogradXLA"] == "math kernel"


def test_explicit_composites_and_the_implicit_one(table):
    """Rule 14.16."""
    assert "math kernel" not in table(CEA, CIA).values()
    entries = table(CEANF, CIA)
    assert entries["CPU"] == "default backend kernel"
    assert entries["XLA"] == entries["Lazy"] == entries["AutogradCPU"] == "math kernel"


def test_undefined_takes_composites_and_ignores_backends(table, lib):
    """Rule 14.16."""
    for keys, chosen in [((CEANF, CEA, CIA), CEANF), ((CEA, CIA), CEA), ((CIA, "CPU"), CIA)]:
        table(*keys)
        assert lib.last([]) == chosen
    table("CPU")
    with pytest.raises(KernelNotFoundError, match="There were no tensor arguments"):
        lib.last([])


@pytest.mark.parametrize("other", [CEA, "Autograd"])
def test_ambiguity_is_checked_before_backends(table, other):
    """Rule 14.16."""
    assert table("FPGA", other, CIA)["AutogradOther"] == "ambiguous autogradother"


def test_a_sparse_kernel_beside_the_composite_is_reached_only_in_inference_mode(table, lib, value):
    """Rule 14.16."""
    table("SparseCsrCPU", CIA)
    sparse = value("sparse")
    assert lib.last([sparse]) == CIA
    with InferenceModeGuard():
        assert lib.last([sparse]) == "SparseCsrCPU"


def test_the_ambiguous_marker_raises_when_called(table, lib, value):
    """Rule 14.16."""
    table("FPGA", CIA)
    fpga = value("fpga")
    with pytest.raises(
        AmbiguousKernelError,
        match=r"kernels registered to both CompositeImplicitAutograd and a backend mapped to "
        "AutogradOther.*unreachable",
    ) as error:
        lib.last([fpga])
    assert str(lib.last) in str(error.value)
    assert isinstance(error.value, RuntimeError)
    with InferenceModeGuard():
        assert lib.last([fpga]) == "FPGA"


@pytest.mark.parametrize("key", ["", "Undefined"])
def test_no_key_means_the_implicit_composite(lib, key):
    """Rule 14.17."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", lambda x: "ran", key)
    assert lib.is_registered("f", CIA)
    with Library(lib.ns, "IMPL", "CPU") as keyed:
        keyed.impl("f", lambda x: "cpu")
        assert keyed.is_registered("f", "CPU")


def test_the_default_fallbacks_are_visible(table, lib):
    """Rule 14.18."""
    entries = table()
    entries.pop("Dask", None)  # there once a tensor of pullback.dask was made
    autograd = {name for name in DispatchKey.__members__ if name.startswith("Autograd")}
    autograd.remove("Autograd")
    assert set(entries) == {"Meta", "BackendSelect", "Python", "ADInplaceOrView", *autograd}
    assert set(entries.values()) == {"backend fallback"}
    text = repr(lib.last.dispatch_table())
    assert "BackendSelect: fallthrough registered at" in text
    assert "ADInplaceOrView: fallthrough registered at" in text
    assert "AutogradCPU: registered at" in text


def test_alias_keys_have_no_table_entry(table, lib):
    """Rule 14.34."""
    table("CPU")
    with pytest.raises(
        DispatchKeyError, match="Alias keys do not have runtime kernel registrations"
    ):
        lib.last.has_computed_kernel_for_dispatch_key("Autograd")


def test_a_fallthrough_counts_as_a_kernel(lib):
    """Rule 14.20."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", fallthrough_kernel, "AutogradCPU")
    f = lib.operator("f")
    assert f.has_kernel_for_dispatch_key("AutogradCPU")
    assert f.has_computed_kernel_for_dispatch_key("AutogradCPU")
    assert "AutogradCPU: fallthrough registered at" in repr(f.dispatch_table())
