"""``define`` and ``impl`` as functions: for registrations that last as long as the process.

Each call without `lib` makes a library that is kept for the life of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar, overload

from pullback.dispatch.keys import BACKENDS, DispatchKey, parse_key
from pullback.dispatch.library import Library
from pullback.errors import DispatchKeyError, LibraryKindError

__all__ = ["DEVICES", "define", "impl", "library_for"]

_F = TypeVar("_F", bound=Callable[..., Any])

DEVICES = {backend.lower(): DispatchKey[backend] for backend in BACKENDS}

_kept_libraries: list[Library] = []


@overload
def define(
    qualname: str, schema: str, *, lib: Library | None = None, tags: Iterable[str] = ()
) -> None: ...


@overload
def define(qualname: Library, schema: str, alias_analysis: str = "") -> Callable[[_F], _F]: ...


def define(
    qualname: str | Library,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Library | None = None,
    tags: Iterable[str] = (),
) -> Callable[[_F], _F] | None:
    """Defines an operator for the life of the process, or of `lib`.

    ``define(lib, schema)`` is PyTorch's older form: a decorator that defines the operator and
    registers the function as its kernel at CompositeImplicitAutograd.

    Args:
        qualname: namespace and name, ``"ns::op"``; in the older form the library.
        schema: arguments and returns without a name, ``"(Tensor x) -> Tensor"``; in the older form
            with the name, ``"op(Tensor x) -> Tensor"``.
        alias_analysis: in the older form, as for ``Library.define``.
        lib: the library that owns the definition.
        tags: ``"inplace"`` or ``"out"``, and any others.

    >>> with Library("once", "FRAGMENT") as lib:
    ...     define("once::twice", "(Tensor x) -> Tensor", lib=lib)
    ...     lib.is_registered("twice", "CPU")
    False
    >>> with Library("older", "FRAGMENT") as lib:
    ...     @define(lib, "same(Tensor x) -> Tensor")
    ...     def same(x):
    ...         return x
    ...     lib.is_registered("same", "CompositeImplicitAutograd")
    True
    """
    if isinstance(qualname, Library):
        _refuse_options("define", lib is not None or tags != ())
        return partial(_define_with, qualname, schema, alias_analysis)
    if alias_analysis:
        raise LibraryKindError(
            "define: alias_analysis belongs to the form define(lib, schema, alias_analysis); leave "
            "it out"
        )
    namespace = _namespace(qualname)
    if not isinstance(schema, str) or not schema.strip().startswith("("):
        raise LibraryKindError(
            f"define: expected schema to look like '(Tensor x, int n) -> Tensor', without a name, "
            f"but got {schema!r}"
        )
    with library_for(lib, namespace) as library:
        library.define(qualname + schema.strip(), tags=tags)
    return None


def _define_with(library: Library, schema: str, alias_analysis: str, fn: _F) -> _F:
    """Defines an operator with its kernel, or neither."""
    before = set(library._handles)
    try:
        library.impl(library.define(schema, alias_analysis), fn)
    except BaseException:
        for handle in [made for made in library._handles if made not in before]:
            handle.destroy()
        raise
    return fn


def _refuse_options(name: str, has_options: bool) -> None:
    """Refuses what only the form with a qualified name takes."""
    if has_options:
        raise LibraryKindError(
            f"{name}: the form with a library as its first argument takes neither lib nor tags"
        )


@overload
def impl(
    qualname: str, types: str | Sequence[str], func: None = None, *, lib: Library | None = None
) -> Callable[[_F], _F]: ...


@overload
def impl(
    qualname: str, types: str | Sequence[str], func: _F, *, lib: Library | None = None
) -> _F: ...


@overload
def impl(qualname: Library, types: str, func: str | DispatchKey = "") -> Callable[[_F], _F]: ...


def impl(
    qualname: str | Library,
    types: str | Sequence[str],
    func: Any = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Registers a kernel for the life of the process, or of `lib`; also a decorator.

    ``impl(lib, name, dispatch_key="")`` is PyTorch's older form, always a decorator.

    Args:
        qualname: namespace and name, ``"ns::op"``; in the older form the library.
        types: device names (``"cpu"``), ``"default"`` for every device, or dispatch keys; in the
            older form the operator's name.
        func: the kernel; in the older form the dispatch key.
        lib: the library that owns the registration.

    >>> with Library("plain", "FRAGMENT") as lib:
    ...     define("plain::same", "(Tensor x) -> Tensor", lib=lib)
    ...     @impl("plain::same", "cpu", lib=lib)
    ...     def same(x):
    ...         return x
    ...     lib.is_registered("same", "CPU")
    True
    """
    if isinstance(qualname, Library):
        _refuse_options("impl", lib is not None)
        return partial(_implement_with, qualname, types, "" if func is None else func)
    namespace = _namespace(qualname)
    keys = _keys(types)

    def register(fn: _F) -> _F:
        with library_for(lib, namespace) as library, ExitStack() as undo:
            for key in keys:
                undo.enter_context(library.impl(qualname, fn, key))
            undo.pop_all()  # atomic: all are registered, or none
        return fn

    return register if func is None else register(func)


def _implement_with(library: Library, name: Any, key: Any, fn: _F) -> _F:
    library.impl(name, fn, key)
    return fn


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
