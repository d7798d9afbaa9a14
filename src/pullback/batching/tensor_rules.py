"""User-defined batching rules on tensors: ``rule(info, in_dims, *args) -> (output, out_dims)``.

A rule runs for one level at a time, the innermost first: tensors batched at that level have their
batch dimension as an ordinary axis, and `in_dims` gives its number. Used by custom operators and
``autograd.Function.vmap``.

Batch dimensions are removed and added by a ``LevelOps``: the functions of ``add_remove_dim.py``
below autograd, or the operators of the same names above it, which are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pullback.batching.add_remove_dim import add_level, remove_level
from pullback.batching.align import union
from pullback.dispatch.table import ENTRIES
from pullback.errors import AutogradError
from pullback.tensor.batched import BatchedArray, levels_of
from pullback.tensor.levels import Outside, active_levels
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["LevelOps", "VmapInfo", "apply_rule", "rule_kernel"]


class LevelOps(Protocol):
    """Functions that remove and add the batch dimension of a level."""

    def _remove_level(self, tensor: Tensor, axis: int, level: int) -> Tensor: ...
    def _add_level(self, tensor: Tensor, axis: int, level: int) -> Tensor: ...


class _ArrayLevelOps:
    """``LevelOps`` below autograd, on arrays; those of a traced program are operators of it."""

    def _remove_level(self, tensor: Tensor, axis: int, level: int) -> Tensor:
        held: Any = tensor._array
        if isinstance(getattr(held, "array", None), Payload):
            return _operator("_remove_level")(tensor, axis, level)
        return wrap(remove_level(held, axis, level))

    def _add_level(self, tensor: Tensor, axis: int, level: int) -> Tensor:
        held: Any = tensor._array
        array: Any = held.array if isinstance(held, BatchedArray) else held
        if isinstance(array, Payload):
            return _operator("_add_level")(tensor, axis, level)
        return wrap(add_level(held, axis, level))


def _operator(name: str) -> Callable[..., Tensor]:
    operator: Callable[..., Tensor] = ENTRIES[f"pullback::{name}"].operator
    return operator


_ON_ARRAYS = _ArrayLevelOps()


class VmapInfo(NamedTuple):
    """Description of the vmap call, for a batching rule.

    Attributes:
        batch_size: the length of the batch dimension.
        randomness: the option of ``vmap``: "error", "different" or "same".
    """

    batch_size: int
    randomness: str


def rule_kernel(operator: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a custom operator that has a rule."""
    call: Callable[..., Any] = operator.call

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return apply_rule(rule, call, args, kwargs)

    return kernel


def apply_rule(
    rule: Callable[..., Any],
    plain: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Any,
    level_ops: LevelOps = _ON_ARRAYS,
) -> Any:
    """Runs a rule for the innermost level of its arguments; `plain` is called if there is none."""
    levels, sizes = union((*args, *kwargs.values()))
    if not levels:
        return plain(*args, **kwargs)
    number = levels[-1]
    randomness = next((v.randomness for v in active_levels() if v.number == number), "error")
    in_dims = tuple(_dims(value, number) for value in args)
    unbatched = [_remove_dims(value, number, level_ops) for value in args]
    named = {name: _remove_dims(value, number, level_ops) for name, value in kwargs.items()}
    with Outside(number):
        returned = rule(VmapInfo(sizes[-1], randomness), in_dims, *unbatched, **named)
    if not isinstance(returned, tuple) or len(returned) != 2:
        got = len(returned) if isinstance(returned, tuple) else type(returned).__name__
        raise AutogradError(
            f"Expected the vmap staticmethod to have two returns, the output and its out_dims, but "
            f"got {got}"
        )
    return _add_dims(*returned, number, level_ops)


def _dims(value: Any, level: int) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_dims(item, level) for item in value)
    return 0 if isinstance(value, Tensor) and level in levels_of(value) else None


def _remove_dims(value: Any, level: int, level_ops: LevelOps) -> Any:
    """Makes the batch dimension of a level the first axis of a value."""
    if isinstance(value, list | tuple):
        return type(value)(_remove_dims(item, level, level_ops) for item in value)
    if isinstance(value, Tensor) and level in levels_of(value):
        return level_ops._remove_level(value, 0, level)
    return value


def _add_dims(output: Any, out_dims: Any, level: int, level_ops: LevelOps) -> Any:
    """Makes axes of a rule's result the batch dimension of a level."""
    if isinstance(output, list | tuple):
        if isinstance(out_dims, int) or out_dims is None:
            out_dims = (out_dims,) * len(output)
        if not isinstance(out_dims, list | tuple) or len(out_dims) != len(output):
            raise AutogradError(
                f"The vmap staticmethod returned an incompatible (output, out_dims) tuple: "
                f"out_dims is {out_dims!r}, and there are {len(output)} outputs"
            )
        pairs = zip(output, out_dims, strict=True)
        return type(output)(_add_dims(part, dim, level, level_ops) for part, dim in pairs)
    if isinstance(out_dims, list | tuple):
        raise AutogradError(
            f"The vmap staticmethod returned an incompatible (output, out_dims) tuple: out_dims is "
            f"{out_dims!r}, and there is one output"
        )
    if out_dims is None or not isinstance(output, Tensor):
        return output
    return level_ops._add_level(output, out_dims, level)
