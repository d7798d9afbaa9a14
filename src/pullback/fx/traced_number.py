"""``TracedNumber``: a Python number that is an input of a traced program.

It computes as the number does, and records each step as a call of Python's own operator, so that it
keeps Python's arithmetic and has no dtype: ``float32_tensor * number`` stays float32. ``x[n]`` and,
in `numpy_mode`, ``math.sin(n)`` use the number of each run. A branch, and any use as a plain number
(``range(n)``, ``x[:n]``), reads its value, which is a guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.dispatch.table import ENTRIES
from pullback.fx.node import Node
from pullback.fx.refusals import current_tracer
from pullback.fx.sizes import guard_error
from pullback.fx.traced_array import TracedArray
from pullback.fx.user_code import is_called_by_user
from pullback.tensor.tensor import Tensor, as_operand, wrap

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["OptionNumber", "TracedNumber", "item_of", "take_number"]

_CALLERS = tuple(
    f"pullback.{name}"
    for name in (
        "fx.traced_number",
        "fx.traced_array",
        "tensor.tensor",
        "autograd.graph.conversion",
    )
)
_NUMBERS = (bool, int, float, complex)


class TracedNumber:
    """A number of a traced program, with the node that computes it."""

    __slots__ = ("_index", "_operand", "node", "tracer", "value")

    def __init__(self, value: Any, node: Node, tracer: Tracer):
        self.value = value
        self.node = node
        self.tracer = tracer
        self._operand: TracedArray | None = None
        self._index: Tensor | None = None  # one tensor: `x[i] += y` reads and writes by the same

    def __pullback_operand__(self) -> Tensor:
        """A tensor that stands for the number in one call, without a dtype of its own."""
        if self._operand is None:
            node = self.tracer.graph.call_function(as_operand, (self.node,))
            self._operand = TracedArray(np.asarray(self.value), node, self.tracer, self.value)
        return wrap(self._operand)

    def __pullback_tensor__(self) -> Tensor:
        """A tensor without axes with the value."""
        full = ENTRIES["pullback::full"].operator
        made: Tensor = self.tracer.record(full, ([], self, None), {})
        return made

    def __pullback_index__(self) -> Tensor | int:
        """An integer in ``x[i]``: a tensor without axes, or its value, which is a guard."""
        tracer = self.tracer
        if type(self.value) is not int or (tracer.allows_reads and not tracer.is_general):
            return operator.index(self)
        tracer.has_indices = tracer.is_general
        if self._index is None:
            self._index = self.__pullback_tensor__()
        return self._index

    def __pullback_call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """The value of a function of Python's ``math``, whose arguments it is among."""
        return self._step(function, *args)

    def _step(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            value = function(*(_value(arg) for arg in args))
        except Exception as error:
            guard_error(self.tracer, error, args)
            raise
        node = self.tracer.graph.call_function(function, tuple(_symbol(arg) for arg in args))
        node.meta["number"] = type(value)
        return TracedNumber(value, node, self.tracer)

    def _read(self, number: Any, what: str) -> Any:
        self.tracer.read_number(number, what)
        return number.value

    def __copy__(self) -> TracedNumber:
        return self

    def __deepcopy__(self, memo: Any) -> TracedNumber:
        return self  # a number, as `dataclasses.asdict` and `copy.deepcopy` of a state copy it

    def __bool__(self) -> bool:
        return bool(self._read(self._step(bool, self), "bool()"))

    def __index__(self) -> int:
        return operator.index(self._read(self, "use as an index"))

    def __round__(self, digits: int | None = None) -> Any:
        return self._step(round, self) if digits is None else self._step(round, self, digits)

    def __divmod__(self, other: Any) -> Any:
        return operator.floordiv(self, other), operator.mod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return operator.floordiv(other, self), operator.mod(other, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # A call takes Python's numbers without a dtype; ``outer`` and ``at`` make arrays of them.
        name = "__pullback_operand__" if method == "__call__" else "__pullback_tensor__"
        given = [getattr(x, name)() if isinstance(x, TracedNumber) else x for x in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of arrays that are no tensors: of the number's value, which is a guard."""
        if any(issubclass(kind, Tensor) for kind in types):
            # The tensor's own method has refused, because of a class that it does not know.
            handle: Any = vars(Tensor)["__array_function__"]
            return handle(None, func, (Tensor,), args, kwargs)
        return func(*_read_all(args, func), **_read_all(kwargs, func))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        # In the dtype of the call: an integer that does not fit raises, as outside.
        return np.array(self._read(self, "numpy()"), dtype, copy=copy)

    def __format__(self, spec: str) -> str:
        return format(self._read(self, "format()"), spec)

    def __getattr__(self, name: str) -> Any:
        """An attribute such as ``real`` or a method such as ``is_integer``, of the value."""
        if name.startswith("__") or not hasattr(self.value, name):
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}")
        return getattr(self._read(self, name), name)

    def __repr__(self) -> str:
        return f"TracedNumber({self.value!r}, node={self.node.name})"

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the number: ``isinstance(n, float)`` is what it is outside of a trace."""
        return type(self.value)


def item_of(array: Any) -> float:
    """The only element of an array."""
    return float(array.item())


def take_number(held: TracedArray) -> TracedNumber | None:
    """The floating-point number that user code takes out of a traced tensor by ``item()``.

    It becomes a result, or is computed with, without a guard; a branch on it has one.
    """
    tracer = held.tracer
    if (
        not tracer.takes_numbers
        or current_tracer() is not tracer
        or held.dtype.kind != "f"
        or held.value.size != 1
        or tracer.has_loops
        or not is_called_by_user(_CALLERS)
    ):
        return None
    tracer.picks.check_read(held.value)
    scalar = held if held.ndim == 0 else tracer.call("reshape", held, [])
    node = tracer.graph.call_function(item_of, (scalar.node,))
    node.meta["number"] = float
    return TracedNumber(held.value.item(), node, tracer)


def _read_all(given: Any, func: Any) -> Any:
    """Arguments with the values of numbers in their place."""
    if issubclass(type(given), TracedNumber):
        return given._read(given, getattr(func, "__name__", "a function"))
    if type(given) in (list, tuple):
        return type(given)(_read_all(x, func) for x in given)
    if type(given) is dict:
        return {key: _read_all(x, func) for key, x in given.items()}
    return given


def _value(arg: Any) -> Any:
    return arg.value if isinstance(arg, TracedNumber) else arg


def _symbol(arg: Any) -> Any:
    return arg.node if isinstance(arg, TracedNumber) else arg


class OptionNumber(TracedNumber):
    """An option such as a learning rate, which is not zero in any run: truth needs no guard."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, TracedNumber) or type(value) in _NUMBERS


def _binary(
    function: Callable[[Any, Any], Any], *, is_reflected: bool = False, is_comparison: bool = False
) -> Callable[..., Any]:
    def method(self: TracedNumber, other: Any) -> Any:
        if isinstance(other, Tensor):
            own = self.__pullback_operand__()
            return function(other, own) if is_reflected else function(own, other)
        if not _is_number(other):
            return NotImplemented
        given = (other, self) if is_reflected else (self, other)
        found = self._step(function, *given)
        return self._read(found, "a comparison") if is_comparison else found

    return method


def _on_values(function: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    """A method that computes with the value, which is a guard."""

    def method(self: TracedNumber, *others: Any) -> Any:
        given = (self, *others)
        if not all(map(_is_number, given)):
            return NotImplemented
        values = [
            x._read(x, function.__name__) if issubclass(type(x), TracedNumber) else x for x in given
        ]
        return function(*reversed(values)) if reflected else function(*values)

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda self: self._step(function, self)


def _conversion(convert: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda self: convert(self._read(self, f"{convert.__name__}()"))


for _convert in (float, int, complex, hash, str):
    setattr(TracedNumber, f"__{_convert.__name__}__", _conversion(_convert))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _function = getattr(operator, _name)
    setattr(TracedNumber, f"__{_name}__", _binary(_function))
    setattr(TracedNumber, f"__r{_name}__", _binary(_function, is_reflected=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedNumber, f"__{_name}__", _binary(getattr(operator, _name), is_comparison=True))
for _name in ("neg", "pos", "abs"):
    setattr(TracedNumber, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("and_", "or_", "xor", "lshift", "rshift"):
    _function = getattr(operator, _name)
    setattr(TracedNumber, f"__{_name.rstrip('_')}__", _on_values(_function))
    setattr(TracedNumber, f"__r{_name.rstrip('_')}__", _on_values(_function, reflected=True))
for _function in (math.trunc, math.floor, math.ceil, operator.invert):
    setattr(TracedNumber, f"__{_function.__name__}__", _on_values(_function))
