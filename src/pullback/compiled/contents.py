"""Captured arrays whose elements need no comparison between calls, because only a graph reads them.

A graph reads a captured array from its own memory in each run. NumPy or Python may have read the
same array while the function was traced: in ``np.sin(w) * x + w`` the sine is a constant of the
graph, and ``if w[0] > 0`` has chosen the path. The elements of a plain array are left alone where
neither can be: it holds floating-point numbers, NumPy has made no constant of the graph, and no
code of the function branches or turns elements into numbers of Python. Reads of tensors are seen by
the tracer, so that their memory is compared only where NumPy has an array of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pullback._cpython import read_instructions
from pullback.compiled.reach import is_library
from pullback.compiled.watch import OF_TENSOR, Watch, owners_of_arrays
from pullback.fx.tracer import Tracer
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import ContentVersion

__all__ = ["choose_watches"]

_READERS = (
    *("float", "int", "complex", "bool", "round", "divmod", "min", "max", "any", "all", "sorted"),
    *("filter", "str", "repr", "format", "hash", "eval", "exec", "item", "tolist", "tobytes"),
    *("allclose", "array_equal", "array_equiv", "count_nonzero", "argmax", "argmin", "astype"),
    *("nanargmax", "nanargmin", "searchsorted", "digitize", "bool_", "intp", "int_", "int8"),
    *("int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""Names of what makes integers, truth values or Python's numbers of elements."""
_BRANCHES = ("POP_JUMP", "JUMP_IF", "COMPARE_OP", "CONTAINS_OP", "MATCH_")
_BLIND_PACKAGES = ("numpy", "pullback")  # libraries that return no numbers of Python


def choose_watches(
    watches: Iterable[Watch],
    tracer: Tracer,
    outputs: Iterable[Any],
    functions: Iterable[FunctionType],
) -> list[Watch]:
    """The watches that a graph needs.

    Args:
        watches: all that the function may read.
        tracer: with the graph.
        outputs: nodes and constants that the graph returns.
        functions: the user's functions that it may call.
    """
    watches = list(watches)
    contents = [watch for watch in watches if watch.kind == "content"]
    plain = {id(owner_of(watch.owner)) for watch in contents if watch.name != OF_TENSOR}
    in_graph = {id(owner_of(array)) for array in tracer.captured.values()}
    exposed = {id(owner_of(root)) for root in tracer.exposed.values()}
    outside = owners_of_arrays(watches)
    has_only_graph = not _has_constants(tracer, outputs, outside) and all(map(_is_blind, functions))

    def is_read_by_graph(watch: Watch) -> bool:
        if watch.kind != "content":
            return False
        owner = id(owner_of(watch.owner))
        if owner in exposed or owner not in plain:
            return owner not in exposed
        return has_only_graph and owner in in_graph and watch.owner.dtype.kind in "fc"

    return [watch for watch in watches if not is_read_by_graph(watch)]


def _has_constants(tracer: Tracer, outputs: Iterable[Any], outside: set[int]) -> bool:
    """Whether a graph has constants that NumPy may have made of captured arrays."""
    made = [
        name
        for name, array in tracer.captured.items()
        if id(owner_of(array)) not in outside
        and id(array) not in tracer.literals
        and _is_plain(tracer, name)
    ]
    scalars = [x for node in tracer.graph.nodes for x in node.args if isinstance(x, np.generic)]
    return bool(made or scalars) or any(isinstance(x, np.ndarray | np.generic) for x in outputs)


def _is_plain(tracer: Tracer, name: str) -> bool:
    """Whether a captured value is an array, and not that of a tensor from outside."""
    origin = tracer.origins.get(name)
    return origin is None or type(origin._counter) is ContentVersion


def _is_blind(function: FunctionType) -> bool:
    """Whether what a function does cannot depend on elements of arrays that NumPy reads."""
    names = _names_of_blind_code(function.__code__)
    if names is None:
        return False
    space = function.__globals__
    return not any(name in space and _may_read(space[name]) for name in names)


def _may_read(value: Any) -> bool:
    """Whether a global is of a library whose functions may return numbers of Python."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return is_library(value) and str(module).partition(".")[0] not in _BLIND_PACKAGES


@functools.lru_cache(maxsize=4096)
def _names_of_blind_code(code: CodeType) -> frozenset[str] | None:
    """The names in code without branches and readers, and in the code inside it; else None."""
    names = set(code.co_names)
    if not names.isdisjoint(_READERS):
        return None
    steps = read_instructions(code)
    if steps is None or any(step.opname.startswith(_BRANCHES) for step in steps):
        return None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names_of_blind_code(constant)
            if inner is None:
                return None
            names |= inner
    return frozenset(names)
