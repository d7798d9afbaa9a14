"""Operator objects: ``OpOverload`` (one schema) and ``OpOverloadPacket`` (one name).

Registrations and tables belong to the operator's entry; call functions are compiled from the schema
on first use. Python looks ``__call__`` up on the class, so a compiled operator changes to a class
of its own whose ``__call__`` is the compiled function: a call has no intermediate frame.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.dispatch.keys import KeyLike, parse_key
from pullback.dispatch.table import ENTRIES, LOCK, OperatorEntry, no_longer_defined
from pullback.errors import BindError, OperatorNotFoundError, message_of

if TYPE_CHECKING:
    import difflib

    from pullback.dispatch import calling, dump, explanation
    from pullback.schema import FunctionSchema, bind
else:
    difflib = lazy_module("difflib")
    calling = lazy_module("pullback.dispatch.calling")
    dump = lazy_module("pullback.dispatch.dump")
    explanation = lazy_module("pullback.dispatch.explanation")
    bind = lazy_module("pullback.schema.bind")

__all__ = ["OpOverload", "OpOverloadPacket", "operator_named", "set_number_as_tensor"]


_number_as_tensor: Callable[[Any], Any] | None = None


def set_number_as_tensor(function: Callable[[Any], Any]) -> None:
    """Sets what makes a tensor of a Python number that a built-in operator is called with."""
    global _number_as_tensor
    _number_as_tensor = function


def operator_named(name: str) -> OpOverload:
    """The defined operator of a qualified name such as ``ns::op.overload``."""
    entry = ENTRIES.get(name)
    if entry is None or not entry.is_defined:
        dangling = "" if entry is None else "; kernels are registered for it, but no schema"
        raise OperatorNotFoundError(f"no operator {name!r} is defined{dangling}")
    return entry.operator  # type: ignore[no-any-return]


class OpOverload:
    """One operator with one schema: callable, inspectable, explainable.

    Made by ``Library.define``; reached as ``pullback.ops.<namespace>.<name>.<overload>``.


    >>> import pullback as pb
    >>> pb.ops.pullback.sin.default
    <OpOverload(op='pullback.sin', overload='default')>
    """

    __slots__ = ("_binder", "_entry", "_packet", "__weakref__")

    def __init__(self, entry: OperatorEntry, packet: OpOverloadPacket):
        self._entry = entry
        self._packet = packet
        self._binder: bind.Binder | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles the operator and calls it; the compiled class has its own ``__call__``."""
        return self.compiled()(*args, **kwargs)

    @property
    def call(self) -> Callable[..., Any]:
        """The hot path: a function with exactly the schema's signature."""
        return self.compiled().call

    @property
    def redispatch(self) -> Callable[..., Any]:
        """``redispatch(keyset, ...)`` dispatches with the key set as it is given: no thread state,
        no argument's keys, no fallthrough mask."""
        return self.compiled().redispatch

    def compiled(self) -> OpOverload:
        """This operator, with its call functions made."""
        with LOCK:
            if type(self) is OpOverload:
                calls = calling.compile_calls(self._entry, self._bound())
                namespace = {
                    "__slots__": (),
                    "__call__": calls.checked,
                    "__module__": __name__,
                    "call": staticmethod(calls.call),
                    "redispatch": staticmethod(calls.redispatch),
                }
                self.__class__ = type("OpOverload", (OpOverload,), namespace)
            return self

    def _bound(self) -> bind.Binder:
        """The binder of calls; made on first use, because it needs the parsed schema."""
        if self._binder is None:
            stock = self._entry.name.startswith("pullback::")
            self._binder = bind.Binder(self.schema, _number_as_tensor if stock else None)
        return self._binder

    def _alive(self) -> OperatorEntry:
        if not self._entry.is_defined:
            raise self._entry.no_longer_defined()
        return self._entry

    @property
    def entry(self) -> OperatorEntry:
        """The registry's record of this operator: its kernels and tables."""
        return self._entry

    @property
    def _schema(self) -> FunctionSchema:
        """The operator's schema, by the name that it has in PyTorch."""
        return self.schema

    @property
    def schema(self) -> FunctionSchema:
        """The operator's schema."""
        schema = self._entry.schema
        if schema is None:
            raise self._entry.no_longer_defined()
        return schema

    @property
    def tags(self) -> tuple[str, ...]:
        """Declared properties beyond the schema, such as ``"inplace"``.

        An operator with a generator among its arguments is ``"nondeterministic_seeded"``.
        """
        tags = self._entry.tags
        if "nondeterministic_seeded" in tags or not _takes_generator(self.schema):
            return tags
        return (*tags, "nondeterministic_seeded")

    @property
    def namespace(self) -> str:
        """The namespace, without the operator's name."""
        return self._entry.name.split("::")[0]

    @property
    def _overload(self) -> str:
        """The name of the overload, which is ``default`` where the schema has none."""
        return self._entry.name.partition(".")[2] or "default"

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of this operator's name."""
        return self._packet

    @property
    def __name__(self) -> str:
        """The name without its namespace, with the overload: ``sin.default``."""
        return str(self).partition(".")[2]

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
        self._alive()
        return self._bound().bind(args, kwargs)

    def has_kernel_for_dispatch_key(self, key: KeyLike) -> bool:
        """Whether a kernel is registered at exactly this key, which may be an alias key."""
        return parse_key(key) in self._alive().kernels

    def has_computed_kernel_for_dispatch_key(self, key: KeyLike) -> bool:
        """Whether the computed table has an entry at a runtime key, from any registration."""
        return self._alive().entry(parse_key(key)).kernel is not None

    def dispatch_table(self) -> dump.DispatchTable:
        """The computed table; prints one line for each key that has a kernel."""
        return dump.DispatchTable(self._alive())

    def explain(self, *args: Any, **kwargs: Any) -> explanation.Explanation:
        """Explains which kernel a call with these arguments would run. Calls nothing."""
        values, keyword_values = self.bind(args, kwargs)
        return explanation.explain_call(self._entry, self.schema, values, keyword_values)

    def __str__(self) -> str:
        namespace, _, rest = self._entry.name.partition("::")
        base, _, overload = rest.partition(".")
        return f"{namespace}.{base}.{overload or 'default'}"

    def __repr__(self) -> str:
        base, _, overload = str(self).rpartition(".")
        return f"<OpOverload(op='{base}', overload='{overload}')>"

    def __reduce__(self) -> tuple[Callable[..., OpOverload], tuple[str]]:
        # By name: a copy is the operator itself, and a pickle is the operator of that name.
        return operator_named, (self._alive().name,)


class OpOverloadPacket:
    """All overloads of one name; a call goes to the first one that its arguments fit.

    >>> import pullback as pb
    >>> pb.ops.pullback.sin
    <OpOverloadPacket(op='pullback.sin')>
    """

    __slots__ = ("_overloads", "_qualified_name", "__weakref__")

    def __init__(self, qualified_name: str):
        self._qualified_name = qualified_name
        self._overloads: dict[str, OpOverload] = {}

    def _add(self, operator: OpOverload) -> None:
        self._overloads[operator._overload] = operator
        self.__class__ = OpOverloadPacket

    def _discard(self, operator: OpOverload) -> None:
        del self._overloads[operator._overload]
        self.__class__ = OpOverloadPacket

    @property
    def __name__(self) -> str:
        """The name without its namespace."""
        return self._qualified_name.rpartition("::")[2]

    def overloads(self) -> list[str]:
        """The names of the overloads, in order of definition."""
        return list(self._overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the first overload that the arguments fit, in order of definition."""
        with LOCK:
            operators = self._operators()
            if len(operators) == 1 and type(self) is OpOverloadPacket:
                # A name with one overload is called like that overload: see the module's docstring.
                call = type(operators[0].compiled()).__call__
                namespace = {"__slots__": (), "__call__": call, "__module__": __name__}
                self.__class__ = type("OpOverloadPacket", (OpOverloadPacket,), namespace)
        return self._first_match(args, kwargs)(*args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> explanation.Explanation:
        """Explains which overload and kernel a call with these arguments would run."""
        return self._first_match(args, kwargs).explain(*args, **kwargs)

    def _operators(self) -> list[OpOverload]:
        operators = list(self._overloads.values())
        if not operators:
            raise no_longer_defined(self._qualified_name)
        return operators

    def _first_match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload:
        operators = self._operators()
        if len(operators) == 1:
            return operators[0]
        reasons = []
        for operator in operators:
            try:
                operator.bind(args, kwargs)
            except BindError as error:
                reasons.append(f"{operator}: {message_of(error)}")
            else:
                return operator
        listed = "\n\n".join(reasons)
        raise BindError(
            f"{self._qualified_name}: the arguments failed to match any schema:\n\n{listed}"
        )

    def __getattr__(self, name: str) -> OpOverload:
        found = self._overloads.get(name)
        if found is None:
            self._operators()
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

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[OpOverload, str]]:
        return getattr, (self._operators()[0], "overloadpacket")


@functools.lru_cache(maxsize=4096)
def _takes_generator(schema: FunctionSchema) -> bool:
    return any(argument.type.is_generator_like() for argument in schema.arguments.flat_all)
