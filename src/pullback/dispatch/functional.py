"""``define`` and ``impl`` as functions: for code that never wants its registrations to end.

Each call without `lib` makes a library that is kept for the life of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from pullback.dispatch.keys import BACKENDS, DispatchKey, parse_key
from pullback.dispatch.library import Library
from pullback.errors import LibraryKindError

__all__ = ["define", "impl"]

_F = TypeVar("_F", bound=Callable[..., Any])

_DEVICES = {backend.lower(): DispatchKey[backend] for backend in BACKENDS}

_kept_libraries: list[Library] = []


def define(qualname: str, schema: str, *, lib: Library | None = None) -> None:
    """Defines an operator for the life of the process, or of `lib`.

    Args:
        qualname: namespace and name, ``"ns::op"``.
        schema: arguments and returns without a name, ``"(Tensor x) -> Tensor"``.
        lib: the library that owns the definition.

    >>> with Library("once", "FRAGMENT") as lib:
    ...     define("once::twice", "(Tensor x) -> Tensor", lib=lib)
    ...     lib.is_registered("twice", "CPU")
    False
    """
    namespace, name = _split_qualname(qualname)
    if not isinstance(schema, str) or not schema.strip().startswith("("):
        raise LibraryKindError(
            f"define: expected schema to look like '(Tensor x, int n) -> Tensor', without a name, "
            f"but got {schema!r}"
        )
    (lib or _kept_library(namespace)).define(name + schema.strip())


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
    namespace, name = _split_qualname(qualname)
    keys = [_device_key(device) for device in ([types] if isinstance(types, str) else types)]

    def register(fn: _F) -> _F:
        library = lib or _kept_library(namespace)
        for key in keys:
            library.impl(name, fn, key)
        return fn

    return register if func is None else register(func)


def _split_qualname(qualname: str) -> tuple[str, str]:
    parts = qualname.split("::") if isinstance(qualname, str) else []
    if len(parts) != 2 or not all(parts):
        raise LibraryKindError(
            f"an operator is named by namespace and name, as in 'mylib::my_op', not {qualname!r}"
        )
    return parts[0], parts[1]


def _device_key(device: str) -> DispatchKey:
    if device == "default":
        return DispatchKey.CompositeExplicitAutograd
    return _DEVICES.get(device) or parse_key(device)


def _kept_library(namespace: str) -> Library:
    library = Library(namespace, "FRAGMENT")
    _kept_libraries.append(library)
    return library
