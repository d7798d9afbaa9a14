"""Libraries: the public way to define operators and to register kernels.

A library owns its registrations; when it is destroyed or garbage-collected, they are removed, and
kernels that they had overridden are active again.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self

from pullback._lazy import lazy_module
from pullback.dispatch import registry
from pullback.dispatch.caller import caller_location
from pullback.dispatch.keys import DispatchKey, KeyLike, parse_key
from pullback.dispatch.operator import OpOverload
from pullback.dispatch.registry import RegistrationHandle
from pullback.dispatch.table import LOCK, Kernel, OperatorEntry, fallthrough_kernel
from pullback.errors import (
    DestroyedLibraryError,
    DispatchKeyError,
    KernelTypeError,
    LibraryKindError,
    RegistrationError,
    SchemaError,
    message_of,
)

if TYPE_CHECKING:
    from pullback import schema as language
    from pullback.dispatch import queries
    from pullback.dispatch import tags as tag_rules
else:
    language = lazy_module("pullback.schema")
    queries = lazy_module("pullback.dispatch.queries")
    tag_rules = lazy_module("pullback.dispatch.tags")

__all__ = ["Kind", "Library", "fallthrough_kernel"]

Kind = Literal["DEF", "FRAGMENT", "IMPL"]

_RESERVED_NAMESPACES = ("prim",)
_FALLBACK_NAMESPACE = "_"  # the namespace that stands for every operator


class Library:
    """Operators and kernels that are registered, and disappear, together.

    Args:
        ns: the namespace, as in ``ns::op``; ``"_"`` (kind IMPL) to register fallbacks.
        kind: ``"DEF"`` to define a namespace (one at a time), ``"FRAGMENT"`` to add to one,
            ``"IMPL"`` to register kernels only.
        dispatch_key: the key of every kernel of this library, if it is always the same.

    >>> with Library("shop", "DEF") as lib:
    ...     name = lib.define("price(Tensor goods, float discount=0.0) -> Tensor")
    ...     handle = lib.impl("price", lambda goods, discount: goods, "CPU")
    ...     print(name, lib.is_registered("price", "CPU"))
    shop::price True
    """

    def __init__(self, ns: str, kind: Kind, dispatch_key: KeyLike = ""):
        location = caller_location()
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise LibraryKindError(
                f"Unsupported kind: {kind!r}. A library is of kind 'DEF', 'FRAGMENT' or 'IMPL'."
            )
        if not isinstance(ns, str) or not ns.isascii() or not ns.isidentifier():
            raise LibraryKindError(
                f"a namespace is one identifier of ASCII letters, digits and underscores such as "
                f"'mylib', not {ns!r}"
            )
        if ns.startswith("__"):
            raise LibraryKindError(
                f"{ns!r} begins with two underscores, like Python's own attributes, so that "
                f"pullback.ops could not show it; choose another namespace"
            )
        if kind != "IMPL" and ns in (*_RESERVED_NAMESPACES, _FALLBACK_NAMESPACE):
            raise LibraryKindError(
                f"{ns!r} is a reserved namespace; define operators in a namespace of your own"
            )
        self.ns = ns
        self.kind = kind
        self.dispatch_key = None if dispatch_key == "" else parse_key(dispatch_key)
        self._handles: dict[RegistrationHandle, None] = {}  # ordered
        if kind == "DEF":
            registry.claim_namespace(ns, location, self._handles).belong_to(self._handles)
        # A finalizer, and no __del__: at interpreter exit it runs while modules are still whole.
        self._finalizer = weakref.finalize(self, registry.destroy_all, self._handles)

    def define(self, schema: str, alias_analysis: str = "", *, tags: Iterable[str] = ()) -> str:
        """Defines an operator and returns its qualified name.

        Defining it again from the same line, as a notebook cell that is run twice does, replaces
        the older definition.

        Args:
            schema: name, arguments and returns.
            alias_analysis: ``""``, ``"FROM_SCHEMA"`` or ``"CONSERVATIVE"``, for PyTorch's sake:
                aliases are always those of the schema.
            tags: ``"inplace"`` or ``"out"``, and any others.

        >>> with Library("geometry", "DEF") as lib:
        ...     lib.define("area(Tensor width, Tensor height) -> Tensor")
        'geometry::area'
        """
        location = caller_location()
        self._check_alive()
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RegistrationError(
                f"define: Invalid alias_analysis type {alias_analysis}; it is '', 'FROM_SCHEMA' or "
                f"'CONSERVATIVE'"
            )
        if self.kind == "IMPL":
            raise RegistrationError(
                f"Cannot define an operator inside of a TORCH_LIBRARY_IMPL block (a library of "
                f"kind 'IMPL'); make the library of {self.ns!r} with kind 'DEF' or 'FRAGMENT'"
            )
        parsed = language.parse_schema(schema, dialect="loose")
        _check_argument_names(parsed)
        kept = tag_rules.check_tags(parsed, tags)
        name = self._qualify(str(parsed.name))
        parsed = parsed.in_namespace(self.ns)
        with LOCK:
            self._check_alive()  # checked again: it may have ended meanwhile
            registry.replace_same_place(name, location)
            registry.check_undefined(parsed, name)
            for kernel in _stacked_kernels(registry.find(name)):
                _check_signature(kernel, parsed, name)
            registry.define(parsed, name, location, kept).belong_to(self._handles)
        return name

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: KeyLike = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> RegistrationHandle:
        """Registers a kernel; the returned handle can remove it before the library ends.

        Args:
            op_name: the operator, with its overload if it has one; it may be defined later.
            fn: gets every argument of the schema, defaults filled in; or `fallthrough_kernel`.
            dispatch_key: a runtime or alias key; the library's own, or else
                CompositeImplicitAutograd, when left out.
            with_keyset: pass the call's key set as the first argument, for redispatching.
            allow_override: whether a kernel may be put over one that is there already.

        >>> with Library("twice", "DEF") as lib:
        ...     _ = lib.define("f(Tensor x) -> Tensor")
        ...     with lib.impl("f", lambda x: x, "CPU"):
        ...         inside = lib.is_registered("f", "CPU")
        ...     inside, lib.is_registered("f", "CPU")
        (True, False)
        """
        location = caller_location()
        self._check_alive()
        if self.ns == _FALLBACK_NAMESPACE:
            raise RegistrationError(
                "the namespace '_' stands for every operator: register a fallback with "
                "Library('_', 'IMPL').fallback(fn, key), or name a real namespace"
            )
        name = self._qualify(_operator_name(op_name))
        kernel = _kernel(fn, self._key(dispatch_key), location, with_keyset=with_keyset)
        with LOCK:
            self._check_alive()
            self._check_kernel(name, kernel, allow_override)
            return registry.implement(name, kernel).belong_to(self._handles)

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: KeyLike = "", *, with_keyset: bool = False
    ) -> RegistrationHandle:
        """Registers what runs at a key for every operator that has nothing there.

        `fn` is called with ``(op, *args, **kwargs)``, after the key set if `with_keyset`.

        >>> with Library("_", "IMPL") as lib:
        ...     with lib.fallback(fallthrough_kernel, "Tracer"):
        ...         registry.fallbacks()[DispatchKey.Tracer].fallthrough
        True
        """
        location = caller_location()
        self._check_alive()
        if self.ns != _FALLBACK_NAMESPACE:
            raise RegistrationError(
                f"a fallback serves every operator, so only a library of namespace '_' may "
                f"register one, not one of {self.ns!r}: Library('_', 'IMPL').fallback(fn, key)"
            )
        if dispatch_key == "" and self.dispatch_key is None:
            raise RegistrationError(
                "a fallback needs a dispatch key: Library('_', 'IMPL').fallback(fn, 'Tracer')"
            )
        key = parse_key(dispatch_key) if dispatch_key != "" else self._key("")
        if key.is_alias or key is DispatchKey.Undefined:
            what = "an alias key" if key.is_alias else "no key at all"
            raise DispatchKeyError(
                f"fallback: {key.name} is {what}; a fallback belongs to a runtime key"
            )
        kernel = _kernel(fn, key, location, with_keyset=with_keyset, with_operator=True)
        with LOCK:
            self._check_alive()
            return registry.register_fallback(kernel).belong_to(self._handles)

    def operator(self, name: str) -> OpOverload:
        """A defined operator of the library's namespace, by name and overload.

        >>> with Library("named", "DEF") as lib:
        ...     _ = lib.define("f(Tensor x) -> Tensor")
        ...     lib.operator("f")
        <OpOverload(op='named.f', overload='default')>
        """
        return queries.get_operator(self._qualify(name) if isinstance(name, str) else name)

    def is_registered(self, op_name: str | OpOverload, dispatch_key: KeyLike) -> bool:
        """Whether any library has a kernel for the operator at exactly this key."""
        entry = registry.find(self._qualify(_operator_name(op_name)))
        return entry is not None and parse_key(dispatch_key) in entry.kernels

    def _destroy(self) -> None:
        """Removes everything that was registered through this library."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._destroy()

    def __repr__(self) -> str:
        key = self.dispatch_key.name if self.dispatch_key else ""
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={key})"

    def _check_alive(self) -> None:
        if not self._finalizer.alive:
            raise DestroyedLibraryError(
                f"Library object has been destroyed: {self!r} can register nothing any more; "
                f"make a new one"
            )

    def _qualify(self, name: str) -> str:
        namespace, separator, rest = name.rpartition("::")
        if separator and namespace != self.ns:
            raise RegistrationError(
                f"the namespace of {name!r} does not match namespace {self.ns!r} of the library; "
                f"write {rest!r}, or use a library of {namespace!r}"
            )
        return f"{self.ns}::{rest}"

    def _key(self, dispatch_key: KeyLike) -> DispatchKey:
        """The key to register to: the given one, the library's, or else the catch-all."""
        given = None if dispatch_key == "" else parse_key(dispatch_key)
        if given is not None and self.dispatch_key is not None and given is not self.dispatch_key:
            raise RegistrationError(
                f"the dispatch key {given.name} is inconsistent with the dispatch key "
                f"{self.dispatch_key.name} that the library was made with; leave it out, or use a "
                f"library without a key"
            )
        key = given or self.dispatch_key
        if key is None or key is DispatchKey.Undefined:
            return DispatchKey.CompositeImplicitAutograd
        return key

    def _check_kernel(self, name: str, kernel: Kernel, allow_override: bool) -> None:
        entry = registry.find(name)
        if entry is None:
            return
        present = entry.kernels.get(kernel.key)
        if present and not allow_override:
            raise RegistrationError(
                f"This is not allowed since there's already a kernel registered from python for "
                f"{name} at {kernel.key.name}: {present[-1]}. Leave out allow_override=False to "
                f"put this one over it."
            )
        if (
            kernel.key is DispatchKey.Meta
            and DispatchKey.CompositeImplicitAutograd in entry.kernels
        ):
            raise RegistrationError(
                f"We should not register a meta kernel directly to the operator {name!r}: it has a "
                f"CompositeImplicitAutograd kernel, which already runs on Meta tensors through the "
                f"operators that it is made of. Register Meta kernels for those."
            )
        schema = entry.schema
        if schema is not None:
            _check_signature(kernel, schema, name)


def _check_argument_names(schema: language.FunctionSchema) -> None:
    for argument in schema.arguments.flat_all:
        if argument.name.startswith("_pb_"):
            raise RegistrationError(
                f"{schema.name}: the argument {argument.name!r} begins with '_pb_', which compiled "
                f"calls keep for themselves; choose another name"
            )


def _operator_name(op_name: str | OpOverload) -> str:
    if isinstance(op_name, OpOverload):
        if not op_name.entry.is_defined:
            raise op_name.entry.no_longer_defined()
        return op_name.name()
    if isinstance(op_name, str):
        try:
            return str(language.parse_operator_name(op_name))
        except SchemaError as error:
            reason = message_of(error).partition(": ")[2]
            raise RegistrationError(f"{op_name!r} is no name of an operator: {reason}") from None
    raise RegistrationError(
        f"impl should be passed either a name or an OpOverload object as the first argument, not "
        f"{type(op_name).__name__}"
    )


def _kernel(
    fn: Callable[..., Any],
    key: DispatchKey,
    location: str,
    *,
    with_keyset: bool,
    with_operator: bool = False,
) -> Kernel:
    if not callable(fn):
        raise KernelTypeError(
            f"a kernel is required to be a callable but found type {type(fn).__name__}: {fn!r}"
        )
    return Kernel(
        fn,
        key,
        location,
        with_keyset=with_keyset,
        with_operator=with_operator,
        fallthrough=fn is fallthrough_kernel,
    )


def _stacked_kernels(entry: OperatorEntry | None) -> list[Kernel]:
    return [] if entry is None else [k for stack in entry.kernels.values() for k in stack]


def _check_signature(kernel: Kernel, schema: language.FunctionSchema, name: str) -> None:
    """Refuses a kernel that could never be called with the schema's arguments."""
    try:
        signature = inspect.signature(kernel.fn)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    positional = [argument.name for argument in schema.arguments.flat_positional]
    keyword_only = [a.name for a in schema.arguments.flat_all][len(positional) :]
    leading = ["keyset"] if kernel.with_keyset else []
    try:
        signature.bind(*leading, *positional, **dict.fromkeys(keyword_only))
    except TypeError as error:
        raise KernelTypeError(
            f"{name}: the kernel for {kernel.key.name} does not take the arguments of its schema "
            f"({error}).\nkernel: {signature}, {kernel}\nschema: {schema}\nA kernel gets every "
            f"argument of the schema, keyword-only ones by keyword"
            f"{', after the key set' if leading else ''}."
        ) from None
