"""Expressions of the tables' field ``lower``: what an operator computes, as primitive operations.

An expression is Python text in the operator's arguments. Tensors are ``Value`` objects, whose
arithmetic adds nodes to a graph with NumPy's promotion of dtypes; other arguments are themselves.
``NAMES`` has functions that it may call, besides the rules of ``rules.py``: NumPy's element-wise
functions by their names, some that are made of them, and reductions (``sum``, ``prod``, ``max``,
``min``, ``all``, ``any``, ``mean``) with an axis and ``keepdims``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from pullback.compiled.lowering.builder import Builder
from pullback.compiled.lowering.elementwise import ARRAY_FUNCTIONS, FUNCTIONS, REAL_FUNCTIONS
from pullback.compiled.lowering.ir import Node

__all__ = [
    "NAMES",
    "CannotLower",
    "Value",
    "apply",
    "axes_of",
    "cast",
    "evaluate",
    "reduce",
    "sum_dtype",
    "total",
    "where",
]

_BOOL = np.dtype(bool)
_NUMBERS = (bool, int, float, complex)
_ON_BOOLS = {
    "add": "logical_or",
    "maximum": "logical_or",
    "bitwise_or": "logical_or",
    "fmax": "logical_or",
    "multiply": "logical_and",
    "minimum": "logical_and",
    "bitwise_and": "logical_and",
    "fmin": "logical_and",
    "bitwise_xor": "logical_xor",
    "not_equal": "logical_xor",
    "invert": "logical_not",
}


class CannotLower(Exception):  # noqa: N818 - no error of a user: the operator stays opaque
    """Raised where an operator, or a program, has no form in primitive operations."""


def _binary(function: str, reflected: bool = False) -> Callable[[Any, Any], Value]:
    def method(self: Any, other: Any) -> Value:
        return apply(function, other, self) if reflected else apply(function, self, other)

    return method


class Value:
    """A node in an expression.

    Attributes:
        node: the node.
        builder: what makes further nodes.
        number: the Python type of a number, which has no dtype of its own; None for arrays.
    """

    __slots__ = ("builder", "node", "number")

    def __init__(self, node: Node, builder: Builder, number: type | None = None):
        self.node = node
        self.builder = builder
        self.number = number

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.node.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.node.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.node.dtype

    def like(self, node: Node) -> Value:
        """Another node as a value of the same graph."""
        return Value(node, self.builder)

    def full(self, number: Any) -> Value:
        """One number in all elements, with the same shape and dtype."""
        return self.like(self.builder.full(number, self.shape, self.dtype))

    def reshape(self, shape: tuple[int, ...]) -> Value:
        """The same elements in C order with another shape."""
        return self.like(self.builder.reshape(self.node, shape))

    def permute(self, axes: tuple[int, ...]) -> Value:
        """``np.transpose(x, axes)``."""
        return self.like(self.builder.permute(self.node, axes))

    __add__ = _binary("add")
    __radd__ = _binary("add", reflected=True)
    __sub__ = _binary("subtract")
    __rsub__ = _binary("subtract", reflected=True)
    __mul__ = _binary("multiply")
    __rmul__ = _binary("multiply", reflected=True)
    __truediv__ = _binary("divide")
    __rtruediv__ = _binary("divide", reflected=True)
    __pow__ = _binary("power")
    __rpow__ = _binary("power", reflected=True)
    __mod__ = _binary("remainder")
    __rmod__ = _binary("remainder", reflected=True)
    __and__ = _binary("bitwise_and")
    __or__ = _binary("bitwise_or")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __eq__ = _binary("equal")  # type: ignore[assignment]
    __ne__ = _binary("not_equal")  # type: ignore[assignment]

    def __neg__(self) -> Value:
        return apply("negative", self)

    def __abs__(self) -> Value:
        return apply("absolute", self)

    def __invert__(self) -> Value:
        return apply("invert", self)

    def __bool__(self) -> bool:
        raise CannotLower("the truth of an array")

    __hash__ = None  # type: ignore[assignment]


@functools.lru_cache(maxsize=4096)
def _loop_dtypes(function: str, operands: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """The dtypes in which NumPy computes a function of operands (dtypes, or types of numbers)."""
    ufunc = ARRAY_FUNCTIONS[function]
    if function in REAL_FUNCTIONS:
        dtype = operands[0]
        if isinstance(dtype, type) or dtype.kind == "c":
            raise CannotLower(f"{function} of {dtype}")
        return (dtype if dtype.kind == "f" else np.dtype(np.float64),)
    if function in ("where", "complex", "real", "imag") or not isinstance(ufunc, np.ufunc):
        raise CannotLower(function)
    try:
        found = ufunc.resolve_dtypes((*operands, None))
    except TypeError as error:
        raise CannotLower(f"{function}: {error}") from None
    return tuple(found[: len(operands)])


def _operand_type(x: Any) -> Any:
    if isinstance(x, Value):
        return x.dtype if x.number is None else x.number
    return type(x) if type(x) is not bool else _BOOL


def _common_dtype(*operands: Any) -> np.dtype[Any]:
    """The dtype to which NumPy promotes operands."""
    types = [_operand_type(x) for x in operands]
    return np.result_type(*[t(0) if isinstance(t, type) else t for t in types])


def _as_node(x: Any, dtype: np.dtype[Any], builder: Builder) -> Node:
    """An operand as a node of a dtype."""
    if isinstance(x, Value):
        if x.number is int:
            builder.require_range(x.node, dtype)
        return builder.cast(x.node, dtype)
    try:
        return builder.full(x, (), dtype)
    except (TypeError, OverflowError) as error:
        raise CannotLower(str(error)) from None


def _builder(operands: tuple[Any, ...]) -> Builder:
    for x in operands:
        if isinstance(x, Value):
            return x.builder
    raise CannotLower("a function of numbers alone")


def apply(function: str, *operands: Any) -> Value:
    """An element-wise function with NumPy's promotion of dtypes; of numbers, a number."""
    if not any(isinstance(x, Value) for x in operands):
        number: Value = ARRAY_FUNCTIONS[function](*operands)
        return number
    builder = _builder(operands)
    if function.startswith("logical_"):
        given = [_as_node(x, _BOOL, builder) for x in operands]
        return Value(builder.elementwise(function, *given), builder)
    dtypes = _loop_dtypes(function, tuple(map(_operand_type, operands)))
    if len(set(dtypes)) > 1 or dtypes[0].char not in "?bhilqBHILQfdFD":
        raise CannotLower(f"{function} in {dtypes[0]}")
    dtype = dtypes[0]
    if function in ("power", "positive") and isinstance(operands[0], Value):
        simple = _power(operands[0], operands[1], dtype)
        if simple is not None:
            return simple
    given = [_as_node(x, dtype, builder) for x in operands]
    return Value(_canonical(builder, function, dtype, given), builder)


def _canonical(builder: Builder, function: str, dtype: np.dtype[Any], given: list[Node]) -> Node:
    """The node of a function; some functions of bools and integers have a simpler name."""
    if dtype == _BOOL:
        if function == "equal":
            return builder.elementwise("logical_not", builder.elementwise("logical_xor", *given))
        if function in _ON_BOOLS:
            return builder.elementwise(_ON_BOOLS[function], *given)
        if function in ("absolute", "conjugate", "floor", "ceil", "trunc", "rint"):
            return given[0]
        if function.startswith(("less", "greater")):
            given = [builder.cast(x, np.dtype(np.uint8)) for x in given]
            return builder.elementwise(function, *given)
    if dtype.kind in "biu" and function in ("isnan", "isinf", "isfinite"):
        return builder.full(function == "isfinite", given[0].shape, _BOOL)
    if dtype.kind in "iu" and function in ("floor", "ceil", "trunc", "rint", "conjugate"):
        return given[0]
    if function == "square":
        return builder.elementwise("multiply", given[0], given[0])
    return builder.elementwise(function, *given)


def _power(x: Value, exponent: Any, dtype: np.dtype[Any]) -> Value | None:
    """A power by products where the exponent is a small number; as NumPy's operator does."""
    known = exponent
    if isinstance(exponent, Value):
        known = x.builder.value_of(exponent.node) if exponent.number is None else None
    if known is None or dtype.kind not in "fc":
        return None
    base = cast(x, dtype)
    if dtype.kind == "c":
        return _complex_power(base, exponent, known)
    if known == 2:
        return base * base
    if known == 1:
        return base
    if known == 0.5 and exponent is known:  # NumPy's power of an array 0.5 is no square root
        return apply("sqrt", base)
    if known == -1:
        return 1 / base
    if known == 0:
        return base.full(1)
    return base * base * base if known == 3 else None


def _complex_power(base: Value, exponent: Any, known: Any) -> Value | None:
    """The same of complex numbers: the type of the exponent decides about signs of zeros."""
    if known == 0:
        return base.full(1)
    if type(exponent) is int and known in (-1, 2):
        return apply("reciprocal" if known == -1 else "square", base)
    if type(exponent) is float and known == 0.5:
        return apply("sqrt", base)
    if known not in (1, 2):
        return None
    power = base if known == 1 else apply("square", base)
    return where(apply("equal", base, 0), 0, power)  # NumPy's power of zeros has no signs


def cast(x: Any, dtype: Any) -> Value:
    """``x.astype(dtype)``."""
    if not isinstance(x, Value):
        raise CannotLower("a number in the place of an array")
    return x.like(x.builder.cast(x.node, np.dtype(dtype)))


def where(condition: Any, x: Any, y: Any) -> Value:
    """``np.where(condition, x, y)``."""
    builder = _builder((condition, x, y))
    dtype = _common_dtype(x, y)
    test = _as_node(condition, _BOOL, builder)
    given = [_as_node(v, dtype, builder) for v in (x, y)]
    return Value(builder.elementwise("where", test, *given), builder)


def _clip(x: Value, low: Any, high: Any) -> Value:
    """``np.clip``: of equal zeros with two signs, bounds without axes leave the element."""
    if low is None or high is None:
        pair = apply("minimum", x, high) if low is None else apply("maximum", x, low)
        return x if low is None and high is None else pair
    dtype = _common_dtype(x, low, high)
    given = [Value(_as_node(v, dtype, x.builder), x.builder) for v in (x, low, high)]
    if given[1].shape or given[2].shape:
        return apply("minimum", apply("maximum", given[0], given[1]), given[2])
    return apply("minimum", given[2], apply("maximum", given[1], given[0]))


def _part(function: str) -> Callable[[Value], Value]:
    def part(x: Value) -> Value:
        if x.dtype.kind != "c":
            return x if function == "real" else x.full(0)
        return x.like(x.builder.elementwise(function, x.node))

    return part


def _complex(x: Any, y: Any) -> Value:
    builder = _builder((x, y))
    dtype = np.result_type(_common_dtype(x, y), np.complex64)
    real = np.dtype(dtype.char.lower())
    parts = [_as_node(v, real, builder) for v in (x, y)]
    return Value(builder.elementwise("complex", *parts), builder)


# --- reductions -----------------------------------------------------------------------------------


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that an argument names, not negative and increasing."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, list | tuple) else [axis]
    if ndim == 0:
        return ()
    return tuple(sorted(int(a) % ndim for a in given))


def reduce(combiner: str, x: Value, axis: Any = None, keepdims: Any = False) -> Value:
    """A reduction, in the dtype of its operand."""
    axes = axes_of(axis, len(x.shape))
    if combiner in ("max", "min") and prod(x.shape) == 0:
        raise CannotLower("an extreme of no elements")
    if combiner in ("max", "min") and x.dtype.kind in "bc":
        raise CannotLower(f"{combiner} of {x.dtype}")
    node = x.builder.reduce(combiner, x.node, axes)
    if keepdims:
        shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        node = x.builder.reshape(node, shape)
    return x.like(node)


def total(
    combiner: str, x: Value, axis: Any = None, keepdims: Any = False, dtype: Any = None
) -> Value:
    """A sum or product: small integers are added as int64."""
    return reduce(combiner, cast(x, sum_dtype(x.dtype) if dtype is None else dtype), axis, keepdims)


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a sum of elements."""
    known = {"b": np.int64, "i": np.int64, "u": np.uint64}.get(dtype.kind)
    return dtype if known is None else np.dtype(known)


_sum = functools.partial(total, "sum")


def _as_real(x: Value) -> Value:
    """Integers and truth values as float64."""
    return cast(x, np.float64) if x.dtype.kind in "biu" else x


def _mean(x: Value, axis: Any = None, keepdims: Any = False, dtype: Any = None) -> Value:
    x = _as_real(x) if dtype is None else cast(x, dtype)
    total = reduce("sum", x, axis, keepdims)
    count = prod(x.shape[a] for a in axes_of(axis, len(x.shape)))
    return total / count


def _truth(combiner: str) -> Callable[..., Value]:
    def reduced(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        return reduce(combiner, cast(x, _BOOL), axis, keepdims)

    return reduced


def _logsumexp(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
    if x.dtype.kind == "c":
        raise CannotLower("complex logsumexp")
    x = _as_real(x)
    top = reduce("max", x, axis, True)
    top = where(apply("isfinite", top), top, 0)
    total = apply("log", _sum(apply("exp", x - top), axis, True)) + top
    shape = tuple(n for a, n in enumerate(x.shape) if a not in axes_of(axis, len(x.shape)))
    return total if keepdims else total.reshape(shape)


def _softmax(x: Value, axis: int = -1) -> Value:
    powers = apply("exp", _below_maximum(x, axis))
    return powers / _sum(powers, axis, True)


def _log_softmax(x: Value, axis: int = -1) -> Value:
    low = _below_maximum(x, axis)
    return low - apply("log", _sum(apply("exp", low), axis, True))


def _below_maximum(x: Value, axis: int) -> Value:
    x = _as_real(x)
    return x - reduce("max", x, axis, True)


def _softplus(x: Value) -> Value:
    return apply("maximum", x, 0) + apply("log1p", apply("exp", -abs(x)))


def _var(x: Value, axis: Any, keepdims: bool, ddof: float, correction: Any) -> Value:
    if x.dtype.kind != "f":
        raise CannotLower("variance of other numbers than real ones")
    lost = ddof if correction is None else correction
    count = prod(x.shape[a] for a in axes_of(axis, len(x.shape)))
    distance = x - reduce("sum", x, axis, True) / count
    return reduce("sum", distance * distance, axis, keepdims) / max(count - lost, 0)


def _gap(x: Any, target: Any) -> Value:
    """The difference of a loss: a target of integers does not widen the input's dtype."""
    if isinstance(x, Value) and isinstance(target, Value) and x.dtype.kind == "f":
        target = cast(target, x.dtype) if target.dtype.kind in "biu" else target
    return apply("subtract", x, target)


def _reduce_loss(loss: Value, reduction: str) -> Value:
    size: int = loss.node.size
    if reduction == "mean" and size:
        return _mean(loss)
    if reduction in ("sum", "none"):
        return _sum(loss) if reduction == "sum" else loss
    raise CannotLower(f"reduction {reduction!r}")


def _huber(size: Value, bound: float) -> Value:
    """Half the square up to a bound, and then a line."""
    near = apply("minimum", size, bound)
    return near * (size - 0.5 * near)


def _round(x: Value, decimals: int = 0) -> Value:
    """``np.round``: the nearest even number of units of a decimal place."""
    if x.dtype.kind in "iu" and decimals >= 0:
        return x
    if x.dtype.kind != "f":
        raise CannotLower(f"round of {x.dtype}")
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return apply("rint", x * scale) / scale
    return apply("rint", x / scale) * scale if decimals else apply("rint", x)


def _sigmoid(x: Value) -> Value:
    if x.dtype.kind == "c":
        return apply("reciprocal", apply("exp", -x) + 1.0)  # signs of zeros are the kernel's
    return apply("sigmoid", x)


NAMES: dict[str, Any] = {
    **{name: functools.partial(apply, name) for name in FUNCTIONS - {"cast", "where"}},
    "where": where,
    "cast": cast,
    "real": _part("real"),
    "imag": _part("imag"),
    "complex": _complex,
    "clip": _clip,
    "bitwise_not": functools.partial(apply, "invert"),
    "positive": lambda x: x,
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "logistic": lambda x: apply("sigmoid", _as_real(x)),
    "softplus_of": _softplus,
    "sum": _sum,
    "prod": functools.partial(total, "prod"),
    "mean": _mean,
    "max": functools.partial(reduce, "max"),
    "min": functools.partial(reduce, "min"),
    "all": _truth("all"),
    "any": _truth("any"),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "var": _var,
    "gap": _gap,
    "reduced": _reduce_loss,
    "rounded": _huber,
    "round": _round,
    "sigmoid": _sigmoid,
    "inf": math.inf,
    "nan": math.nan,
}


@functools.lru_cache(maxsize=1024)
def _code(text: str) -> Any:
    return compile(text, "<lower>", "eval")


def evaluate(text: str, names: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """The value of an expression, which may call some names, for some arguments."""
    try:
        return eval(_code(text), names, arguments)
    except (NameError, TypeError, AttributeError) as error:
        raise CannotLower(f"{text}: {error}") from None
