"""Instructions that all emitters write: declarations, loops and shuffles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.compiled.llvm.compiler import ir

__all__ = [
    "clamp",
    "declare",
    "emit_loop",
    "emit_vectors",
    "join_vectors",
    "new_function",
    "number_in_lanes",
    "shuffle",
    "splat",
    "vector_type",
]


def vector_type(element: Any, width: int) -> Any:
    """The type of `width` elements: a vector, or the element itself."""
    return element if width == 1 else ir.VectorType(element, width)


def declare(module: Any, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """A function of the process, an intrinsic or one of the module, declared at its first use."""
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, arguments), name)


def new_function(
    module: Any,
    name: str,
    arguments: Sequence[Any],
    result: Any = None,
    *,
    is_internal: bool = False,
) -> Any:
    """A builder at the beginning of a new function; one without a type of its result is void."""
    kind = ir.FunctionType(result or ir.VoidType(), arguments)
    function = ir.Function(module, kind, name)
    if is_internal:
        function.linkage = "internal"
    return ir.IRBuilder(function.append_basic_block("entry"))


def number_in_lanes(kind: Any, number: float) -> Any:
    """A number in each lane of a type; the same object for equal ones, because its text is long."""
    return _number_in_lanes(kind, number, repr(number))


@functools.lru_cache(maxsize=1 << 12)
def _number_in_lanes(kind: Any, number: float, _: str) -> Any:  # 0.0 == -0.0, but for their texts
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


@functools.lru_cache(maxsize=1 << 14)
def _mask(lanes: tuple[int, ...]) -> Any:
    """The constant of a shuffle; the same object for equal lanes, because its text is long."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))


def shuffle(builder: Any, x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """A vector of lanes of two vectors, which are numbered one behind the other."""
    return builder.shuffle_vector(x, y, _mask(tuple(lanes)))


def splat(builder: Any, element: Any, width: int) -> Any:
    """A vector with a scalar in all lanes; of one lane, the scalar itself."""
    if width == 1:
        return element
    empty = ir.Constant(ir.VectorType(element.type, width), ir.Undefined)
    first = builder.insert_element(empty, element, ir.IntType(32)(0))
    return shuffle(builder, first, first, (0,) * width)


def join_vectors(builder: Any, parts: Sequence[Any]) -> Any:
    """Vectors of one width behind each other; the last is repeated where they are no power of 2."""
    while len(parts) > 1:
        parts = [*parts, *parts[-1:]] if len(parts) % 2 else parts
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffle(builder, x, y, range(2 * x.type.count)) for x, y in pairs]
    return parts[0]


def clamp(builder: Any, positions: Any, size: int) -> Any:
    """Positions in `size` elements; the first or the last one in the place of others."""
    low, high = (number_in_lanes(positions.type, n) for n in (0, max(size - 1, 0)))
    positions = builder.select(builder.icmp_signed("<", positions, low), low, positions)
    return builder.select(builder.icmp_signed(">", positions, high), high, positions)


def emit_loop(builder: Any, first: Any, last: Any, step: int, body: Callable[[Any], None]) -> None:
    """Runs `body` with indices from `first`, which are below `last`; maybe never.

    The bounds are numbers, or int64 values of the program.
    """
    word = ir.IntType(64)
    is_known = isinstance(first, int) and isinstance(last, int)
    if is_known and first >= last:
        return
    if is_known and first + step >= last:
        body(word(first))
        return
    first, last = (word(x) if isinstance(x, int) else x for x in (first, last))
    before = builder.block
    head, end = builder.append_basic_block("loop"), builder.append_basic_block("end")
    if is_known:
        builder.branch(head)
    else:
        builder.cbranch(builder.icmp_signed("<", first, last), head, end)
    builder.position_at_end(head)
    index = builder.phi(word)
    index.add_incoming(first, before)
    body(index)
    following = builder.add(index, word(step))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, last), head, end)
    builder.position_at_end(end)


def emit_vectors(builder: Any, length: int, width: int, body: Callable[[Any, int], None]) -> None:
    """Runs `body` with the index and the width of each vector: full ones, then one of the rest."""
    full = length // width * width
    emit_loop(builder, 0, full, width, lambda index: body(index, width))
    if full < length:
        body(ir.IntType(64)(full), length - full)
