"""``map_blocks`` and ``map_overlap``: functions on blocks, differentiated in tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from pullback.autograd.api import grad as gradients_of
from pullback.autograd.function import Function, FunctionCtx
from pullback.dask.array import DaskArray, unique_name
from pullback.dask.blocks import add_parts
from pullback.dask.graphs import Chunks, array_of_tasks, grid, keys_of, lengths_at
from pullback.dask.halo import Boundary, HaloSpec, add_halo
from pullback.dispatch.modes import is_grad_enabled
from pullback.errors import AutogradTypeError, AutogradValueError, DaskError
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = ["map_blocks", "map_overlap"]

_BOUNDARIES = ("reflect", "periodic", "nearest", "none")


class _Mapped(NamedTuple):
    """One call of `map_blocks`: what the tasks of both passes have in common."""

    func: Callable[..., Any]
    name: str
    blocked: tuple[bool, ...]  # which operands are cut into blocks; each task gets all of others
    chunks: Chunks  # of the result
    dtype: np.dtype[Any]
    halos: tuple[HaloSpec, ...]

    def trim(self, place: tuple[int, ...]) -> tuple[slice, ...]:
        """The part of a block's result that remains."""
        parts = [slice(None)] * len(self.chunks)
        for spec in self.halos:
            low, high = spec.sides(place[spec.axis])
            parts[spec.axis] = slice(low, -high if high else None)
        return tuple(parts)


def _evaluate(func: Any, name: str, tensors: list[Tensor], trim: Any, shape: Any) -> Tensor:
    found = func(*tensors)
    result: Tensor = found if isinstance(found, Tensor) else fresh(np.asarray(found))
    trimmed = np.broadcast_to(np.empty(()), result.shape)[trim].shape
    if trimmed != shape:
        raise AutogradValueError(
            f"{name}: the function returned an array of shape {result.shape} for a block of shape "
            f"{tensors[0].shape}, of which {trimmed} remains, but {shape} is expected; pass "
            f"chunks= for a function that changes the shape"
        )
    return result


def _forward(mapped: _Mapped, trim: Any, shape: Any, *blocks: Any) -> NDArray[Any]:
    """A task of the forward pass."""
    result = _evaluate(mapped.func, mapped.name, [wrap(b) for b in blocks], trim, shape)
    return np.asarray(result.detach().numpy()[trim]).astype(mapped.dtype, copy=False)


def _backward(
    mapped: _Mapped, needs: tuple[bool, ...], trim: Any, shape: Any, cotangent: Any, *blocks: Any
) -> tuple[Any, ...]:
    """A task of the backward pass: the VJP of the function on one block."""
    tensors = []
    for block, needed in zip(blocks, needs, strict=True):
        tensor = wrap(np.array(block) if needed else block)
        tensors.append(tensor.requires_grad_() if needed else tensor)
    result = _evaluate(mapped.func, mapped.name, tensors, trim, shape)
    seed = np.zeros(result.shape, result.dtype)
    seed[trim] = cotangent
    leaves = [tensor for tensor, needed in zip(tensors, needs, strict=True) if needed]
    if not result.requires_grad:
        found: Sequence[Any] = [None] * len(leaves)
    else:
        found = gradients_of(result, leaves, wrap(seed), allow_unused=True)
    pairs = zip(found, leaves, strict=True)
    return tuple(np.zeros(x.shape, x.dtype) if g is None else g.numpy() for g, x in pairs)


def _pick(results: tuple[Any, ...], number: int, axes: int) -> Any:
    return results[number][(np.newaxis,) * axes] if axes else results[number]


def _lazy(tensor: Tensor, is_blocked: bool) -> Any:
    held = tensor._array
    if not isinstance(held, DaskArray):
        return da.from_array(np.array(held), chunks=-1, name=unique_name("constant"))
    array = held.whole()
    return array if is_blocked or array.npartitions == 1 else array.rechunk(-1)


class _MapBlocks(Function):
    """A function on blocks, whose VJP runs in tasks."""

    @staticmethod
    def forward(ctx: FunctionCtx, mapped: _Mapped, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.mapped = mapped  # type: ignore[attr-defined]
        arrays = [_lazy(t, b) for t, b in zip(tensors, mapped.blocked, strict=True)]
        tasks = {}
        for place in grid(mapped.chunks):
            call = partial(_forward, mapped, mapped.trim(place), lengths_at(mapped.chunks, place))
            tasks[place] = (call, *_keys(mapped, arrays, place))
        name = unique_name(mapped.name)
        made = array_of_tasks(name, tasks, mapped.chunks, mapped.dtype, arrays)
        return fresh(DaskArray(made))

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Any, ...]:
        mapped: _Mapped = ctx.mapped  # type: ignore[attr-defined]
        tensors: tuple[Any, ...] = ctx.saved_tensors
        needs = tuple(bool(need) for need in ctx.needs_input_grad[1:])
        arrays = [_lazy(t, b) for t, b in zip(tensors, mapped.blocked, strict=True)]
        cotangent = grad._array.whole().rechunk(mapped.chunks)
        tasks = {}
        for place in grid(mapped.chunks):
            shape = lengths_at(mapped.chunks, place)
            call = partial(_backward, mapped, needs, mapped.trim(place), shape)
            blocks = _keys(mapped, arrays, place)
            tasks[place] = (call, keys_of(cotangent, place), *blocks)
        name = unique_name(f"{mapped.name}-vjp")
        vjp = array_of_tasks(name, tasks, mapped.chunks, object, [cotangent, *arrays])
        found: list[Any] = [None]
        number = 0
        for array, need, is_blocked in zip(arrays, needs, mapped.blocked, strict=True):
            found.append(_gradient(vjp, array, number, is_blocked) if need else None)
            number += need
        if not is_grad_enabled():
            return tuple(found)
        # create_graph=True: the gradients depend on the operands, which a constant would hide
        sources = (grad, *tensors)
        return tuple(None if g is None else _Once.apply(mapped.name, g, *sources) for g in found)


class _Once(Function):
    """A gradient that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: FunctionCtx, name: str, gradient: Tensor, *_: Tensor) -> Tensor:
        ctx.name_of_function = name  # type: ignore[attr-defined]
        return fresh(gradient._array.copy())

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> tuple[Any, ...]:
        name = ctx.name_of_function  # type: ignore[attr-defined]
        raise DaskError(
            f"{name}: its second derivative is not supported; write the function with operators on "
            f"tensors that hold dask arrays, whose derivatives of all orders exist"
        )


def _keys(mapped: _Mapped, arrays: list[Any], place: tuple[int, ...]) -> list[Any]:
    pairs = zip(arrays, mapped.blocked, strict=True)
    return [keys_of(a, place if blocked else (0,) * a.ndim) for a, blocked in pairs]


def _gradient(vjp: Any, array: Any, number: int, is_blocked: bool) -> Tensor:
    """The gradient of one operand out of the results of all blocks."""
    name = unique_name("gradient")
    places = list(grid(vjp.chunks))
    if is_blocked:
        tasks: dict[Any, Any] = {p: (_pick, keys_of(vjp, p), number, 0) for p in places}
        return fresh(DaskArray(array_of_tasks(name, tasks, array.chunks, array.dtype, [vjp])))
    axes = vjp.ndim
    tail = (0,) * array.ndim
    tasks = {(*p, *tail): (_pick, keys_of(vjp, p), number, axes) for p in places}
    ones = tuple((1,) * len(chunk) for chunk in vjp.chunks)
    whole = tuple((n,) for n in array.shape)
    parts = array_of_tasks(name, tasks, (*ones, *whole), array.dtype, [vjp])
    return fresh(DaskArray(add_parts(parts, axes, array.dtype)))


def map_blocks(
    func: Callable[..., Any], *operands: Any, chunks: Any = None, dtype: Any = None
) -> Tensor:
    """Calls a function on the blocks of tensors; its derivative runs in tasks of its own.

    Args:
        func: takes one block of each tensor that holds a dask array, and all of each other operand,
            as tensors; returns the block of the result. Each block is differentiated by itself.
        operands: tensors that hold dask arrays with the same blocks, and tensors or arrays in
            memory, such as parameters. The gradients of the latter are summed over the blocks.
        chunks: the chunks of the result, if the function changes the shape of blocks.
        dtype: of the result; that of the first tensor by default.

    The second derivative is refused.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.arange(4.0, chunks=2))
    >>> w = pb.tensor(3.0, requires_grad=True)
    >>> y = pb.dask.map_blocks(lambda block, w: pb.sin(block) * w, x, w)
    >>> (gradient,) = pb.autograd.grad(y.sum(), [w])
    >>> round(float(pb.dask.compute(gradient)[0]), 6)
    1.891888
    """
    return _mapped("map_blocks", func, operands, chunks, dtype, ())


def _mapped(
    name: str, func: Any, operands: Sequence[Any], chunks: Any, dtype: Any, halos: Any
) -> Tensor:
    if not callable(func):
        raise AutogradTypeError(f"{name}: expected a function, but got {type(func).__name__}")
    tensors = [x if isinstance(x, Tensor) else fresh(np.asarray(x)) for x in operands]
    lazy = [t for t in tensors if isinstance(t._array, DaskArray)]
    if not lazy:
        raise AutogradTypeError(f"{name}: no operand is a tensor that holds a dask array")
    first = lazy[0]._array.whole()
    for tensor in lazy[1:]:
        if tensor._array.whole().chunks != first.chunks:
            raise AutogradValueError(
                f"{name}: operands have different blocks: {first.chunks} and "
                f"{tensor._array.whole().chunks}; rechunk them before from_dask"
            )
    wanted = _result_chunks(name, first.chunks, chunks, halos)
    blocked = tuple(isinstance(t._array, DaskArray) for t in tensors)
    kind = np.dtype(first.dtype if dtype is None else dtype)
    return _MapBlocks.apply(  # type: ignore[no-any-return]
        _Mapped(func, name, blocked, wanted, kind, tuple(halos)), *tensors
    )


def _result_chunks(name: str, given: Chunks, chunks: Any, halos: Sequence[HaloSpec]) -> Chunks:
    if chunks is not None:
        wanted = tuple(tuple(int(n) for n in chunk) for chunk in chunks)
        if [len(c) for c in wanted] != [len(c) for c in given]:
            raise AutogradValueError(
                f"{name}: chunks= has to have as many blocks along each axis as the operands, "
                f"{[len(c) for c in given]}, but has {[len(c) for c in wanted]}"
            )
        return wanted
    inner = {spec.axis: spec.chunks for spec in halos}
    return tuple(inner.get(axis, chunk) for axis, chunk in enumerate(given))


def map_overlap(
    func: Callable[..., Any],
    x: Tensor,
    *operands: Any,
    depth: int | Mapping[int, int],
    boundary: Boundary | Mapping[int, Any] | None = "reflect",
    dtype: Any = None,
) -> Tensor:
    """Calls a function on the blocks of a tensor with `depth` elements of their neighbours.

    Args:
        func: takes a block with its halo, and what `operands` has; returns an array of the same
            shape, whose halo is cut off.
        x: a tensor that holds a dask array.
        operands: tensors or arrays in memory, such as parameters.
        depth: the width of the halo, for all axes or by axis.
        boundary: what lies outside of the array, for all axes or by axis: ``"reflect"`` (with the
            edge), ``"periodic"``, ``"nearest"``, ``"none"`` (nothing), or a number.

    The halo's derivative adds what a halo has got to the elements that it was copied from.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.arange(6.0, chunks=3), requires_grad=True)
    >>> y = pb.dask.map_overlap(lambda u: pb.roll(u, 1) * u, x, depth=1, boundary="periodic")
    >>> (gradient,) = pb.autograd.grad(y.sum(), [x])
    >>> [a.tolist() for a in pb.dask.compute(y, gradient)]
    [[0.0, 0.0, 2.0, 6.0, 12.0, 20.0], [6.0, 2.0, 4.0, 6.0, 8.0, 4.0]]
    """
    if not isinstance(x, Tensor) or not isinstance(x._array, DaskArray):
        raise AutogradTypeError("map_overlap: x has to be a tensor that holds a dask array")
    chunks = x._array.whole().chunks
    specs = []
    for axis, chunk in enumerate(chunks):
        width = _by_axis(depth, axis, x.ndim, 0)
        mode = _by_axis(boundary, axis, x.ndim, "none")
        mode = "none" if mode is None else mode
        if isinstance(mode, str) and mode not in _BOUNDARIES:
            raise AutogradValueError(
                f"map_overlap: boundary has to be one of {_BOUNDARIES} or a number, not {mode!r}"
            )
        if width < 0 or width > min(chunk):
            raise AutogradValueError(
                f"map_overlap: depth {width} along axis {axis} has to be at least 0 and at most "
                f"the length of the shortest block, {min(chunk)}; rechunk before from_dask"
            )
        if width:
            specs.append(HaloSpec(axis, width, mode, chunk))
    if any(isinstance(getattr(other, "_array", None), DaskArray) for other in operands):
        raise AutogradTypeError(
            "map_overlap: only x may hold a dask array; stack fields along a new axis of one chunk"
        )
    padded = add_halo(x, tuple(specs)) if specs else x
    return _mapped("map_overlap", func, (padded, *operands), None, dtype, tuple(specs))


def _by_axis(given: Any, axis: int, ndim: int, missing: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    return given.get(axis, given.get(axis - ndim, missing))
