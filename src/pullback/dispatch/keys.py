"""Dispatch keys, and sets of them as ints.

A runtime key is a *functionality* (``Tracer``) or a functionality paired with a *backend*
(``AutogradCPU`` = autograd functionality × CPU). A key set keeps the two apart: one bit for each
functionality, one for each backend. So ``{CPU} | {AutogradXLA}`` reads as all four pairs; that is
the price of an int from which a tensor's keys and a thread's masks give a table's index by one
``|`` and one ``&``.

The four lowest bits are no keys. Three say that a tensor requires grad, that it is a view which
may come to require grad when its base is written to, and that it carries a tangent. Dispatch uses
them to choose among linked kernels; the public ``DispatchKeySet`` hides them. The fourth,
``INTERCEPT``, stays in key sets, so that a redispatch finds it: it says that the key Python belongs
to ``__torch_dispatch__`` in this call, and not to batched tensors.

The order of everything is PyTorch's, reduced to the keys that a NumPy library needs and those that
``PythonDispatcher`` demonstrates. Standard library only; everything in ``dispatch`` builds on it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from pullback._lazy import lazy_module
from pullback.errors import DispatchKeyError

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy_module("difflib")

__all__ = [
    "ALIAS_KEYS",
    "ALL_BITS",
    "AUTOGRAD_BITS",
    "BACKENDS",
    "BACKEND_MASK",
    "COMPOSITE_KEYS",
    "DUAL",
    "FUNCTIONALITIES",
    "FUNCTIONALITY_MASK",
    "INTERCEPT",
    "KEY_BITS",
    "KEY_MASK",
    "NO_KEY_BITS",
    "OTHER_BACKENDS",
    "PLAIN_VIEW",
    "REQUIRES_GRAD",
    "RUNTIME_KEYS",
    "SUBCLASS",
    "DispatchKey",
    "DispatchKeySet",
    "KeyLike",
    "after_ADInplaceOrView",
    "after_autograd",
    "backends_of",
    "functionality_places",
    "highest_key",
    "key_at",
    "parse_key",
    "runtime_keys_of",
]

# Lowest to highest priority: a call that mixes backends runs on the highest one.
BACKENDS = (
    "CPU",
    "XLA",
    "Lazy",
    "Dask",
    "Meta",  # beats every real backend: one shape-only argument makes a shape-only result
)

# Lowest to highest priority. The value is the prefix of its keys when the functionality exists
# once per backend, and None when it is a key by itself.
FUNCTIONALITIES: dict[str, str | None] = {
    "Dense": "",
    "FPGA": None,
    "SparseCsr": "SparseCsr",
    "BackendSelect": None,  # above the backends, so that a factory can choose one
    "Python": None,
    "ADInplaceOrView": None,  # just below autograd: versions and views also change under no_grad
    "AutogradOther": None,  # the autograd key of backends that have none of their own
    "AutogradFunctionality": "Autograd",
    "Tracer": None,
    "FuncTorchBatched": None,  # above autograd: a batched tensor wraps tensors that record
}


class DispatchKey(enum.Enum):
    """A runtime key or an alias key; the value is its place in the table's print order.

    >>> DispatchKey.AutogradCPU.is_alias, DispatchKey.Autograd.is_alias
    (False, True)
    """

    Undefined = 0
    CPU = 1
    XLA = 2
    Lazy = 3
    Dask = 4
    Meta = 5
    FPGA = 6
    SparseCsrCPU = 7
    SparseCsrXLA = 8
    SparseCsrLazy = 9
    SparseCsrDask = 10
    SparseCsrMeta = 11
    BackendSelect = 12
    Python = 13
    ADInplaceOrView = 14
    AutogradOther = 15
    AutogradCPU = 16
    AutogradXLA = 17
    AutogradLazy = 18
    AutogradDask = 19
    AutogradMeta = 20
    Tracer = 21
    FuncTorchBatched = 22
    # Alias keys: registering to one fills the runtime keys that it covers.
    Autograd = 23
    CompositeImplicitAutograd = 24
    FuncTorchBatchedDecomposition = 25
    CompositeExplicitAutograd = 26
    CompositeExplicitAutogradNonFunctional = 27

    @property
    def is_alias(self) -> bool:
        """Whether this key stands for several runtime keys and never occurs in a key set."""
        return self.value >= DispatchKey.Autograd.value

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"


KeyLike: TypeAlias = "DispatchKey | str"

RUNTIME_KEYS = tuple(key for key in DispatchKey if not key.is_alias)
ALIAS_KEYS = tuple(key for key in DispatchKey if key.is_alias)

# ---- bits ----------------------------------------------------------------------------------------

REQUIRES_GRAD = 1
PLAIN_VIEW = 2  # a view of a tensor that does not require grad, which a write may change
DUAL = 4
INTERCEPT = 8  # a dispatch mode is active, or the tensor's class has __torch_dispatch__
_FIRST_BACKEND_BIT = 4
_FIRST_FUNCTIONALITY_BIT = _FIRST_BACKEND_BIT + len(BACKENDS)
BACKEND_MASK = (1 << _FIRST_FUNCTIONALITY_BIT) - (1 << _FIRST_BACKEND_BIT)
_END = _FIRST_FUNCTIONALITY_BIT + len(FUNCTIONALITIES)
FUNCTIONALITY_MASK = (1 << _END) - (1 << _FIRST_FUNCTIONALITY_BIT)
KEY_MASK = BACKEND_MASK | FUNCTIONALITY_MASK | INTERCEPT
NO_KEY_BITS = REQUIRES_GRAD | PLAIN_VIEW | DUAL
ALL_BITS = KEY_MASK | NO_KEY_BITS
SUBCLASS = 1 << _END  # results of a call become instances of the registered subclass of Tensor

_NAME_BY_BIT = dict(enumerate(FUNCTIONALITIES, _FIRST_FUNCTIONALITY_BIT))
_PREFIX_BY_BIT = dict(enumerate(FUNCTIONALITIES.values(), _FIRST_FUNCTIONALITY_BIT))


def _runtime_key_bits() -> dict[DispatchKey, int]:
    """The bits of each runtime key: its functionality's, and its backend's where it has one."""
    bits = {DispatchKey.Undefined: 0}
    for place, prefix in _PREFIX_BY_BIT.items():
        if prefix is None:
            bits[DispatchKey[_NAME_BY_BIT[place]]] = 1 << place
            continue
        for number, backend in enumerate(BACKENDS):
            backend_bit = 1 << (_FIRST_BACKEND_BIT + number)
            bits[DispatchKey[prefix + backend]] = 1 << place | backend_bit
    return bits


KEY_BITS = _runtime_key_bits()
_KEY_BY_BITS = {bits: key for key, bits in KEY_BITS.items()}


def highest_key(bits: int) -> DispatchKey:
    """The runtime key that a raw key set dispatches to.

    >>> highest_key(KEY_BITS[DispatchKey.CPU] | KEY_BITS[DispatchKey.AutogradXLA])
    DispatchKey.AutogradXLA
    """
    functionalities = bits & FUNCTIONALITY_MASK
    if not functionalities:
        return DispatchKey.Undefined
    return key_at(functionalities.bit_length() - 1, bits)


def key_at(place: int, bits: int) -> DispatchKey:
    """The key of the functionality at a bit position, paired with the highest backend in `bits`.

    A per-backend functionality without any backend bit names no key: Undefined.
    """
    if _PREFIX_BY_BIT[place] is None:
        return _KEY_BY_BITS[1 << place]
    backends = bits & BACKEND_MASK
    if not backends:
        return DispatchKey.Undefined
    return _KEY_BY_BITS[1 << place | 1 << (backends.bit_length() - 1)]


def functionality_places(bits: int) -> Iterator[int]:
    """Bit positions of the functionalities in a raw key set, lowest first."""
    for place in range(_FIRST_FUNCTIONALITY_BIT, _END):
        if bits >> place & 1:
            yield place


# ---- key sets ------------------------------------------------------------------------------------


class DispatchKeySet(int):
    """An immutable set of runtime keys; an int, so that it can index a table as it is.

    >>> keys = DispatchKeySet("CPU", "AutogradCPU")
    >>> keys
    DispatchKeySet(CPU, AutogradCPU)
    >>> keys - DispatchKeySet("AutogradCPU"), keys.highest()
    (DispatchKeySet(CPU), DispatchKey.AutogradCPU)
    """

    def __new__(cls, *keys: KeyLike) -> DispatchKeySet:
        """The set of the given keys."""
        bits = 0
        for key in map(parse_key, keys):
            if key.is_alias:
                covered = ", ".join(sorted(k.name for k in runtime_keys_of(key)))
                raise DispatchKeyError(
                    f"DispatchKeySet: {key.name} is an alias key, and alias keys never occur in a "
                    f"key set; name the runtime keys that it covers instead: {covered}"
                )
            bits |= KEY_BITS[key]
        return int.__new__(cls, bits)

    @classmethod
    def from_bits(cls, bits: int) -> DispatchKeySet:
        """The key set of raw bits, such as a tensor's; the bits that are no keys are dropped."""
        return int.__new__(cls, bits & KEY_MASK)

    @classmethod
    def from_functionalities(cls, bits: int) -> DispatchKeySet:
        """The set of all keys of the functionalities in raw bits, on every backend."""
        functionalities = bits & FUNCTIONALITY_MASK
        return cls.from_bits(functionalities | (BACKEND_MASK if functionalities else 0))

    def __contains__(self, key: KeyLike) -> bool:
        bits = KEY_BITS.get(parse_key(key))
        return bits is not None and self & bits == bits

    def has(self, key: KeyLike) -> bool:
        """Whether the set has this key; the same as ``key in keys``."""
        return key in self

    def add(self, key: KeyLike) -> DispatchKeySet:
        """A set with one more key."""
        return self | DispatchKeySet(key)

    def remove(self, key: KeyLike) -> DispatchKeySet:
        """A set without this key's functionality, on any backend."""
        return self - DispatchKeySet(key)

    def highest(self) -> DispatchKey:
        """The key of highest priority: the one that a call with this set dispatches to."""
        return highest_key(self)

    def __or__(self, other: int) -> DispatchKeySet:
        if not isinstance(other, int):
            return NotImplemented
        return DispatchKeySet.from_bits(int.__or__(self, other))

    def __and__(self, other: int) -> DispatchKeySet:
        if not isinstance(other, int):
            return NotImplemented
        return DispatchKeySet.from_bits(int.__and__(self, other))

    def __sub__(self, other: int) -> DispatchKeySet:
        if not isinstance(other, int):
            return NotImplemented
        # Backend bits survive: they belong to the functionalities that stay.
        return DispatchKeySet.from_bits(int.__and__(self, ~(int(other) & FUNCTIONALITY_MASK)))

    __ror__ = __or__
    __rand__ = __and__

    def __iter__(self) -> Iterator[DispatchKey]:
        for key, bits in KEY_BITS.items():
            if bits and int(self) & bits == bits:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __reduce__(self) -> tuple[Callable[[int], DispatchKeySet], tuple[int]]:
        return DispatchKeySet.from_bits, (int(self),)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"

    __str__ = __repr__


# ---- names and groups ----------------------------------------------------------------------------


def parse_key(key: KeyLike) -> DispatchKey:
    """The key of a name; a key is returned as it is.

    >>> parse_key("AutogradXLA")
    DispatchKey.AutogradXLA
    """
    if isinstance(key, DispatchKey):
        return key
    if isinstance(key, str) and key in DispatchKey.__members__:
        return DispatchKey[key]
    names = list(DispatchKey.__members__)
    by_folded = {
        name.casefold(): name for name in names
    }  # the most frequent mistake is upper or lower case
    near = difflib.get_close_matches(str(key).casefold(), by_folded, n=1)
    hint = f" Did you mean {by_folded[near[0]]!r}?" if near else ""
    raise DispatchKeyError(
        f"could not parse dispatch key {key!r}.{hint} The keys are {', '.join(names)}."
    )


def _keys(names: Iterable[str]) -> frozenset[DispatchKey]:
    return frozenset(DispatchKey[name] for name in names)


_AUTOGRAD = _keys(["AutogradOther", *("Autograd" + backend for backend in BACKENDS)])
OTHER_BACKENDS = _keys(["FPGA", *("SparseCsr" + backend for backend in BACKENDS)])
_ALL_BACKENDS = OTHER_BACKENDS | _keys(BACKENDS)

_COVERED: dict[DispatchKey, frozenset[DispatchKey]] = {
    DispatchKey.Autograd: _AUTOGRAD,
    DispatchKey.CompositeImplicitAutograd: _ALL_BACKENDS | _AUTOGRAD,
    DispatchKey.FuncTorchBatchedDecomposition: _keys(["FuncTorchBatched"]),
    DispatchKey.CompositeExplicitAutograd: _ALL_BACKENDS,
    # Kernels that write in place into fresh results suit no backend without real memory.
    DispatchKey.CompositeExplicitAutogradNonFunctional: frozenset(
        key for key in _ALL_BACKENDS if not key.name.endswith(("XLA", "Lazy"))
    ),
}

# The aliases that also serve calls without any tensor.
COMPOSITE_KEYS = frozenset(key for key in ALIAS_KEYS if key.name.startswith("Composite"))


def runtime_keys_of(key: KeyLike) -> frozenset[DispatchKey]:
    """The runtime keys that a kernel registered to `key` can fill.

    >>> sorted(k.name for k in runtime_keys_of("Autograd"))[:2]
    ['AutogradCPU', 'AutogradDask']
    """
    parsed = parse_key(key)
    return _COVERED.get(parsed) or frozenset([parsed])


def backends_of(key: DispatchKey) -> frozenset[DispatchKey]:
    """The backend keys that lie below an autograd key; empty for any other key."""
    if key is DispatchKey.AutogradOther:
        return OTHER_BACKENDS
    if key in _AUTOGRAD:
        return frozenset([DispatchKey[key.name.removeprefix("Autograd")]])
    return frozenset()


AUTOGRAD_BITS = FUNCTIONALITY_MASK & (
    KEY_BITS[DispatchKey.AutogradOther] | KEY_BITS[DispatchKey.AutogradCPU]
)


def _bits_up_to(key: DispatchKey) -> int:
    functionality = KEY_BITS[key] & FUNCTIONALITY_MASK
    return INTERCEPT | BACKEND_MASK | FUNCTIONALITY_MASK & (2 * functionality - 1)


# What a kernel redispatches with: `keyset & after_autograd` lands below the autograd keys.
after_autograd = DispatchKeySet.from_bits(_bits_up_to(DispatchKey.ADInplaceOrView))
after_ADInplaceOrView = after_autograd - DispatchKeySet("ADInplaceOrView")  # noqa: N816 - its key
