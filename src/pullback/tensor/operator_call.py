"""Calls of operators whose arguments are all tensors, for public functions in one line.

A public function of the built-in operators has these lines in itself, which saves a call; the
special functions of SciPy, which take longer than that, share them.
"""

from __future__ import annotations

from typing import Any

from pullback.dispatch.modes import get_state
from pullback.dispatch.table import OperatorEntry
from pullback.kernels.error_context import ERRORS, named_error
from pullback.tensor.tensor import Tensor, as_operand

__all__ = ["call_any", "call_four", "call_one", "call_three", "call_two"]


def call_one(entry: OperatorEntry, name: str, a: Any) -> Any:
    """Calls an operator of one tensor; `name` is what error messages call it."""
    try:
        if type(a) is not Tensor:
            a = as_operand(a)
        flags = a._flags
        try:
            kernel = entry.calls[get_state()][flags]
        except KeyError:
            kernel = entry.link_call(flags)
        return kernel(a)
    except ERRORS as error:
        raise named_error(error, name, a) from None


def call_two(entry: OperatorEntry, name: str, a: Any, b: Any) -> Any:
    """Calls an operator of two tensors."""
    try:
        if type(a) is not Tensor:
            a = as_operand(a)
        if type(b) is not Tensor:
            b = as_operand(b)
        flags = a._flags | b._flags
        try:
            kernel = entry.calls[get_state()][flags]
        except KeyError:
            kernel = entry.link_call(flags)
        return kernel(a, b)
    except ERRORS as error:
        raise named_error(error, name, a, b) from None


def call_three(entry: OperatorEntry, name: str, a: Any, b: Any, c: Any) -> Any:
    """Calls an operator of three tensors."""
    try:
        if type(a) is not Tensor:
            a = as_operand(a)
        if type(b) is not Tensor:
            b = as_operand(b)
        if type(c) is not Tensor:
            c = as_operand(c)
        flags = a._flags | b._flags | c._flags
        try:
            kernel = entry.calls[get_state()][flags]
        except KeyError:
            kernel = entry.link_call(flags)
        return kernel(a, b, c)
    except ERRORS as error:
        raise named_error(error, name, a, b, c) from None


def call_four(entry: OperatorEntry, name: str, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls an operator of four tensors."""
    try:
        if type(a) is not Tensor:
            a = as_operand(a)
        if type(b) is not Tensor:
            b = as_operand(b)
        if type(c) is not Tensor:
            c = as_operand(c)
        if type(d) is not Tensor:
            d = as_operand(d)
        flags = a._flags | b._flags | c._flags | d._flags
        try:
            kernel = entry.calls[get_state()][flags]
        except KeyError:
            kernel = entry.link_call(flags)
        return kernel(a, b, c, d)
    except ERRORS as error:
        raise named_error(error, name, a, b, c, d) from None


def call_any(entry: OperatorEntry, name: str, *values: Any) -> Any:
    """Calls an operator of any number of tensors."""
    try:
        tensors = [value if type(value) is Tensor else as_operand(value) for value in values]
        flags = 0
        for tensor in tensors:
            flags |= tensor._flags
        try:
            kernel = entry.calls[get_state()][flags]
        except KeyError:
            kernel = entry.link_call(flags)
        return kernel(*tensors)
    except ERRORS as error:
        raise named_error(error, name, *values) from None
