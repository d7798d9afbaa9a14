"""The work of a task: derivatives of a function for a block of partitions, summed or stacked.

Everything here is imported by workers. A task gets a block of partitions and a `Payload`, which is
the same for all tasks of a step: the `Program`, which a process decodes once for all steps, and the
parameters.
"""

from __future__ import annotations

import functools
import pickle
import reprlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.graph.views import requires_grad
from pullback.distributed.encoding import encode_value
from pullback.distributed.partitions import PrivateGraph
from pullback.distributed.tree_sum import TreeSum
from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.func.numpy_style import grad, hvp, jacobian, value_and_grad
from pullback.interop.mode import differentiable
from pullback.tensor.tensor import Tensor, fresh
from pullback.utils import pytree

if TYPE_CHECKING:
    from pullback.compiled import function as compiled
else:
    compiled = lazy_module("pullback.compiled.function")

__all__ = [
    "Block",
    "BlockResult",
    "Encoded",
    "Payload",
    "Program",
    "check_parameters",
    "combine",
    "decode",
    "encode",
    "freeze",
    "run_block",
    "run_encoded_block",
]


class Program:
    """The part of a payload that all steps have in common: the function, and its transform.

    Attributes:
        name: the public function's, for messages.
        func: the user's function.
        kind: a key of `_TRANSFORMS`.
        has_aux: whether the function returns auxiliary data.
        mode: whether the function runs in numpy_mode.
        weigh: gives the weight of a partition.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        kind: str,
        has_aux: bool,
        mode: bool,
        weigh: Callable[[Any], Any] | None,
    ):
        self.name, self.func, self.kind = name, func, kind
        self.has_aux, self.mode, self.weigh = has_aux, mode, weigh

    @functools.cached_property
    def transform(self) -> Callable[..., Any]:
        """The derivative of the function; compiled, if the function is."""
        make = _TRANSFORMS[self.kind]
        if not _is_compiled(self.func):
            return make(self, self.func)
        options = self.func.options  # type: ignore[attr-defined]
        if self.kind == "hvp":  # the vector stands before the partition
            options["static_argnums"] = [n + (n > 0) for n in options["static_argnums"]]
        made = compiled.compile(make(self, self.func.__wrapped__), **options)  # type: ignore[attr-defined]
        return functools.partial(_call_graph, made)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.name, self.func, self.kind, self.has_aux, self.mode, self.weigh)
        return Program, fields


class Payload(NamedTuple):
    """The data that all tasks of one step share."""

    program: Program
    arguments: tuple[Any, ...]  # the parameters, and what follows them


class Encoded(NamedTuple):
    """A payload as bytes, for other processes."""

    program: bytes
    arguments: bytes


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


def encode(payload: Payload) -> Encoded:
    """The payload as bytes; functions that no module holds need cloudpickle."""
    program, arguments = payload
    return Encoded(
        encode_value(program.name, repr(program.func), program),
        encode_value(program.name, "an argument of the step", arguments),
    )


def decode(encoded: Payload | Encoded) -> Payload:
    """The payload of a task."""
    if isinstance(encoded, Payload):
        return encoded
    return Payload(_decode_program(encoded.program), _decode_arguments(encoded.arguments))


@functools.lru_cache(maxsize=16)
def _decode_program(encoded: bytes) -> Any:
    """The program, unpickled once in each process: it keeps what was compiled."""
    return pickle.loads(encoded)  # our own bytes: see `encode`


@functools.lru_cache(maxsize=2)
def _decode_arguments(encoded: bytes) -> Any:
    """The arguments of a step, unpickled once in each process."""
    return pickle.loads(encoded)  # our own bytes: see `encode`


def run_encoded_block(given: Encoded, block: Block, partitions: bytes) -> BlockResult:
    """`run_block` of partitions as `encode_value` gives them."""
    return run_block(given, block, pickle.loads(partitions))


def run_block(given: Payload | Encoded, block: Block, partitions: Sequence[Any]) -> BlockResult:
    """Computes and adds the derivatives of a block of partitions."""
    begin = time.perf_counter()
    program, arguments = decode(given)
    arguments = freeze(arguments)
    total, stacked, aux, weights = TreeSum(), [], [], TreeSum()
    spec = pytree.LEAF
    is_weighted = program.weigh is not None or block.weights is not None
    for place, partition in enumerate(partitions):
        try:
            is_delayed = isinstance(partition, PrivateGraph)
            data = partition.load() if is_delayed else freeze(partition)
            found, extra = _compute(program, arguments, data)
            terms, spec = pytree.flatten(found)
            weight = _weight(program, block, place, data)
        except Exception as error:
            what = partition.key if is_delayed else reprlib.repr(partition)
            error.add_note(f"{program.name}: raised for partition {block.first + place}, {what}")
            raise
        aux.append(extra)
        if program.kind in _STACKED:
            stacked.append(terms)
            continue
        total.add([term * weight for term in terms] if is_weighted else terms)
        weights.add([weight])
    seconds = time.perf_counter() - begin
    if program.kind in _STACKED:
        parts = [_stack(program.name, leaves) for leaves in zip(*stacked, strict=True)]
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


def _compute(program: Program, arguments: tuple[Any, ...], data: Any) -> tuple[Any, Any]:
    """The derivatives of one partition, and its auxiliary data."""
    params, *rest = arguments
    kind, has_aux = program.kind, program.has_aux
    if kind == "hvp":
        vector, *rest = rest
        return program.transform(params, vector, data, *rest), None
    found = program.transform(params, data, *rest)
    if kind == "value_and_grad":
        value, gradient = found
        value, aux = value if has_aux else (value, None)
        return (value, gradient), aux
    found, aux = found if has_aux else (found, None)
    if kind == "jacobian":
        _check_rows(program.name, params, found)
    return (_plain(program.name, params, found) if kind in _VALUES else found), aux


_Function = Callable[..., Any]


def _value(program: Program, func: _Function) -> _Function:
    return differentiable(func) if program.mode else func


def _value_and_grad(program: Program, func: _Function) -> _Function:
    return value_and_grad(func, has_aux=program.has_aux, mode=program.mode)


def _grad(program: Program, func: _Function) -> _Function:
    return grad(func, has_aux=program.has_aux, mode=program.mode)


def _hvp(program: Program, func: _Function) -> _Function:
    return hvp(func, vector=1, mode=program.mode)


def _jacobian(program: Program, func: _Function) -> _Function:
    return jacobian(func, mode=program.mode)


_TRANSFORMS: dict[str, Callable[[Program, _Function], _Function]] = {
    "value": _value,
    "value_and_grad": _value_and_grad,
    "grad": _grad,
    "hvp": _hvp,
    "jacobian": _jacobian,
    "residuals": _value,
}
_VALUES = ("value", "residuals")
_STACKED = ("jacobian", "residuals")


# --- details --------------------------------------------------------------------------------------


def _plain(name: str, params: Any, value: Any) -> Any:
    """A value as arrays and numbers, unless the parameters are tensors."""
    for leaf in pytree.leaves(value):
        if not isinstance(leaf, Tensor) and np.asarray(leaf).dtype.kind not in "biufc":
            raise AutogradTypeError(
                f"{name}: the function returned a {type(leaf).__name__}; it has to return numbers "
                f"or arrays of them"
            )
    if any(isinstance(leaf, Tensor) for leaf in pytree.leaves(params)):
        return value
    arrays = pytree.map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, value)
    return pytree.map(lambda leaf: leaf if np.ndim(leaf) else np.asarray(leaf).item(), arrays)


def freeze(tree: Any) -> Any:
    """The same values with arrays that cannot be written to.

    Tasks of one process share parameters and partitions, and so do steps: a function that wrote to
    them would make the results depend on the executor.
    """
    return pytree.map(_frozen, tree)


def _frozen(leaf: Any) -> Any:
    if type(leaf) is Tensor and isinstance(leaf._array, np.ndarray) and not leaf.requires_grad:
        return fresh(_frozen(leaf._array))
    if type(leaf) is not np.ndarray:
        return leaf
    view = leaf.view()
    view.flags.writeable = False
    return view


def _check_rows(name: str, params: Any, jacobians: Any) -> None:
    """Raises if a residual has no axis, so that the first axis of a Jacobian is a parameter's."""
    wanted = [np.ndim(leaf) for leaf in pytree.leaves(params)]
    for place, leaf in enumerate(pytree.leaves(jacobians)):
        if np.ndim(leaf) <= wanted[place % len(wanted)]:
            raise AutogradValueError(_NO_AXIS.format(name=name))


_NO_AXIS = (
    "{name}: the function returned a number without an axis; it has to return one array of "
    "residuals for each partition, which are stacked along their first axis"
)


def _stack(name: str, parts: Sequence[Any]) -> Any:
    if any(np.ndim(part) == 0 for part in parts):
        raise AutogradValueError(_NO_AXIS.format(name=name))
    if isinstance(parts[0], Tensor):
        return Tensor.__array_namespace__(parts[0]).concat(list(parts), axis=0)
    return np.concatenate(parts, axis=0)


def _weight(program: Program, block: Block, place: int, data: Any) -> float:
    if block.weights is not None:
        return float(block.weights[place])
    return float(program.weigh(data)) if program.weigh is not None else 1.0


def _call_graph(func: Any, *args: Any) -> Any:
    """The result of a compiled function's graph.

    The call that records a graph runs the function itself, whose last bits may be others; which
    partition that is depends on the executor, so it is computed again.
    """
    before = func.stats["traces"]
    found = func(*args)
    return found if func.stats["traces"] == before else func(*args)


def _is_compiled(func: Any) -> bool:
    """Whether a function is the result of ``pb.compile``; loads nothing if there is none."""
    is_loaded = "pullback.compiled.function" in sys.modules
    return is_loaded and isinstance(func, compiled.CompiledFunction)


def check_parameters(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the arguments of a step, without flags; raises for tensors that have a history.

    What other threads write during the step reaches none of its tasks.
    """

    def detached(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf.copy() if type(leaf) is np.ndarray else leaf
        if requires_grad(leaf) and not leaf.is_leaf:
            raise AutogradValueError(
                f"{name}: a parameter is the result of recorded operations "
                f"({leaf.grad_fn.name()}), and gradients do not pass the border of a task; "
                f"pass x.detach(), and multiply by the derivative of x yourself"
            )
        return leaf.detach().clone()

    return pytree.map(detached, arguments)  # type: ignore[no-any-return]
