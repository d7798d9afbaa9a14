"""Dependencies on CPython's internals: reference counts, frames, bytecode, referrers.

Each has a fallback that uses documented Python only. They are used on interpreters on which the
test suite runs (`TESTED_VERSIONS`); every other interpreter uses the fallbacks, because a
reference count that is too low would be a silently wrong gradient. ``PULLBACK_PLAIN_PYTHON=1`` in
the environment, read at import, chooses the fallbacks everywhere; ``tests/unit/test_cpython.py``
runs a part of the suite so.

| function or constant | used for | fallback |
|---|---|---|
| `count_references` | a gradient or counter that no other object holds needs no alias check | a count that equals no expected one, so that the general path runs |
| `get_frame` | the user's line in messages; callers inside NumPy, in `numpy_mode` | the frame of a traceback: slower, same result |
| `is_item_assignment`, `is_formatting`, `called_name` | ``array[i] = x`` converts by ``float(x)``, and must raise; ``"%g" % x`` need not | none: `CAN_READ_BYTECODE` is False, and every ``float(x)`` that loses a gradient raises |
| `is_shared_access` | where ``opcheck`` switches threads | none: threads switch at lines only |
| `read_instructions`, `stack_effect` | compiled functions compare the globals that code reads, and the arrays on whose elements it may branch | None: all names of the code count as globals, and all arrays are compared |
| `find_referrers` | the living tensor of a saved array | none is found, and a new tensor of the same memory and version counter is made |
| `find_cached` | the results that a function with ``lru_cache`` has kept, which compiled functions compare | none: they compare how many it has computed |
| `SWITCHES_AT_CALLS` | a small backward pass locks its root without a call | one atomic call, ``dict.setdefault`` |
| `find_objects` | tensors that escaped from a transform | all tracked objects at once |
| `numpy_settings` | NumPy's error state, set without a call of ``np.errstate`` | NumPy's public functions |
| `find_views` | the views of a tensor that becomes dual | `register_views` keeps a weak reference to every view |
| `intercept` | SciPy's functions look for tensors among their arguments, in place | the same, with a code object whose constants are text: one lookup in `sys.modules` more |
| `named_copy` | a function that is built for an operator has code, and inline caches, of its own | the function itself, under a shared name in stack traces |

Imports nothing of the package, so that every module may import it.
"""  # noqa: E501 - a table

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Container, Iterable, Set
from dis import Instruction
from functools import lru_cache, wraps
from opcode import opmap
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar
from weakref import ref

import numpy as np

__all__ = [
    "CAN_READ_BYTECODE",
    "IS_TESTED",
    "ONE_HOLDER",
    "SWITCHES_AT_CALLS",
    "TESTED_VERSIONS",
    "Instruction",
    "called_name",
    "count_references",
    "find_cached",
    "find_objects",
    "find_referrers",
    "find_views",
    "get_frame",
    "get_instruction",
    "intercept",
    "is_formatting",
    "is_item_assignment",
    "is_shared_access",
    "is_tested",
    "named_copy",
    "numpy_settings",
    "read_instructions",
    "register_views",
    "stack_effect",
    "with_array_constants",
]

_F = TypeVar("_F", bound=Callable[..., Any])

TESTED_VERSIONS = ((3, 11), (3, 12), (3, 13))


def is_tested(name: str, version: tuple[int, ...], abiflags: str, variable: str) -> bool:
    """Whether the means are used on an interpreter.

    A build without the global lock (``t`` among the flags) counts references in another way.
    """
    if variable not in ("", "0"):
        return False
    return name == "cpython" and version[:2] in TESTED_VERSIONS and "t" not in abiflags


IS_TESTED = is_tested(
    sys.implementation.name,
    sys.version_info[:2],
    getattr(sys, "abiflags", ""),  # not on Windows
    os.environ.get("PULLBACK_PLAIN_PYTHON", ""),
)

# Threads switch, and signals arrive, at calls, at ends of loops and at starts of functions, so that
# ``if key not in table: table[key] = value`` is not interrupted.
SWITCHES_AT_CALLS = IS_TESTED

# --- reference counts ----------------------------------------------------------------------------

# What ``count_references(x)`` gives if one local variable, slot or tuple holds `x`: the argument of
# the call counts, too. A constant and not measured at import, because a debugger holds references,
# and a constant that is too large would hide a holder.
ONE_HOLDER = 2


def _count_unknown(_: object, /) -> int:
    return sys.maxsize


count_references: Callable[[Any], int] = sys.getrefcount if IS_TESTED else _count_unknown

# --- frames --------------------------------------------------------------------------------------


def _get_frame_of_traceback(depth: int = 0, /) -> FrameType:
    try:
        raise RuntimeError
    except RuntimeError as error:
        assert error.__traceback__ is not None
        frame = error.__traceback__.tb_frame.f_back
    for _ in range(depth):
        frame = None if frame is None else frame.f_back
    if frame is None:
        raise ValueError("call stack is not deep enough")
    return frame


get_frame: Callable[[int], FrameType] = sys._getframe if IS_TESTED else _get_frame_of_traceback

# --- bytecode ------------------------------------------------------------------------------------

CAN_READ_BYTECODE = IS_TESTED
_SHARED_ACCESSES = frozenset(
    code
    for name, code in opmap.items()
    if name.startswith(("CALL", "BINARY", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "STORE_SUBSCR"))
)
_STORE_SUBSCR = opmap.get("STORE_SUBSCR", -1)
_BINARY_OP = opmap.get("BINARY_OP", -1)


def get_instruction(frame: FrameType) -> int:
    """The place of a frame in its code: the instruction, or the line where that is not known."""
    return frame.f_lasti if CAN_READ_BYTECODE else frame.f_lineno


def is_item_assignment(frame: FrameType) -> bool:
    """Whether a frame is at an instruction ``a[i] = x``; only if `CAN_READ_BYTECODE`."""
    place = frame.f_lasti
    return place >= 0 and frame.f_code.co_code[place] == _STORE_SUBSCR


def is_formatting(frame: FrameType) -> bool:
    """Whether a frame is at an operator such as ``text % x``; only if `CAN_READ_BYTECODE`."""
    return frame.f_code.co_code[frame.f_lasti] == _BINARY_OP


def is_shared_access(frame: FrameType) -> bool:
    """Whether a frame is at a call, or at an access of an attribute or element that other threads
    may see; only if `CAN_READ_BYTECODE`."""
    return frame.f_code.co_code[frame.f_lasti] in _SHARED_ACCESSES


def read_instructions(code: CodeType) -> list[Instruction] | None:
    """The instructions of code, or None on interpreters whose bytecode has not been tested."""
    return list(dis.get_instructions(code)) if CAN_READ_BYTECODE else None


def stack_effect(step: Instruction) -> int:
    """By how much an instruction that does not jump changes the height of the stack."""
    return dis.stack_effect(step.opcode, step.arg, jump=False)


def called_name(frame: FrameType) -> str | None:
    """The name of the function that a frame calls: ``fill`` in ``a.b.fill(x)``.

    None if the code has no positions, or something else than a name is called. Only if
    `CAN_READ_BYTECODE`.
    """
    return _called_name(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=512)
def _called_name(code: CodeType, place: int) -> str | None:
    """The name ends a call's text before the parenthesis, so of all names that begin where the call
    does it reaches farthest."""
    import dis  # few programs come here, and NumPy 2.0 has not imported it

    instructions = [i for i in dis.get_instructions(code) if i.offset <= place]
    call = instructions[-1] if instructions else None
    if call is None or call.positions is None or "CALL" not in call.opname:
        return None
    start = call.positions[0], call.positions[2]
    end = call.positions[1], call.positions[3]
    reach: dict[tuple[Any, Any], str] = {}
    for i in instructions[:-1]:
        if i.positions is None or None in i.positions or "CALL" in i.opname:
            continue
        if (i.positions[0], i.positions[2]) == start and (i.positions[1], i.positions[3]) < end:
            if i.opname.startswith("LOAD_") and isinstance(i.argval, str):
                reach[i.positions[1], i.positions[3]] = i.argval
            else:
                reach.setdefault((i.positions[1], i.positions[3]), "")
    return reach[max(reach)] if reach else None


# --- code objects --------------------------------------------------------------------------------


def named_copy(function: _F, name: str) -> _F:
    """A function with a code object of its own, whose name stack traces show.

    Functions that are built in one place share their code, and so the inline caches in which
    CPython keeps where attributes stand: with many classes of nodes none would fit (measured on a
    chain of small operations: 7 % of the time).
    """
    if not IS_TESTED or type(function) is not FunctionType:
        return function
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(
        code, function.__globals__, name, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__ = function.__doc__
    return copy  # type: ignore[return-value]


# Frames of such files are left out when `warnings.warn` counts its ``stacklevel``, so that SciPy's
# warnings go on naming the line of SciPy's caller.
_FRAME_WITHOUT_LEVEL = "<frozen importlib._bootstrap, pullback>"
_looks: dict[str, Callable[..., Any]] = {}  # by key; only without `IS_TESTED`


# Source of the code that functions get; text in capitals is replaced by objects. ``if 0: FREE``
# names the free variables of the function that the code is given to: a frame must have their cells,
# or reading its locals crashes.
_LOOK_AT_ARGUMENTS = """
def look_at_arguments(*args, **kwargs):
    if 0: FREE
    get_type = "TYPE"
    plain = "PLAIN"
    run = "KEPT"
    for value in args:
        if get_type(value) not in plain:
            look = "LOOK"
            run = look(args, kwargs)
            return run(*args, **kwargs)
    if kwargs:
        for value in kwargs.values():
            if get_type(value) not in plain:
                look = "LOOK"
                run = look(args, kwargs)
                return run(*args, **kwargs)
    return run(*args, **kwargs)
"""
_LOOK_BESIDE_SELF = """
def look_beside_self(self, /, *args, **kwargs):
    if 0: FREE
    get_type = "TYPE"
    plain = "PLAIN"
    holders = "HOLDERS"
    run = "KEPT"
    if get_type(self) in holders:
        look = "LOOK"
        run = look((self, *args), kwargs)
        return run(self, *args, **kwargs)
    for value in args:
        if get_type(value) not in plain:
            look = "LOOK"
            run = look((self, *args), kwargs)
            return run(self, *args, **kwargs)
    if kwargs:
        for value in kwargs.values():
            if get_type(value) not in plain:
                look = "LOOK"
                run = look((self, *args), kwargs)
                return run(self, *args, **kwargs)
    return run(self, *args, **kwargs)
"""
_LOOK_BY_NAME = """
def look_by_name(*args, **kwargs):
    if 0: FREE
    import sys
    return sys.modules["MODULE"]._looks["KEY"](args, kwargs)(*args, **kwargs)
"""


@lru_cache(maxsize=64)
def _compiled(source: str, count: int) -> CodeType:
    """The code of a function in a source text, with a number of free variables."""
    names = [f"free_{place}" for place in range(count)]
    body = source.replace("FREE", f"({', '.join(names)},)" if names else "0").replace(
        "\n", "\n    "
    )
    module = compile(f"def outer({', '.join(names)}):{body}", _FRAME_WITHOUT_LEVEL, "exec")
    codes = [outer for outer in module.co_consts if isinstance(outer, CodeType)]
    return next(inner for inner in codes[0].co_consts if isinstance(inner, CodeType))


def intercept(
    function: FunctionType,
    look: Callable[[tuple[Any, ...], dict[str, Any]], Callable[..., Any]],
    kept: FunctionType,
    plain: Set[type],
    holders: Container[type] | None = None,
) -> None:
    """Replaces the code of a function in place: names that refer to the function see the change.

    The new code calls `kept` if the types of all arguments are in `plain`, and otherwise what
    ``look(args, kwargs)`` returns. With `holders`, the first argument is the instance of a method,
    and counts only if its type is in `holders`. Store the old code in the function to undo it.
    """
    old = function.__code__
    if IS_TESTED:
        source = _LOOK_AT_ARGUMENTS if holders is None else _LOOK_BESIDE_SELF
        constants = {
            "TYPE": type, "PLAIN": plain, "HOLDERS": holders, "LOOK": look, "KEPT": kept,
        }  # fmt: skip
    else:
        source = _LOOK_BY_NAME
        key = f"{function.__module__}.{function.__qualname__}:{id(function)}"
        _looks[key] = look
        constants = {"MODULE": __name__, "KEY": key}
    template = _compiled(source, len(old.co_freevars))
    function.__code__ = template.replace(
        co_consts=tuple(
            constants.get(value, value) if isinstance(value, str) else value
            for value in template.co_consts
        ),
        co_freevars=old.co_freevars,
        co_name=old.co_name,
        co_qualname=old.co_qualname,
    )


def with_array_constants(function: _F) -> _F:
    """A formula whose numbers are arrays without axes, which it must not write to.

    NumPy combines those with small float64 arrays in half the time that Python's numbers take:
    ``1 - x`` of 8 elements takes 0.20 instead of 0.41 µs. The values are the same.
    """
    if not IS_TESTED or type(function) is not FunctionType:
        return function
    constants: list[Any] = []
    for value in function.__code__.co_consts:
        if type(value) is int or type(value) is float:
            value = np.array(value, np.float64)
            value.flags.writeable = False
        constants.append(value)
    code = function.__code__.replace(co_consts=tuple(constants))
    return FunctionType(code, function.__globals__, function.__name__)  # type: ignore[return-value]


# --- referrers -----------------------------------------------------------------------------------

_views: dict[int, ref[Any]] = {}  # of all views that live, by identity; only without `IS_TESTED`


def _get_referrers(value: Any) -> list[Any]:
    import gc  # used by few programs

    return gc.get_referrers(value)


def find_referrers(value: Any) -> list[Any]:
    """The objects that refer to a value; without `IS_TESTED`, none."""
    return _get_referrers(value) if IS_TESTED else []


def find_cached(function: Any) -> Iterable[Any]:
    """The results that a function with ``lru_cache`` has kept, or links of a list of them."""
    import gc  # used by few programs

    if not IS_TESTED:
        return ()
    own = vars(function)
    tables = [x for x in gc.get_referents(function) if type(x) is dict and x is not own]
    return tables[0].values() if tables else ()


def find_objects(generation: int) -> list[Any]:
    """The objects that the garbage collector tracks in one of its generations, 0 to 2.

    Without `IS_TESTED` generations may mean something else: the last one has all objects.
    """
    import gc  # used by few programs

    if IS_TESTED:
        return gc.get_objects(generation)
    return gc.get_objects() if generation == 2 else []


def find_views(counter: list[Any]) -> list[Any]:
    """Objects among which are all views with a version counter; others may be among them, too."""
    if IS_TESTED:
        return _get_referrers(counter)
    return [view for held in list(_views.values()) if (view := held()) is not None]


def register_views(make: _F) -> _F:
    """A decorator for a function that makes views: registers them for `find_views`.

    With `IS_TESTED` it returns the function itself, so that making a view takes no further call.
    """
    if IS_TESTED:
        return make

    @wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        view = make(*args, **kwargs)
        place = id(view)
        _views[place] = ref(view, lambda _: _views.pop(place, None))
        return view

    return call  # type: ignore[return-value]


# --- NumPy's private names -----------------------------------------------------------------------


def numpy_settings() -> tuple[Callable[[], Any], Callable[..., Any], Callable[[Any], Any]] | None:
    """Functions that read, make and assign NumPy's error state and buffer size, one call each.

    None if NumPy keeps them elsewhere, or without `IS_TESTED`.
    """
    if not IS_TESTED:
        return None
    from numpy._core import umath

    variable: Any = getattr(umath, "_extobj_contextvar", None)
    make = getattr(umath, "_make_extobj", None)
    return None if variable is None or make is None else (variable.get, make, variable.set)
