"""Calls of operators on blocks: from labels of axes to one layer of dask's graph.

A `Plan` gives a label to every axis of the tensors of a call. An axis with a label of the result is
computed block by block. An axis with any other label is *whole*: one block has all of it. Labels in
`summed` are neither: every block gives a part, and the parts are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.highlevelgraph import MaterializedLayer
from numpy.typing import NDArray

from pullback.dask.array import DaskArray, unique_name
from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.dispatch.modes import get_state, set_state
from pullback.fx.tracer import PLAIN_STATE
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "Call",
    "Labels",
    "Plan",
    "Result",
    "add_parts",
    "gather",
    "run_kernel",
    "run_plan",
    "tensors_of",
]

_CPU = KEY_BITS[DispatchKey.CPU]
_LITERAL_BYTES = 1024  # smaller arrays are part of a task, larger ones a task of their own

Labels = tuple[int, ...]


class Result(NamedTuple):
    """Shape and dtype of one result of a call, as the kernel of the meta device gives them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Call(NamedTuple):
    """One call of an operator on tensors, some of which hold dask arrays."""

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[Result]

    @property
    def name(self) -> str:
        """The operator's name without its library."""
        return str(self.operator.name()).rpartition("::")[2]

    def argument(self, name: str) -> Any:
        """The value of an argument."""
        names = [argument.name for argument in self.operator.schema.arguments.flat_positional]
        return {**dict(zip(names, self.args, strict=False)), **self.kwargs}[name]

    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments, in their order, without numbers."""
        return list(tensors_of((*self.args, *self.kwargs.values())))


class Plan(NamedTuple):
    """Labels of the axes of all tensors and results of a call; those of whole axes are negative."""

    inputs: Sequence[Labels]
    outputs: Sequence[Labels]
    summed: Labels = ()
    broadcasts: bool = True  # whether the kernel takes length one for any length


def tensors_of(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments and lists of them; Python numbers in tensors are left out."""
    for value in values:
        if isinstance(value, Tensor):
            if isinstance(value._array, np.ndarray | DaskArray):
                yield value
        elif isinstance(value, list | tuple):
            yield from tensors_of(value)


class _Slot(NamedTuple):
    number: int


def run_kernel(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The arrays that an operator's kernel for arrays computes, in a task."""
    before = get_state()
    try:
        set_state(PLAIN_STATE)
        found = operator.below(_CPU)(*args, **kwargs)
    finally:
        set_state(before)
    if isinstance(found, tuple | list):
        return tuple(item._array for item in found)
    return found._array


class _BlockCall:
    """Runs the kernel of an operator on blocks, in a task."""

    def __init__(self, call: Call, literals: dict[int, NDArray[Any]], parts: int):
        self.operator = call.operator
        self.parts = parts  # axes of length one in front, which are summed afterwards
        self._literals = literals
        count = iter(range(1 << 30))
        self.args = _with_slots(call.args, count)
        self.kwargs = {key: _with_slots((v,), count)[0] for key, v in call.kwargs.items()}

    def __call__(self, *blocks: Any) -> Any:
        """The kernel's result on these blocks."""
        given = iter(blocks)
        arrays: dict[int, Any] = {}
        total = len(blocks) + len(self._literals)
        for number in range(total):
            literal = self._literals.get(number)
            arrays[number] = _single(next(given)) if literal is None else literal
        args = _filled(self.args, arrays)
        kwargs = {key: _filled((value,), arrays)[0] for key, value in self.kwargs.items()}
        found = run_kernel(self.operator, args, kwargs)
        return found[(np.newaxis,) * self.parts] if self.parts else found

    def __dask_tokenize__(self) -> str:
        return unique_name(str(self.operator.name()))


def _with_slots(values: Sequence[Any], count: Iterator[int]) -> tuple[Any, ...]:
    made: list[Any] = []
    for value in values:
        if isinstance(value, Tensor) and isinstance(value._array, np.ndarray | DaskArray):
            made.append(_Slot(next(count)))
        elif isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
            made.append(list(_with_slots(value, count)))
        else:
            made.append(_Number(value._array) if isinstance(value, Tensor) else value)
    return tuple(made)


class _Number(NamedTuple):
    """A Python number in the place of a tensor, which NumPy promotes weakly."""

    value: Any


def _filled(values: Sequence[Any], arrays: dict[int, Any]) -> list[Any]:
    made: list[Any] = []
    for value in values:
        if isinstance(value, _Slot):
            made.append(wrap(arrays[value.number]))
        elif isinstance(value, _Number):
            number = wrap(value.value)
            number._array = value.value
            made.append(number)
        elif isinstance(value, list) and any(isinstance(v, _Slot | _Number) for v in value):
            made.append(_filled(value, arrays))
        else:
            made.append(value)
    return made


def _single(block: Any) -> Any:
    """The only block of a whole axis, which dask gives as a list."""
    while isinstance(block, list):
        (block,) = block
    return block


class _Pick:
    """Takes one result out of the tuple that a block gave."""

    def __init__(self, number: int):
        self.number = number

    def __call__(self, block: Any) -> Any:
        return _single(block)[self.number]

    def __dask_tokenize__(self) -> str:
        return unique_name("pick")


# --- running --------------------------------------------------------------------------------------


def _lengths(plan: Plan, tensors: list[Tensor]) -> dict[int, int] | None:
    """The length of each label; None where two axes with one label do not broadcast."""
    found: dict[int, int] = {}
    for labels, tensor in zip(plan.inputs, tensors, strict=True):
        for label, n in zip(labels, tensor.shape, strict=True):
            if found.setdefault(label, n) != n:
                if 1 not in (n, found[label]):
                    return None
                found[label] = max(n, found[label]) if 0 not in (n, found[label]) else 0
    return found


def run_plan(call: Call, plan: Plan) -> list[DaskArray] | None:
    """The results of a call by a plan; None where the plan does not fit its shapes."""
    tensors = call.tensors()
    lengths = _lengths(plan, tensors)
    if lengths is None or 0 in lengths.values() or any(0 in r.shape for r in call.results):
        return None
    for labels, result in zip(plan.outputs, call.results, strict=True):
        if len(labels) != len(result.shape):
            return None
        pairs_of = zip(labels, result.shape, strict=True)
        if any(label >= 0 and lengths.get(label, n) != n for label, n in pairs_of):
            return None
    looped = [label for label in plan.outputs[0] if label >= 0]
    if any({x for x in labels if x >= 0} != set(looped) for labels in plan.outputs):
        return None
    chunks = _chunks(plan, tensors, {*looped, *plan.summed})
    if _is_gathering(plan, tensors) and not any(len(chunk) > 1 for chunk in chunks.values()):
        return None
    grown = set(plan.summed)
    if not plan.broadcasts:
        counts = Counter(label for labels in plan.inputs for label in labels)
        grown |= {label for label, count in counts.items() if count > 1}
    lazy = {
        label
        for labels, tensor in zip(plan.inputs, tensors, strict=True)
        if isinstance(tensor._array, DaskArray)
        for label in labels
    }
    literals: dict[int, NDArray[Any]] = {}
    pairs: list[Any] = []
    for number, (labels, tensor) in enumerate(zip(plan.inputs, tensors, strict=True)):
        held = tensor._array
        if isinstance(held, DaskArray):
            given = _operand(held, labels, chunks, grown)
        else:
            # a copy: the program may write to the array before the graph runs
            given = _constant(np.array(held), labels, chunks, lazy)
        if isinstance(given, np.ndarray):
            literals[number] = given
        else:
            pairs += [given, labels]
    # An axis of which all operands have one block needs no parts.
    summed = tuple(x for x in plan.summed if len(chunks.get(x, ())) > 1)
    block = _BlockCall(call, literals, len(summed))
    return _layer(call, plan, block, pairs, summed, looped)


def _chunks(plan: Plan, tensors: list[Tensor], blocked: set[int]) -> dict[int, tuple[int, ...]]:
    """The chunks of the labels that are computed block by block: the finest that occur."""
    found: dict[int, tuple[int, ...]] = {}
    for labels, tensor in zip(plan.inputs, tensors, strict=True):
        held = tensor._array
        if not isinstance(held, DaskArray):
            continue
        for axis, label in enumerate(labels):
            if label in blocked and held.array.shape[axis] == held.shape[axis] != 1:
                chunks = held.array.chunks[axis]
                if label not in found or len(chunks) > len(found[label]):
                    found[label] = chunks
    return found


def _is_gathering(plan: Plan, tensors: list[Tensor]) -> bool:
    """Whether a whole axis has several blocks."""
    return any(
        label < 0 and tensor._array.array.numblocks[axis] > 1
        for labels, tensor in zip(plan.inputs, tensors, strict=True)
        if isinstance(tensor._array, DaskArray)
        for axis, label in enumerate(labels)
    )


def _constant(
    array: NDArray[Any], labels: Labels, chunks: dict[int, tuple[int, ...]], lazy: set[int]
) -> Any:
    """An array in memory as an operand: cut like the others, or a literal if it is small.

    A literal has no label that no dask array has in its full length.
    """
    wanted = tuple(
        chunks[label] if n > 1 and label in chunks else (n,)
        for label, n in zip(labels, array.shape, strict=True)
    )
    fits = all(
        label < 0 or (label in lazy if n == 1 else len(chunks.get(label, ())) == 1)
        for label, n in zip(labels, array.shape, strict=True)
    )
    if fits and array.nbytes <= _LITERAL_BYTES:
        return array
    return da.from_array(array, chunks=wanted, name=unique_name("constant"))


def _operand(
    held: DaskArray, labels: Labels, chunks: dict[int, tuple[int, ...]], grown: set[int]
) -> Any:
    """A dask array as an operand: whole axes in one block, repeated axes only where they may be."""
    array = held.array
    shape, wanted = list(array.shape), list(array.chunks)
    for axis, label in enumerate(labels):
        n = held.shape[axis]
        if shape[axis] != n and (label < 0 or label in grown):
            shape[axis], wanted[axis] = n, chunks.get(label, (n,))
    if tuple(shape) != array.shape:
        array = da.broadcast_to(array, tuple(shape), chunks=tuple(wanted))
    whole = {axis: -1 for axis, x in enumerate(labels) if x < 0 and array.numblocks[axis] > 1}
    return array.rechunk(whole) if whole else array


def _layer(
    call: Call, plan: Plan, block: Any, pairs: list[Any], summed: Labels, looped: list[int]
) -> list[DaskArray]:
    known = {label for labels in pairs[1::2] for label in labels}
    name = unique_name(call.name)
    if len(call.results) > 1:
        index = tuple(label for label in looped if label in known)
        made = da.blockwise(
            block, index, *pairs, name=name, dtype=object,
            meta=np.empty((0,) * len(index), object), concatenate=None,
        )  # fmt: skip
        return [
            _finished(_Pick(number), labels, [made, index], result, set(index), f"{name}-{number}")
            for number, (labels, result) in enumerate(zip(plan.outputs, call.results, strict=True))
        ]
    (result,) = call.results
    if not summed:
        return [_finished(block, plan.outputs[0], pairs, result, known, name)]
    labels = (*summed, *plan.outputs[0])
    parts = _blockwise(
        block, labels, pairs, (*(1 for _ in summed), *result.shape), result.dtype, known, name,
        {label: partial(_length, 1) for label in summed},
    )  # fmt: skip
    return [DaskArray(add_parts(parts, len(summed), result.dtype), result.shape)]


def _finished(
    block: Any, labels: Labels, pairs: list[Any], result: Result, known: set[int], name: str
) -> DaskArray:
    made = _blockwise(block, labels, pairs, result.shape, result.dtype, known, name, None)
    return DaskArray(made, result.shape)


def _blockwise(
    block: Any, labels: Labels, pairs: list[Any], shape: tuple[int, ...], dtype: Any,
    known: set[int], name: str, adjusted: dict[int, Callable[[int], int]] | None,
) -> Any:  # fmt: skip
    """A layer of tasks; output axes whose label no operand has are new and whole."""
    pairs_of = list(zip(labels, shape, strict=True))
    new = {label: n for label, n in pairs_of if label not in known}
    whole = {label: partial(_length, n) for label, n in pairs_of if label in known and label < 0}
    made = da.blockwise(
        block, labels, *pairs, name=name, dtype=dtype, new_axes=new or None,
        adjust_chunks={**(adjusted or {}), **whole} or None,
        meta=np.empty((0,) * len(labels), dtype), concatenate=None,
    )  # fmt: skip
    if 1 in new.values():
        # dask fuses a layer with others as if a new axis of length one had their blocks
        made.dask.layers[name] = MaterializedLayer(dict(made.dask.layers[name]))
    return made


def _length(n: int, _: int) -> int:
    return n


def add_parts(parts: Any, count: int, dtype: Any) -> Any:
    """Adds the parts of a sum along the first axes, by dask's tree."""
    return da.reduction(
        parts, _add, _add, axis=tuple(range(count)), keepdims=False, dtype=dtype,
        meta=np.empty((0,) * (parts.ndim - count), dtype), concatenate=True,
    )  # fmt: skip


def _add(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.asarray(x).sum(axis=axis, keepdims=keepdims, dtype=x.dtype)


def gather(call: Call) -> Any:
    """The results of a call in one task, which gets all of every operand."""
    inputs, label = [], -1
    for tensor in call.tensors():
        inputs.append(tuple(range(label, label - tensor.ndim, -1)))
        label -= tensor.ndim
    outputs = []
    for result in call.results:
        outputs.append(tuple(range(label, label - len(result.shape), -1)))
        label -= len(result.shape)
    pairs: list[Any] = []
    for labels, tensor in zip(inputs, call.tensors(), strict=True):
        held = tensor._array
        array = held.whole() if isinstance(held, DaskArray) else None
        if array is None:
            array = da.from_array(np.array(held), chunks=-1, name=unique_name("constant"))
        pairs += [array.rechunk(-1) if array.npartitions > 1 else array, labels]
    block = _BlockCall(call, {}, 0)
    return _layer(call, Plan(inputs, outputs), block, pairs, (), [])
