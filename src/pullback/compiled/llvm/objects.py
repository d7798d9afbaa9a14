"""Objects of Python in machine code: symbols of addresses, layouts, and functions of machine code.

``PythonFunction`` writes a function with CPython's vectorcall convention, ``make_function`` makes
the object of Python around its address. Layouts are those of CPython's and NumPy's binary
interfaces, or are found where they differ between versions.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from pullback.compiled.llvm.arena import ALIGNMENT
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import declare, new_function

__all__ = [
    "FUNCTION_OFFSETS",
    "PythonFunction",
    "Symbols",
    "make_function",
    "make_pointer_function",
    "numpy_table",
    "slot_offset",
]

_HAS_IMMORTALS = sys.version_info >= (3, 12)  # objects whose references are not counted
_METH_FASTCALL = 0x80
_METH_KEYWORDS = 0x02


class Symbols:
    """External symbols of a module: names of addresses."""

    def __init__(self, module: Any):
        self.module = module
        self.addresses: dict[str, int] = {}
        self._known: dict[int, Any] = {}
        self.kept: list[Any] = []

    def object(self, value: Any, name: str = "object") -> Any:
        """A pointer to a Python object, which is kept alive."""
        self.kept.append(value)
        return self.address(id(value), name)

    def address(self, address: int, name: str) -> Any:
        """A pointer to an address; the name of the symbol does not depend on it."""
        known = self._known.get(address)
        if known is None:
            full = f"pullback_{name}_{len(self._known)}"
            known = self._known[address] = ir.GlobalVariable(self.module, ir.IntType(8), full)
            known.linkage = "external"
            self.addresses[full] = address
        return known


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def make_function(address: int, kept: Any, *, has_keywords: bool = False) -> Any:
    """A function of Python at an address; it keeps an object, such as the code's owner, alive."""
    flags = _METH_FASTCALL | (_METH_KEYWORDS if has_keywords else 0)
    definition = _MethodDef(b"compiled", address, flags, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.byref(definition), (definition, kept), None)


def make_pointer_function(address: int, count: int, kept: Any) -> Any:
    """The same for a function of addresses, by ctypes: independent of the layout of objects."""
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address)

    def call(*arrays: Any) -> None:
        *given, memory = (array.__array_interface__["data"][0] for array in arrays)
        function(*given, -(-memory // ALIGNMENT) * ALIGNMENT)

    call.kept = kept  # type: ignore[attr-defined]
    return call


def slot_offset(kind: type, name: str) -> int:
    """The offset of a slot of objects, from its descriptor (``PyMemberDescrObject``)."""
    descriptor = next(base.__dict__[name] for base in kind.__mro__ if name in base.__dict__)
    member = ctypes.c_void_p.from_address(id(descriptor) + 40).value
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value


def _find_function_offsets() -> dict[str, int]:
    """The offsets of fields in a function object, which differ between versions of Python."""

    def example(x: int = 1, *, y: int = 2) -> None:
        raise NotImplementedError(x, y)

    names = ("__code__", "__defaults__", "__kwdefaults__")
    address, by_id = id(example), {id(getattr(example, name)): name for name in names}
    places = range(object.__basicsize__, type(example).__basicsize__, 8)
    held = {n: ctypes.c_void_p.from_address(address + n).value for n in places}
    return {by_id[value]: n for n, value in held.items() if value in by_id}


FUNCTION_OFFSETS = _find_function_offsets()
"""The offsets of a function's code and defaults."""


def numpy_table() -> Any:
    """The table of NumPy's C functions."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    return ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))


class PythonFunction:
    """Helpers to write a function with CPython's calling convention."""

    def __init__(self, module: Any, symbols: Symbols, name: str):
        self.module = module
        self.symbols = symbols
        self.byte, self.int32, self.word = ir.IntType(8), ir.IntType(32), ir.IntType(64)
        self.pointer = self.byte.as_pointer()
        self.null = ir.Constant(self.pointer, None)
        arguments = [self.pointer, self.pointer.as_pointer(), self.word, self.pointer]
        self.b = new_function(module, name, arguments, self.pointer)
        self.function = self.b.function

    def field(self, pointer: Any, offset: int, kind: Any) -> Any:
        """The field at an offset of an object."""
        return self.b.load(self.field_address(pointer, offset, kind))

    def field_address(self, pointer: Any, offset: int, kind: Any) -> Any:
        """The address of the field."""
        address = self.b.gep(pointer, [self.word(offset)])
        return self.b.bitcast(address, kind.as_pointer())

    def call(self, name: str, result: Any, *args: Any) -> Any:
        """Calls a function of the process."""
        return self.b.call(declare(self.module, name, result, [a.type for a in args]), args)

    def increase(self, pointer: Any) -> Any:
        """Counts a new reference to an object; None and others are immortal since Python 3.12."""
        if _HAS_IMMORTALS:
            self.call("Py_IncRef", ir.VoidType(), pointer)
        else:
            self._count(pointer, 1)
        return pointer

    def decrease(self, pointer: Any) -> None:
        """Counts a reference less to an object that others refer to."""
        if _HAS_IMMORTALS:
            self.call("Py_DecRef", ir.VoidType(), pointer)
        else:
            self._count(pointer, -1)

    def _count(self, pointer: Any, change: int) -> None:
        count = self.b.bitcast(pointer, self.word.as_pointer())
        self.b.store(self.b.add(self.b.load(count), self.word(change)), count)

    def equal(self, x: Any, y: Any) -> Any:
        """Whether two integers or addresses are equal."""
        return self.b.icmp_unsigned("==", x, y)

    def field_is(self, pointer: Any, offset: int, value: Any) -> Any:
        """Whether the field at an offset of an object has a value."""
        return self.equal(self.field(pointer, offset, value.type), value)

    def stack_memory(self, size: int) -> Any:
        """Aligned memory on the stack."""
        slot = self.b.alloca(ir.ArrayType(self.byte, max(ALIGNMENT, size)))
        slot.align = ALIGNMENT
        return self.b.bitcast(slot, self.pointer)

    def align(self, pointer: Any) -> Any:
        """The first aligned address from one on."""
        address = self.b.add(self.b.ptrtoint(pointer, self.word), self.word(ALIGNMENT - 1))
        return self.b.inttoptr(self.b.and_(address, self.word(-ALIGNMENT)), self.pointer)
