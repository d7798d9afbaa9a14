"""Compiler of the functions through which an operator is called.

A schema fixes a signature, so a call needs no ``*args``: the source made here takes the schema's
arguments by name, ORs the flags of its tensors and calls what the table holds for the thread's
state and those flags. Three functions share that body:

- ``call``: the hot path, with exactly the schema's signature;
- ``checked``: the same with two catch-all parameters, so that a surplus or
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

from pullback.dispatch.flags import flag_collector
from pullback.dispatch.modes import get_state
from pullback.dispatch.result import result_checker
from pullback.dispatch.table import OperatorEntry
from pullback.schema import Argument, BaseTy, BaseType, FunctionSchema, OptionalType
from pullback.schema.bind import Binder

__all__ = ["Calls", "compile_calls", "source_name"]

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


def source_name(name: str) -> str:
    """The name under which tracebacks and debuggers see an operator's call functions."""
    return f"<operator {name}>"


def compile_calls(entry: OperatorEntry, binder: Binder) -> Calls:
    """Compiles the three functions of an operator whose calls `binder` binds."""
    schema = binder.schema
    # Lists are kept as tuples and copied per call: a kernel may write into its own.
    defaults = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in binder.defaults.items()
    }
    slow, surplus = _slow_paths(entry, binder)
    source = _source(schema, defaults)
    filename = source_name(entry.name)
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


def _slow_paths(
    entry: OperatorEntry, binder: Binder
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Makes the general paths: for a failed lookup, and for calls with surplus arguments."""
    schema = binder.schema
    positional = [argument.name for argument in schema.arguments.flat_positional]
    collect = flag_collector(schema)

    def bound_call(leading: list[Any], named: dict[str, Any]) -> Any:
        args, kwargs = binder.bind(leading, named)
        return entry.link_call(collect(args, kwargs))(*args, **kwargs)

    def slow(*args: Any, **kwargs: Any) -> Any:
        return bound_call([], _given(dict(zip(positional, args, strict=True)) | kwargs))

    def surplus(values: dict[str, Any], extra: tuple[Any, ...], unknown: dict[str, Any]) -> Any:
        given = _given(values)
        for name in unknown:
            # Names of arguments that were left out have been taken from `unknown` by now.
            if name in given and name in positional:
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
    call = _parameters(positional, keyword_only)
    checked = _parameters(positional, keyword_only, checked=True)
    # By keyword come those that ``checked`` has by position only, or under another name.
    by_keyword = positional + [a for a in keyword_only if keyword.iskeyword(a.name)]
    adopt = "".join(
        f"        if {_python_name(a)} is _pb_missing:\n"
        f"            {_python_name(a)} = _pb_unknown.pop({a.name!r}, _pb_missing)\n"
        for a in by_keyword
    )
    fill = "".join(
        f"    if {_python_name(a)} is _pb_missing:\n"
        f"        {_python_name(a)} = _pb_default_{a.name}\n"
        for a in by_keyword
        if a.default is not None
    )
    copies = "".join(
        f"    if {_python_name(a)} is _pb_default_{a.name}:\n"
        f"        {_python_name(a)} = _pb_list({_python_name(a)})\n"
        for a in arguments
        if isinstance(defaults.get(a.name), tuple)
    )
    return (
        f"def call({call}):\n{body}\n\n"
        f"def checked({', '.join(filter(None, ['_pb_operator', checked]))}):\n"
        f"    if _pb_extra or _pb_unknown:\n{adopt}"
        f"        if _pb_extra or _pb_unknown:\n"
        f"            return _pb_result(_pb_surplus({{{values}}}, _pb_extra, _pb_unknown))\n"
        f"{fill}{body}\n\n"
        f"def redispatch({', '.join(filter(None, ['_pb_keyset, /', call]))}):\n{copies}"
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
    positional: list[Argument], keyword_only: list[Argument], *, checked: bool = False
) -> str:
    """A parameter list. In ``checked`` every parameter may be left out, and what is positional or
    named like a Python keyword is missing until the catch-all has been looked at."""
    texts: list[str] = []
    for argument in positional + keyword_only:
        text = _python_name(argument)
        late = checked and (argument in positional or keyword.iskeyword(argument.name))
        if argument.default is not None and not late:
            text += f"=_pb_default_{argument.name}"
        elif checked:
            text += "=_pb_missing"
        texts.append(text)
    star = ["*_pb_extra"] if checked else ["*"] if keyword_only else []
    if checked and positional:
        # By position only: a name that comes as a keyword too must be ours to report.
        star.insert(0, "/")
    texts[len(positional) : len(positional)] = star
    return ", ".join(texts + (["**_pb_unknown"] if checked else []))


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
    return argument.type == BaseType(BaseTy.Tensor) and not argument.takes_none


def _collect_flags(argument: Argument) -> list[str]:
    """Lines that add the flags of an optional tensor or a list of tensors."""
    name = _python_name(argument)
    kind = argument.type
    if argument.takes_none or kind == OptionalType(BaseType(BaseTy.Tensor)):
        return [f"if {name} is not None:", f"    _pb_flags |= {name}._flags"]
    lines = [
        # A list of its own: a kernel may write into it, and the caller's must not change.
        f"if _pb_type({name}) is _pb_list:",
        f"    {name} = {name}[:]",
        "else:",
        f"    {name} = _pb_check({argument.name!r}, {name})",
        f"for _pb_tensor in {name}:",
    ]
    if not kind.is_nullable():
        return [*lines, "    _pb_flags |= _pb_tensor._flags"]
    return [*lines, "    if _pb_tensor is not None:", "        _pb_flags |= _pb_tensor._flags"]


def _check(argument: Argument) -> list[str]:
    """Lines that accept values of the exact type and pass all others to the binder."""
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
