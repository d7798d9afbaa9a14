"""Calls of custom operators' kernels, below autograd, with checks against the schema.

A kernel is user code on tensors. Nothing that it does is recorded, and what it returns must be what
the schema says: new memory, unless the schema declares a view or a written argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pullback.autograd.graph.views import make_view, view_of
from pullback.autograd.levels import leave_tape
from pullback.dispatch import OpOverload
from pullback.dispatch.keys import REQUIRES_GRAD, after_ADInplaceOrView
from pullback.dispatch.modes import INFERENCE, TRANSFORM, get_state, set_state
from pullback.errors import InferenceError, KernelResultError
from pullback.library.compiled_call import compile_plain, is_simple
from pullback.library.user_state import USER_STATES
from pullback.schema import FunctionSchema
from pullback.tensor.meta import Creation
from pullback.tensor.payload import shares_memory
from pullback.tensor.tensor import (
    NO_COUNTER,
    Tensor,
    as_inference,
    share_counter,
    tag_level,
    version_of,
    wrap,
)

__all__ = [
    "checked_kernel",
    "in_same_memory",
    "memory_of",
    "tensors_in",
    "versions_kernel",
]

_Function = Callable[..., Any]
_ndarray = np.ndarray


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors among values, also those in lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def memory_of(tensor: Tensor) -> Any:
    """The object that owns a tensor's memory: two tensors with the same owner may overlap."""
    owner = tensor._array
    while type(owner) is _ndarray and owner.base is not None:
        owner = owner.base
    return owner


def in_same_memory(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors lie in the same memory; disjoint parts of one buffer count."""
    return memory_of(first) is memory_of(second) or shares_memory(first._array, second._array)


def checked_kernel(
    fn: _Function, schema: FunctionSchema, name: str, tags: tuple[str, ...]
) -> _Function:
    """Wraps `fn` as a kernel: runs it without recording, checks its result by the schema."""
    promise = _returned_check(schema, name, tags)
    makes_new = not tags or not {"inplace", "out"} & set(tags)
    get, put, known = get_state, set_state, USER_STATES

    def check(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        modes = get().modes
        if modes & (INFERENCE | TRANSFORM):
            _mark(args, kwargs, result, as_inference if modes & INFERENCE else tag_level)
        # The common case in full: one new tensor that owns its memory, and plain arguments.
        if makes_new and type(result) is Tensor and not result._flags & REQUIRES_GRAD:
            array = result._array
            owner = array if type(array) is not _ndarray or array.base is None else array.base
            if type(owner) is _ndarray and owner.base is None:
                for value in args:
                    if type(value) is Tensor:
                        other = value._array
                        if other is owner or other.base is owner:
                            break
                    elif type(value) is list:
                        break
                else:
                    if not kwargs:
                        return result
        if type(result) is not Tensor or result._flags & REQUIRES_GRAD:
            result = _without_history(result, args, kwargs)
        promise(args, kwargs, result)
        return result

    def run(*args: Any, **kwargs: Any) -> Any:
        state = get()
        try:
            put(known[state])
            result = fn(*args, **kwargs)
        finally:
            put(state)
        return check(args, kwargs, result)

    if makes_new and is_simple(schema):
        run = compile_plain(schema, name, fn, check)
    run.unchecked = (fn, check)  # type: ignore[attr-defined]
    return run


def _mark(args: Any, kwargs: Any, result: Any, mark: _Function) -> None:
    """Tags new tensors with the mode or transform in which they were made."""
    given = list(tensors_in([args, list(kwargs.values())]))
    for tensor in tensors_in([result]):
        if not any(tensor is other for other in given):
            mark(tensor)


def _without_history(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A result without what the kernel recorded, if it turned grad mode on for itself."""
    if isinstance(result, list | tuple):
        return type(result)(_without_history(item, args, kwargs) for item in result)
    if not isinstance(result, Tensor) or not result._flags & REQUIRES_GRAD:
        return result
    if any(result is value for value in tensors_in([args, list(kwargs.values())])):
        return result
    bare = wrap(result._array)
    share_counter(bare, result)  # what the kernel recorded may have saved it
    return bare


def _returned_check(schema: FunctionSchema, name: str, tags: tuple[str, ...]) -> _Function:
    if "inplace" in tags:
        return _same_object_check(name, "its first argument", [schema.arguments.flat_all[0].name])
    if "out" in tags:
        written = [a.name for a in schema.arguments.flat_all if a.is_write]
        return _same_object_check(name, "its mutable keyword-only arguments, in order", written)
    if schema.is_view or any(ret.is_write for ret in schema.returns):
        return _no_check
    if not any(ret.type.is_tensor_like() for ret in schema.returns):
        return _no_check
    return _new_memory_check(name)


def _no_check(args: Any, kwargs: Any, result: Any) -> None:
    """Nothing is promised."""


def _same_object_check(name: str, what: str, written: list[str]) -> _Function:
    def check(args: Any, kwargs: Any, result: Any) -> None:
        expected = [kwargs[n] if n in kwargs else args[0] for n in written]
        given = list(result) if isinstance(result, tuple | list) else [result]
        if len(given) != len(expected) or any(
            a is not b for a, b in zip(given, expected, strict=True)
        ):
            raise KernelResultError(
                f"{name} must return {what} ({', '.join(written)}): the very objects that it was "
                f"called with"
            )

    return check


def _new_memory_check(name: str) -> _Function:
    def check(args: Any, kwargs: Any, result: Any) -> None:
        made = list(tensors_in([result]))
        others = list(tensors_in([args, list(kwargs.values())]))
        for place, tensor in enumerate(made):
            if any(in_same_memory(tensor, other) for other in others):
                raise _alias_error(name, place, "an input")
            for later in range(place + 1, len(made)):
                if in_same_memory(tensor, made[later]):
                    raise _alias_error(name, place, f"return {later}")

    return check


def _alias_error(name: str, place: int, other: str) -> KernelResultError:
    return KernelResultError(
        f"{name}: return {place} shares memory with {other}. The output of a custom operator may "
        f"not alias any inputs to this custom operator or other returns. Return a clone(), or "
        f"declare the alias in the schema: (Tensor(a) x) -> Tensor(a)."
    )


def versions_kernel(operator: OpOverload) -> _Function:
    """Links what runs at ADInplaceOrView: written arguments get a new version, views their base."""
    schema = operator.schema
    arguments = schema.arguments.flat_all
    positional = len(schema.arguments.flat_positional)
    written = [(i, a.name) for i, a in enumerate(arguments) if a.is_write]
    parent = next((i for i, a in enumerate(arguments[:positional]) if a.annotation is not None), 0)

    def link(operator: OpOverload, flags: int) -> _Function:
        below = operator.below(flags & after_ADInplaceOrView)

        def run(*args: Any, **kwargs: Any) -> Any:
            if written:
                leave_tape()
            for place, name in written:
                value = args[place] if place < positional else kwargs[name]
                for tensor in tensors_in([value]):
                    _bump(tensor, operator.name())
            result = below(*args, **kwargs)
            if schema.is_view:
                return _as_view(args[parent], result)
            return result

        return run

    return link


def _bump(tensor: Tensor, name: str) -> None:
    counter = version_of(tensor)
    if counter is NO_COUNTER:
        raise InferenceError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed. "
            f"Make a clone() of it first."
        )
    counter[0] += 1


def _as_view(parent: Tensor, result: Any) -> Any:
    """A declared view as a tracked one, whose later history may not pass the operator by."""
    if not isinstance(result, Tensor) or not in_same_memory(parent, result):
        return result
    if result is parent or view_of(result) is None:
        result = make_view(parent, result._array[...], (_cannot_replay,), None)
    view = view_of(result)
    if view is not None:
        view.creation = Creation.CUSTOM
    return result


def _cannot_replay(xp: Any, base: Any) -> Any:  # noqa: ARG001 - the form of a step
    """A custom view is never made again: writes that would need it are refused."""
    raise AssertionError("a view of a custom operator was replayed")
