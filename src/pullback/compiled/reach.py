"""Search for the places outside of a function that it may read.

The search begins at the function and follows the names in its code, breadth first: cells, globals,
defaults, imported modules, attributes of modules, classes and objects, items of containers. Of a
class it follows what the names reach (methods, properties, descriptors), and the special methods,
which code calls without a name. It is cautious: a place is watched if the code *may* read it. Code
that computes names (``getattr(x, name)``, ``vars(x)``) may read all attributes.
"""

from __future__ import annotations

import argparse
import array
import builtins
import contextvars
import functools
import io
import itertools
import operator
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from pullback._cpython import read_instructions, stack_effect
from pullback.compiled.watch import (
    EMPTY,
    OF_TENSOR,
    PLAIN,
    SETTABLE,
    Watch,
    read_class,
    read_place,
)
from pullback.fx.graph_module import GraphModule
from pullback.fx.snapshots import LARGE_ARRAY_BYTES
from pullback.fx.traced_number import TracedNumber
from pullback.kernels.random import GENERATORS
from pullback.tensor.tensor import Tensor

__all__ = [
    "IDENTITY",
    "ID_OF_OBJECT",
    "Reached",
    "find_watches",
    "has_traced_number",
    "is_library",
]

IDENTITY = "x is y"
"""Among names: code compares objects by identity, other than with None and its like."""
ID_OF_OBJECT = "id(x)"
"""Among names: code may call ``id``."""

_MOST = 10_000  # watches of one function
_MOST_ITEMS = 256  # items of a list that are watched one by one
_LIBRARIES = frozenset(["numpy", "scipy", "pullback", "builtins", *sys.stdlib_module_names])
# Libraries whose objects hold functions and values of the user, which are watched.
_HOLDERS = frozenset(
    [
        *("argparse", "collections", "contextlib", "functools", "queue", "types", "weakref"),
        *("numpy", "scipy"),
    ]
)
_WITHOUT_READS = frozenset(["builtins", "abc", "typing", "enum", "collections.abc", "_thread"])
_NAMESPACE_TYPES = (types.SimpleNamespace, argparse.Namespace)  # only the user's code reads them
_USUAL = {"np": "numpy", "pb": "pullback", "sp": "scipy"}  # names of modules
_OF_MODULES = frozenset(
    ["__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__spec__"]
)  # names that the import system sets
_ALL = "*"  # among names: all attributes may be read
_COMPUTED = frozenset(
    ["vars", "dir", "__dict__", "__getattribute__", "asdict", "astuple", "fields", "eval", "exec"]
)  # code that names one of these may read attributes by computed names
_NAMESPACES = frozenset(
    [
        *("globals", "__globals__", "locals", "eval", "exec", "f_globals"),
        *("modules", "getmodule", "import_module", "__import__"),  # the module itself
    ]
)
_EVALUATORS = ("eval", "exec")  # read any global
_USES_OF_GLOBALS = frozenset(
    ["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL"]
)
_BY_NAME = ("getattr", "hasattr")  # functions that get the name of an attribute
_OPTIONAL = "?"  # before a name: of an attribute that may be missing
_TO_MAKE = frozenset(["__init__", "__new__", "__post_init__"])  # called where objects are made
_UNREAD = frozenset(
    f"__{name}__"
    for name in ("repr", "str", "hash", "reduce", "reduce_ex", "getstate", "setstate", "del")
)  # special methods that computations do not call
_CACHED_FUNCTION = type(functools.lru_cache(lambda: None))
_BUFFERS = (bytearray, memoryview, array.array)
_NAMED_READERS = (operator.attrgetter, operator.methodcaller)


class Reached(NamedTuple):
    """Places outside that a function reaches, and objects that need more than a comparison.

    Attributes:
        watches: the places that it may read.
        generators: generators of random numbers.
        iterators: iterators of Python and its library.
        keyed: dicts and sets with a traced number among their keys.
        numbers: traced numbers that are stored in a container.
        loose: the ids of arrays that it reaches not by watched places alone.
        names: the names in the code of all functions that it may call.
        is_whole: whether these are all places; else there are too many.
    """

    watches: list[Watch]
    generators: list[Any]
    iterators: list[Any]
    keyed: list[Any]
    numbers: list[Any]
    loose: set[int]
    names: frozenset[str]
    is_whole: bool


def find_watches(function: Callable[..., Any], constants: Iterable[Any] = ()) -> Reached:
    """The places that a function may read, and that it may reach from some of its arguments."""
    search = _Search(function, constants)
    return Reached(
        list(search.found.values()),
        search.generators,
        search.iterators,
        search.keyed,
        search.numbers,
        search.find_loose(),
        search.names,
        len(search.found) < _MOST,
    )


class _Search:
    """A breadth-first walk over what a function reaches."""

    def __init__(self, function: Any, constants: Iterable[Any]) -> None:
        self.found: dict[Any, Watch] = {}
        self.generators: list[Any] = []
        self.iterators: list[Any] = []
        self.keyed: list[Any] = []
        self.numbers: list[Any] = []
        self.whole: set[int] = set()  # modules whose attributes are read by computed names
        self.loose: list[Any] = []  # what is not reached by a place alone
        self.waiting: deque[tuple[Any, frozenset[str]]] = deque()
        self.seen: dict[int, frozenset[str]] = {}
        self.visited: list[Any] = []
        self.kept: list[Any] = []  # owners of watches, so that their ids are their own
        # Names in the code of all functions: an object may be an argument of any of them.
        self.names = _names_of(function) - {IDENTITY, ID_OF_OBJECT}  # which user code may add
        for value in (function, *constants):
            self.add(value, frozenset())
        self._drain()
        known = None
        while known != self.names and len(self.found) < _MOST:
            known = self.names
            self.waiting.extend((value, known) for value in self.visited)
            self._drain()

    def _drain(self) -> None:
        while self.waiting and len(self.found) < _MOST:
            self._visit(*self.waiting.popleft())

    def add(self, value: Any, names: frozenset[str], *, is_placed: bool = False) -> None:
        """Visits a value later; `names` are those of the code that reaches it.

        Args:
            value: the value.
            names: the names in that code.
            is_placed: whether a watched place has it, or the tuple that it is an item of.
        """
        if _is(value, TracedNumber):
            self.numbers.append(value)
        elif not _is(value, *PLAIN) and value is not EMPTY:
            if not is_placed and _is(value, np.ndarray, tuple):
                self.loose.append(value)
            self.waiting.append((value, names))

    def find_loose(self) -> set[int]:
        """The ids of arrays that are not reached by places alone, also as items of tuples."""
        found: set[int] = set()
        waiting = list(self.loose)
        while waiting:
            value = waiting.pop()
            if _is(value, tuple):
                waiting += value
            elif _is(value, np.ndarray):
                found.add(id(value))
        return found

    def note(self, watch: Watch) -> None:
        """Watches a place."""
        if watch.place not in self.found:
            self.kept.append(watch.owner)
            self.found[watch.place] = watch

    def follow(self, watch: Watch, names: frozenset[str]) -> None:
        """Watches a place, and visits the object that it has."""
        self.note(watch)
        if _ALL in names and _is(watch.value, ModuleType):
            self.whole.add(id(watch.value))  # ``vars(module)[name]``
        self.add(watch.value, names, is_placed=watch.kind in SETTABLE)

    def place(self, kind: str, owner: Any, name: Any) -> Watch:
        """A place with the object that it has."""
        return Watch(kind, owner, name, read_place(kind, owner, name))

    def _visit(self, value: Any, names: frozenset[str]) -> None:
        known = self.seen.get(id(value))
        names = names | self.names
        if known is not None and (names <= known or type(value) is np.ndarray):
            return
        if known is None:
            self.visited.append(value)
        self.seen[id(value)] = names
        if _is(value, Tensor):
            held = value._array
            self.note(Watch("slot", value, "_array", held))
            if _is(held, np.ndarray):
                self._array(held, names, OF_TENSOR)
            else:
                self.add(held, names)
            if _package(type(value).__module__) not in _LIBRARIES:  # has ``__torch_dispatch__``
                self._object(value, names)
        elif _is(value, np.ndarray):
            self._array(value, names)
        elif _is(value, FunctionType):
            self._function(value)
        elif _is(value, MethodType):
            self.add(value.__func__, names)
            self.add(value.__self__, names | _names_of(value.__func__))
        elif _is(value, type(len)):
            self.add(value.__self__, names)  # of ``A.dot``
        elif _is(value, functools.partial, functools.partialmethod):
            for part in (value.func, *value.args, value.keywords):
                self.add(part, names | _names_of(value.func))
        elif _is(value, list, tuple, dict):
            is_namespace = _is(value, dict) and "__builtins__" in value  # of a module
            if not is_namespace and _package(type(value).__module__) != "pullback":
                self._container(value, names)
        elif _is(value, ModuleType):
            self._module(value, names)
        elif _is(value, type):
            self._class(value, value, names)
            self._class(type(value), value, names)
        elif not self._library_object(value, names):
            self._object(value, names)

    def _library_object(self, value: Any, names: frozenset[str]) -> bool:
        """Visits an object of a class of libraries that is known; returns whether it is one."""
        if _is(value, set) and any(map(has_traced_number, value)):
            self.keyed.append(value)
        elif _is(value, deque, set, frozenset):
            self.note(Watch("items", value, None, tuple(value)))
            for item in value:
                self.add(item, names)
        elif _is(value, types.MappingProxyType):
            self.note(self.place("mapping", value, None))
            for item in value.values():
                self.add(item, names)
        elif _is(value, *_BUFFERS):
            self.note(self.place("buffer", value, None))
        elif _is(value, contextvars.ContextVar):
            self.follow(self.place("context", value, None), names)
        elif _is(value, threading.local):
            for name in sorted(names):
                self.follow(self.place("attribute", value, name), names)
        elif _is(value, weakref.ref):
            self.follow(self.place("referent", value, None), names)
        elif _is(value, *_NAMED_READERS):
            self.names |= {_ALL}
        elif _is(value, *GENERATORS):
            self.generators.append(value)
        elif _is(value, _CACHED_FUNCTION):
            self.note(self.place("cache", value, None))
            self.add(value.__wrapped__, names)
        elif _is(value, Iterator) and _package(type(value).__module__) in _LIBRARIES:
            if not _is(value, io.IOBase):
                self.iterators.append(value)
        else:
            return False
        return True

    def _array(self, array: Any, names: frozenset[str], reader: str | None = None) -> None:
        """Watches an array; `reader` is OF_TENSOR if it is that of a tensor."""
        if type(array) is not np.ndarray:  # a masked array has its mask there
            self._attributes(type(array), _space_of(array), names | {_ALL})
            self.loose += _space_of(array).values()
        self.note(self.place("layout", array, None))
        if array.dtype.hasobject:
            watch = self.place("objects", array, None)
            self.note(watch)
            for item in watch.value:
                self.add(item, names)
        else:
            is_large = array.nbytes > LARGE_ARRAY_BYTES  # copied where it has to be compared
            self.note(Watch("content", array, reader, None if is_large else array.copy("K")))

    def _function(self, function: FunctionType) -> None:
        package = _package(function.__globals__.get("__name__"))
        names = _names_of(function)
        is_foreign = package in _LIBRARIES
        for cell in function.__closure__ or ():
            watch = self.place("cell", cell, None)
            if not is_foreign or package == "pullback" or _is_user_code(watch.value):
                self.follow(watch, names)
        if is_foreign:
            return
        self.names |= names
        self.note(self.place("code", function, "__code__"))
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name):
                self.follow(self.place("defaults", function, name), names)
        for name in sorted(names & function.__dict__.keys()):
            self.follow(self.place("item", function.__dict__, name), names)
        space = function.__globals__
        read = _globals_in(function.__code__)
        if not names.isdisjoint(_EVALUATORS):
            read |= space.keys() - builtins.__dict__.keys()
        for name in sorted(read & space.keys()):
            self._name_in(space, name, names)
        for name in sorted(read - space.keys()):
            if "NameError" in names or name in builtins.__dict__:
                self.note(self.place("item", space, name))
        for name in sorted(read & builtins.__dict__.keys()):
            if not is_library(builtins.__dict__[name]):
                self.follow(self.place("item", builtins.__dict__, name), names)
        for name in sorted(_modules_in(names, space) & sys.modules.keys()):
            self.add(sys.modules[name], names)

    def _container(self, value: Any, names: frozenset[str]) -> None:
        items = list(value.values()) if _is(value, dict) else list(value)
        if _is(value, dict) and any(map(has_traced_number, value)):
            self.keyed.append(value)
            return
        if _is(value, tuple) or (len(items) > _MOST_ITEMS and not _is(value, dict)):
            if not _is(value, tuple):
                self.note(Watch("items", value, None, tuple(items)))
            for item in items:
                self.add(item, names, is_placed=_is(value, tuple))
        elif _is(value, dict):
            self.note(self.place("keys", value, None))
            for key, item in value.items():
                self.follow(Watch("item", value, key, item), names)
        else:
            self.note(self.place("length", value, None))
            for place, item in enumerate(items):
                self.follow(Watch("element", value, place, item), names)
        if _package(type(value).__module__) not in _LIBRARIES:
            self._object(value, names)

    def _module(self, module: ModuleType, names: frozenset[str]) -> None:
        if not is_library(module):
            space = module.__dict__
            if id(module) in self.whole:
                names |= space.keys()
            for name in sorted((names | {"__getattr__"}) & space.keys() - _OF_MODULES):
                self._name_in(space, name, names)

    def _name_in(self, space: dict[str, Any], name: str, names: frozenset[str]) -> None:
        """Watches a name of a module."""
        if not is_library(space[name]):
            self.follow(self.place("item", space, name), names)
        elif not _is_usual(name, space[name]):  # ``act = np.tanh``, ``xp = np``
            self.note(self.place("item", space, name))

    def _class(self, kind: type, value: Any, names: frozenset[str]) -> None:
        """Attributes of a class, which `value`, an instance or the class itself, reads."""
        makes = value is kind or bool(names & {"type", "__class__"})
        libraries = [base for base in kind.__mro__ if _package(base.__module__) in _LIBRARIES]
        for base in kind.__mro__:
            if base in libraries:
                continue
            # What overrides a library's method is called by it: ``Function.backward``.
            own = {n for n in base.__dict__ if any(n in other.__dict__ for other in libraries)}
            own = {name for name in own if not name.startswith("__")}
            for name in sorted(_read_names(base, names | own, makes)):
                self._class_attribute(kind, base, value, name, names)

    def _class_attribute(
        self, kind: type, base: type, value: Any, name: str, names: frozenset[str]
    ) -> None:
        held = base.__dict__[name]
        if _is(held, MemberDescriptorType):
            return
        self.note(self.place("class", kind, name))
        if base is not kind:  # ``super()`` reads it there
            self.note(self.place("class", base, name))
        functions = list(_functions_of(held))
        if not functions or hasattr(type(held), "__get__"):
            self.add(held, names, is_placed=True)
        for function in functions:
            self.add(function, names)
            self.add(value, _names_of(function))

    def _object(self, value: Any, names: frozenset[str]) -> None:
        kind = type(value)
        package = _package(kind.__module__)
        space = _space_of(value)
        self.add(space.get("__wrapped__"), names)  # of a compiled function
        if _is(value, BaseException):
            self.add(value.args, names)
        is_network = "_parameters" in space and "_modules" in space
        if _is(value, GraphModule):  # ``recompile()`` sets ``_run``
            self._attributes(kind, space, frozenset(["_run", *value.captured()]))
        if package in _LIBRARIES and not is_network:
            if _is(value, *_NAMESPACE_TYPES):
                self._attributes(kind, space, names)
            elif package in _HOLDERS or _ALL in names:
                self._attributes(kind, space, names | {_ALL})
                self.loose += space.values()  # compiled code reads them
            return
        if any(map(_reads_attributes, kind.__mro__)):
            names |= {_ALL}
        self._class(kind, value, names)
        if is_network:
            names |= _names_of(getattr(kind, "forward", None)) | {
                "_parameters",
                "_buffers",
                "_modules",
                "training",
            }
        else:
            self.note(self.place("type", value, "__class__"))
        self._attributes(kind, space, names)
        slots = [n for base in kind.__mro__ for n in base.__dict__] if _ALL in names else names
        for name in sorted(slots):
            if _is(read_class(kind, name), MemberDescriptorType):
                self.follow(self.place("slot", value, name), names)

    def _attributes(self, kind: type, space: dict[str, Any], names: frozenset[str]) -> None:
        """Attributes of an object, in its ``__dict__``, that the code names."""
        if _ALL in names:
            names |= space.keys()
            self.note(self.place("keys", space, None))
        for name in sorted(names):
            key = name.removeprefix(_OPTIONAL)
            held = space.get(key, EMPTY)
            if held is not EMPTY or read_class(kind, key) is not EMPTY or key is not name:
                self.follow(Watch("item", space, key, held), names)
            if key is not name and read_class(kind, key) is EMPTY:
                self.note(self.place("class", kind, key))


def _reads_attributes(base: type) -> bool:
    """Whether methods of a library may read the attributes of a user's object: a ``UserDict``."""
    name = base.__module__
    return _package(name) in _LIBRARIES - {"pullback"} and name not in _WITHOUT_READS


def _is(value: Any, *kinds: Any) -> bool:
    """Whether a value has one of the types, without ``__class__``, which user code may compute."""
    return issubclass(type(value), kinds)


def _space_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that are its own."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_names(base: type, names: frozenset[str], makes: bool) -> set[str]:
    """The names of a class itself that code with such names may read."""
    found = {name for name in base.__dict__ if name in names}
    for name, held in base.__dict__.items():
        if name.startswith("__") and name.endswith("__"):
            is_unread = name in _UNREAD or (name == "__replace__" and "replace" not in names)
            if is_unread or (name in _TO_MAKE and not makes):
                found.discard(name)
            elif _is(held, FunctionType, staticmethod, classmethod):
                found.add(name)
        elif _ALL in names:
            found.add(name)
    return found


def _functions_of(held: Any) -> Iterator[FunctionType]:
    """The functions of an attribute of a class: a method, a property, a static or class method."""
    if _is(held, staticmethod, classmethod):
        held = held.__func__
    elif _is(held, property):
        held = held.fget
    elif _is(held, functools.cached_property, functools.partialmethod):
        held = held.func
    elif _is(held, functools.singledispatchmethod):
        yield from filter(_is_user_code, held.dispatcher.registry.values())
    elif not _is(held, FunctionType, type):
        held = read_class(type(held), "__get__")  # of a descriptor
    if _is(held, FunctionType):
        yield held


def has_traced_number(key: Any) -> bool:
    """Whether a key is a number of a trace, or a tuple with one."""
    if _is(key, TracedNumber):
        return True
    return type(key) is tuple and any(map(has_traced_number, key))


def _is_user_code(value: Any) -> bool:
    """Whether a value in a cell of a library's function can be the user's: a callable, a dict."""
    return _is(value, FunctionType, MethodType, functools.partial, dict) and not is_library(value)


def is_library(value: Any) -> bool:
    """Whether a value belongs to Python, NumPy, SciPy or this library, which do not change."""
    if _is(value, ModuleType):
        return _package(value.__name__) in _LIBRARIES
    if _is(value, FunctionType) and value.__closure__:
        return False  # a decorator of a library may have made it
    if _is(value, type, FunctionType):
        return _package(value.__module__) in _LIBRARIES
    if _is(value, type(len)):
        return value.__self__ is None or _is(value.__self__, ModuleType, type)
    return _is(value, np.ufunc)


def _is_usual(name: str, value: Any) -> bool:
    """Whether a global is a module of a library under its own name, or the usual one."""
    if not _is(value, ModuleType):
        return False
    return value.__name__ in (name, _USUAL.get(name)) or value.__name__.endswith(f".{name}")


def _package(name: Any) -> str:
    return str(name).partition(".")[0]


def _names_of(function: Any) -> frozenset[str]:
    """The names in the code of a function, and of the functions and comprehensions inside it."""
    while _is(function, functools.partial, MethodType):
        function = function.func if _is(function, functools.partial) else function.__func__
    code = function.__code__ if _is(function, FunctionType) else None
    if not isinstance(code, CodeType):
        return frozenset()
    try:
        return _names_in(code)
    except TypeError:  # a function of SciPy's that this library intercepts: a constant is a set
        return _names_in.__wrapped__(code)


@functools.lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> frozenset[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_in(constant)
        elif isinstance(constant, str) and _is_dotted(constant):  # getattr(x, "name")
            found.add(constant)
    found |= _marks_of(code)
    if found & _COMPUTED:
        found.add(_ALL)
    if "AttributeError" in found:
        found.update([_OPTIONAL + name for name in code.co_names])
    if not found.isdisjoint(_BY_NAME):
        found.update(_named_attributes(code))
    return frozenset(found)


def _marks_of(code: CodeType) -> set[str]:
    """Marks of instructions that name no attribute: ``case Point(x, y)``, ``x is y``, ``id(x)``."""
    steps = read_instructions(code)
    if steps is None:
        return {_ALL, IDENTITY, ID_OF_OBJECT}
    found = set()
    for before, step in itertools.pairwise(steps):
        if step.opname == "MATCH_CLASS":
            found.add(_ALL)
        elif step.opname == "IS_OP" and before.opname != "LOAD_CONST":
            found.add(IDENTITY)
        elif step.opname == "LOAD_GLOBAL" and step.argval == "id":
            found.add(ID_OF_OBJECT)
    return found


def _is_dotted(text: str) -> bool:
    """Whether a text is a name, or names with points between them, as of a module."""
    return all(part.isidentifier() for part in text.split("."))


@functools.lru_cache(maxsize=4096)
def _globals_in(code: CodeType) -> frozenset[str]:
    """The names that code may use as globals: ``np.add.at`` reads ``np``, but no global ``at``."""
    names = _names_in(code)
    steps = read_instructions(code)
    if steps is None or _ALL in names or not names.isdisjoint(_NAMESPACES):
        return names
    found = {x.argval for x in steps if x.opname in _USES_OF_GLOBALS}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _globals_in(constant)
    return frozenset(found)


def _modules_in(names: frozenset[str], space: dict[str, Any]) -> frozenset[str]:
    """The names of modules that code may import, also ``from .module import name``."""
    found = set(names)
    parent = space.get("__package__")
    while parent and isinstance(parent, str):
        found.update(f"{parent}.{name}" for name in names)
        parent = parent.rpartition(".")[0]
    return frozenset(found)


def _named_attributes(code: CodeType) -> Iterator[str]:
    """The names that calls of ``getattr`` and ``hasattr`` read; ``_ALL`` for one that is computed.

    A name is known where the instruction before the call, or before a simple default, loads it.
    """
    steps = read_instructions(code)
    if steps is None:
        strings = (x for x in code.co_consts if isinstance(x, str) and x.isidentifier())
        yield from (_ALL, *(_OPTIONAL + name for name in strings))
        return
    for place, step in enumerate(steps):
        if step.argval not in _BY_NAME or not step.opname.startswith("LOAD_"):
            continue
        end, depth = place, 0
        while depth >= 0 and end + 1 < len(steps):  # until the call has popped the function
            end += 1
            depth += stack_effect(steps[end])
        call = steps[end]
        end -= steps[end - 1].opname == "PRECALL"  # of Python 3.11
        last = steps[end - 1]
        found = last if call.arg == 2 else steps[end - 2]
        is_known = call.opname == "CALL" and call.arg in (2, 3) and last.opname.startswith("LOAD_")
        is_known = is_known and found.opname == "LOAD_CONST" and isinstance(found.argval, str)
        is_known = is_known and not any("JUMP" in step.opname for step in steps[place:end])
        yield _OPTIONAL + found.argval if is_known else _ALL
