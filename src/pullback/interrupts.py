"""Interrupts: how blocks that change a setting restore it whenever Ctrl-C arrives.

CPython runs signal handlers, and so raises ``KeyboardInterrupt``, only at certain places: at the
entry of a Python function, after a call of a C function, and at a jump backwards. There is no such
place between a ``return`` and the caller's next instruction, nor at the beginning of a ``finally``
or ``except`` block, nor between ``__enter__`` and the body of a ``with`` statement. Hence the rules
for everything that changes the state of a thread or of the process:

- Read the old value first. Change it inside ``try``, and restore it in ``finally`` (in
  ``__enter__``: in ``except BaseException``) by one call of a C function such as
  ``ContextVar.set``. Several values need nested ``finally`` blocks. ``value = change()`` before
  ``try`` is wrong: the interrupt may arrive after the change and before the assignment.
- Restoring that takes more than one such call is a short function that may be called twice, and is
  run by `run_to_end`.
- A Python function that restores something, ``__exit__`` above all, could be interrupted at its
  entry, before its first line. `uninterrupted_entry` removes that place.

``tests/semantics/test_interrupts.py`` interrupts programs at every such place. Every layer may
import this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from opcode import opmap
from typing import Any, Generic, TypeVar

from pullback._cpython import IS_TESTED

__all__ = ["VariableGuard", "run_to_end", "uninterrupted_entry"]

_Value = TypeVar("_Value")
_Function = TypeVar("_Function", bound=Callable[..., Any])

# RESUME, the first instruction of a function, checks for signals if its argument is 0, and does not
# if it is 2, on interpreters that are tested.
_RESUME = opmap.get("RESUME", -1)
_BEFORE_RESUME = {opmap.get("MAKE_CELL", -1), opmap.get("COPY_FREE_VARS", -1)}
_WITHOUT_CHECK = 2  # the argument that the compiler emits after ``yield from``


def uninterrupted_entry(function: _Function) -> _Function:
    """A decorator: signal handlers do not run at the entry of a function, before its first line.

    They run after the first call of a C function in it, as always. The argument of the function's
    RESUME instruction is replaced by one that the compiler itself uses elsewhere. On interpreters
    where that has not been tested, the function stays as it is.

    >>> @uninterrupted_entry
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    if IS_TESTED:
        code = function.__code__
        instructions = bytearray(code.co_code)
        place = 0
        while instructions[place] in _BEFORE_RESUME:
            place += 2
        if instructions[place] == _RESUME and instructions[place + 1] == 0:
            instructions[place + 1] = _WITHOUT_CHECK
            function.__code__ = code.replace(co_code=bytes(instructions))
    return function


@uninterrupted_entry
def run_to_end(function: Callable[..., Any], *args: Any) -> None:
    """Calls a function, once more if it is interrupted, and then raises the interrupt.

    For short functions that may be called twice, and restore what one call of a C function cannot.
    A second interrupt is raised at once.

    >>> run_to_end(print, "done")
    done
    """
    interrupt: BaseException | None = None
    while True:
        try:
            function(*args)
        except KeyboardInterrupt as error:
            if interrupt is not None:
                raise
            interrupt = error
        else:
            break
    if interrupt is not None:
        raise interrupt


class VariableGuard(Generic[_Value]):
    """A block in which a context variable has another value; entered once at a time.

    >>> limit = ContextVar("limit", default=1)
    >>> with VariableGuard(limit, 5):
    ...     limit.get()
    5
    >>> limit.get()
    1
    """

    __slots__ = ("_before", "_value", "_variable")

    def __init__(self, variable: ContextVar[_Value], value: _Value):
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        variable = self._variable
        self._before = before = variable.get()
        try:
            variable.set(self._value)
        except BaseException:
            variable.set(before)
            raise

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        self._variable.set(self._before)
