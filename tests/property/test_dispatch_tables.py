"""Computed tables and dispatch against models that are written from the rules alone.

The models share nothing with the dispatcher: keys are names, their sets are spelt out here, the
nine-step rule (14.14) and the choice of a kernel (14.8, 14.9, 14.20 to 14.24) are computed afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.dispatch import (
    DispatchKey,
    DispatchKeySet,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    Library,
    OpOverload,
    fallthrough_kernel,
    registry,
)
from pullback.dispatch.dump import dump_registrations
from pullback.errors import AmbiguousKernelError, DispatchError, KernelNotFoundError

# ---- the model of keys and tables ----------------------------------------------------------------

BACKENDS = ("CPU", "XLA", "Lazy", "Dask", "Meta")
DENSE = {"CPU", "XLA", "Lazy", "Dask", "Meta"}
SPARSE_CSR = {"SparseCsrCPU", "SparseCsrXLA", "SparseCsrLazy", "SparseCsrDask", "SparseCsrMeta"}
PER_BACKEND_AUTOGRAD = {
    *("AutogradCPU", "AutogradXLA", "AutogradLazy", "AutogradDask", "AutogradMeta"),
}
AUTOGRAD = PER_BACKEND_AUTOGRAD | {"AutogradOther"}
OTHER_BACKENDS = SPARSE_CSR | {"FPGA"}
EXPLICIT = DENSE | SPARSE_CSR | {"FPGA"}
NON_FUNCTIONAL = {
    *("CPU", "Dask", "Meta", "FPGA", "SparseCsrCPU", "SparseCsrDask", "SparseCsrMeta"),
}
IMPLICIT = EXPLICIT | AUTOGRAD

# Lowest to highest priority; a name with a star is one key for each backend.
ORDER = (
    *("*", "FPGA", "SparseCsr*", "BackendSelect", "Python", "ADInplaceOrView", "AutogradOther"),
    *("Autograd*", "Tracer", "FuncTorchBatched"),
)
BELOW_AUTOGRAD = ORDER[: ORDER.index("ADInplaceOrView") + 1]
# Key name -> functionality and backend.
PARTS: dict[str, tuple[str, str | None]] = {
    name.replace("*", backend): (name, backend if "*" in name else None)
    for name in ORDER
    for backend in BACKENDS
}
RUNTIME = tuple(PARTS)
ALIASES = (
    *("Autograd", "CompositeImplicitAutograd", "FuncTorchBatchedDecomposition"),
    *("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"),
)
DEFAULT_FALLBACKS = {"Meta", "BackendSelect", "Python", "ADInplaceOrView"} | AUTOGRAD
FREE_FALLBACKS = tuple(key for key in RUNTIME if key not in DEFAULT_FALLBACKS)


class Won(NamedTuple):
    """The registered key whose kernel fills an entry (its own key, for a fallback), and why."""

    by: str
    provenance: str


def backends_of(key: str) -> set[str]:
    if key == "AutogradOther":
        return OTHER_BACKENDS
    return {key.removeprefix("Autograd")} if key in PER_BACKEND_AUTOGRAD else set()


def entry(key: str, registered: set[str], fallbacks: set[str]) -> Won | None:
    """14.14, step by step; step 4 is for nested tensors."""
    undefined = key == "Undefined"
    if key in registered:
        return Won(key, "kernel")
    alias = "CompositeExplicitAutogradNonFunctional"
    if alias in registered and (undefined or key in NON_FUNCTIONAL):
        return Won(alias, "default backend kernel")
    alias = "CompositeExplicitAutograd"
    if alias in registered and (undefined or key in EXPLICIT):
        return Won(alias, "default backend kernel")
    has_backend = bool(registered & backends_of(key)) or alias in registered
    alias = "CompositeImplicitAutograd"
    if alias in registered and (undefined or key in IMPLICIT):
        if key == "AutogradOther" and registered & OTHER_BACKENDS:
            return Won(key, "ambiguous autogradother")
        if not has_backend:
            return Won(alias, "math kernel")
    if "Autograd" in registered and key in AUTOGRAD:
        return Won("Autograd", "autograd kernel")
    if "FuncTorchBatchedDecomposition" in registered and key == "FuncTorchBatched":
        return Won("FuncTorchBatchedDecomposition", "batched kernel")
    return Won(key, "backend fallback") if key in fallbacks else None


def model_table(registered: set[str], fallbacks: set[str]) -> dict[str, Won]:
    computed = {key: entry(key, registered, fallbacks) for key in ("Undefined", *RUNTIME)}
    return {key: won for key, won in computed.items() if won is not None}


# ---- the model of a call -------------------------------------------------------------------------


class Keys(NamedTuple):
    """A key set: functionalities and backends, apart from each other."""

    functionalities: frozenset[str]
    backends: frozenset[str]

    @classmethod
    def of(cls, keys: set[str] | frozenset[str]) -> Keys:
        parts = [PARTS[key] for key in keys]
        return cls(frozenset(f for f, _ in parts), frozenset(b for _, b in parts if b))

    def at(self, functionality: str) -> str:
        """The key of a functionality, on the highest backend of the set."""
        highest = max(self.backends, key=BACKENDS.index, default="")
        return functionality.replace("*", highest)

    def highest(self) -> str:
        if not self.functionalities:
            return "Undefined"
        return self.at(max(self.functionalities, key=ORDER.index))

    def only(self, functionalities: Any) -> Keys:
        return Keys(self.functionalities & frozenset(functionalities), self.backends)

    def __str__(self) -> str:
        present = (key for key, (f, b) in PARTS.items() if f in self.functionalities)
        return " ".join(k for k in present if PARTS[k][1] in (None, *self.backends))


class Operator(NamedTuple):
    """Registered keys and fallbacks; True where the kernel is a fallthrough."""

    kernels: dict[str, bool]
    fallbacks: dict[str, bool]

    def entry(self, key: str) -> Won | None:
        return entry(key, set(self.kernels), DEFAULT_FALLBACKS | set(self.fallbacks))

    def falls_through(self, won: Won | None) -> bool:
        if won is None or won.provenance == "ambiguous autogradother":
            return False
        if won.provenance == "backend fallback":
            default = won.by in ("BackendSelect", "ADInplaceOrView")
            return self.fallbacks.get(won.by, default)
        return self.kernels[won.by]

    def masked(self, keys: Keys) -> Keys:
        """14.20, 14.21: without the functionalities that fall through on the set's backend."""
        kept = [f for f in keys.functionalities if not self.falls_through(self.entry(keys.at(f)))]
        return keys.only(kept)

    def run(self, keys: Keys) -> str:
        """What a call that dispatches with these keys gives: 14.8, 14.24, 14.39."""
        key = keys.highest()
        won = self.entry(key)
        if won is None:
            return "no tensor arguments" if key == "Undefined" else f"missing {key}"
        if self.falls_through(won):
            return f"falls through at {key}"
        if won.provenance == "ambiguous autogradother":
            return "ambiguous"
        if won.provenance != "backend fallback":
            return f"{won.by} gets {keys}"
        if won.by in self.fallbacks:
            return f"fallback {won.by} gets {keys}"
        return "no Meta kernel" if won.by == "Meta" else self.run(keys.only(BELOW_AUTOGRAD))


# ---- the dispatcher under test -------------------------------------------------------------------

registered_sets = st.lists(st.sampled_from(RUNTIME + ALIASES), unique=True)
fallback_sets = st.lists(st.sampled_from(FREE_FALLBACKS), unique=True, max_size=4)
# What the fallback for Python does with samples of one's own is no matter of tables.
key_sets = st.frozensets(st.sampled_from([k for k in RUNTIME if k != "Python"]), max_size=4)


def with_fallthrough(keys: tuple[str, ...], size: int) -> st.SearchStrategy[dict[str, bool]]:
    return st.dictionaries(st.sampled_from(keys), st.booleans(), max_size=size)


operators = st.builds(
    Operator, with_fallthrough(RUNTIME + ALIASES, 12), with_fallthrough(FREE_FALLBACKS, 4)
)


class Value:
    __slots__ = ("_flags",)

    def __init__(self, keys: frozenset[str]):
        self._flags = int(DispatchKeySet(*keys))


def kernel_of(key: str) -> Callable[..., str]:
    return lambda keyset, x, y, zs: f"{key} gets {' '.join(k.name for k in keyset)}"


def fallback_of(key: str) -> Callable[..., str]:
    return lambda keyset, op, *args: f"fallback {key} gets {' '.join(k.name for k in keyset)}"


@pytest.fixture(autouse=True, scope="module")
def _only_default_fallbacks() -> Iterator[None]:
    """Tests that ran before may have loaded another fallback, such as that of dask arrays."""
    loaded = registry._fallbacks
    others = [kernel for key, kernel in loaded.items() if key.name not in DEFAULT_FALLBACKS]
    for kernel in others:
        registry._remove_fallback(kernel.key)
    yield
    for kernel in others:
        registry.register_fallback(kernel)


@contextmanager
def made(kernels: Mapping[str, bool], fallbacks: Mapping[str, bool]) -> Iterator[OpOverload]:
    """An operator with kernels and fallbacks, registered in the given order."""
    with Library("property", "DEF") as lib, Library("_", "IMPL") as everywhere:
        lib.define("f(Tensor? x, Tensor[] y, Tensor?[] zs) -> str")
        # A Meta kernel is refused once the implicit composite is there.
        for key in sorted(kernels, key=lambda key: key != "Meta"):
            lib.impl(
                "f", fallthrough_kernel if kernels[key] else kernel_of(key), key, with_keyset=True
            )
        for key, falls in fallbacks.items():
            everywhere.fallback(
                fallthrough_kernel if falls else fallback_of(key), key, with_keyset=True
            )
        yield lib.operator("f")


def outcome(call: Callable[..., str], *args: Any) -> str:
    """The result, or the error in the words of the model."""
    try:
        return call(*args)
    except AmbiguousKernelError:
        return "ambiguous"
    except KernelNotFoundError as error:
        text = str(error)
        if "There were no tensor arguments" in text:
            return "no tensor arguments"
        if "attempted to run this operator with Meta tensors" in text:
            return "no Meta kernel"
        return "missing " + text.partition("from the '")[2].partition("'")[0]
    except DispatchError as error:
        return "falls through at " + str(error).partition("redispatch to ")[2].partition(",")[0]


def table_of(operator: OpOverload) -> dict[str, Won]:
    table = operator.dispatch_table()
    return {key.name: Won(found.kernel.key.name, found.provenance) for key, found in table.items()}


# ---- properties ----------------------------------------------------------------------------------


@given(registered_sets, fallback_sets)
@settings(deadline=None, max_examples=300)
def test_random_registrations_give_the_table_of_the_rule(keys, fallbacks):
    """Rule 14.14."""
    expected = model_table(set(keys), DEFAULT_FALLBACKS | set(fallbacks))
    with made(dict.fromkeys(keys, False), dict.fromkeys(fallbacks, False)) as operator:
        assert table_of(operator) == expected
        for key in ("Undefined", *RUNTIME):
            assert operator.has_computed_kernel_for_dispatch_key(key) == (key in expected)


@given(st.data(), registered_sets)
@settings(deadline=None, max_examples=200)
def test_registration_order_never_matters(data, keys):
    """Rule 14.15."""
    seen = []
    for order in (keys, data.draw(st.permutations(keys))):
        with Library("property", "FRAGMENT") as lib:
            define_at = data.draw(st.integers(0, len(keys)))
            order = sorted(order, key=lambda key: key != "Meta")
            for place, key in enumerate([*order, None]):
                if place == define_at:
                    lib.define("f(Tensor x) -> str")
                if key is not None:
                    lib.impl("f", lambda x: "", key)
            found = registry.find("property::f")
            seen.append((table_of(found.operator), dump_registrations(found)))
    assert seen[0] == seen[1]


@given(operators, key_sets, st.lists(key_sets, max_size=2), key_sets, key_sets)
@settings(deadline=None, max_examples=400)
def test_a_call_runs_the_kernel_of_the_rule(operator, first, others, include, exclude):
    """Rule 14.9."""
    present = Keys.of(first.union(*others) | include | {"BackendSelect", "ADInplaceOrView"})
    left = present.only(present.functionalities - Keys.of(exclude).functionalities)
    dispatched = operator.masked(left)
    values = list(map(Value, others))
    args = (Value(first) if first else None, values[:1], [None, *values[1:]])
    including, excluding = IncludeDispatchKeyGuard(*include), ExcludeDispatchKeyGuard(*exclude)
    with made(*operator) as f, including, excluding:
        explained = f.explain(*args)
        assert explained.key.name == dispatched.highest()
        assert " ".join(key.name for key in explained.keyset) == str(dispatched)
        for call in (f, f.call, f.overloadpacket, f):  # the last one finds the link of the first
            assert outcome(call, *args) == operator.run(dispatched)


@given(operators, key_sets)
@settings(deadline=None, max_examples=200)
def test_redispatch_takes_the_keys_as_they_are(operator, keys):
    """Rule 14.24."""
    with made(*operator) as f:
        keyset = DispatchKeySet(*keys)
        for _ in range(2):
            assert outcome(f.redispatch, keyset, None, [], []) == operator.run(Keys.of(keys))


def test_model_of_the_table_has_every_key():
    """Rule 14.4."""
    assert [key.name for key in DispatchKey] == ["Undefined", *RUNTIME, *ALIASES]
