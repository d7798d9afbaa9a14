"""LLVM code of groups of element-wise operators, and functions of Python around it.

The function of a group takes its results and operands as arrays, reads the pointers to their data
and runs one nest of loops with the shapes and strides of the trace. The caller guarantees these:
they are part of the signature, or follow from it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.compiled.fuse import Group
from pullback.compiled.machine import compile_module, ir, name_address
from pullback.fx.node import Node
from pullback.tensor.tensor import as_operand

__all__ = ["emit_groups", "operand_strides"]

_METH_FASTCALL = 0x80
_NONE = "pullback_none"  # the symbol of Python's None
_DATA_OFFSET = 16  # of the pointer to the data in an array object, behind the object's head


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def emit_groups(groups: list[Group]) -> tuple[list[Callable[..., None]], str]:
    """Compiles groups; returns a function for each, and the text of the module.

    A function takes the arrays of the group's outputs, then of its inputs.
    """
    name_address(_NONE, id(None))
    module = ir.Module(name="pullback")
    for number, group in enumerate(groups):
        _Emitter(module, group, f"group{number}").emit()
    engine, text = compile_module(module)
    functions = []
    for number in range(len(groups)):
        address = engine.get_function_address(f"group{number}")
        functions.append(_python_function(address, engine))
    return functions, text


def _python_function(address: int, engine: Any) -> Callable[..., None]:
    """A function of Python at an address; it keeps the engine, and so the code, alive."""
    definition = _MethodDef(b"compiled_group", address, _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., None] = make(ctypes.byref(definition), (definition, engine), None)
    return function


def operand_strides(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an operand in bytes, broadcast to the shape of its group."""
    if node.target is as_operand:
        return (0,) * len(shape)
    meta = node.meta["tensor_meta"]
    lead = len(shape) - len(meta.shape)
    own = [0 if n == 1 else step for n, step in zip(meta.shape, meta.strides, strict=True)]
    return (0,) * lead + tuple(own)


def _merged(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> Any:
    """Shape and strides with neighbouring axes joined that every array runs through in one step."""
    axes = [a for a, n in enumerate(shape) if n != 1]
    lengths = [shape[a] for a in axes]
    steps = [[s[a] for a in axes] for s in strides]
    place = len(lengths) - 2
    while place >= 0:
        if all(s[place] == s[place + 1] * lengths[place + 1] for s in steps):
            lengths[place : place + 2] = [lengths[place] * lengths[place + 1]]
            for s in steps:
                del s[place]
        place -= 1
    return lengths, steps


class _Emitter:
    """Writes the function of one group."""

    def __init__(self, module: Any, group: Group, name: str):
        self.module = module
        self.group = group
        self.name = name
        self.element = ir.DoubleType() if group.dtype == np.float64 else ir.FloatType()
        self.byte = ir.IntType(8)
        self.word = ir.IntType(64)
        self.pointer = self.byte.as_pointer()

    def emit(self) -> None:
        """Writes loops, and around them a function with CPython's convention."""
        group = self.group
        arrays = [*group.outputs, *group.inputs]
        kind = ir.FunctionType(ir.VoidType(), [self.pointer] * len(arrays))
        loops = ir.Function(self.module, kind, f"{self.name}_loops")
        loops.linkage = "internal"
        for argument in loops.args[: len(group.outputs)]:
            argument.add_attribute("noalias")
        strides = [self._strides(node) for node in group.outputs]
        strides += [operand_strides(node, group.shape) for node in group.inputs]
        lengths, steps = _merged(group.shape, strides)
        builder = ir.IRBuilder(loops.append_basic_block("entry"))
        self._loop(builder, lengths, list(loops.args), steps)
        builder.ret_void()
        self._entry(loops, len(arrays))

    def _strides(self, node: Node) -> tuple[int, ...]:
        step = node.meta["tensor_meta"].dtype.itemsize
        strides = []
        for length in reversed(self.group.shape):
            strides.append(step)
            step *= length
        return tuple(reversed(strides))

    def _entry(self, loops: Any, count: int) -> None:
        """``PyObject *f(PyObject *self, PyObject **args, Py_ssize_t n)``, which returns None."""
        kind = ir.FunctionType(self.pointer, [self.pointer, self.pointer.as_pointer(), self.word])
        entry = ir.Function(self.module, kind, self.name)
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        pointers = []
        for place in range(count):
            array = builder.load(builder.gep(entry.args[1], [self.word(place)]))
            field = builder.gep(array, [self.word(_DATA_OFFSET)])
            field = builder.bitcast(field, self.pointer.as_pointer())
            pointers.append(builder.load(field))
        builder.call(loops, pointers)
        none = self.module.globals.get(_NONE) or ir.GlobalVariable(self.module, self.word, _NONE)
        builder.store(builder.add(builder.load(none), self.word(1)), none)  # a new reference
        builder.ret(builder.bitcast(none, self.pointer))

    def _loop(self, b: Any, lengths: list[int], pointers: list[Any], steps: list[Any]) -> None:
        """A nest of loops; each moves all pointers by their strides along one axis."""
        if not lengths:
            self._element(b, pointers)
            return
        start, body = b.block, b.append_basic_block("body")
        b.branch(body)
        b.position_at_end(body)
        counter = b.phi(self.word)
        counter.add_incoming(self.word(0), start)
        moved = [
            b.gep(p, [b.mul(counter, self.word(s[0]))]) if s[0] else p
            for p, s in zip(pointers, steps, strict=True)
        ]
        self._loop(b, lengths[1:], moved, [s[1:] for s in steps])
        following = b.add(counter, self.word(1))
        counter.add_incoming(following, b.block)
        end = b.append_basic_block("end")
        b.cbranch(b.icmp_unsigned("<", following, self.word(lengths[0])), body, end)
        b.position_at_end(end)

    # --- elements ---------------------------------------------------------------------------------

    def _element(self, b: Any, pointers: list[Any]) -> None:
        group = self.group
        targets = pointers[: len(group.outputs)]
        values: dict[Node, Any] = {}
        for node, pointer in zip(group.inputs, pointers[len(targets) :], strict=True):
            values[node] = self._load(b, node, pointer)
        for node in group.nodes:
            values[node] = self._compute(b, node, values)
        for node, pointer in zip(group.outputs, targets, strict=True):
            if node.meta["tensor_meta"].dtype == bool:
                b.store(b.zext(values[node], self.byte), pointer)
            else:
                b.store(values[node], b.bitcast(pointer, self.element.as_pointer()), align=1)

    def _load(self, b: Any, node: Node, pointer: Any) -> Any:
        is_truth = node.target is not as_operand and node.meta["tensor_meta"].dtype == bool
        if is_truth:
            return b.icmp_unsigned("!=", b.load(pointer), self.byte(0))
        return b.load(b.bitcast(pointer, self.element.as_pointer()), align=1)

    def _constant(self, value: float) -> Any:
        if self.element == ir.FloatType():
            value = struct.unpack("f", struct.pack("f", np.float32(value)))[0]
        return ir.Constant(self.element, float(value))

    def _compute(self, b: Any, node: Node, values: dict[Node, Any]) -> Any:
        name = node.target.overloadpacket.__name__
        given = node.args[:1] if name == "broadcast_to" else node.args
        args = [values[v] if isinstance(v, Node) else self._constant(v) for v in given]
        if name != "where" and not name.startswith("logical"):
            args = [self._as_float(b, a) if self._mixes(given) else a for a in args]
        if name in ("broadcast_to", "clone"):
            return args[0]
        if name in _SIMPLE:
            return _SIMPLE[name](b, *args)
        if name in _COMPARISONS:
            return self._compare(b, name, *args)
        if name == "pow" and not isinstance(given[1], Node) and given[1] == 2:
            return b.fmul(args[0], args[0])
        if name == "reciprocal":
            return b.fdiv(self._constant(1.0), args[0])
        if name in ("abs", "sqrt"):
            intrinsic = "llvm.fabs" if name == "abs" else "llvm.sqrt"
            return b.call(self.module.declare_intrinsic(intrinsic, [self.element]), args)
        if name in ("maximum", "minimum"):
            sign = ">=" if name == "maximum" else "<="
            first = b.or_(b.fcmp_ordered(sign, *args), b.fcmp_unordered("uno", args[0], args[0]))
            return b.select(first, *args)
        return self._call(b, name, args)

    def _mixes(self, given: tuple[Any, ...]) -> bool:
        return len(given) > 1 or not isinstance(given[0], Node)

    def _as_float(self, b: Any, value: Any) -> Any:
        return b.uitofp(value, self.element) if value.type == ir.IntType(1) else value

    def _compare(self, b: Any, name: str, first: Any, second: Any) -> Any:
        sign = _COMPARISONS[name]
        if sign == "!=":
            return b.fcmp_unordered("!=", first, second)
        return b.fcmp_ordered(sign, first, second)

    def _call(self, b: Any, name: str, args: list[Any]) -> Any:
        kind = ir.FunctionType(self.element, [self.element] * len(args))
        known = self.module.globals.get(name)
        return b.call(known or ir.Function(self.module, kind, name), args)


_SIMPLE: dict[str, Callable[..., Any]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "neg": lambda b, x: b.fneg(x),
    "square": lambda b, x: b.fmul(x, x),
    "where": lambda b, c, x, y: b.select(c, x, y),
    "logical_and": lambda b, x, y: b.and_(x, y),
    "logical_or": lambda b, x, y: b.or_(x, y),
    "logical_not": lambda b, x: b.not_(x),
}
_COMPARISONS = {
    "eq": "==",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
    "ne": "!=",
}
