"""Registrations of an operator, and the dispatch table computed from them.

``candidates`` is the whole precedence rule: it lists the kernels that may fill one key, best first,
from three things only: the operator's registrations, the aliases among them, and the global
fallbacks. Nothing else is state, so registration order never matters and undoing a registration is
exact.

``OperatorEntry`` keeps the registrations as stacks and *links* kernels on demand: its two tables
map a call to a callable that is ready to run, and every change empties them. A call on the hot path
only looks up; everything in this file happens on the first call with a thread state and flags.
The kernels of a built-in operator are not even imported before that: ``OperatorEntry.source``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback._lazy import lazy_module
from pullback.dispatch.flags import flag_collector
from pullback.dispatch.kernel import Kernel, fallthrough_kernel
from pullback.dispatch.keys import (
    INTERCEPT,
    NO_KEY_BITS,
    OTHER_BACKENDS,
    SUBCLASS,
    DispatchKey,
    backends_of,
    functionality_places,
    highest_key,
    key_at,
    runtime_keys_of,
)
from pullback.dispatch.modes import State, get_state
from pullback.errors import (
    AmbiguousKernelError,
    DispatchError,
    DispatchKeyError,
    OperatorNotFoundError,
)

if TYPE_CHECKING:
    from pullback import schema as language
    from pullback.dispatch import python_dispatch
else:
    python_dispatch = lazy_module("pullback.dispatch.python_dispatch")
    language = lazy_module("pullback.schema")

__all__ = [
    "AMBIGUOUS",
    "ENTRIES",
    "LOCK",
    "MISSING",
    "Entry",
    "Kernel",
    "OperatorEntry",
    "candidates",
    "fallthrough_kernel",
    "no_longer_defined",
    "observe_calls",
    "set_subclass_linker",
]

# One lock for every change and every computation of a table, so that a table is always made from
# one state of the registry. Calls read linked tables without it.
LOCK = RLock()

if hasattr(os, "register_at_fork"):  # a forked process has no other thread that would release it
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
    )

_AUTOGRAD = DispatchKey.Autograd
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_EXPLICIT = DispatchKey.CompositeExplicitAutograd
_NON_FUNCTIONAL = DispatchKey.CompositeExplicitAutogradNonFunctional
_BATCHED = DispatchKey.FuncTorchBatched
_BATCHED_DECOMPOSITION = DispatchKey.FuncTorchBatchedDecomposition


class Entry(NamedTuple):
    """One computed entry of a dispatch table.

    >>> import pullback as pb
    >>> table = pb.ops.pullback.sin.default.dispatch_table()
    >>> table[pb.DispatchKey.CPU].provenance
    'kernel'
    """

    step: int  # of the precedence rule, 1 to 9
    kernel: Kernel | None  # None: missing
    provenance: str


def _ambiguous(operator: Any, *_: Any, **__: Any) -> Any:
    raise AmbiguousKernelError(
        f"{operator} has kernels registered to both CompositeImplicitAutograd and a backend "
        f"mapped to AutogradOther, which makes the backend kernel unreachable. Register the "
        f"composite to CompositeExplicitAutograd, or give the backend its own autograd kernel at "
        f"AutogradOther."
    )


AMBIGUOUS = Kernel(
    _ambiguous,
    DispatchKey.AutogradOther,
    debug="ambiguous_autogradother",
    with_operator=True,
)
MISSING = Entry(9, None, "missing")


def candidates(
    key: DispatchKey,
    registered: Mapping[DispatchKey, Kernel],
    fallbacks: Mapping[DispatchKey, Kernel],
) -> Iterator[Entry]:
    """The entries that may stand at a runtime key, in order of precedence; the first one does.

    Step 4 of PyTorch's nine steps serves nested tensors, which do not exist here.
    """

    def covered_by(alias: DispatchKey) -> bool:
        return alias in registered and key in runtime_keys_of(alias)

    undefined = key is DispatchKey.Undefined
    if key in registered:
        yield Entry(1, registered[key], "kernel")
    for step, alias in ((2, _NON_FUNCTIONAL), (3, _EXPLICIT)):
        if covered_by(alias) or (undefined and alias in registered):
            yield Entry(step, registered[alias], "default backend kernel")
    if covered_by(_IMPLICIT) or (undefined and _IMPLICIT in registered):
        if key is DispatchKey.AutogradOther and not OTHER_BACKENDS.isdisjoint(registered):
            yield Entry(5, AMBIGUOUS, "ambiguous autogradother")
        # A backend kernel below an autograd key overrides the composite, and so its derivative.
        elif _EXPLICIT not in registered and backends_of(key).isdisjoint(registered):
            yield Entry(5, registered[_IMPLICIT], "math kernel")
    if covered_by(_AUTOGRAD):
        yield Entry(6, registered[_AUTOGRAD], "autograd kernel")
    if covered_by(_BATCHED_DECOMPOSITION):
        yield Entry(7, registered[_BATCHED_DECOMPOSITION], "batched kernel")
    if key in fallbacks:
        yield Entry(8, fallbacks[key], "backend fallback")
    yield MISSING


def no_longer_defined(name: str) -> OperatorNotFoundError:
    """The error for a use of an operator whose definition has ended."""
    return OperatorNotFoundError(
        f"{name} is no longer defined: the library that defined it was destroyed"
    )


class OperatorEntry:
    """The registry's record of one operator name: definition, kernel stacks, tables.

    An entry without a schema is dangling: kernels came before the definition.
    """

    __slots__ = (
        "name",
        "declaration",
        "location",
        "tags",
        "definition",
        "operator",
        "source",
        "missing",
        "calls",
        "redispatches",
        "_kernels",
        "_fallbacks",
        "_entries",
        "__weakref__",
    )

    def __init__(
        self,
        name: str,
        fallbacks: Mapping[DispatchKey, Kernel],
        missing: Callable[[OperatorEntry, DispatchKey], DispatchError],
    ):
        self.name = name
        self.declaration: language.FunctionSchema | str | None = None
        self.location = ""
        self.tags: tuple[str, ...] = ()
        self.definition: Any = None  # the handle that ends the definition
        self.operator: Any = None
        # What registers the first kernels, until it has: a module to import, then a function.
        self.source: str | Callable[[], None] = ""
        self._kernels: dict[DispatchKey, list[Kernel]] = {}
        self._fallbacks = fallbacks
        self.missing = missing
        self._entries: dict[DispatchKey, Entry] = {}
        # What generated call functions read: linked callables by thread state and flags of the
        # arguments, and by key set. Emptied, never replaced.
        self.calls: dict[State, dict[int, Callable[..., Any]]] = {}
        self.redispatches: dict[int, Callable[..., Any]] = {}

    @property
    def is_defined(self) -> bool:
        """Whether the operator has a schema."""
        return self.declaration is not None

    @property
    def schema(self) -> language.FunctionSchema | None:
        """The schema; the text of a built-in operator is parsed at the first read."""
        with LOCK:
            if isinstance(self.declaration, str):
                self.declaration = language.parse_schema(self.declaration)
            return self.declaration

    @property
    def kernels(self) -> dict[DispatchKey, list[Kernel]]:
        """The stack of kernels at each key; the first read loads those of a built-in operator."""
        if self.source:
            self.load()
        return self._kernels

    def load(self) -> None:
        """Imports the generated module that registers the kernels of this operator and others.

        Lock order: ``LOCK`` first, then Python's import locks. A module imported here must not
        acquire ``LOCK`` while it is being imported, or two threads could deadlock.
        """
        with LOCK:
            source = self.source
            if isinstance(source, str) and source:
                import_module(source)
                source = self.source
            if callable(source):
                source()
            assert not self.source, f"{source} has no kernels for {self.name}"

    def defer(self, build: Callable[[], None]) -> None:
        """Has the first kernels registered by `build` when they are first read.

        The namespaces of formulas find operators of other libraries only if they are there, so
        those are built at once.
        """
        if self.name.startswith("pullback::"):
            with LOCK:
                self.source = build
        else:
            build()

    def fill(self, kernels: dict[DispatchKey, list[Kernel]]) -> None:
        """Sets the first kernels of an operator, atomically for readers without the lock."""
        with LOCK:
            self._kernels = {**self._kernels, **kernels}
            self.source = ""
            self.invalidate()

    def empty(self) -> None:
        """Removes all kernels, including those that have not been loaded."""
        with LOCK:
            self._kernels = {}
            self.source = ""
            self.invalidate()

    def active(self) -> dict[DispatchKey, Kernel]:
        """The kernel in force at each key: the newest of its stack."""
        return {key: stack[-1] for key, stack in self.kernels.items()}

    def add(self, kernel: Kernel) -> None:
        """Pushes a kernel on its key's stack."""
        self.kernels.setdefault(kernel.key, []).append(kernel)
        self.invalidate()

    def discard(self, kernel: Kernel) -> None:
        """Removes this kernel from its stack, at any position."""
        stack = self.kernels.get(kernel.key, [])
        if kernel in stack:
            stack.remove(kernel)
            if not stack:
                del self.kernels[kernel.key]
            self.invalidate()

    def invalidate(self) -> None:
        """Discards everything computed; the next call computes it from the current state."""
        self._entries.clear()
        self.calls.clear()
        self.redispatches.clear()

    def entry(self, key: DispatchKey) -> Entry:
        """The computed entry at a runtime key."""
        if key.is_alias:
            raise DispatchKeyError(
                f"{self.name}: Alias keys do not have runtime kernel registrations, and "
                f"{key.name} is one; ask for a runtime key such as CPU or AutogradCPU"
            )
        with LOCK:
            found = self._entries.get(key)
            if found is None:
                found = next(candidates(key, self.active(), self._fallbacks))
                self._entries[key] = found
            return found

    def no_longer_defined(self) -> OperatorNotFoundError:
        """The error for a use of this operator after its definition has ended."""
        return no_longer_defined(self.name)

    def fallback(self, key: DispatchKey) -> Kernel | None:
        """The global fallback at a key."""
        return self._fallbacks.get(key)

    def without_fallthrough(self, flags: int) -> int:
        """The flags of a call without the keys at which this operator falls through."""
        kept = flags
        for place in functionality_places(flags):
            kernel = self.entry(key_at(place, flags)).kernel
            if kernel is not None and kernel.fallthrough:
                kept &= ~(1 << place)
        return kept

    def link_call(self, flags: int) -> Callable[..., Any]:
        """The callable for arguments with these flags, in this thread's state; linked if need be.

        Computed and stored under the lock: a change cannot slip between the two and leave a link
        that was made from the registrations before it.
        """
        state = get_state()
        found = self.calls.get(state, {}).get(flags)
        if found is not None:
            return found
        with LOCK:
            if flags & SUBCLASS:
                linked = _link_subclass(self.operator, self.link_call(flags & ~SUBCLASS))
            else:
                linked = self._link(self.without_fallthrough((flags | state.include) & state.keep))
                for observer in _observers:
                    linked = observer(self.operator, linked)
            self.calls.setdefault(state, {})[flags] = linked
            return linked

    def link_redispatch(self, keyset: int) -> Callable[..., Any]:
        """Links and stores the callable for a key set that is taken as it is."""
        if not isinstance(keyset, int):
            raise DispatchError(
                f"{self.name}: redispatch expected a DispatchKeySet as its first argument, but got "
                f"{keyset!r}; write DispatchKeySet('CPU'), or mask the key set that a kernel "
                f"registered with with_keyset=True gets"
            )
        with LOCK:
            linked = self._link(keyset)
            if backends_of(highest_key(keyset)):
                linked = self._link_by_arguments(keyset)
            self.redispatches[keyset] = linked
            return linked

    def _link_by_arguments(self, keyset: int) -> Callable[..., Any]:
        """Links a redispatch to an autograd key.

        A key set does not contain which arguments require grad, so each call collects their flags
        and looks the kernel up by them and by the thread's state.
        """
        schema = self.schema
        assert schema is not None, "only a defined operator is linked"
        collect = flag_collector(schema)
        links: dict[tuple[State, int], Callable[..., Any]] = {}

        def linked(*args: Any, **kwargs: Any) -> Any:
            state = get_state()
            bits = collect(args, kwargs) & state.keep & NO_KEY_BITS
            kernel = links.get((state, bits))
            if kernel is None:
                with LOCK:
                    kernel = links[state, bits] = self._link(int(keyset) | bits)
            return kernel(*args, **kwargs)

        return linked

    def _link(self, flags: int) -> Callable[..., Any]:
        if not self.is_defined:
            raise self.no_longer_defined()
        key = highest_key(flags)
        if flags & INTERCEPT and key is DispatchKey.Python:
            return python_dispatch.link_intercepted(self.operator)
        kernel = self.entry(key).kernel
        if kernel is None:
            raise self.missing(self, key)
        if kernel.fallthrough:
            raise DispatchError(
                f"{self.name}: a call or redispatch to {key.name}, where it falls through "
                f"and nothing lies below; register a kernel there, or redispatch with a key set "
                f"whose highest key has one"
            )
        return kernel.link(self.operator, flags)


# Every operator by qualified name, dangling ones included; only ``registry.py`` changes it.
ENTRIES: dict[str, OperatorEntry] = {}

_Observer = Callable[[Any, Callable[..., Any]], Callable[..., Any]]
_observers: tuple[_Observer, ...] = ()


def observe_calls(observer: _Observer, is_active: bool) -> None:
    """Adds or removes ``observer(operator, kernel)``, which wraps linked calls.

    Several may be active, of several threads as well; they end in any order.
    """
    global _observers
    with LOCK:
        others = tuple(other for other in _observers if other != observer)
        _observers = (*others, observer) if is_active else others
        for entry in ENTRIES.values():
            entry.invalidate()


def _link_plainly(_: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    return kernel


_link_subclass: Callable[[Any, Callable[..., Any]], Callable[..., Any]] = _link_plainly


def set_subclass_linker(
    linker: Callable[[Any, Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Sets ``linker(operator, kernel)``, which makes the kernel of calls with ``SUBCLASS``.

    `kernel` is what the same call runs on tensors of the base class. Calls without the bit are
    linked as if there were no subclass.
    """
    global _link_subclass
    with LOCK:
        _link_subclass = linker
        for entry in ENTRIES.values():
            entry.invalidate()
