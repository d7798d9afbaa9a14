"""``define`` and ``impl`` as functions: for code that never wants its registrations to end.

Each call without `lib` makes a library that is kept for the life of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, overload

from pullback.dispatch.keys import BACKENDS, DispatchKey, parse_key
from pullback.dispatch.library import Library
from pullback.errors import DispatchKeyError, LibraryKindError

__all__ = ["DEVICES", "define", "impl", "library_for"]

_F = TypeVar("_F", bound=Callable[..., Any])

DEVICES = {backend.lower(): DispatchKey[backend] for backend in BACKENDS}

_kept_libraries: list[Library] = []


def define(
    qualname: str, schema: str, *, lib: Library | None = None, tags: Iterable[str] = ()
) -> None:
    """Defines an operator for the life of the process, or of `lib`.

    Args:
        qualname: namespace and name, ``"ns::op"``.
        schema: arguments and returns without a name, ``"(Tensor x) -> Tensor"``.
        lib: the library that owns the definition.
        tags: ``"inplace"`` or ``"out"``, and any others.

    >>> with Library("once", "FRAGMENT") as lib:
    ...     define("once::twice", "(Tensor x) -> Tensor", lib=lib)
    ...     lib.is_registered("twice", "CPU")
    False
    """
    namespace = _namespace(qualname)
    if not isinstance(schema, str) or not schema.strip().startswith("("):
        raise LibraryKindError(
            f"define: expected schema to look like '(Tensor x, int n) -> Tensor', without a name, "
            f"but got {schema!r}"
        )
    with library_for(lib, namespace) as library:
        library.define(qualname + schema.strip(), tags=tags)


@overload
def impl(
    qualname: str, types: str | Sequence[str], func: None = None, *, lib: Library | None = None
) -> Callable[[_F], _F]: ...


@overload
def impl(
    qualname: str, types: str | Sequence[str], func: _F, *, lib: Library | None = None
) -> _F: ...


def impl(
    qualname: str,
    types: str | Sequence[str],
    func: _F | None = None,
    *,
    lib: Library | None = None,
) -> _F | Callable[[_F], _F]:
    """Registers a kernel for the life of the process, or of `lib`; also a decorator.

    Args:
        qualname: namespace and name, ``"ns::op"``.
        types: device names (``"cpu"``), ``"default"`` for every device, or dispatch keys.
        func: the kernel.
        lib: the library that owns the registration.

    >>> with Library("plain", "FRAGMENT") as lib:
    ...     define("plain::same", "(Tensor x) -> Tensor", lib=lib)
    ...     @impl("plain::same", "cpu", lib=lib)
    ...     def same(x):
    ...         return x
    ...     lib.is_registered("same", "CPU")
    True
    """
    namespace = _namespace(qualname)
    keys = _keys(types)

    def register(fn: _F) -> _F:
        with library_for(lib, namespace) as library, ExitStack() as undo:
            for key in keys:
                undo.enter_context(library.impl(qualname, fn, key))
            undo.pop_all()  # all of them are registered, or none
        return fn

    return register if func is None else register(func)


def _namespace(qualname: str) -> str:
    parts = qualname.split("::") if isinstance(qualname, str) else []
    if len(parts) != 2 or not all(parts):
        raise LibraryKindError(
            f"an operator is named by namespace and name, as in 'mylib::my_op', not {qualname!r}"
        )
    return parts[0]


def _keys(types: str | Sequence[str]) -> list[DispatchKey]:
    names = [types] if isinstance(types, str | DispatchKey) else types
    if not isinstance(names, list | tuple) or not names:
        raise DispatchKeyError(
            f"impl: expected types to be a device or key such as 'cpu' or 'Autograd', or a list of "
            f"some, but got {types!r}"
        )
    return [_device_key(name) for name in names]


def _device_key(device: str) -> DispatchKey:
    if device == "default":
        return DispatchKey.CompositeExplicitAutograd
    known = DEVICES.get(device) if isinstance(device, str) else None
    return known or parse_key(device)


@contextmanager
def library_for(given: Library | None, namespace: str) -> Iterator[Library]:
    """The library to register with: the given one, or a new one that is kept if all goes well."""
    if given is not None:
        if not isinstance(given, Library):
            raise LibraryKindError(f"expected lib to be a Library, but got {given!r}")
        yield given
        return
    library = Library(namespace, "FRAGMENT")
    yield library
    _kept_libraries.append(library)
