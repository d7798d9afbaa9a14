"""Rules that users write on tensors: ``rule(info, in_dims, *args) -> (output, out_dims)``.

Such a rule sees one level at a time, the innermost first: tensors that vary with it have one axis
more, and `in_dims` says which. Serves custom operators and ``autograd.Function.vmap``.

Levels become axes, and axes levels, through *doors*: those of ``crossing.py`` where nothing is
recorded, or the operators of the same names, which autograd sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pullback.batching.add_remove_dim import add_level, remove_level
from pullback.batching.align import union
from pullback.errors import AutogradError
from pullback.tensor.batched import levels_of
from pullback.tensor.levels import Outside, active_levels
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["Doors", "VmapInfo", "apply_rule", "rule_kernel"]


class Doors(Protocol):
    """What leads a tensor out of a level and into it."""

    def _remove_level(self, tensor: Tensor, axis: int, level: int) -> Tensor: ...
    def _add_level(self, tensor: Tensor, axis: int, level: int) -> Tensor: ...


class _PlainDoors:
    """Doors below autograd."""

    def _remove_level(self, tensor: Tensor, axis: int, level: int) -> Tensor:
        return wrap(remove_level(tensor._array, axis, level))

    def _add_level(self, tensor: Tensor, axis: int, level: int) -> Tensor:
        return wrap(add_level(tensor._array, axis, level))


_PLAIN = _PlainDoors()


class VmapInfo(NamedTuple):
    """What a rule is told of the mapped function.

    Attributes:
        batch_size: the number of samples.
        randomness: what random operators are to do.
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
    doors: Doors = _PLAIN,
) -> Any:
    """Runs a rule for the innermost level of its arguments; `plain` is called if there is none."""
    levels, sizes = union((*args, *kwargs.values()))
    if not levels:
        return plain(*args, **kwargs)
    number = levels[-1]
    randomness = next((v.randomness for v in active_levels() if v.number == number), "error")
    in_dims = tuple(_dims(value, number) for value in args)
    opened = [_opened(value, number, doors) for value in args]
    named = {name: _opened(value, number, doors) for name, value in kwargs.items()}
    with Outside(number):
        returned = rule(VmapInfo(sizes[-1], randomness), in_dims, *opened, **named)
    if not isinstance(returned, tuple) or len(returned) != 2:
        shown = len(returned) if isinstance(returned, tuple) else type(returned).__name__
        raise AutogradError(
            f"Expected the vmap staticmethod to have two returns, the output and its out_dims, but "
            f"got {shown}"
        )
    return _closed(*returned, number, doors)


def _dims(value: Any, level: int) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_dims(item, level) for item in value)
    return 0 if isinstance(value, Tensor) and level in levels_of(value) else None


def _opened(value: Any, level: int, doors: Doors) -> Any:
    """A value with the level as its first axis."""
    if isinstance(value, list | tuple):
        return type(value)(_opened(item, level, doors) for item in value)
    if isinstance(value, Tensor) and level in levels_of(value):
        return doors._remove_level(value, 0, level)
    return value


def _closed(output: Any, out_dims: Any, level: int, doors: Doors) -> Any:
    """A rule's result with the named axes as the level."""
    if isinstance(output, list | tuple):
        if isinstance(out_dims, int) or out_dims is None:
            out_dims = (out_dims,) * len(output)
        if not isinstance(out_dims, list | tuple) or len(out_dims) != len(output):
            raise AutogradError(
                f"The vmap staticmethod returned an incompatible (output, out_dims) tuple: "
                f"out_dims is {out_dims!r}, and there are {len(output)} outputs"
            )
        pairs = zip(output, out_dims, strict=True)
        return type(output)(_closed(part, dim, level, doors) for part, dim in pairs)
    if isinstance(out_dims, list | tuple):
        raise AutogradError(
            f"The vmap staticmethod returned an incompatible (output, out_dims) tuple: out_dims is "
            f"{out_dims!r}, and there is one output"
        )
    if out_dims is None or not isinstance(output, Tensor):
        return output
    return doors._add_level(output, out_dims, level)
