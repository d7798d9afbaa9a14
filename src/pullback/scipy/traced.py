"""Calls of SciPy's functions in traced programs: a node of the graph each, and checks as guards.

A call without gradients runs SciPy's own function on arrays, in the trace and whenever the graph
runs. Rules decide about values (which elements are inside of a support, whether a matrix is finite)
by `decided`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.func.primitive import all_values
from pullback.fx.array_call import ArrayCall
from pullback.fx.batched import parts_of
from pullback.fx.refusals import current_tracer
from pullback.fx.traced_number import TracedNumber
from pullback.interop.arguments import NUMERIC, as_tensor, tensors_in
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor, constant_tensor, wrap
from pullback.utils import pytree

__all__ = ["check_call", "decided", "record_call"]

_CONSTANTS = (bool, complex, float, int, np.dtype, np.generic, str, type, type(None))
_INPUTS = (Tensor, TracedNumber, np.ndarray)
_FLAGS = (bool, int, np.bool_, np.integer)  # results that programs branch on: guards


def decided(function: Callable[..., Any], *values: Any) -> NDArray[Any]:
    """The finding of a function of arrays: a check, or which elements a rule treats separately.

    Inside ``vmap`` it gets the values of all samples. In a traced program it is a guard on what was
    found, not on the values: others for which it finds the same need no new trace.
    """
    tensors = [as_tensor(value) for value in values]
    tracer = current_tracer()
    is_known = not any(isinstance(value, Tensor | TracedNumber) for value in values)
    if tracer is None or is_known:
        return np.asarray(function(*map(all_values, tensors)))

    def compute(given: list[Tensor]) -> Tensor:
        return constant_tensor(np.array(function(*map(all_values, given))))

    arrays = [wrap(parts_of(tracer, tensor)[0]) for tensor in tensors]
    found = tracer.record_function(ArrayCall("check", compute), (arrays,), {})
    return tracer.read(found._array, "a check of SciPy's")


def check_call(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Calls a function of SciPy on values, for the errors that it raises about them."""

    def call(*arrays: NDArray[Any]) -> bool:
        values = iter(arrays)
        function(*_filled(args, values), **_filled(kwargs, values))
        return True

    decided(call, *tensors_in([args, kwargs]))


def _filled(value: Any, values: Iterator[NDArray[Any]]) -> Any:
    """An argument with values in the place of its tensors, in the order of `tensors_in`."""
    if isinstance(value, Tensor):
        return next(values)[()]
    if type(value) in (list, tuple):
        return type(value)(_filled(item, values) for item in value)
    if type(value) is dict:
        return {key: _filled(item, values) for key, item in value.items()}
    return value


def record_call(
    name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Records a call whose arguments and results are arrays and numbers; else NotImplemented."""
    tracer = current_tracer()
    given, spec = pytree.flatten([list(args), kwargs], none_is_leaf=True)
    if tracer is None or not all(map(_is_data, given)) or _overwrites(kwargs):
        return NotImplemented
    if any(isinstance(leaf, Tensor) and levels_of(leaf) for leaf in given):
        return NotImplemented
    given = [int(leaf) if _is_traced(leaf, int) else leaf for leaf in given]  # a guard
    places = [n for n, leaf in enumerate(given) if isinstance(leaf, _INPUTS)]
    structure: list[Any] = []

    def compute(tensors: list[Tensor]) -> Any:
        leaves = list(given)
        for place, tensor in zip(places, tensors, strict=True):
            array = all_values(tensor).copy()
            leaves[place] = array.item() if type(leaves[place]) is TracedNumber else array
        again_args, again_kwargs = pytree.unflatten(spec, leaves)
        found = original(*again_args, **again_kwargs)
        parts, made = pytree.flatten(found, none_is_leaf=True)
        if not all(map(_is_result, parts)) or (structure and structure[0] != made):
            raise _NoArraysError
        try:
            pytree.unflatten(made, parts)
        except TypeError:  # a result with further attributes
            raise _NoArraysError from None
        structure[:] = [made, list(map(type, parts))]
        return tuple(constant_tensor(np.array(part)) for part in parts)

    try:
        inputs = [as_tensor(given[place]) for place in places]
        parts = tracer.record_function(ArrayCall(name, compute), (inputs,), {})
    except _NoArraysError:
        return NotImplemented
    made, kinds = structure
    leaves = list(parts)
    for place, kind in enumerate(kinds):
        if issubclass(kind, _FLAGS):
            flag = tracer.read(parts[place]._array, name)[()]
            leaves[place] = flag.item() if kind in (bool, int) else flag
    return pytree.unflatten(made, leaves)


class _NoArraysError(Exception):
    """The function returns something else than arrays and numbers."""


def _is_traced(leaf: Any, kind: type) -> bool:
    return type(leaf) is TracedNumber and isinstance(leaf.value, kind)


def _is_data(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return type(leaf) is np.ndarray and leaf.dtype.kind in NUMERIC
    return isinstance(leaf, (Tensor, TracedNumber, *_CONSTANTS))


def _is_result(part: Any) -> bool:
    return isinstance(part, np.ndarray | np.generic | bool | int | float | complex) and (
        np.asarray(part).dtype.kind in NUMERIC
    )


def _overwrites(kwargs: dict[str, Any]) -> bool:
    return any(
        key in ("out", "output") or (key.startswith("overwrite_") and value)
        for key, value in kwargs.items()
    )
