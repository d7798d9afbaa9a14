"""Halos of blocks, axis by axis, and their adjoint.

`add_halo` puts elements of the neighbours around each block; `fold_halo` is its adjoint, which adds
what arrives at a halo to the elements that it was copied from. Each is the other's derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.function import Function
from pullback.dask.array import DaskArray, unique_name
from pullback.dask.graphs import Chunks, array_of_tasks, grid, keys_of
from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["HaloSpec", "add_halo", "halo_specs"]

_Boundary = str | float | int | complex
_BOUNDARIES = ("reflect", "periodic", "nearest", "none")


class HaloSpec(NamedTuple):
    """The halo along one axis."""

    axis: int
    low: int  # elements of the block before
    high: int  # elements of the block after
    boundary: _Boundary  # "reflect", "periodic", "nearest", "none", or a number
    chunks: tuple[int, ...]  # of the array without halo

    def sides(self, number: int) -> tuple[int, int]:
        """The depth of the halo before and after one block."""
        last = number == len(self.chunks) - 1
        if self.boundary != "none":
            return self.low, self.high
        return (0 if number == 0 else self.low), (0 if last else self.high)

    def padded(self) -> tuple[int, ...]:
        """The chunks with halo."""
        return tuple(n + sum(self.sides(number)) for number, n in enumerate(self.chunks))

    def neighbour(self, number: int, step: int) -> int | None:
        """The block before or after another one; None at an edge without one."""
        found = number + step
        if 0 <= found < len(self.chunks):
            return found
        return found % len(self.chunks) if self.boundary == "periodic" else None


def halo_specs(x: Tensor, chunks: Chunks, depth: Any, boundary: Any) -> tuple[HaloSpec, ...]:
    """The halos of ``map_overlap``, of axes that have one."""
    depths = _by_axis("depth", depth, x.ndim, 0)
    boundaries = _by_axis("boundary", boundary, x.ndim, "none")
    specs = []
    for axis, chunk in enumerate(chunks):
        low, high = _pair(axis, depths[axis], chunk)
        mode = "none" if boundaries[axis] is None else boundaries[axis]
        if isinstance(mode, str):
            if mode not in _BOUNDARIES:
                raise AutogradValueError(
                    f"map_overlap: boundary has to be one of {_BOUNDARIES} or a number, not "
                    f"{mode!r}"
                )
        elif not np.can_cast(np.result_type(mode), x.dtype, "same_kind"):
            raise AutogradValueError(
                f"map_overlap: boundary {mode!r} does not fit into an array of dtype {x.dtype}"
            )
        if low or high:
            specs.append(HaloSpec(axis, low, high, mode, chunk))
    return tuple(specs)


def _by_axis(name: str, given: Any, ndim: int, missing: Any) -> list[Any]:
    """An option for each axis, of one for all, a sequence, or a mapping of axes."""
    if isinstance(given, Mapping):
        found = [missing] * ndim
        for axis, value in given.items():
            if not -ndim <= axis < ndim:
                raise AutogradValueError(
                    f"map_overlap: {name} names axis {axis}, but the tensor has {ndim} axes"
                )
            found[axis] = value
        return found
    if not isinstance(given, list | tuple):
        return [given] * ndim
    if len(given) != ndim:
        raise AutogradValueError(
            f"map_overlap: {name} has {len(given)} entries for a tensor of {ndim} axes; pass one "
            f"for each axis"
        )
    return list(given)


def _pair(axis: int, depth: Any, chunk: tuple[int, ...]) -> tuple[int, int]:
    """The depths before and after blocks."""
    pair = depth if isinstance(depth, list | tuple) else (depth, depth)
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) for n in pair):
        raise AutogradTypeError(
            f"map_overlap: depth along axis {axis} has to be a whole number or a pair of them, not "
            f"{depth!r}"
        )
    for n in pair:
        if not 0 <= n <= min(chunk):
            raise AutogradValueError(
                f"map_overlap: depth {n} along axis {axis} has to be at least 0 and at most the "
                f"length of the shortest block, {min(chunk)}; rechunk before from_dask"
            )
    return int(pair[0]), int(pair[1])


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None) for _ in range(axis)), part)


def _first(depth: int) -> slice:
    return slice(None, depth)


def _last(depth: int) -> slice:
    return slice(-depth, None) if depth else slice(0, 0)


def _strip(block: NDArray[Any], axis: int, part: slice) -> NDArray[Any]:
    return np.ascontiguousarray(block[_along(axis, part)])


def _edge(block: NDArray[Any], spec: HaloSpec, side: int) -> NDArray[Any] | None:
    """The halo that a boundary gives the first (side 0) or last block."""
    axis, depth = spec.axis, (spec.low, spec.high)[side]
    if spec.boundary == "none":
        return None
    if spec.boundary == "reflect":
        part = _first(depth) if side == 0 else _last(depth)
        return np.flip(block[_along(axis, part)], axis)
    if spec.boundary == "nearest":
        part = _first(1) if side == 0 else _last(1)
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
    """The adjoint of `_join`: strips are what the neighbours' halos of this block have got.

    The halo after the block before has this block's first elements, as many as `high`.
    """
    axis = spec.axis
    low, high = spec.sides(number)
    n = block.shape[axis]
    core = np.array(block[_along(axis, slice(low, n - high))])
    if before is not None:
        core[_along(axis, _first(spec.high))] += before
    elif low:
        _fold_edge(core, block[_along(axis, _first(low))], spec, 0)
    if after is not None:
        core[_along(axis, _last(spec.low))] += after
    elif high:
        _fold_edge(core, block[_along(axis, slice(n - high, None))], spec, 1)
    return core


def _fold_edge(core: NDArray[Any], halo: NDArray[Any], spec: HaloSpec, side: int) -> None:
    axis, depth = spec.axis, (spec.low, spec.high)[side]
    if spec.boundary == "reflect":
        part = _first(depth) if side == 0 else _last(depth)
        core[_along(axis, part)] += np.flip(halo, axis)
    elif spec.boundary == "nearest":
        part = _first(1) if side == 0 else _last(1)
        core[_along(axis, part)] += halo.sum(axis=axis, keepdims=True)


def _layer(array: Any, spec: HaloSpec, adds: bool) -> Any:
    """One axis of `add_halo` or of its adjoint: two strips and a join for each block."""
    axis = spec.axis
    chunks: Chunks = (
        *array.chunks[:axis],
        spec.padded() if adds else spec.chunks,
        *array.chunks[axis + 1 :],
    )
    # The strips of the block before and of the block after.
    parts = _last(spec.low if adds else spec.high), _first(spec.high if adds else spec.low)
    names = unique_name("halo-last"), unique_name("halo-first")
    strips: dict[Any, Any] = {}
    tasks: dict[Any, Any] = {}
    for place in grid(array.chunks):
        keys: list[Any] = []
        for step, part, strip in zip((-1, 1), parts, names, strict=True):
            other = spec.neighbour(place[axis], step)
            if other is None:
                keys.append(None)
                continue
            there = (*place[:axis], other, *place[axis + 1 :])
            strips[(strip, *there)] = (_strip, keys_of(array, there), axis, part)
            keys.append((strip, *there))
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


def _keep_specs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    ctx.specs = inputs[1]


class _AddHalo(Function):
    """Blocks with the elements of their neighbours around them."""

    @staticmethod
    def forward(x: Tensor, specs: tuple[HaloSpec, ...]) -> Tensor:
        return _all_layers(x._array, specs, adds=True)

    setup_context = staticmethod(_keep_specs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        specs = ctx.specs
        return _FoldHalo.apply(_in_chunks(grad, specs, adds=True), specs), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Any:
        return _AddHalo.apply(_in_chunks(tangent, ctx.specs, adds=False), _with_zeros(ctx.specs))


class _FoldHalo(Function):
    """The adjoint of `_AddHalo`."""

    @staticmethod
    def forward(x: Tensor, specs: tuple[HaloSpec, ...]) -> Tensor:
        return _all_layers(x._array, specs, adds=False)

    setup_context = staticmethod(_keep_specs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        grads = _in_chunks(grad, ctx.specs, adds=False)
        return _AddHalo.apply(grads, _with_zeros(ctx.specs)), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Any:
        return _FoldHalo.apply(_in_chunks(tangent, ctx.specs, adds=True), ctx.specs)


def _with_zeros(specs: tuple[HaloSpec, ...]) -> tuple[HaloSpec, ...]:
    """The halos of tangents: the tangent of a number outside is zero."""
    return tuple(
        spec if isinstance(spec.boundary, str) else spec._replace(boundary=0) for spec in specs
    )


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
    def forward(x: Tensor, chunks: Any) -> Tensor:
        return fresh(DaskArray(x._array.whole().rechunk(chunks)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.chunks = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # noqa: ARG004
        return grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Any:
        return _Rechunk.apply(tangent, ctx.chunks)


def add_halo(x: Tensor, specs: tuple[HaloSpec, ...]) -> Tensor:
    """The blocks of a tensor with their halos."""
    return _AddHalo.apply(x, specs)  # type: ignore[no-any-return]
