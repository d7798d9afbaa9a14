"""Arguments of operators as a tracer reads them: integers, indices, tensors, written arrays."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.fx.node import Node
from pullback.fx.traced_array import TracedArray
from pullback.schema.types import BaseTy
from pullback.tensor.tensor import Tensor, holds_number, wrap

__all__ = [
    "as_array_pair",
    "integer_arguments",
    "integer_index",
    "tensor_pairs",
    "written_arrays",
]


_COMPUTED = (BaseTy.Tensor, BaseTy.Scalar, BaseTy.float)


@functools.lru_cache(maxsize=4096)
def integer_arguments(schema: Any) -> tuple[list[str], frozenset[str]]:
    """The names of positional arguments, and those of all that decide about the structure.

    These are integers, truth values, slices, places of ``split``: all but tensors and numbers.
    """
    names = [argument.name for argument in schema.arguments.flat_positional]
    return names, frozenset(
        argument.name
        for argument in schema.arguments.flat_all
        if not any(map(argument.type.is_base_ty_like, _COMPUTED))
    )


def written_arrays(operator: Any, args: Any, kwargs: Any) -> list[NDArray[Any]]:
    """The arrays that a call of an operator writes to."""
    found: list[NDArray[Any]] = []
    names = [argument.name for argument in operator.schema.arguments.flat_positional]
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    for argument in operator.schema.arguments.flat_all:
        if not argument.is_write:
            continue
        value = values.get(argument.name)
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if isinstance(tensor, Tensor):
                held = tensor._array
                found.append(held.value if isinstance(held, TracedArray) else held)
    return found


def integer_index(pair: Any) -> list[Any]:
    """The nodes and values of an index of integers, one for each axis; empty for another one."""
    found: list[Any] = []
    for node, real in zip(*pair, strict=True):
        if real is None:
            found.append((None, None))
        elif real.ndim or real.dtype.kind not in "iu":
            return []
        else:
            found.append((node, int(real._array)))
    return found


def tensor_pairs(values: Any, pairs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors among arguments, and the real tensors that stand for them."""
    for value, pair in zip(values, pairs, strict=True):
        if isinstance(value, Tensor):
            yield value, pair[1]
        elif isinstance(value, list | tuple):
            for item, real in zip(value, pair[1], strict=True):
                if isinstance(item, Tensor):
                    yield item, real


def as_array_pair(symbol: Any, real: Any) -> tuple[Any, Any]:
    """An item of a list of tensors: a traced number is an array without axes."""
    if isinstance(symbol, Node) and isinstance(real, Tensor) and holds_number(real):
        return symbol, wrap(np.asarray(real._array))
    return symbol, real
