"""Binding of the arguments of a Python call to a schema: order, defaults, types.

A ``Binder`` is made once per schema and then used for every call, so all that does not depend on
the values is done in its constructor. It depends on no tensor class: ``is_tensor`` decides what
a tensor is. Called by the dispatcher for each operator call, and once per candidate for a packet of
overloads, which is why a failure prints no values.
"""

from __future__ import annotations

import difflib
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pullback.errors import BindError
from pullback.schema.arguments import Argument
from pullback.schema.literals import INT_LIKE, REDUCTIONS
from pullback.schema.model import FunctionSchema
from pullback.schema.types import BaseTy, BaseType, ListType, OptionalType, Type

__all__ = ["Binder", "MismatchError", "converter", "is_tensor"]


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a tensor; the mark is an attribute ``_flags``, and no class is one.

    >>> FakeTensor = type("FakeTensor", (), {"_flags": 0})
    >>> is_tensor(1.0), is_tensor(FakeTensor()), is_tensor(FakeTensor)
    (False, True, False)
    """
    return hasattr(value, "_flags") and not isinstance(value, type)


class Binder:
    """Binds calls to one schema.

    `number_as_tensor` makes a tensor of a Python number; without it, numbers are no tensors.

    >>> from pullback.schema import parse_schema
    >>> binder = Binder(parse_schema("f(int n, float[2] scale=1, *, bool fast=False) -> ()"))
    >>> binder.bind((3,), {"fast": True})
    ([3, [1.0, 1.0]], {'fast': True})
    >>> binder.bind((), {"scale": (2, 3), "n": 3})
    ([3, [2.0, 3.0]], {'fast': False})
    >>> binder.bind(("three",), {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pullback.errors.BindError: f() Expected a value of type 'int' for argument 'n' but instead \
found type 'str'.
    Declaration: f(int n, float[2] scale=1, *, bool fast=False) -> ()
    See ...
    """

    __slots__ = ("_by_name", "_declaration", "_keyword_only", "_name", "_positional", "schema")

    def __init__(
        self, schema: FunctionSchema, number_as_tensor: Callable[[Any], Any] | None = None
    ) -> None:
        arguments = schema.arguments
        self.schema = schema
        self._name = str(schema.name)
        self._declaration = str(schema)
        keyword_only = arguments.flat_kwarg_only + arguments.out
        self._positional = tuple(_slot(a, number_as_tensor) for a in arguments.flat_positional)
        self._keyword_only = tuple(_slot(a, number_as_tensor) for a in keyword_only)
        self._by_name = {slot.name: slot for slot in self._positional + self._keyword_only}

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """All positional values in order and all keyword-only values, converted and complete."""
        positional = self._positional
        if len(args) > len(positional):
            self._fail_too_many(len(args))
        if kwargs:
            self._check_names(kwargs, len(args))
        values = []
        try:
            for slot, value in zip(positional, args, strict=False):
                values.append(slot.convert(value))
        except MismatchError as mismatch:
            raise self._mismatch(slot, value, mismatch) from None
        for slot in positional[len(args) :]:
            values.append(self._named(slot, kwargs))
        return values, {slot.name: self._named(slot, kwargs) for slot in self._keyword_only}

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each argument that has one, converted to the argument's type."""
        return {name: slot.default for name, slot in self._by_name.items() if not slot.required}

    def missing(self, name: str) -> BindError:
        """The error for a call that leaves out a required argument."""
        return self._error(f"is missing value for argument '{name}'.")

    def given_twice(self, name: str) -> BindError:
        """The error for an argument that is given by position and by keyword."""
        return self._error(f"Argument '{name}' specified both as positional and keyword argument.")

    def check(self, name: str, value: Any) -> Any:
        """``value`` converted to the type of the argument ``name``."""
        slot = self._by_name.get(name)
        if slot is None:
            self._fail_unknown(name)
        return self._convert(slot, value)

    def _convert(self, slot: _Slot, value: Any) -> Any:
        try:
            return slot.convert(value)
        except MismatchError as mismatch:
            raise self._mismatch(slot, value, mismatch) from None

    def _mismatch(self, slot: _Slot, value: Any, mismatch: MismatchError) -> BindError:
        detail = f" ({mismatch})" if mismatch.args else ""
        return self._error(
            f"Expected a value of type '{_printed_type(slot.type)}' for argument '{slot.name}' but "
            f"instead found type '{type(value).__name__}'{detail}."
        )

    def _named(self, slot: _Slot, kwargs: Mapping[str, Any]) -> Any:
        if slot.name in kwargs:
            return self._convert(slot, kwargs[slot.name])
        if slot.required:
            raise self.missing(slot.name)
        # A kernel may change the list it is given; the next call must not see that.
        return slot.default.copy() if type(slot.default) is list else slot.default

    def _check_names(self, kwargs: Mapping[str, Any], given: int) -> None:
        for name in kwargs:
            if name not in self._by_name:
                self._fail_unknown(name)
        for slot in self._positional[:given]:
            if slot.name in kwargs:
                raise self.given_twice(slot.name)

    def _fail_too_many(self, received: int) -> NoReturn:
        by_keyword = ", ".join(f"'{slot.name}'" for slot in self._keyword_only)
        hint = f" by position; {by_keyword} can only be given by keyword" if by_keyword else ""
        raise self._error(
            f"expected at most {len(self._positional)} argument(s) but received "
            f"{received} argument(s){hint}."
        )

    def _fail_unknown(self, name: str) -> NoReturn:
        close = difflib.get_close_matches(str(name), self._by_name, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else "."
        raise self._error(f"Unknown keyword argument '{name}'{hint}")

    def _error(self, message: str) -> BindError:
        return BindError(f"{self._name}() {message}\nDeclaration: {self._declaration}")


_Converter = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    type: Type
    convert: _Converter
    required: bool
    default: Any


class MismatchError(Exception):
    """A value is not of the type; the text, if any, says which part of it is not.

    Raised by a converter; its caller catches it and raises an error that names the argument.
    """


def _slot(argument: Argument, number_as_tensor: Callable[[Any], Any] | None = None) -> _Slot:
    convert = converter(argument.type)
    is_tensor_type = argument.type in (_TENSOR, OptionalType(_TENSOR))
    if number_as_tensor is not None and is_tensor_type and not argument.is_write:
        convert = _number_converter(convert, number_as_tensor)
    if argument.takes_none:
        convert = converter(OptionalType(argument.type))
    default: Any = None if argument.default is None else argument.default_value()
    if isinstance(default, str) and any(map(argument.type.is_base_ty_like, INT_LIKE)):
        default = REDUCTIONS[default]
    if argument.default is not None:
        # Always through the converter, so that a default is a value that a call may give.
        default = convert(default)
    return _Slot(argument.name, argument.type, convert, argument.default is None, default)


_TENSOR = BaseType(BaseTy.Tensor)
_NUMBERS = (bool, int, float, complex)


def _number_converter(convert: _Converter, number_as_tensor: Callable[[Any], Any]) -> _Converter:
    return lambda v: number_as_tensor(v) if type(v) in _NUMBERS else convert(v)


def converter(type_: Type) -> _Converter:
    """A function that converts values to a type, or raises ``MismatchError``.

    >>> converter(ListType(BaseType(BaseTy.int), size=2))(3)
    [3, 3]
    """
    if isinstance(type_, BaseType):
        return _BASE_CONVERTERS.get(type_.name, _anything)
    if isinstance(type_, OptionalType):
        convert = converter(type_.elem)
        return lambda value: None if value is None else convert(value)
    if isinstance(type_, ListType):
        return _list_converter(type_)
    return _anything


def _list_converter(type_: ListType) -> _Converter:
    convert, size = converter(type_.elem), type_.size
    # PyTorch repeats only int and float, here every single value but a tensor is repeated.
    repeats = isinstance(type_.elem, BaseType) and not type_.is_tensor_like()

    def convert_list(value: Any) -> list[Any]:
        if isinstance(value, list | tuple | range):
            try:
                return [convert(element) for element in value]
            except MismatchError:
                raise _element_mismatch(convert, value) from None
        if repeats and size is not None:
            return [convert(value)] * size
        raise MismatchError

    return convert_list


def _element_mismatch(convert: _Converter, values: Sequence[Any]) -> MismatchError:
    for index, value in enumerate(values):
        try:
            convert(value)
        except MismatchError:
            return MismatchError(f"element {index} is of type '{type(value).__name__}'")
    return MismatchError()


def _anything(value: Any) -> Any:
    return value


def _tensor(value: Any) -> Any:
    # PyTorch lets None pass as an undefined tensor; here only Tensor? does.
    if is_tensor(value):
        return value
    raise MismatchError


# What the conversion methods of tensors and arrays raise if there is not exactly one element.
_REFUSALS = (ArithmeticError, RuntimeError, TypeError, ValueError)


def _item(value: Any) -> Any:
    """The Python number in a NumPy scalar; NumPy's own bool passes for no number elsewhere."""
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return value if is_tensor(value) else value.item()
    return value


def _int(value: Any) -> int:
    if type(value) is int:
        return value
    # PyTorch also cuts off fractions of some number types, which only hides mistakes.
    try:
        return int(operator.index(_item(value)))
    except _REFUSALS:
        raise MismatchError from None


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return _float_of_int(value)
    imaginary = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    if imaginary or not _has_method(value, "__float__", "__index__"):
        raise MismatchError
    try:
        return float(value)
    except _REFUSALS:
        raise MismatchError from None


def _float_of_int(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise MismatchError from None


def _complex(value: Any) -> complex:
    if not _has_method(value, "__complex__", "__float__", "__index__"):
        raise MismatchError
    try:
        return complex(value)
    except _REFUSALS:
        raise MismatchError from None


def _bool(value: Any) -> bool:
    if value is True or value is False:
        return value
    # As in PyTorch, numbers are true or false; None is not, lest a forgotten value pass as False.
    if value is None or not _has_method(value, "__bool__"):
        raise MismatchError
    try:
        return bool(value)
    except _REFUSALS:
        raise MismatchError from None


def _has_method(value: object, *names: str) -> bool:
    return any(hasattr(type(value), name) for name in names)


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise MismatchError


def _scalar(value: Any) -> Any:
    if isinstance(value, numbers.Number):
        return value
    number = _item(value)
    if isinstance(number, numbers.Number):
        return number
    raise MismatchError


_BASE_CONVERTERS: dict[BaseTy, _Converter] = {
    BaseTy.Tensor: _tensor,
    BaseTy.int: _int,
    BaseTy.SymInt: _int,
    BaseTy.DeviceIndex: _int,
    BaseTy.float: _float,
    BaseTy.complex: _complex,
    BaseTy.bool: _bool,
    BaseTy.SymBool: _bool,
    BaseTy.str: _str,
    BaseTy.Scalar: _scalar,
}
_PRINTED_NAMES = {BaseTy.SymInt: "int", BaseTy.DeviceIndex: "int", BaseTy.Scalar: "number"}


def _printed_type(type_: Type) -> str:
    """The type as PyTorch prints it in messages about values."""
    if isinstance(type_, ListType):
        return f"List[{_printed_type(type_.elem)}]"
    if isinstance(type_, OptionalType):
        return f"Optional[{_printed_type(type_.elem)}]"
    return _PRINTED_NAMES.get(type_.name, str(type_)) if isinstance(type_, BaseType) else str(type_)
