"""Operators as users hold them: ``OpOverload`` (one schema) and ``OpOverloadPacket`` (one name).

Both are thin: the registrations and tables are the entry's, the call functions are compiled from
the schema on first use. Python looks ``__call__`` up on the class, so an operator that has been
compiled moves to a class of its own whose ``__call__`` is its compiled function; nothing stands
between the caller and the lookup.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

from pullback.dispatch.calling import compile_calls
from pullback.dispatch.dump import DispatchTable
from pullback.dispatch.explain import Explanation, explain_call
from pullback.dispatch.keys import KeyLike, parse_key
from pullback.dispatch.table import LOCK, OperatorEntry
from pullback.errors import BindError, OperatorNotFoundError
from pullback.schema import FunctionSchema
from pullback.schema.bind import Binder

__all__ = ["OpOverload", "OpOverloadPacket"]


class OpOverload:
    """One operator with one schema: callable, inspectable, explainable.

    Made by ``Library.define``; reached as ``pullback.ops.<namespace>.<name>.<overload>``.

    Attributes:
        call: the hot path: a function with exactly the schema's signature.
        redispatch: ``redispatch(keyset, ...)`` dispatches with the key set as it is given: no
            thread state, no argument's keys, no fallthrough mask.
    """

    __slots__ = ("_binder", "_entry", "_packet", "call", "redispatch", "__weakref__")

    call: Callable[..., Any]
    redispatch: Callable[..., Any]

    def __init__(self, entry: OperatorEntry, packet: OpOverloadPacket):
        self._entry = entry
        self._packet = packet

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator. This one runs once: a compiled operator's class has its own."""
        return self.compiled()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("call", "redispatch"):  # slots, empty until the operator is compiled
            return getattr(self.compiled(), name)
        if name == "_binder":  # made on first use: it needs the parsed schema
            schema = self._entry.schema
            if schema is None:
                raise self._entry.no_longer_defined()
            self._binder = Binder(schema)
            return self._binder
        raise AttributeError(f"{type(self).__name__} {self} has no attribute {name!r}")

    def compiled(self) -> OpOverload:
        """This operator, with its call functions made."""
        with LOCK:
            if type(self) is OpOverload:
                calls = compile_calls(self._entry, self._binder)
                self.call = calls.call
                self.redispatch = calls.redispatch
                namespace = {"__slots__": (), "__call__": calls.checked, "__module__": __name__}
                self.__class__ = type("OpOverload", (OpOverload,), namespace)
            return self

    @property
    def entry(self) -> OperatorEntry:
        """The registry's record of this operator: its kernels and tables."""
        return self._entry

    @property
    def schema(self) -> FunctionSchema:
        """The operator's schema."""
        return self._binder.schema

    @property
    def namespace(self) -> str:
        """The namespace, without the operator's name."""
        return self._entry.name.split("::")[0]

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of this operator's name."""
        return self._packet

    def name(self) -> str:
        """The qualified name: ``ns::op`` or ``ns::op.overload``."""
        return self._entry.name

    def below(self, keyset: int) -> Callable[..., Any]:
        """The linked callable that a redispatch with this key set would run."""
        return self._entry.redispatches.get(keyset) or self._entry.link_redispatch(keyset)

    def bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, checked, converted and with every default filled in."""
        return self._binder.bind(args, kwargs)

    def has_kernel_for_dispatch_key(self, key: KeyLike) -> bool:
        """Whether a kernel is registered to this very key; alias keys may be asked for."""
        return parse_key(key) in self._entry.kernels

    def has_computed_kernel_for_dispatch_key(self, key: KeyLike) -> bool:
        """Whether the computed table has an entry at a runtime key, by whatever road."""
        return self._entry.entry(parse_key(key)).kernel is not None

    def dispatch_table(self) -> DispatchTable:
        """The computed table; prints one line for each key that has a kernel."""
        return DispatchTable(self._entry)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Which kernel a call with these arguments would run, and why. Calls nothing."""
        if not self._entry.is_defined:
            raise self._entry.no_longer_defined()
        values, keyword_values = self.bind(args, kwargs)
        return explain_call(self._entry, self.schema, values, keyword_values)

    def __str__(self) -> str:
        namespace, _, rest = self._entry.name.partition("::")
        base, _, overload = rest.partition(".")
        return f"{namespace}.{base}.{overload or 'default'}"

    def __repr__(self) -> str:
        base, _, overload = str(self).rpartition(".")
        return f"<OpOverload(op='{base}', overload='{overload}')>"


class OpOverloadPacket:
    """All overloads of one name; a call goes to the first one that its arguments fit."""

    __slots__ = ("_overloads", "_qualified_name", "__weakref__")

    def __init__(self, qualified_name: str):
        self._qualified_name = qualified_name
        self._overloads: dict[str, OpOverload] = {}

    def add(self, operator: OpOverload) -> None:
        """Takes an overload in, behind those that are here."""
        self._overloads[str(operator).rpartition(".")[2]] = operator
        self.__class__ = OpOverloadPacket

    def discard(self, operator: OpOverload) -> None:
        """Takes an overload out."""
        del self._overloads[str(operator).rpartition(".")[2]]
        self.__class__ = OpOverloadPacket

    def overloads(self) -> list[str]:
        """The names of the overloads, in order of definition."""
        return list(self._overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the first overload that the arguments fit, in order of definition."""
        with LOCK:
            operators = list(self._overloads.values())
            if len(operators) == 1 and type(self) is OpOverloadPacket:
                # A name with one overload is called like that overload: see the module's note.
                call = type(operators[0].compiled()).__call__
                namespace = {"__slots__": (), "__call__": call, "__module__": __name__}
                self.__class__ = type("OpOverloadPacket", (OpOverloadPacket,), namespace)
        if len(operators) == 1:
            return operators[0](*args, **kwargs)
        return self._call_first_match(operators, args, kwargs)

    def _call_first_match(
        self, operators: list[OpOverload], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        reasons = []
        for operator in operators:
            try:
                values, keyword_values = operator.bind(args, kwargs)
            except BindError as error:
                reasons.append(f"{operator}: {error}")
                continue
            return operator.call(*values, **keyword_values)
        listed = "\n\n".join(reasons) or "it has no overloads any more"
        raise BindError(
            f"{self._qualified_name}: the arguments failed to match any schema:\n\n{listed}"
        )

    def __getattr__(self, name: str) -> OpOverload:
        found = self._overloads.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self._overloads, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OperatorNotFoundError(
                f"{self._qualified_name} has no overload {name!r}.{hint} "
                f"It has: {', '.join(self._overloads) or 'none'}."
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._overloads]

    def __str__(self) -> str:
        return self._qualified_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"
