"""The work of a task: derivatives of a function for a block of partitions, summed or stacked.

Everything here is imported by workers. A task gets a `Payload`, which has the function and the
parameters and is the same for all tasks of a step, and a block of partitions.
"""

from __future__ import annotations

import functools
import pickle
import reprlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.views import requires_grad
from pullback.distributed.partitions import PrivateGraph
from pullback.distributed.tree_sum import TreeSum
from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.func.numpy_style import grad, hvp, jacobian, value_and_grad
from pullback.interop.mode import differentiable
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = [
    "Block",
    "BlockResult",
    "Payload",
    "check_parameters",
    "combine",
    "encode",
    "run_block",
]


class Payload(NamedTuple):
    """The data that all tasks of one step share."""

    name: str  # of the public function, for messages
    func: Callable[..., Any]
    kind: str  # a key of `_COMPUTE`
    has_aux: bool
    mode: bool  # whether the function runs in numpy_mode
    weigh: Callable[[Any], Any] | None  # gives the weight of a partition
    arguments: tuple[Any, ...]  # the parameters, and what follows them


class Block(NamedTuple):
    """Partitions of one task: consecutive ones, of which the first has this number."""

    first: int
    weights: Sequence[float] | None


class BlockResult(NamedTuple):
    """The result of a task."""

    terms: list[Any]  # sums, or one list of stacked parts
    spec: pytree.Spec  # of the tree whose leaves `terms` are
    aux: list[Any]
    weight: float  # the sum of the partitions' weights
    seconds: float


def encode(payload: Payload) -> bytes:
    """The payload as bytes; functions that no module holds need cloudpickle."""
    try:
        pickled = pickle.dumps(payload)
    except Exception as error:
        pickler: Any = _cloudpickle()
        if pickler is None:
            raise AutogradTypeError(
                f"{payload.name}: {payload.func!r} cannot be pickled ({error}), so other processes "
                f"cannot run it; define it in a module, or pip install cloudpickle"
            ) from error
        return pickler.dumps(payload)  # type: ignore[no-any-return]
    pickler = _cloudpickle() if b"__main__" in pickled else None
    return pickler.dumps(payload) if pickler is not None else pickled


def run_block(encoded: bytes | Payload, block: Block, partitions: Sequence[Any]) -> BlockResult:
    """Computes and adds the derivatives of a block of partitions."""
    begin = time.perf_counter()
    payload = _decode(encoded) if isinstance(encoded, bytes) else encoded
    total, stacked, aux, weights = TreeSum(), [], [], TreeSum()
    spec = pytree.LEAF
    compute = _COMPUTE[payload.kind](payload)
    for place, partition in enumerate(partitions):
        try:
            data = partition.load() if isinstance(partition, PrivateGraph) else partition
            found, extra = compute(data)
            terms, spec = pytree.flatten(found)
            weight = _weight(payload, block, place, data)
        except Exception as error:
            is_delayed = isinstance(partition, PrivateGraph)
            what = partition.key if is_delayed else reprlib.repr(partition)
            error.add_note(f"{payload.name}: raised for partition {block.first + place}, {what}")
            raise
        aux.append(extra)
        if payload.kind in _STACKED:
            stacked.append(terms)
            continue
        is_weighted = payload.weigh is not None or block.weights is not None
        total.add([term * weight for term in terms] if is_weighted else terms)
        weights.add([weight])
    seconds = time.perf_counter() - begin
    if payload.kind in _STACKED:
        parts = [_stack(payload.name, leaves) for leaves in zip(*stacked, strict=True)]
        return BlockResult(parts, spec, aux, float(len(partitions)), seconds)
    return BlockResult(total.result(), spec, aux, weights.result()[0], seconds)


def combine(name: str, kind: str, results: Sequence[BlockResult]) -> BlockResult:
    """One result of the results of consecutive blocks, all but the last of one size."""
    aux = [extra for result in results for extra in result.aux]
    seconds = sum(result.seconds for result in results)
    weights = TreeSum()
    for result in results:
        weights.add([result.weight])
        if result.spec != results[0].spec:
            raise AutogradValueError(
                f"{name}: the function returned {results[0].spec!r} for one partition and "
                f"{result.spec!r} for another"
            )
    if kind in _STACKED:
        terms = [_stack(name, leaves) for leaves in zip(*(r.terms for r in results), strict=True)]
    else:
        total = TreeSum()
        for result in results:
            total.add(result.terms)
        terms = total.result()
    return BlockResult(terms, results[0].spec, aux, weights.result()[0], seconds)


# --- derivatives ----------------------------------------------------------------------------------


_Compute = Callable[[Any], tuple[Any, Any]]  # takes a partition, returns a tree and aux


def _value(payload: Payload) -> _Compute:
    params, *rest = payload.arguments
    func = differentiable(payload.func) if payload.mode else payload.func

    def compute(data: Any) -> tuple[Any, Any]:
        found = func(params, data, *rest)
        value, aux = found if payload.has_aux else (found, None)
        return _plain(params, value), aux

    return compute


def _value_and_grad(payload: Payload) -> _Compute:
    params, *rest = payload.arguments
    inner = value_and_grad(payload.func, has_aux=payload.has_aux, mode=payload.mode)

    def compute(data: Any) -> tuple[Any, Any]:
        found, gradient = inner(params, data, *rest)
        value, aux = found if payload.has_aux else (found, None)
        return (value, gradient), aux

    return compute


def _grad(payload: Payload) -> _Compute:
    params, *rest = payload.arguments
    inner = grad(payload.func, has_aux=payload.has_aux, mode=payload.mode)
    if payload.has_aux:
        return lambda data: inner(params, data, *rest)
    return lambda data: (inner(params, data, *rest), None)


def _hvp(payload: Payload) -> _Compute:
    params, vector, *rest = payload.arguments
    inner = hvp(payload.func, vector=1, mode=payload.mode)
    return lambda data: (inner(params, vector, data, *rest), None)


def _jacobian(payload: Payload) -> _Compute:
    params, *rest = payload.arguments
    inner = jacobian(payload.func, mode=payload.mode)
    return lambda data: (inner(params, data, *rest), None)


_COMPUTE: dict[str, Callable[[Payload], _Compute]] = {
    "value": _value,
    "value_and_grad": _value_and_grad,
    "grad": _grad,
    "hvp": _hvp,
    "jacobian": _jacobian,
    "residuals": _value,
}
_STACKED = ("jacobian", "residuals")


# --- details --------------------------------------------------------------------------------------


def _plain(params: Any, value: Any) -> Any:
    """A value as arrays and numbers, unless the parameters are tensors."""
    if any(isinstance(leaf, Tensor) for leaf in pytree.leaves(params)):
        return value
    arrays = pytree.map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, value)
    return pytree.map(lambda leaf: leaf if np.ndim(leaf) else np.asarray(leaf).item(), arrays)


def _stack(name: str, parts: Sequence[Any]) -> Any:
    if any(np.ndim(part) == 0 for part in parts):
        raise AutogradValueError(
            f"{name}: the function returned a number without an axis; it has to return one array "
            f"of residuals for each partition, which are stacked along their first axis"
        )
    if isinstance(parts[0], Tensor):
        return Tensor.__array_namespace__(parts[0]).concat(list(parts), axis=0)
    return np.concatenate(parts, axis=0)


def _weight(payload: Payload, block: Block, place: int, data: Any) -> float:
    if block.weights is not None:
        return float(block.weights[place])
    return float(payload.weigh(data)) if payload.weigh is not None else 1.0


@functools.lru_cache(maxsize=2)
def _decode(encoded: bytes) -> Payload:
    """The payload of a step, unpickled once in each process."""
    return pickle.loads(encoded)  # type: ignore[no-any-return]  # our own bytes: see `encode`


def _cloudpickle() -> Any:
    try:
        __import__("cloudpickle")
    except ImportError:
        return None
    return sys.modules["cloudpickle"]


def check_parameters(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a step without their flags; raises for tensors that have a history."""

    def detached(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if requires_grad(leaf) and not leaf.is_leaf:
            raise AutogradValueError(
                f"{name}: a parameter is the result of recorded operations "
                f"({leaf.grad_fn.name()}), and gradients do not pass the border of a task; "
                f"pass x.detach(), and multiply by the derivative of x yourself"
            )
        return leaf.detach()

    return pytree.map(detached, arguments)  # type: ignore[no-any-return]
