"""The kernel of all operators at the key ``Dask``: one fallback.

A call gets the shapes and dtypes of its results from the operator's kernel for meta tensors; the
NumPy kernel runs in tasks, on blocks. Which rule an operator has is in ``rules.py``. Operators
without one gather their operands in one task, up to a limit of bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np

from pullback.dask.array import DASK_BITS, DaskArray, constant, on_first_use
from pullback.dask.blocks import Call, Result, gather, tensors_of
from pullback.dask.rules import rule_of
from pullback.dispatch import registry
from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.dispatch.modes import get_state, set_state
from pullback.dispatch.table import ENTRIES, Kernel
from pullback.errors import AutogradValueError, DaskError, DispatchError, NoDataError
from pullback.fx.tracer import PLAIN_STATE
from pullback.meta.array import MetaArray
from pullback.schema import SchemaKind
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = ["gather_limit", "gathered_operators", "link_dask"]

_META = KEY_BITS[DispatchKey.Meta]
_RANDOM = ("_dropout", "_random_like", "_uniform_like")
_LEVELS = ("_add_level", "_remove_level", "_sum_level", "_expand_level")

_limit: ContextVar[int] = ContextVar("pullback_dask_gather_limit", default=1 << 28)
_gathered: ContextVar[list[str] | None] = ContextVar("pullback_dask_gathered", default=None)


@contextlib.contextmanager
def gather_limit(nbytes: int) -> Iterator[None]:
    """A block in which one task may get `nbytes` bytes of operands; 256 MiB otherwise.

    Operators that no rule computes block by block gather their operands in one task, and raise
    above the limit.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.ones((8, 8), chunks=4))
    >>> with pb.dask.gather_limit(1 << 30):
    ...     inverse = pb.linalg.inv(x)
    >>> inverse.shape
    (8, 8)
    """
    if nbytes < 0:
        raise AutogradValueError(f"gather_limit: nbytes has to be at least 0, but got {nbytes}")
    token = _limit.set(int(nbytes))
    try:
        yield
    finally:
        _limit.reset(token)


@contextlib.contextmanager
def gathered_operators() -> Iterator[list[str]]:
    """A block that lists the names of the operators that gather their operands.

    >>> import dask.array as da, pullback as pb
    >>> with pb.dask.gathered_operators() as names:
    ...     _ = pb.sin(pb.dask.from_dask(da.ones((8, 8), chunks=4)))
    >>> names
    []
    """
    names: list[str] = []
    token = _gathered.set(names)
    try:
        yield names
    finally:
        _gathered.reset(token)


def link_dask(operator: Any, _: int) -> Callable[..., Any]:
    """Makes the kernel of one operator for tensors that hold dask arrays."""
    name = str(operator.name()).rpartition("::")[2]
    schema = operator.schema
    if name in _LEVELS:
        return _refusing(f"vmap: {name}", "vmap does not take tensors that hold dask arrays")
    if name in _RANDOM or "nondeterministic_seeded" in operator.tags:
        reason = "random numbers are not drawn lazily; draw them by dask.array.random"
        return _refusing(name.lstrip("_"), reason)
    kind = schema.kind()
    if kind is SchemaKind.out:
        return _refusing(name, "out= cannot be a lazy array; use the result")
    if kind is SchemaKind.inplace:
        return _in_place(operator, name)
    rule = rule_of(operator, name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        call = Call(operator, args, kwargs, _results(operator, name, args, kwargs))
        found = None
        if rule is not None:
            found = rule(call)
        if found is None:
            found = _gather(call)
        return _wrapped(call, found)

    return kernel


def _refusing(name: str, reason: str) -> Callable[..., Any]:
    def kernel(*_: Any, **__: Any) -> Any:
        raise DaskError(f"{name}: {reason}")

    return kernel


def _results(operator: Any, name: str, args: Any, kwargs: Any) -> list[Result]:
    """Shapes and dtypes of the results, from the operator's kernel for meta tensors."""
    before = get_state()
    try:
        set_state(PLAIN_STATE)
        kernel = operator.below(_META)
        found = kernel(*map(_as_meta, args), **{key: _as_meta(v) for key, v in kwargs.items()})
    except NoDataError as error:
        raise DaskError(
            f"{name}: the shape of its result depends on values, which a lazy dask array does not "
            f"have yet; compute its operands first, by pb.dask.compute"
        ) from error
    except DispatchError as error:
        raise DaskError(
            f"{name}: no kernel for meta tensors gives the shape of its result; register one "
            f"(register_fake), or compute its operands first, by pb.dask.compute"
        ) from error
    finally:
        set_state(before)
    tensors = found if isinstance(found, tuple | list) else [found]
    return [Result(tensor.shape, tensor.dtype) for tensor in tensors]


def _as_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        held = value._array
        if isinstance(held, DaskArray):
            return wrap(MetaArray(held.shape, held.dtype))
        if isinstance(held, np.ndarray):
            return wrap(MetaArray(held.shape, held.dtype, held.strides))
        return value
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        return [_as_meta(item) for item in value]
    return value


def _gather(call: Call) -> Any:
    nbytes = sum(tensor.nbytes for tensor in call.tensors())
    nbytes += sum(int(np.prod(r.shape)) * r.dtype.itemsize for r in call.results)
    if nbytes > _limit.get():
        raise DaskError(
            f"{call.name}: no rule computes it block by block for these arguments, and one task "
            f"with all operands and results would take {nbytes:,} bytes, more than the limit of "
            f"{_limit.get():,}. Use other operators, or raise the limit by pb.dask.gather_limit"
        )
    names = _gathered.get()
    if names is not None:
        names.append(call.name)
    return gather(call)


def _wrapped(call: Call, found: Any) -> Any:
    """Results as tensors; those of views share the storage of the first operand."""
    schema = call.operator.schema
    if schema.is_view:
        viewed = next(tensors_of(call.args))._array
        if isinstance(viewed, DaskArray):
            found = [DaskArray(held.array, held.shape, viewed) for held in found]
    for held, result in zip(found, call.results, strict=True):
        if held.shape != result.shape or held.dtype != result.dtype:
            raise AssertionError(
                f"{call.name}: its rule gave {held.shape} {held.dtype}, not {result}"
            )
    made = [fresh(held) for held in found]
    if len(schema.returns) == 1 and schema.returns[0].type.is_list_like() is not None:
        return made
    return made[0] if len(schema.returns) == 1 else tuple(made)


# --- in-place operators ---------------------------------------------------------------------------


def _in_place(operator: Any, name: str) -> Callable[..., Any]:
    """The kernel of an in-place operator: computes out of place, and replaces the values."""
    entry = ENTRIES.get(f"{operator.namespace}::{name.removesuffix('_')}")

    def kernel(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        held = self._array
        if not isinstance(held, DaskArray):
            raise DaskError(
                f"{name}: a lazy dask array cannot be written to an array in memory; compute it "
                f"first, by pb.dask.compute"
            )
        _results(operator, name, (self, *args), kwargs)  # checks shapes and dtypes
        if name == "zero_":
            made = constant(0, held.shape, held.dtype)
        elif name in ("copy_", "fill_"):
            made = _converted(args[0], held)
        elif entry is not None and entry.is_defined:
            made = _converted(entry.operator.below(DASK_BITS)(self, *args, **kwargs), held)
        else:
            raise DaskError(f"{name}: an in-place operator without a form that returns its result")
        held.replace(made.array, made.shape, name)
        return self

    return kernel


def _converted(source: Tensor, target: DaskArray) -> DaskArray:
    """A value in the shape and dtype of what it is written to."""
    call = ENTRIES["pullback::astype"].operator.below(DASK_BITS)
    held = source._array
    if not isinstance(held, DaskArray):
        array = np.asarray(held).astype(target.dtype)
        plain = constant(0, array.shape, target.dtype)
        add = ENTRIES["pullback::add"].operator.below(DASK_BITS)
        source = add(wrap(array), wrap(plain))
        held = source._array
    if held.dtype != target.dtype:
        held = call(source, target.dtype)._array
    if held.shape != target.shape:
        spread = ENTRIES["pullback::broadcast_to"].operator.below(DASK_BITS)
        held = spread(wrap(held), list(target.shape))._array
    return DaskArray(held.array, held.shape)


on_first_use(
    partial(registry.register_fallback, Kernel(link_dask, DispatchKey.Dask, linker=link_dask))
)
