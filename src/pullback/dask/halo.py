"""Halos of blocks, axis by axis, and their adjoint.

`add_halo` puts elements of the neighbours around each block; `fold_halo` is its adjoint, which adds
what arrives at a halo to the elements that it was copied from. Each is the other's derivative.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.function import Function, FunctionCtx
from pullback.dask.array import DaskArray, unique_name
from pullback.dask.graphs import Chunks, array_of_tasks, grid, keys_of
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["Boundary", "HaloSpec", "add_halo"]

Boundary = str | float | int | complex


class HaloSpec(NamedTuple):
    """The halo along one axis."""

    axis: int
    depth: int
    boundary: Boundary  # "reflect", "periodic", "nearest", "none", or a number
    chunks: tuple[int, ...]  # of the array without halo

    def sides(self, number: int) -> tuple[int, int]:
        """The depth of the halo before and after one block."""
        last = number == len(self.chunks) - 1
        if self.boundary != "none":
            return self.depth, self.depth
        return (0 if number == 0 else self.depth), (0 if last else self.depth)

    def padded(self) -> tuple[int, ...]:
        """The chunks with halo."""
        return tuple(n + sum(self.sides(number)) for number, n in enumerate(self.chunks))

    def neighbour(self, number: int, step: int) -> int | None:
        """The block before or after another one; None at an edge without one."""
        found = number + step
        if 0 <= found < len(self.chunks):
            return found
        return found % len(self.chunks) if self.boundary == "periodic" else None


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None) for _ in range(axis)), part)


def _strip(block: NDArray[Any], axis: int, begin: int | None, end: int | None) -> NDArray[Any]:
    return np.ascontiguousarray(block[_along(axis, slice(begin, end))])


def _edge(block: NDArray[Any], spec: HaloSpec, side: int) -> NDArray[Any] | None:
    """The halo that a boundary gives the first (side 0) or last block."""
    axis, depth = spec.axis, spec.depth
    if spec.boundary == "none":
        return None
    if spec.boundary == "reflect":
        part = slice(None, depth) if side == 0 else slice(-depth, None)
        return np.flip(block[_along(axis, part)], axis)
    if spec.boundary == "nearest":
        part = slice(None, 1) if side == 0 else slice(-1, None)
        return np.repeat(block[_along(axis, part)], depth, axis)
    shape = list(block.shape)
    shape[axis] = depth
    return np.full(shape, spec.boundary, block.dtype)


def _join(spec: HaloSpec, block: Any, before: Any, after: Any) -> NDArray[Any]:
    """A block with its halo; neighbours that are None do not exist."""
    left = _edge(block, spec, 0) if before is None else before
    right = _edge(block, spec, 1) if after is None else after
    return np.concatenate([x for x in (left, block, right) if x is not None], spec.axis)


def _fold(spec: HaloSpec, number: int, block: Any, before: Any, after: Any) -> NDArray[Any]:
    """The adjoint of `_join`: strips are what the neighbours' halos of this block have got."""
    axis, depth = spec.axis, spec.depth
    low, high = spec.sides(number)
    n = block.shape[axis]
    core = np.array(block[_along(axis, slice(low, n - high))])
    first, last = _along(axis, slice(None, depth)), _along(axis, slice(-depth, None))
    if before is not None:
        core[first] += before
    elif low:
        _fold_edge(core, block[_along(axis, slice(None, low))], spec, 0)
    if after is not None:
        core[last] += after
    elif high:
        _fold_edge(core, block[_along(axis, slice(n - high, None))], spec, 1)
    return core


def _fold_edge(core: NDArray[Any], halo: NDArray[Any], spec: HaloSpec, side: int) -> None:
    axis, depth = spec.axis, spec.depth
    if spec.boundary == "reflect":
        part = slice(None, depth) if side == 0 else slice(-depth, None)
        core[_along(axis, part)] += np.flip(halo, axis)
    elif spec.boundary == "nearest":
        part = slice(None, 1) if side == 0 else slice(-1, None)
        core[_along(axis, part)] += halo.sum(axis=axis, keepdims=True)


def _layer(array: Any, spec: HaloSpec, adds: bool) -> Any:
    """One axis of `add_halo` or of its adjoint: two strips and a join for each block."""
    axis, depth = spec.axis, spec.depth
    chunks: Chunks = (
        *array.chunks[:axis],
        spec.padded() if adds else spec.chunks,
        *array.chunks[axis + 1 :],
    )
    strips: dict[Any, Any] = {}
    sides = ("before", "after")
    tail, head = unique_name("halo-last"), unique_name("halo-first")
    tasks: dict[Any, Any] = {}
    for place in grid(array.chunks):
        keys: list[Any] = []
        for side, step in zip(sides, (-1, 1), strict=True):
            other = spec.neighbour(place[axis], step)
            if other is None:
                keys.append(None)
                continue
            there = (*place[:axis], other, *place[axis + 1 :])
            takes_end = side == "before"
            key = (tail if takes_end else head, *there)
            begin, end = (-depth, None) if takes_end else (None, depth)
            strips[key] = (_strip, keys_of(array, there), axis, begin, end)
            keys.append(key)
        block = keys_of(array, place)
        if adds:
            tasks[place] = (partial(_join, spec), block, *keys)
        else:
            tasks[place] = (partial(_fold, spec, place[axis]), block, *keys)
    name = unique_name("halo" if adds else "fold")
    made = array_of_tasks(name, tasks, chunks, array.dtype, [array])
    made.dask.layers[name].mapping.update(strips)
    return made


def _all_layers(payload: DaskArray, specs: tuple[HaloSpec, ...], adds: bool) -> Tensor:
    array = payload.whole()
    for spec in specs if adds else reversed(specs):
        array = _layer(array, spec, adds)
    return fresh(DaskArray(array))


class _AddHalo(Function):
    """Blocks with the elements of their neighbours around them."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, specs: tuple[HaloSpec, ...]) -> Tensor:
        ctx.specs = specs  # type: ignore[attr-defined]
        return _all_layers(x._array, specs, adds=True)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Any, ...]:
        specs = ctx.specs  # type: ignore[attr-defined]
        return _FoldHalo.apply(_in_chunks(grad, specs, adds=True), specs), None


class _FoldHalo(Function):
    """The adjoint of `_AddHalo`."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, specs: tuple[HaloSpec, ...]) -> Tensor:
        ctx.specs = specs  # type: ignore[attr-defined]
        return _all_layers(x._array, specs, adds=False)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Any, ...]:
        specs = ctx.specs  # type: ignore[attr-defined]
        zeros = tuple(
            spec._replace(boundary=0) if not isinstance(spec.boundary, str) else spec
            for spec in specs
        )
        return _AddHalo.apply(_in_chunks(grad, specs, adds=False), zeros), None


def _in_chunks(grad: Tensor, specs: tuple[HaloSpec, ...], adds: bool) -> Tensor:
    """A cotangent in the blocks of the array that it belongs to."""
    held = grad._array
    array = held.whole()
    wanted = {spec.axis: spec.padded() if adds else spec.chunks for spec in specs}
    if all(array.chunks[axis] == chunk for axis, chunk in wanted.items()):
        return grad
    return _Rechunk.apply(grad, wanted)  # type: ignore[no-any-return]


class _Rechunk(Function):
    """The same values in other blocks; so is its derivative."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, chunks: Any) -> Tensor:  # noqa: ARG004
        return fresh(DaskArray(x._array.whole().rechunk(chunks)))

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Any, ...]:  # noqa: ARG004
        return grad, None


def add_halo(x: Tensor, specs: tuple[HaloSpec, ...]) -> Tensor:
    """The blocks of a tensor with their halos."""
    return _AddHalo.apply(x, specs)  # type: ignore[no-any-return]
