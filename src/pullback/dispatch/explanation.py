"""Explanation of a call: the steps by which its kernel is chosen.

Nothing here is reached by a call; it costs nothing when unused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.dispatch.flags import argument_flags, flag_collector
from pullback.dispatch.keys import (
    COMPOSITE_KEYS,
    DispatchKey,
    DispatchKeySet,
    highest_key,
    runtime_keys_of,
)
from pullback.dispatch.modes import excluded_keys, get_state, included_keys
from pullback.dispatch.table import LOCK, Entry, Kernel, OperatorEntry
from pullback.schema import FunctionSchema

__all__ = ["Explanation", "describe_kernel", "explain_call"]

_REASONS = {
    1: "a kernel is registered to this very key",
    2: "CompositeExplicitAutogradNonFunctional serves this key, and it has no kernel of its own",
    3: "CompositeExplicitAutograd serves this key, and it has no kernel of its own",
    5: "CompositeImplicitAutograd serves this key, and no backend kernel lies below it",
    6: "the Autograd alias covers this key, and it has no kernel of its own",
    7: "FuncTorchBatchedDecomposition serves this key, and it has no kernel of its own",
    8: "nothing is registered that covers this key, so its global fallback runs",
    9: "nothing is registered that covers this key, and it has no global fallback",
}
_AMBIGUOUS_REASON = (
    "CompositeImplicitAutograd and a backend below AutogradOther both have kernels: the call raises"
)


@dataclass(frozen=True)
class Explanation:
    """Explanation of how one call is dispatched, to be printed.

    Attributes:
        arguments: the key set of each tensor argument, by name.
        included, excluded: what the thread adds and takes away.
        masked: the functionalities at which the operator falls through, as a key set.
        keyset: the set that the call dispatches with.
        key: its highest key.
        entry: the computed table entry at that key: kernel, step and provenance.
        shadowed: kernels that cover the key but are not chosen.
        refusal: why the kernel, a fallback, raises instead of going on; empty where it does not.
        then: the entries to which a fallback goes on, by key, until a kernel that does the work.

    >>> import pullback as pb
    >>> pb.ops.pullback.sin.default.explain(pb.ones(2)).key.name
    'AutogradCPU'
    """

    operator: str
    arguments: dict[str, DispatchKeySet]
    included: DispatchKeySet
    excluded: DispatchKeySet
    masked: DispatchKeySet
    keyset: DispatchKeySet
    key: DispatchKey
    entry: Entry
    shadowed: tuple[Kernel, ...]
    refusal: str
    then: dict[DispatchKey, Entry]

    @property
    def kernel(self) -> Kernel | None:
        """The kernel that would run; None where the call would raise for want of one."""
        return self.entry.kernel

    @property
    def reason(self) -> str:
        """The precedence step that chose the kernel, in words."""
        if self.entry.provenance == "ambiguous autogradother":
            return _AMBIGUOUS_REASON
        return _REASONS[self.entry.step]

    def __str__(self) -> str:
        width = max([8, *map(len, self.arguments)])
        kernel = "none: the call raises" if self.kernel is None else describe_kernel(self.kernel)
        lines = [self.operator]
        lines += [f"  {name:<{width}}  {_names(keys)}" for name, keys in self.arguments.items()]
        lines += [
            f"  {'included':<{width}}  {_names(self.included)}",
            f"  {'excluded':<{width}}  {_names(self.excluded)}",
            f"  {'masked':<{width}}  {_names(self.masked)}",
            f"  {'key set':<{width}}  {_names(self.keyset)}",
            f"  {'key':<{width}}  {self.key.name}",
            f"  {'kernel':<{width}}  {kernel}",
            f"  {'because':<{width}}  step {self.entry.step}: {self.reason}",
        ]
        if self.refusal:
            lines.append(f"  {'then':<{width}}  the call raises: {self.refusal}")
        for key, entry in self.then.items():
            below = (
                "none: the call raises" if entry.kernel is None else describe_kernel(entry.kernel)
            )
            lines.append(f"  {'then':<{width}}  {below}, for {key.name}")
        lines += [f"  {'shadows':<{width}}  {describe_kernel(other)}" for other in self.shadowed]
        return "\n".join(lines)

    __repr__ = __str__


def _names(keys: DispatchKeySet) -> str:
    return ", ".join(key.name for key in keys) or "nothing"


def describe_kernel(kernel: Kernel) -> str:
    """A kernel's function, key and place of registration."""
    name = getattr(kernel.fn, "__qualname__", None) or repr(kernel.fn)
    place = f", registered at {kernel.place}" if kernel.place else ""
    return f"{'fallthrough' if kernel.fallthrough else name} at {kernel.key.name}{place}"


def explain_call(
    entry: OperatorEntry, schema: FunctionSchema, args: list[Any], kwargs: dict[str, Any]
) -> Explanation:
    """The explanation of a call whose arguments are bound already."""
    with LOCK:  # a consistent state for the whole explanation
        return _explain(entry, schema, args, kwargs)


def _explain(
    entry: OperatorEntry, schema: FunctionSchema, args: list[Any], kwargs: dict[str, Any]
) -> Explanation:
    flags = argument_flags(schema, args, kwargs)
    state = get_state()
    united = (flag_collector(schema)(args, kwargs) | state.include) & state.keep
    dispatched = entry.without_fallthrough(united)
    key = highest_key(dispatched)
    chosen = entry.entry(key)
    refuses = chosen.kernel.refusal if chosen.kernel is not None else None
    refusal = refuses(entry.operator, dispatched) if refuses is not None else ""
    return Explanation(
        operator=entry.name,
        arguments={name: DispatchKeySet.from_bits(bits) for name, bits in flags.items()},
        included=included_keys(),
        excluded=excluded_keys(),
        masked=DispatchKeySet.from_bits(united) - DispatchKeySet.from_bits(dispatched),
        keyset=DispatchKeySet.from_bits(dispatched),
        key=key,
        entry=chosen,
        shadowed=tuple(_shadowed(entry, key, chosen)),
        refusal=refusal,
        then={} if refusal else _below(entry, dispatched, chosen),
    )


def _below(entry: OperatorEntry, flags: int, chosen: Entry) -> dict[DispatchKey, Entry]:
    """Follows a fallback that goes on below its own key, step by step."""
    steps = {}
    while chosen.kernel is not None and chosen.kernel.goes_on_with:
        flags &= chosen.kernel.goes_on_with
        key = highest_key(flags)
        chosen = steps[key] = entry.entry(key)
    return steps


def _shadowed(entry: OperatorEntry, key: DispatchKey, chosen: Entry) -> list[Kernel]:
    """Every registered kernel that covers the key, older ones included, except the chosen one."""
    covering = [
        kernel
        for registered, stack in entry.kernels.items()
        if key in runtime_keys_of(registered)
        or (key is DispatchKey.Undefined and registered in COMPOSITE_KEYS)
        for kernel in reversed(stack)
    ]
    fallback = entry.fallback(key)
    if fallback is not None:
        covering.append(fallback)
    return [kernel for kernel in covering if kernel is not chosen.kernel]
