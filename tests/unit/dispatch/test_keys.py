"""Dispatch keys and key sets: rules 14.1 to 14.8."""

from __future__ import annotations

import pytest

from pullback.dispatch import (
    DispatchKey,
    DispatchKeySet,
    after_ADInplaceOrView,
    after_autograd,
    parse_key,
    runtime_keys_of,
)
from pullback.dispatch.keys import (
    ALIAS_KEYS,
    BACKENDS,
    FUNCTIONALITIES,
    RUNTIME_KEYS,
    backends_of,
)
from pullback.errors import DispatchKeyError, PullbackError


def names(keys) -> list[str]:
    return [key.name for key in keys]


def test_a_runtime_key_is_a_functionality_or_its_pair_with_a_backend():
    """Rule 14.1."""
    per_backend = [prefix for prefix in FUNCTIONALITIES.values() if prefix is not None]
    assert per_backend == ["", "SparseCsr", "Autograd"]
    for prefix in per_backend:
        for backend in BACKENDS:
            assert DispatchKey[prefix + backend] in RUNTIME_KEYS


def test_meta_beats_every_real_backend():
    """Rule 14.2."""
    assert BACKENDS == ("CPU", "XLA", "Lazy", "Dask", "Meta")
    mixed = DispatchKeySet("CPU", "Meta")
    assert mixed.highest() is DispatchKey.Meta


def test_functionalities_keep_their_order_of_priority():
    """Rule 14.3."""
    order = [key for key in FUNCTIONALITIES if FUNCTIONALITIES[key] is None]
    assert order == [
        "FPGA",
        "BackendSelect",
        "Python",
        "ADInplaceOrView",
        "AutogradOther",
        "Tracer",
        "FuncTorchBatched",
    ]
    keys = DispatchKeySet(*order, "CPU", "AutogradCPU", "SparseCsrCPU")
    popped = []
    while keys.highest() is not DispatchKey.Undefined:
        popped.append(keys.highest().name)
        keys = keys.remove(keys.highest())
    assert popped == [
        "FuncTorchBatched",
        "Tracer",
        "AutogradCPU",
        "AutogradOther",
        "ADInplaceOrView",
        "Python",
        "BackendSelect",
        "SparseCsrCPU",
        "FPGA",
        "CPU",
    ]


def test_the_table_runs_by_functionality_then_backend():
    """Rule 14.4."""
    expected = ["Undefined"]
    for name, prefix in FUNCTIONALITIES.items():
        expected += [name] if prefix is None else [prefix + backend for backend in BACKENDS]
    assert names(RUNTIME_KEYS) == expected
    assert len(RUNTIME_KEYS) == 1 + 7 + 3 * 5


@pytest.mark.parametrize(
    ("alias", "count"),
    [
        ("Autograd", 6),
        ("CompositeExplicitAutograd", 11),
        ("CompositeExplicitAutogradNonFunctional", 7),
        ("CompositeImplicitAutograd", 17),
        ("FuncTorchBatchedDecomposition", 1),
    ],
)
def test_alias_keys_cover_runtime_keys(alias, count):
    """Rule 14.5."""
    covered = runtime_keys_of(alias)
    assert len(covered) == count
    assert all(not key.is_alias for key in covered)
    assert DispatchKey[alias] in ALIAS_KEYS


def test_composite_implicit_covers_backends_and_autograd():
    """Rule 14.5."""
    assert runtime_keys_of("CompositeImplicitAutograd") == (
        runtime_keys_of("CompositeExplicitAutograd") | runtime_keys_of("Autograd")
    )
    left_out = runtime_keys_of("CompositeExplicitAutograd") - runtime_keys_of(
        "CompositeExplicitAutogradNonFunctional"
    )
    assert sorted(names(left_out)) == ["Lazy", "SparseCsrLazy", "SparseCsrXLA", "XLA"]


@pytest.mark.parametrize("alias", names(ALIAS_KEYS))
def test_alias_keys_never_occur_in_a_key_set(alias):
    """Rule 14.5."""
    with pytest.raises(DispatchKeyError, match=f"{alias} is an alias key"):
        DispatchKeySet(alias)
    assert alias not in DispatchKeySet("CPU", "AutogradCPU")


def test_backends_of_an_autograd_key():
    """Rule 14.6."""
    for backend in BACKENDS:
        assert backends_of(DispatchKey["Autograd" + backend]) == {DispatchKey[backend]}
    other = {"FPGA", *("SparseCsr" + backend for backend in BACKENDS)}
    assert set(names(backends_of(DispatchKey.AutogradOther))) == other
    rest = [key for key in RUNTIME_KEYS if not key.name.startswith("Autograd")]
    assert all(not backends_of(key) for key in rest)


def test_functionality_and_backend_bits_are_independent():
    """Rule 14.7."""
    mixed = DispatchKeySet("CPU") | DispatchKeySet("AutogradXLA")
    assert repr(mixed) == "DispatchKeySet(CPU, XLA, AutogradCPU, AutogradXLA)"
    assert mixed.has("XLA")
    assert "AutogradCPU" in mixed
    assert len(mixed) == 4
    assert mixed & DispatchKeySet("CPU") == DispatchKeySet("CPU")


def test_difference_keeps_backend_bits():
    """Rule 14.7."""
    mixed = DispatchKeySet("CPU", "AutogradXLA")
    assert names(mixed - DispatchKeySet("AutogradXLA")) == ["CPU", "XLA"]
    assert names(mixed.remove("AutogradCPU")) == ["CPU", "XLA"]
    assert mixed.remove("Tracer") == mixed
    assert mixed.add("Tracer").highest() is DispatchKey.Tracer


def test_the_highest_key_pairs_functionality_and_backend():
    """Rule 14.8."""
    assert DispatchKeySet("CPU", "AutogradXLA").highest() is DispatchKey.AutogradXLA
    assert DispatchKeySet("CPU", "FPGA").highest() is DispatchKey.FPGA
    assert DispatchKeySet().highest() is DispatchKey.Undefined
    only_backends = DispatchKeySet("CPU", "XLA") - DispatchKeySet("CPU")
    assert only_backends.highest() is DispatchKey.Undefined


def test_the_sets_below_autograd():
    """Rule 14.24."""
    full = DispatchKeySet(*(key for key in RUNTIME_KEYS))
    assert (full & after_autograd).highest() is DispatchKey.ADInplaceOrView
    assert (full & after_ADInplaceOrView).highest() is DispatchKey.Python
    assert names(DispatchKeySet("CPU", "AutogradCPU", "Tracer") & after_autograd) == ["CPU"]


def test_a_key_set_is_an_int_without_the_requires_grad_bit():
    keys = DispatchKeySet("CPU", "AutogradCPU")
    assert isinstance(keys, int)
    assert DispatchKeySet.from_bits(int(keys) | 1) == keys
    assert {keys: 1}[int(keys)] == 1
    assert list(DispatchKeySet("Undefined")) == []


def test_an_unknown_key_is_named_with_its_nearest_match():
    with pytest.raises(DispatchKeyError, match="could not parse dispatch key 'AutogradCpu'") as e:
        parse_key("AutogradCpu")
    assert "Did you mean 'AutogradCPU'?" in str(e.value)
    assert isinstance(e.value, (RuntimeError, ValueError, PullbackError))
    with pytest.raises(DispatchKeyError, match="could not parse dispatch key 3"):
        parse_key(3)
