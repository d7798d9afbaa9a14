"""Writes and compiles the functions through which one operator is called.

A schema fixes a signature, so a call needs no ``*args``: the source made here takes the schema's
arguments by name, ORs the flags of its tensors and calls what the table holds for the thread's
state and those flags. Three functions share that body:

- ``call``: the hot path, with exactly the schema's signature;
- ``checked``: the same with two catch-all parameters that are only looked at, so that a surplus or
  misspelt argument is reported in terms of the schema; it becomes the operator's ``__call__``;
- ``redispatch``: takes the key set as it is given, and checks nothing.

When the lookup fails (the first call with these flags, a missing argument, something that is no
tensor) the call goes to ``slow`` instead of a kernel, which binds by the schema's full rules, links
and calls, or raises; outside any ``except`` block, so that errors come without a false cause.
Compiled on an operator's first call; the source stays visible to debuggers through ``linecache``.
"""

from __future__ import annotations

import keyword
import linecache
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.dispatch.modes import get_state
from pullback.dispatch.result import result_checker
from pullback.dispatch.table import OperatorEntry
from pullback.schema import Argument, BaseTy, BaseType, FunctionSchema, ListType, OptionalType
from pullback.schema.bind import Binder

__all__ = ["Calls", "argument_flags", "compile_calls"]

_MISSING: Any = type("Missing", (), {"__repr__": lambda _: "<missing>"})()

# The one exact Python type that needs no check; other accepted types are converted by the binder.
_EXACT = {
    BaseTy.int: "_pb_int",
    BaseTy.SymInt: "_pb_int",
    BaseTy.float: "_pb_float",
    BaseTy.bool: "_pb_bool",
    BaseTy.str: "_pb_str",
}
# Under names of our own, because an argument may be called `type` or `list`.
_BUILTINS = {f"_pb_{kind.__name__}": kind for kind in (type, list, int, float, bool, str)}


class Calls(NamedTuple):
    """The compiled functions of one operator."""

    call: Callable[..., Any]
    checked: Callable[..., Any]
    redispatch: Callable[..., Any]


def compile_calls(entry: OperatorEntry, binder: Binder) -> Calls:
    """Compiles the three functions of an operator whose calls `binder` binds."""
    schema = binder.schema
    # Lists are kept as tuples and copied per call: a kernel may write into its own.
    defaults = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in binder.defaults.items()
    }
    slow, surplus = _slow_paths(entry, binder, defaults)
    source = _source(schema, defaults)
    filename = f"<operator {entry.name}>"
    namespace: dict[str, Any] = {
        **_BUILTINS,
        "_pb_missing": _MISSING,
        "_pb_state": get_state,
        "_pb_calls": entry.calls,
        "_pb_redispatches": entry.redispatches.get,
        "_pb_link_redispatch": entry.link_redispatch,
        "_pb_check": _checker(binder),
        "_pb_result": result_checker(schema, entry.name),
        "_pb_slow": slow,
        "_pb_surplus": surplus,
    }
    namespace.update({f"_pb_default_{name}": value for name, value in defaults.items()})
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return Calls(namespace["call"], namespace["checked"], namespace["redispatch"])


def _checker(binder: Binder) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value is _MISSING:
            raise binder.missing(name)
        return binder.check(name, value)

    return check


def argument_flags(schema: FunctionSchema, values: dict[str, Any]) -> dict[str, int]:
    """The flags of each dispatch argument of a bound call; lists count as one argument."""
    flags = {}
    for name in schema.dispatch_arguments:
        value = values[name]
        total = 0
        for tensor in value if isinstance(value, list) else [value]:
            total |= 0 if tensor is None else tensor._flags
        flags[name] = total
    return flags


def union(flags: dict[str, int]) -> int:
    """The flags of all arguments together."""
    total = 0
    for more in flags.values():
        total |= more
    return total


def _slow_paths(
    entry: OperatorEntry, binder: Binder, defaults: dict[str, Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What is called instead of a kernel, and instead of everything with surplus arguments."""
    schema = binder.schema
    positional = [argument.name for argument in schema.arguments.flat_positional]

    def bound_call(leading: list[Any], named: dict[str, Any]) -> Any:
        args, kwargs = binder.bind(leading, named)
        values = dict(zip(positional, args, strict=True)) | kwargs
        return entry.link_call(union(argument_flags(schema, values)))(*args, **kwargs)

    def slow(*args: Any, **kwargs: Any) -> Any:
        values = dict(zip(positional, args, strict=True)) | kwargs
        return bound_call([], _given(values))

    def surplus(values: dict[str, Any], extra: tuple[Any, ...], unknown: dict[str, Any]) -> Any:
        given = _given(values)
        for name in unknown:
            # A default that nobody gave is the very object that stands in the signature.
            if name in given and given[name] is not defaults.get(name, _MISSING):
                raise binder.given_twice(name)
        leading = [given.pop(name) for name in positional if name in given] if extra else []
        return bound_call([*leading, *extra], given | unknown)

    return slow, surplus


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not _MISSING}


# ---- source --------------------------------------------------------------------------------------


def _source(schema: FunctionSchema, defaults: dict[str, Any]) -> str:
    """The text of the three functions."""
    positional = list(schema.arguments.flat_positional)
    keyword_only = list(schema.arguments.flat_all)[len(positional) :]
    arguments = positional + keyword_only
    passed = ", ".join(
        [_python_name(a) for a in positional]
        # A keyword argument named like a Python keyword can only be passed as a mapping.
        + [_keyword_argument(a) for a in keyword_only]
    )
    values = ", ".join(f"{a.name!r}: {_python_name(a)}" for a in arguments)
    body = _body(schema, arguments, passed)
    call = _parameters(positional, keyword_only, optional=False)
    checked = _parameters(positional, keyword_only, optional=True, extra=True)
    direct = _parameters(positional, keyword_only, optional=False)
    copies = "".join(
        f"    if {_python_name(a)} is _pb_default_{a.name}:\n"
        f"        {_python_name(a)} = _pb_list({_python_name(a)})\n"
        for a in arguments
        if isinstance(defaults.get(a.name), tuple)
    )
    return (
        f"def call({call}):\n{body}\n\n"
        f"def checked({', '.join(filter(None, ['_pb_operator', checked]))}):\n"
        f"    if _pb_extra or _pb_unknown:\n"
        f"        return _pb_result(_pb_surplus({{{values}}}, _pb_extra, _pb_unknown))\n"
        f"{body}\n\n"
        f"def redispatch({', '.join(filter(None, ['_pb_keyset, /', direct]))}):\n{copies}"
        f"    _pb_kernel = _pb_redispatches(_pb_keyset) or _pb_link_redispatch(_pb_keyset)\n"
        f"    return _pb_kernel({passed})\n"
    )


def _python_name(argument: Argument) -> str:
    return f"_pb_{argument.name}" if keyword.iskeyword(argument.name) else argument.name


def _keyword_argument(argument: Argument) -> str:
    if keyword.iskeyword(argument.name):
        return f"**{{{argument.name!r}: {_python_name(argument)}}}"
    return f"{argument.name}={argument.name}"


def _parameters(
    positional: list[Argument], keyword_only: list[Argument], *, optional: bool, extra: bool = False
) -> str:
    """A parameter list; with `optional`, even required parameters may be left out."""
    texts: list[str] = []
    for argument in positional + keyword_only:
        text = _python_name(argument)
        if argument.default is not None:
            text += f"=_pb_default_{argument.name}"
        elif optional or (texts and "=" in texts[-1] and argument in positional):
            text += "=_pb_missing"
        texts.append(text)
    star = ["*_pb_extra"] if extra else ["*"] if keyword_only else []
    if extra and positional:
        # By position only: a name that comes as a keyword too must be ours to report.
        star.insert(0, "/")
    texts[len(positional) : len(positional)] = star
    return ", ".join(texts + (["**_pb_unknown"] if extra else []))


def _body(schema: FunctionSchema, arguments: list[Argument], passed: str) -> str:
    """Flags, checks, lookup, call and result check, shared by ``call`` and ``checked``."""
    dispatch = set(schema.dispatch_arguments)
    plain = [_python_name(a) for a in arguments if a.name in dispatch and _is_tensor(a)]
    flags = " | ".join(f"{name}._flags" for name in plain) or "0"
    lines = [f"_pb_flags = {flags}"]
    for argument in arguments:
        if argument.name in dispatch and not _is_tensor(argument):
            lines += _collect_flags(argument)
    # Tensors before the rest: a call that is wrong in several places goes to `slow`, which reports
    # the first of them.
    for argument in arguments:
        if argument.name not in dispatch:
            lines += _check(argument)
    lines.append("_pb_kernel = _pb_calls[_pb_state()][_pb_flags]")
    body = (
        "    try:\n"
        + "".join(f"        {line}\n" for line in lines)
        + "    except (KeyError, AttributeError, TypeError):\n"
        "        _pb_kernel = _pb_slow\n"
    )
    if [str(ret.type) for ret in schema.returns] != ["Tensor"]:
        return body + f"    return _pb_result(_pb_kernel({passed}))\n"
    return body + (
        f"    _pb_value = _pb_kernel({passed})\n"
        "    try:\n"
        "        _pb_value._flags\n"
        "    except AttributeError:\n"
        "        return _pb_result(_pb_value)\n"
        "    return _pb_value\n"
    )


def _is_tensor(argument: Argument) -> bool:
    return argument.type == BaseType(BaseTy.Tensor)


def _collect_flags(argument: Argument) -> list[str]:
    """Lines that add the flags of an optional tensor or a list of tensors."""
    name = _python_name(argument)
    kind = argument.type
    if kind == OptionalType(BaseType(BaseTy.Tensor)):
        return [f"if {name} is not None:", f"    _pb_flags |= {name}._flags"]
    listed = kind if isinstance(kind, ListType) else None
    guard = "_pb_tensor is not None" if listed and listed.elem.is_nullable() else "True"
    lines = [
        f"if _pb_type({name}) is not _pb_list:",
        f"    {name} = _pb_check({argument.name!r}, {name})",
        f"for _pb_tensor in {name} or ():",
    ]
    if guard == "True":
        return [*lines, "    _pb_flags |= _pb_tensor._flags"]
    return [*lines, f"    if {guard}:", "        _pb_flags |= _pb_tensor._flags"]


def _check(argument: Argument) -> list[str]:
    """Lines that let exact values pass and hand all others to the binder."""
    name = _python_name(argument)
    convert = f"{name} = _pb_check({argument.name!r}, {name})"
    kind = argument.type
    condition = []
    if isinstance(kind, OptionalType):
        condition.append(f"{name} is not None")
        kind = kind.elem
    if isinstance(kind, BaseType) and kind.name in _EXACT:
        condition.append(f"_pb_type({name}) is not {_EXACT[kind.name]}")
    return [f"if {' and '.join(condition)}:", f"    {convert}"] if condition else [convert]
