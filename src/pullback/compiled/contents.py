"""Captured arrays whose elements need no comparison between calls, because only a graph reads them.

A graph reads a captured array from its own memory in each run. NumPy or Python may have read the
same array while the function was traced: in ``np.sin(w) * x + w`` the sine is a constant of the
graph, and ``if w[0] > 0`` has chosen the path. The elements of a plain array are left alone where
neither can be: it holds floating-point numbers, NumPy has made no constant of the graph, and no
code of the function may branch or make numbers of Python, or arrays of another kind or shape, of
elements: only names that are known to be harmless are taken to be so. Reads of tensors are seen by
the tracer, so that their memory is compared only where NumPy has an array of it.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterable
from numbers import Number
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pullback._cpython import Instruction, read_instructions
from pullback.compiled.reach import is_library
from pullback.compiled.watch import OF_TENSOR, Watch, owners_of_arrays
from pullback.fx.tracer import Tracer
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import ContentVersion

__all__ = ["choose_watches"]

_HARMLESS = frozenset(
    [
        *("T", "abs", "absolute", "add", "append", "arccos", "arccosh", "arcsin"),
        *("arcsinh", "arctan", "arctan2", "arctanh", "array", "asarray"),
        *("ascontiguousarray", "atleast_1d", "atleast_2d", "atleast_3d", "average"),
        *("broadcast_arrays", "broadcast_to", "cbrt", "ceil", "cholesky", "clip"),
        *("column_stack", "concatenate", "conj", "conjugate", "convolve", "copy", "cos"),
        *("cosh", "cov", "cross", "cumprod", "cumsum", "deg2rad", "det", "diag"),
        *("diagonal", "diff", "divide", "dot", "dstack", "dtype", "e", "eigh", "einsum"),
        *("empty", "empty_like", "enumerate", "exp", "exp2", "expand_dims", "expm1"),
        *("extend", "eye", "fft", "flatten", "flip", "fliplr", "flipud", "float32"),
        *("float64", "float_power", "floor", "fmax", "fmin", "full", "full_like"),
        *("geomspace", "hstack", "hypot", "identity", "imag", "inner", "inv"),
        *("isinstance", "items", "keys", "kron", "len", "linalg", "linspace", "list"),
        *("log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logspace"),
        *("matmul", "matrix_power", "maximum", "mean", "median", "meshgrid", "minimum"),
        *("moveaxis", "multi_dot", "multiply", "nan_to_num", "nanmean", "nansum"),
        *("ndarray", "ndim", "negative", "newaxis", "norm", "object", "ones", "ones_like"),
        *("outer", "pad", "percentile", "pi", "pinv", "pop", "positive", "power", "print"),
        *("prod", "qr", "quantile", "rad2deg", "range", "ravel", "real", "reciprocal"),
        *("repeat", "reshape", "reversed", "rint", "roll", "rot90", "sign", "sin", "sinc"),
        *("sinh", "size", "slice", "slogdet", "solve", "split", "sqrt", "square"),
        *("squeeze", "stack", "staticmethod", "std", "subtract", "sum", "super", "svd"),
        *("swapaxes", "take", "tan", "tanh", "tensordot", "tile", "trace", "transpose"),
        *("trapezoid", "trapz", "tril", "triu", "true_divide", "trunc", "tuple", "update"),
        *("values", "vander", "var", "vdot", "vstack", "zeros", "zeros_like", "zip"),
    ]
)
"""Names of Python and NumPy whose results are floating-point arrays, or depend on no element."""
_KNOWN = frozenset(
    name
    for owner in (
        *(np, np.linalg, np.fft, np.ndarray, np.generic, np.float64, np.dtype, builtins),
        *(float, int, complex, str, bytes, memoryview, list, tuple, dict, set, frozenset, object),
    )
    for name in dir(owner)
)
"""Names that Python and NumPy give a meaning; others are names of the user and of this library."""
_READS = frozenset(["argwhere", "isnan", "multinomial", "nonzero", "numpy", "to_numpy"])
"""Names of this library, besides those of NumPy, whose results depend on elements."""
_BRANCHES = (
    *("POP_JUMP", "JUMP_IF", "COMPARE_OP", "CONTAINS_OP", "MATCH_", "UNARY_NOT", "TO_BOOL"),
    *("FORMAT_", "CONVERT_VALUE", "IMPORT_", "BUILD_MAP", "BUILD_SET", "MAP_ADD", "SET_"),
    *("BUILD_CONST_KEY_MAP", "BUILD_STRING", "PUSH_EXC_INFO"),
)
"""Instructions that choose by a value, make text of it or use it as a key, or import a module."""
_BLIND_PACKAGES = ("numpy", "pullback")  # libraries that return no numbers of Python


def choose_watches(
    watches: Iterable[Watch],
    tracer: Tracer,
    outputs: Iterable[Any],
    functions: Iterable[FunctionType],
    reads: bool,
) -> list[Watch]:
    """The watches that a graph needs.

    Args:
        watches: all that the function may read.
        tracer: with the graph.
        outputs: nodes and constants that the graph returns.
        functions: the user's functions that it may call.
        reads: whether they may call functions of libraries that stand in cells, objects or
            containers, and may return numbers of Python.
    """
    watches = list(watches)
    contents = [watch for watch in watches if watch.kind == "content"]
    plain = {id(owner_of(watch.owner)) for watch in contents if watch.name != OF_TENSOR}
    in_graph = {id(owner_of(array)) for array in tracer.captured.values()}
    exposed = {id(owner_of(root)) for root in tracer.exposed.values()}
    outside = owners_of_arrays(watches)
    is_blind = not reads and not any(map(_is_table, watches)) and all(map(_is_blind, functions))
    has_only_graph = is_blind and not _has_constants(tracer, outputs, outside)

    # The body of a loop has captured arrays of its own.
    captured = set() if tracer.has_loops else {id(tensor) for tensor in tracer.origins.values()}

    def is_read_by_graph(watch: Watch) -> bool:
        if watch.kind == "slot" and watch.name == "_array" and id(watch.owner) in captured:
            return id(owner_of(watch.value)) not in exposed  # the graph reads the array of the call
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
    places = ((*node.args, *node.kwargs.values()) for node in tracer.graph.nodes)
    scalars = any(_has_scalar(place) for place in places)
    return bool(made) or scalars or any(isinstance(x, np.ndarray | np.generic) for x in outputs)


def _has_scalar(value: Any) -> bool:
    """Whether an argument of a node is, or contains, what NumPy has made: a number, an index."""
    if isinstance(value, slice):
        return _has_scalar((value.start, value.stop, value.step))
    if isinstance(value, tuple | list):
        return any(map(_has_scalar, value))
    return isinstance(value, np.generic | np.ndarray)


def _is_plain(tracer: Tracer, name: str) -> bool:
    """Whether a captured value is an array, and not that of a tensor from outside."""
    origin = tracer.origins.get(name)
    return origin is None or type(origin._counter) is ContentVersion


def _is_table(watch: Watch) -> bool:
    """Whether a place is in a dict with numbers as keys, where elements may be looked up."""
    if watch.kind == "mapping":
        return any(isinstance(key, (Number, tuple)) for key in watch.owner)
    return watch.kind == "item" and isinstance(watch.name, (Number, tuple))


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


def _is_other_dtype(text: str) -> bool:
    """Whether a text names a dtype of other than floating-point numbers: ``"int64"``, ``"<i8"``."""
    kind = np.sctypeDict.get(text.lstrip("<>=|")) if len(text) > 1 else None
    return kind is not None and not issubclass(kind, np.inexact)


def _may_choose(step: Instruction) -> bool:
    """Whether an instruction may branch on a value, format it (``text % x``) or use it as a key."""
    is_remainder = step.opname == "BINARY_OP" and step.argrepr in ("%", "%=")
    return is_remainder or step.opname.startswith(_BRANCHES)


@functools.lru_cache(maxsize=4096)
def _names_of_blind_code(code: CodeType) -> frozenset[str] | None:
    """The names in code without branches and readers, and in the code inside it; else None."""
    names = set(code.co_names)
    if not names.isdisjoint(_READS) or not names & _KNOWN <= _HARMLESS:
        return None
    steps = read_instructions(code)
    if steps is None or any(map(_may_choose, steps)):
        return None
    for constant in code.co_consts:
        if isinstance(constant, str) and _is_other_dtype(constant):
            return None
        if isinstance(constant, CodeType):
            inner = _names_of_blind_code(constant)
            if inner is None:
                return None
            names |= inner
    return frozenset(names)
