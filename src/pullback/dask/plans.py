"""Plans of operators that are computed block by block: which axes are whole, looped or summed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.lib.array_utils import normalize_axis_tuple

from pullback.dask.array import DaskArray
from pullback.dask.blocks import Call, Labels, Plan, run_plan

__all__ = [
    "Rule",
    "along",
    "axes_of",
    "batch",
    "batch_sum",
    "by_plan",
    "elementwise",
    "trailing",
    "whole_second",
]

Rule = Callable[[Call], "list[DaskArray] | None"]
_Planner = Callable[[Call], "Plan | None"]


def by_plan(planner: _Planner) -> Rule:
    """A rule that runs the plan which `planner` makes of a call."""

    def rule(call: Call) -> list[DaskArray] | None:
        plan = planner(call)
        return None if plan is None else run_plan(call, plan)

    return rule


class _Whole:
    """Gives out labels of whole axes."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last -= 1
        return self._last

    def some(self, count: int) -> Labels:
        """Several labels."""
        return tuple(self() for _ in range(count))


@by_plan
def elementwise(call: Call) -> Plan:
    """All axes are looped; operands broadcast."""
    n = max((len(result.shape) for result in call.results), default=0)
    labels = tuple(range(n))
    inputs = [labels[n - tensor.ndim :] for tensor in call.tensors()]
    return Plan(inputs, [labels[n - len(r.shape) :] for r in call.results])


def along(*names: str) -> Rule:
    """Whole are the axes that arguments name; None names all of them, and is gathered."""

    def planner(call: Call) -> Plan | None:
        tensors = call.tensors()
        n = tensors[0].ndim
        axes: set[int] = set()
        for name in names:
            given = call.argument(name)
            if given is None or n == 0:
                return None
            numbers = normalize_axis_tuple(given, n, allow_duplicate=True)
            if len(set(numbers)) != len(numbers):
                return None
            axes |= set(numbers)
        whole = _Whole()
        inputs = []
        for tensor in tensors:
            if tensor.ndim > n:
                return None
            places = range(n - tensor.ndim, n)
            inputs.append(tuple(whole() if axis in axes else axis for axis in places))
        outputs: list[Labels] = []
        for result in call.results:
            count = len(result.shape)
            if count == n:  # the first operand's labels: see `run_plan`
                outputs.append(inputs[0])
            elif count == n - len(axes):
                outputs.append(tuple(axis for axis in range(n) if axis not in axes))
            elif count > n:  # windows: new axes at the end
                outputs.append((*inputs[0], *whole.some(count - n)))
            else:
                return None
        return Plan(inputs, outputs, broadcasts=False)

    return by_plan(planner)


def trailing(count: int | str) -> Rule:
    """Whole are the last axes: a number of them, or as many as a list argument has numbers."""

    def planner(call: Call) -> Plan | None:
        last = count if isinstance(count, int) else len(call.argument(count))
        tensors = call.tensors()
        lead = max(max(tensor.ndim - last, 0) for tensor in tensors)
        whole = _Whole()
        inputs = []
        for tensor in tensors:
            own = max(tensor.ndim - last, 0)
            inputs.append((*range(lead - own, lead), *whole.some(tensor.ndim - own)))
        if any(len(result.shape) < lead for result in call.results):
            return None
        outputs = [(*range(lead), *whole.some(len(r.shape) - lead)) for r in call.results]
        return Plan(inputs, outputs, broadcasts=False)

    return by_plan(planner)


def batch(*names: str) -> Rule:
    """The first axis of some arguments is looped; all else is whole."""
    return _batched(names, is_summed=False)


def batch_sum(*names: str) -> Rule:
    """Summed over the first axis of some arguments; all else is whole."""
    return _batched(names, is_summed=True)


def _batched(names: tuple[str, ...], is_summed: bool) -> Rule:
    first = () if is_summed else (0,)

    def planner(call: Call) -> Plan | None:
        batched = [call.argument(name) for name in names]
        whole = _Whole()
        inputs = []
        for tensor in call.tensors():
            if any(tensor is b for b in batched):
                inputs.append((0, *whole.some(tensor.ndim - 1)))
            else:
                inputs.append(whole.some(tensor.ndim))
        outputs = [(*first, *whole.some(len(r.shape) - len(first))) for r in call.results]
        return Plan(inputs, outputs, summed=(0,) if is_summed else (), broadcasts=False)

    return by_plan(planner)


@by_plan
def whole_second(call: Call) -> Plan:
    """The first operand is looped element by element; all others are whole."""
    whole = _Whole()
    first, *rest = call.tensors()
    labels = tuple(range(first.ndim))
    inputs = [labels, *(whole.some(tensor.ndim) for tensor in rest)]
    outputs = [(*labels, *whole.some(len(r.shape) - first.ndim)) for r in call.results]
    return Plan(inputs, outputs)


def axes_of(given: Any, ndim: int) -> tuple[int, ...]:
    """Axes as numbers from 0; None are all."""
    if given is None:
        return tuple(range(ndim))
    if not ndim:
        return ()
    listed: Iterable[int] = (given,) if isinstance(given, int) else given
    return normalize_axis_tuple(tuple(listed), ndim)
