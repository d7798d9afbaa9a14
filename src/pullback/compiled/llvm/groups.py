"""Groups of large nodes as functions with one pointer for each input and output.

``registers.py`` calls such a function where its program meets large values, and a segment that is
all large is one.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.llvm.arrays import emit_arrays
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.lowering.ir import Graph

__all__ = ["emit_group"]


def emit_group(module: Any, name: str, graph: Graph) -> tuple[Any, int]:
    """Adds ``void name(i8* inputs..., i8* outputs..., i8* memory)`` of a graph to a module.

    Returns the function and the bytes of its memory. The graph has neither loops nor opaque calls.
    """
    emitted = emit_arrays(graph, module, f"{name}_arrays")
    pointer, word = ir.IntType(8).as_pointer(), ir.IntType(64)
    inputs, outputs = len(graph.inputs), len(emitted.outputs)
    kind = ir.FunctionType(ir.VoidType(), [pointer] * (inputs + outputs + 1))
    function = ir.Function(module, kind, name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    table = builder.alloca(pointer, size=word(len(function.args)))
    for place, entry in enumerate(function.args):
        builder.store(entry, builder.gep(table, [word(place)]))
    builder.call(module.globals[emitted.name], [table])
    builder.ret_void()
    return function, emitted.memory
