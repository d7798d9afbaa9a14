"""Functions of Python around machine code, themselves machine code: guards, results, the call.

``emit_call`` writes the function of a whole call, with CPython's vectorcall convention: it checks
the thread's state, the names that the function reads from outside, and the structure, types,
dtypes, shapes and layout of the arguments; allocates the results, calls the program, and builds the
result's containers. Where a guard does not hold it calls another function: the general one, or that
of another signature. It reads objects by CPython's and NumPy's layouts, which are part of their
binary interfaces, and tensors by the offsets of their slots. ``emit_pointers`` writes a function of
arrays alone, without any check.

All addresses are external symbols of the module (``Symbols``), so that its code does not depend on
them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import is_dataclass
from inspect import getattr_static, ismemberdescriptor
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.eager.program import MISS
from pullback.compiled.hidden_inputs import HiddenInput
from pullback.compiled.llvm.arena import ALIGNMENT
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.objects import (
    FUNCTION_OFFSETS,
    PythonFunction,
    Symbols,
    numpy_table,
    slot_offset,
)
from pullback.compiled.lowering.ir import Node
from pullback.compiled.signatures import Arguments
from pullback.compiled.watch import EMPTY, Watch
from pullback.dispatch import modes
from pullback.tensor.tensor import CPU_FLAGS, Tensor
from pullback.utils import pytree

__all__ = [
    "STACK_ARENA",
    "Captured",
    "Leaf",
    "ProgramFunction",
    "Result",
    "Signature",
    "TracedCall",
    "can_emit_call",
    "emit_call",
    "emit_pointers",
    "emit_steps_call",
]

STACK_ARENA = 1 << 16
"""Bytes of an arena up to which it is on the stack."""

_NONE = "_Py_NoneStruct"
_TYPE, _BODY = 8, 16  # offsets in an object: its type, what follows the head
_TUPLE_ITEMS, _LIST_ITEMS = tuple.__basicsize__, 24
_ARRAY_DATA, _ARRAY_NDIM, _ARRAY_SHAPE, _ARRAY_STRIDES = 16, 24, 32, 40
_ARRAY_DTYPE, _ARRAY_FLAGS = 56, 64
_DTYPE_ORDER, _DTYPE_NUMBER = 26, 28
_CONTIGUOUS_AND_ALIGNED = 0x101
_WRITEABLE = 0x400
_NEW_ARRAY = 94  # PyArray_NewFromDescr in the table of NumPy's interface
_NEW_SCALAR = 60  # PyArray_Scalar
_MOST_WATCHES = 500  # places that a call compares, some 2 ns each
_READABLE = ("cell", "item", "element", "slot")  # places whose object is read
_GIL_WORK = 1 << 15  # operations on elements from which the interpreter's lock is released


class Leaf(NamedTuple):
    """One leaf of the arguments."""

    kind: str  # "tensor", "array", "scalar" (NumPy's), "number" or "static"
    value: Any  # the type of a number or scalar, the object of a static one
    input: int = -1  # the index of the program's input; -1 if it does not read it
    node: Node | None = None  # of an array: the input


class Captured(NamedTuple):
    """A captured array, the node that reads it, and the tensor that has it."""

    array: Any
    node: Node
    origin: Tensor | None


class TracedCall(NamedTuple):
    """The call that was traced, with what it depended on and what it returned."""

    given: Arguments
    out_spec: pytree.Spec
    state: Any  # of the thread
    watches: list[Watch]
    tensors: list[Tensor]  # captured ones, which have to hold the same arrays
    inputs: Sequence[HiddenInput]  # places of captured arrays that may be replaced
    otherwise: Any  # the function that is called where a guard does not hold


class Result(NamedTuple):
    """One leaf of the results: an output of the program, or a constant."""

    kind: str  # "array" or "tensor", "scalar" (NumPy's), "number" or "constant"
    value: Any  # the index of the output; the object that is a constant


class Signature(NamedTuple):
    """A call as machine code has it: how the program's inputs and results are made of objects."""

    call: TracedCall
    leaves: list[Leaf]
    captured: dict[int, Captured]  # by input
    results: list[Result]
    hits: int  # the address of a counter of calls


class ProgramFunction(NamedTuple):
    """The function of a program, ``void f(i8* inputs..., i8* outputs..., i8* arena)``."""

    address: int
    inputs: int  # their number
    outputs: list[Node]
    checks: set[int]  # the outputs that have to be true
    arena: int  # bytes
    work: int  # an estimate of its operations on elements


def can_emit_call(call: TracedCall) -> bool:
    """Whether `emit_call` has a form for the structure of arguments and results, and all checks."""
    if len(call.watches) > _MOST_WATCHES or not all(map(_can_check, call.watches)):
        return False
    if not all(place.watch.kind in _READABLE for place in call.inputs):
        return False
    return _is_plain(call.given.spec) and _is_plain(call.out_spec)


def _can_check(watch: Watch) -> bool:
    if watch.kind == "content":
        return bool(watch.owner.flags.c_contiguous)
    if watch.kind == "keys":
        return type(watch.owner) is dict  # others keep their order elsewhere
    if watch.kind == "class":
        return hasattr(ctypes.pythonapi, "_PyType_Lookup")
    return watch.kind in (*_READABLE, "length", "layout", "type", "code", "defaults")


def _is_plain(spec: pytree.Spec) -> bool:
    kind = spec.kind
    known = kind in (None, tuple, list, dict, type(None)) or _is_named_tuple(kind)
    return (known or _has_fields(spec)) and all(_is_plain(child) for child in spec.children)


def _has_fields(spec: pytree.Spec) -> bool:
    """Whether a container is a dataclass whose instances hold their fields themselves."""
    if not is_dataclass(spec.kind) or spec.kind.__getattribute__ is not object.__getattribute__:
        return False
    names, static = spec.context
    found = [getattr_static(spec.kind, name, None) for name in names]
    computed = [x for x in found if hasattr(type(x), "__get__") and not ismemberdescriptor(x)]
    return not (static or computed)


def _is_named_tuple(kind: type) -> bool:
    """Whether a type is a tuple with names that Python has made, whose ``__new__`` does no more."""
    is_made = kind.__mro__[1:] == (tuple, object) and vars(kind).get("__slots__") == ()
    return is_made and hasattr(kind, "_fields")


def emit_pointers(module: Any, name: str, inner: Any, arena: int) -> None:
    """Adds a function of arrays that calls a program with their addresses and returns None.

    The last array is the program's memory, if the stack is too small for it. The function has no
    address of a Python object in it: None is a symbol of the interpreter.
    """
    f = PythonFunction(module, Symbols(module), name)
    pointers = []
    count = len(inner.args) - (arena <= STACK_ARENA)
    for place in range(count):
        array = f.b.load(f.b.gep(f.function.args[1], [f.word(place)]))
        pointers.append(f.field(array, _ARRAY_DATA, f.pointer))
    if count == len(inner.args):
        pointers[-1] = f.align(pointers[-1])
    else:
        pointers.append(f.stack_memory(arena))
    f.b.call(inner, pointers)
    none = ir.GlobalVariable(module, f.byte, _NONE) if _NONE not in module.globals else None
    f.b.ret(f.increase(none or module.globals[_NONE]))


class _Call(PythonFunction):
    """Writes the function of a signature."""

    def __init__(self, module: Any, symbols: Symbols, name: str, signature: Signature):
        super().__init__(module, symbols, name)
        self.signature = signature
        self.miss = self.function.append_basic_block("miss")
        self.undo = self.function.append_basic_block("undo")
        self.heap: Any = None  # memory that the call frees
        self.objects: dict[int, Any] = {}  # the arrays and numbers of the program's inputs

    def require(self, condition: Any) -> None:
        """Ends the function with a miss where a condition does not hold."""
        following = self.b.append_basic_block("ok")
        self.b.cbranch(condition, following, self.miss)
        self.b.position_at_end(following)

    def require_object(self, pointer: Any) -> None:
        """Ends the function where an allocation has failed; Python's error is set."""
        following, failed = self.b.append_basic_block("made"), self.b.append_basic_block("failed")
        self.b.cbranch(self.equal(pointer, self.null), failed, following)
        self.b.position_at_end(failed)
        self.b.ret(self.null)
        self.b.position_at_end(following)

    # --- guards -----------------------------------------------------------------------------------

    def check_state(self) -> None:
        """Checks the thread's state, and the names that the function reads from outside."""
        slot = self.b.alloca(self.pointer)
        variable = self.symbols.object(modes._state)
        status = self.call("PyContextVar_Get", self.int32, variable, self.null, slot)
        self.require(self.b.icmp_signed("==", status, self.int32(0)))
        now = self.b.load(slot)
        self.decrease(now)  # states are never freed
        call = self.signature.call
        self.require(self.equal(now, self.symbols.object(call.state)))
        for watch in call.watches:
            self.require(self._holds(watch))
        for tensor in call.tensors:
            for name in ("_array", "_flags"):
                same = self.symbols.object(getattr(tensor, name))
                offset = slot_offset(Tensor, name)
                self.require(self.field_is(self.symbols.object(tensor), offset, same))

    def _holds(self, watch: Watch) -> Any:
        """Whether a place has the object that it had; objects of watches of equal ones differ."""
        owner = self.symbols.object(watch.owner)
        if watch.kind == "length":
            return self.field_is(owner, _BODY, self.word(watch.value))
        if watch.kind == "layout":
            return self._same_layout(owner, watch)
        if watch.kind == "content":
            return self._same_content(owner, watch)
        if watch.kind == "keys":
            return self._same_keys(owner, watch)
        same = self.null if watch.value is EMPTY else self.symbols.object(watch.value)
        if watch.kind == "type":
            return self.field_is(owner, _TYPE, same)
        if watch.kind == "code":
            return self.field_is(owner, FUNCTION_OFFSETS["__code__"], same)
        if watch.kind == "defaults":
            none = self.null if watch.value is None else same
            return self.field_is(owner, FUNCTION_OFFSETS[watch.name], none)
        return self.equal(self._object_at(watch), same)

    def _object_at(self, watch: Watch) -> Any:
        """The object that a place has now, or NULL."""
        owner = self.symbols.object(watch.owner)
        if watch.kind == "cell":
            return self.field(owner, _BODY, self.pointer)
        if watch.kind == "slot":
            return self.field(owner, slot_offset(type(watch.owner), watch.name), self.pointer)
        if watch.kind == "element":  # its length has been compared
            return self.field(
                self.field(owner, _LIST_ITEMS, self.pointer), 8 * watch.name, self.pointer
            )
        find = "PyDict_GetItemWithError" if watch.kind == "item" else "_PyType_Lookup"
        return self.call(find, self.pointer, owner, self.symbols.object(watch.name))

    def _captured_arrays(self) -> dict[int, Any]:
        """The addresses of captured arrays, by the program's inputs."""
        arrays = {}
        for place in self.signature.call.inputs:
            array = self._object_at(place.watch)
            self.require(self.b.icmp_unsigned("!=", array, self.null))
            self.require_array(array, place)
            arrays[id(place.tensor)] = array
        found = {}
        for number, captured in self.signature.captured.items():
            array = arrays.get(id(captured.origin))
            if array is None:
                array = self.symbols.object(captured.array)
                self.require_array(array, captured.node)
            self.objects[number] = array
            found[number] = self.field(array, _ARRAY_DATA, self.pointer)
        return found

    def _same_layout(self, owner: Any, watch: Watch) -> Any:
        """Whether an array has its memory, flag `writeable`, dtype, shape and strides still."""
        (address, is_readonly), dtype, shape, strides = watch.value
        writeable = self.int32(_WRITEABLE)
        flag = self.b.and_(self.field(owner, _ARRAY_FLAGS, self.int32), writeable)
        self.require(self.equal(flag, self.int32(0) if is_readonly else writeable))
        self.require(self.field_is(owner, _ARRAY_DATA, self.symbols.address(address, "data")))
        self.require(self.field_is(owner, _ARRAY_DTYPE, self.symbols.object(dtype)))
        self.require(self.field_is(owner, _ARRAY_NDIM, self.int32(len(shape))))
        return self.b.and_(
            *(
                self._has_axes(owner, offset, numbers)
                for offset, numbers in ((_ARRAY_SHAPE, shape), (_ARRAY_STRIDES, strides))
            )
        )

    def _has_axes(self, array: Any, offset: int, numbers: tuple[int, ...]) -> Any:
        """Whether the shape or the strides of an array, at an offset, are these."""
        if not numbers:
            return ir.Constant(ir.IntType(1), 1)
        axes = self.field(array, offset, self.pointer)
        same = [self.field_is(axes, 8 * axis, self.word(n)) for axis, n in enumerate(numbers)]
        return functools.reduce(self.b.and_, same)

    def _values_of(self, owner: Any, keys: Sequence[Any]) -> list[Any]:
        """The values of a dict, whose keys have to be these, in this order."""
        self.require(self.field_is(owner, _BODY, self.word(len(keys))))
        place, key, value = (self.b.alloca(k) for k in (self.word, self.pointer, self.pointer))
        self.b.store(self.word(0), place)
        found = []
        for known in keys:
            has_next = self.call("PyDict_Next", self.int32, owner, place, key, value)
            self.require(self.b.icmp_signed("!=", has_next, self.int32(0)))
            self.require(self.equal(self.b.load(key), self.symbols.object(known)))
            found.append(self.b.load(value))
        return found

    def _same_keys(self, owner: Any, watch: Watch) -> Any:
        """Whether a dict has its keys still, in their order."""
        self._values_of(owner, watch.value)
        return ir.Constant(ir.IntType(1), 1)

    def _same_content(self, owner: Any, watch: Watch) -> Any:
        """Whether an array has its elements still."""
        copy = self.symbols.address(watch.value.__array_interface__["data"][0], "copy")
        self.symbols.kept.append(watch.value)
        address = self.field(owner, _ARRAY_DATA, self.pointer)  # its layout has been compared
        size = self.word(watch.owner.nbytes)
        return self.equal(self.call("memcmp", self.int32, address, copy, size), self.int32(0))

    def unpack(self, spec: pytree.Spec, value: Any) -> list[Any]:
        """The leaves of an argument, whose structure is checked."""
        if spec.kind is None:
            return [value]
        if spec.kind is type(None):
            self.require(self.equal(value, self.symbols.object(None)))
            return []
        self.require(self.field_is(value, _TYPE, self.symbols.object(spec.kind)))
        found: list[Any] = []
        if spec.kind is dict:
            values = self._values_of(value, spec.context[0])
        elif is_dataclass(spec.kind):
            values = [self._attribute(value, name) for name in spec.context[0]]
        else:
            values = self._items_of(value, spec)
        for child, item in zip(spec.children, values, strict=True):
            found += self.unpack(child, item)
        return found

    def _attribute(self, owner: Any, name: str) -> Any:
        """An attribute that an object holds."""
        found = self.call("PyObject_GetAttr", self.pointer, owner, self.symbols.object(name))
        with self.b.if_then(self.equal(found, self.null), likely=False):
            self.call("PyErr_Clear", ir.VoidType())
            self.b.branch(self.miss)
        self.decrease(found)
        return found

    def _items_of(self, value: Any, spec: pytree.Spec) -> list[Any]:
        """The items of a tuple or list, whose length is checked."""
        self.require(self.field_is(value, _BODY, self.word(len(spec.children))))
        items, start = value, _TUPLE_ITEMS
        if spec.kind is list:
            items, start = self.field(value, _LIST_ITEMS, self.pointer), 0
        places = range(len(spec.children))
        return [self.field(items, start + 8 * place, self.pointer) for place in places]

    def input_pointer(self, leaf: Leaf, value: Any) -> Any:
        """The address of an argument's elements; type, dtype, shape and layout are checked."""
        self.objects[leaf.input] = value
        if leaf.kind == "static":
            self.require(self.equal(value, self.symbols.object(leaf.value)))
            return None
        if leaf.kind == "number":
            return self._number(leaf.value, value)
        if leaf.kind == "scalar":
            self.require(self.field_is(value, _TYPE, self.symbols.object(leaf.value)))
            return self.b.gep(value, [self.word(_BODY)])
        if leaf.kind == "tensor":
            is_tensor = self.field_is(value, _TYPE, self.symbols.object(Tensor))
            flags = self.symbols.object(CPU_FLAGS)
            has_flags = self.field_is(value, slot_offset(Tensor, "_flags"), flags)
            self.require(self.b.and_(is_tensor, has_flags))
            value = self.field(value, slot_offset(Tensor, "_array"), self.pointer)
            self.objects[leaf.input] = value
        assert leaf.node is not None
        self.require_array(value, leaf.node)
        return self.field(value, _ARRAY_DATA, self.pointer)

    def require_array(self, value: Any, node: Node | HiddenInput) -> None:
        """Ends the function with a miss where an object is no array that the program can read."""
        self.require(self.field_is(value, _TYPE, self.symbols.object(np.ndarray)))
        dtype = self.field(value, _ARRAY_DTYPE, self.pointer)
        order = self.byte(ord(node.dtype.byteorder))
        needed = self.int32(_CONTIGUOUS_AND_ALIGNED)
        flags = self.b.and_(self.field(value, _ARRAY_FLAGS, self.int32), needed)
        holds = [
            self.field_is(dtype, _DTYPE_NUMBER, self.int32(node.dtype.num)),
            self.field_is(dtype, _DTYPE_ORDER, order),
            self.field_is(value, _ARRAY_NDIM, self.int32(len(node.shape))),
            self.equal(flags, needed),
        ]
        self.require(functools.reduce(self.b.and_, holds))
        if node.shape:
            self.require(self._has_axes(value, _ARRAY_SHAPE, node.shape))

    def _number(self, kind: type, value: Any) -> Any:
        self.require(self.field_is(value, _TYPE, self.symbols.object(kind)))
        if kind in (float, complex):
            return self.b.gep(value, [self.word(_BODY)])
        slot, overflow = self.b.alloca(self.word), self.b.alloca(self.int32)
        number = self.call("PyLong_AsLongLongAndOverflow", self.word, value, overflow)
        self.require(self.b.icmp_signed("==", self.b.load(overflow), self.int32(0)))
        self.b.store(number, slot)
        return self.b.bitcast(slot, self.pointer)

    def read_arguments(self) -> dict[int, Any]:
        """The addresses of the program's inputs; everything that the signature says is checked."""
        signature, word = self.signature, self.word
        positional, by_name = signature.call.given.spec.children
        _, _, count, names = self.function.args
        self.require(self.equal(count, word(len(positional.children))))
        if by_name.children:
            self.require(self.b.icmp_unsigned("!=", names, self.null))
            self.require(self.field_is(names, _BODY, word(len(by_name.children))))
            for place, name in enumerate(by_name.context[0]):
                known = self.symbols.object(name)
                self.require(self.field_is(names, _TUPLE_ITEMS + 8 * place, known))
        else:
            self.require(self.equal(names, self.null))
        self.check_state()
        found = self._captured_arrays()
        leaves: list[Any] = []
        for place, child in enumerate((*positional.children, *by_name.children)):
            argument = self.b.load(self.b.gep(self.function.args[1], [word(place)]))
            leaves += self.unpack(child, argument)
        for leaf, value in zip(signature.leaves, leaves, strict=True):
            pointer = self.input_pointer(leaf, value)
            if leaf.input >= 0:
                found[leaf.input] = pointer
        return found

    # --- results ----------------------------------------------------------------------------------

    def make_targets(self, outputs: list[Node], checks: set[int]) -> tuple[dict[int, Any], Any]:
        """New arrays for the outputs that are arrays, and the addresses of all outputs."""
        results = self.signature.results
        single = checks.union(r.value for r in results if r.kind in ("number", "scalar"))
        arrays: dict[int, Any] = {}
        targets = []
        for place, node in enumerate(outputs):
            if place in single:
                slot = self.b.alloca(ir.ArrayType(self.byte, 16))
                targets.append(self.b.bitcast(slot, self.pointer))
            else:
                array = arrays[place] = self.make_array(node)
                self.require_object(array)
                targets.append(self.field(array, _ARRAY_DATA, self.pointer))
        return arrays, targets

    def make_array(self, node: Node) -> Any:
        """A new array for an output."""
        shape = self.null
        if node.shape:
            kind = ir.ArrayType(self.word, len(node.shape))
            name = self.module.get_unique_name("shape")
            variable = ir.GlobalVariable(self.module, kind, name)
            variable.initializer = ir.Constant(kind, list(node.shape))
            variable.linkage = "internal"
            shape = variable.bitcast(self.pointer)
        dtype = self.increase(self.symbols.object(node.dtype))
        args = [self.symbols.object(np.ndarray), dtype, self.int32(len(node.shape)), shape]
        args += [self.null, self.null, self.int32(0), self.null]  # strides, data, flags, owner
        address = self.symbols.address(numpy_table()[_NEW_ARRAY], "new_array")
        kind = ir.FunctionType(self.pointer, [arg.type for arg in args])
        return self.b.call(self.b.bitcast(address, kind.as_pointer()), args)

    def make_scalar(self, node: Node, slot: Any) -> Any:
        """A scalar of NumPy for an output without axes."""
        kind = ir.FunctionType(self.pointer, [self.pointer] * 3).as_pointer()
        address = self.symbols.address(numpy_table()[_NEW_SCALAR], "new_scalar")
        dtype = self.symbols.object(node.dtype)
        return self.b.call(self.b.bitcast(address, kind), [slot, dtype, self.null])

    def make_number(self, node: Node, slot: Any) -> Any:
        """A Python number of an output without axes."""
        kind, double = node.dtype.kind, ir.DoubleType()
        if kind == "b":
            truth = self.field(slot, 0, self.byte)
            chosen = self.b.select(
                self.b.icmp_unsigned("!=", truth, self.byte(0)),
                self.symbols.object(True),
                self.symbols.object(False),
            )
            return self.increase(chosen)
        if kind in "iu":
            number = self.field(slot, 0, ir.IntType(8 * node.dtype.itemsize))
            if node.dtype.itemsize < 8:
                number = (self.b.sext if kind == "i" else self.b.zext)(number, self.word)
            name = "PyLong_FromLongLong" if kind == "i" else "PyLong_FromUnsignedLongLong"
            return self.call(name, self.pointer, number)
        part = double if node.dtype.char in "dD" else ir.FloatType()
        size = 8 if node.dtype.char in "dD" else 4
        parts = [self.field(slot, n * size, part) for n in range(2 if kind == "c" else 1)]
        parts = [p if size == 8 else self.b.fpext(p, double) for p in parts]
        name = "PyComplex_FromDoubles" if kind == "c" else "PyFloat_FromDouble"
        return self.call(name, self.pointer, *parts)

    def make_tensor(self, array: Any) -> Any:
        """A new tensor around an array."""
        kind = self.symbols.object(Tensor)
        tensor = self.call("PyType_GenericAlloc", self.pointer, kind, self.word(0))
        none = self.symbols.object(None)
        fields = {"_array": array, "_flags": self.increase(self.symbols.object(CPU_FLAGS))}
        fields |= {name: self.increase(none) for name in ("_edge", "_counter", "_meta")}
        for name, value in fields.items():
            self.b.store(value, self.field_address(tensor, slot_offset(Tensor, name), self.pointer))
        return tensor

    def finish(self, result: Any) -> None:
        """Counts the call and returns its result; writes what a miss does."""
        b = self.b
        hits = b.bitcast(self.symbols.address(self.signature.hits, "hits"), self.word.as_pointer())
        b.store(b.add(b.load(hits), self.word(1)), hits)
        b.ret(result)
        b.position_at_end(self.miss)
        other = self.symbols.object(self.signature.call.otherwise, "otherwise")
        arguments = self.function.args[1:]
        b.ret(self.call("PyObject_Vectorcall", self.pointer, other, *arguments))

    def _make_empty(self, kind: type) -> tuple[Any, str]:
        """A dict or an instance without items or fields, and the function that adds one."""
        if kind is dict:
            return self.call("PyDict_New", self.pointer), "PyDict_SetItem"
        given = self.symbols.object(object.__new__), self.symbols.object(kind)
        made = self.call("PyObject_CallOneArg", self.pointer, *given)
        return made, "PyObject_GenericSetAttr"  # also of frozen classes

    def build(self, spec: pytree.Spec, leaves: list[Any]) -> Any:
        """The result's containers around its leaves, which are used up."""
        if spec.kind is None:
            return leaves.pop(0)
        if spec.kind is type(None):
            return self.increase(self.symbols.object(None))
        items = [self.build(child, leaves) for child in spec.children]
        if spec.kind is dict or is_dataclass(spec.kind):
            made, write = self._make_empty(spec.kind)
            for key, item in zip(spec.context[0], items, strict=True):
                self.call(write, self.int32, made, self.symbols.object(key), item)
                self.call("Py_DecRef", ir.VoidType(), item)
            return made
        length = self.word(len(items))
        target, start = None, _TUPLE_ITEMS
        if spec.kind is list:
            made = self.call("PyList_New", self.pointer, length)
            target, start = self.field(made, _LIST_ITEMS, self.pointer), 0
        elif spec.kind is tuple:
            made = self.call("PyTuple_New", self.pointer, length)
        else:
            kind = self.symbols.object(spec.kind)
            made = self.call("PyType_GenericAlloc", self.pointer, kind, length)
        target = target or made
        for place, item in enumerate(items):
            self.b.store(item, self.field_address(target, start + 8 * place, self.pointer))
        return made


def emit_call(
    module: Any, symbols: Symbols, name: str, program: ProgramFunction, signature: Signature
) -> None:
    """Adds the function of a signature to a module."""
    call = _Call(module, symbols, name, signature)
    b, outputs = call.b, program.outputs
    given = call.read_arguments()
    arrays, targets = call.make_targets(outputs, program.checks)
    memory = _allocate(call, program.arena)
    arguments = [*(given[n] for n in range(program.inputs)), *targets, memory]
    # Another thread could replace and free an array that a place has.
    releases = program.work > _GIL_WORK and not signature.call.inputs
    state = call.call("PyEval_SaveThread", call.pointer) if releases else None
    kind = ir.FunctionType(ir.VoidType(), [call.pointer] * len(arguments))
    function = symbols.address(program.address, "program")
    b.call(b.bitcast(function, kind.as_pointer()), arguments)
    if releases:
        call.call("PyEval_RestoreThread", ir.VoidType(), state)
    if program.arena > STACK_ARENA:
        call.call("PyMem_RawFree", ir.VoidType(), call.heap)
    _check_flags(call, [targets[place] for place in sorted(program.checks)])
    made: list[Any] = []
    for kind, value in signature.results:
        if kind == "constant":
            made.append(call.increase(symbols.object(value)))
        elif kind == "number":
            made.append(call.make_number(outputs[value], targets[value]))
        elif kind == "scalar":
            made.append(call.make_scalar(outputs[value], targets[value]))
        else:
            made.append(call.make_tensor(arrays[value]) if kind == "tensor" else arrays[value])
    call.finish(call.build(signature.call.out_spec, made))
    b.position_at_end(call.undo)
    for array in arrays.values():
        call.call("Py_DecRef", ir.VoidType(), array)
    b.branch(call.miss)


def emit_steps_call(
    module: Any, symbols: Symbols, name: str, steps: Any, inputs: int, signature: Signature
) -> None:
    """Adds the function of a signature whose program is a function of Python (``steps.py``).

    Where that raises, the general path calls it again, and finds the error that is due.
    """
    call = _Call(module, symbols, name, signature)
    b = call.b
    call.read_arguments()
    slots = b.alloca(call.pointer, size=call.word(max(1, inputs)))
    for place in range(inputs):
        b.store(call.objects[place], b.gep(slots, [call.word(place)]))
    function = symbols.object(steps, "steps")
    arguments = (function, slots, call.word(inputs), call.null)
    found = call.call("PyObject_Vectorcall", call.pointer, *arguments)
    with b.if_then(call.equal(found, call.null), likely=False):
        kind = symbols.object(Exception)
        is_error = call.call("PyErr_ExceptionMatches", call.int32, kind)
        with b.if_then(b.icmp_signed("==", is_error, call.int32(0))):
            b.ret(call.null)
        call.call("PyErr_Clear", ir.VoidType())
        b.branch(call.miss)
    with b.if_then(call.equal(found, symbols.object(MISS)), likely=False):
        b.branch(call.undo)
    call.finish(found)
    b.position_at_end(call.undo)
    call.call("Py_DecRef", ir.VoidType(), found)
    b.branch(call.miss)


def _allocate(call: _Call, size: int) -> Any:
    """Memory for one call: on the stack, or from the heap."""
    b = call.b
    if size <= STACK_ARENA:
        return call.stack_memory(size)
    call.heap = call.call("PyMem_RawMalloc", call.pointer, call.word(size + ALIGNMENT))
    with b.if_then(call.equal(call.heap, call.null)):
        b.ret(call.call("PyErr_NoMemory", call.pointer))
    return call.align(call.heap)


def _check_flags(call: _Call, flags: list[Any]) -> None:
    """Ends the function with a miss, and frees the results, where a check of the program fails."""
    for flag in flags:
        following = call.b.append_basic_block("holds")
        holds = call.b.icmp_unsigned("!=", call.b.load(flag), call.byte(0))
        call.b.cbranch(holds, following, call.undo)
        call.b.position_at_end(following)
