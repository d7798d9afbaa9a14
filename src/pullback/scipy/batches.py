"""SciPy's functions on the values of tensors; inside ``vmap``, one call for each sample."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from pullback.batching.align import finished
from pullback.errors import DataDependentError
from pullback.interop.arguments import plain, tensors_in
from pullback.tensor.batched import BatchedArray, levels_of
from pullback.tensor.levels import check_alive
from pullback.tensor.tensor import Tensor, version_of

__all__ = ["call_on_values"]

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)
_RESULTS = ("out", "output")  # arguments that SciPy writes its result to


def call_on_values(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls a function of SciPy with arrays in the place of tensors; its result stays as it is."""
    sizes: dict[int, int] = {}
    for tensor in tensors_in([args, kwargs]):
        held = tensor._array
        if levels_of(tensor):
            sizes.update(zip(held.levels, held.array.shape, strict=False))
    if not sizes:
        return _call(function, args, kwargs)
    return _loop(name, function, args, kwargs, dict(sorted(sizes.items())))


def _call(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    if any(kwargs.get(key) for key in kwargs if key.startswith("overwrite_")):
        # SciPy must not write into memory that a node may have saved.
        args, kwargs = _copied(args), _copied(kwargs)
    result = function(*plain(args), **plain(kwargs))
    for key in _RESULTS:
        if isinstance(kwargs.get(key), Tensor):
            version_of(kwargs[key])[0] += 1
    return result


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return np.array(plain(value))
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return value


def _loop(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    sizes: dict[int, int],
) -> Any:
    levels = tuple(sizes)
    check_alive(levels)
    if 0 in sizes.values():
        raise DataDependentError(f"vmap: {name} is called once for each sample, and has none")
    found = []
    for place in product(*map(range, sizes.values())):
        chosen = dict(zip(levels, place, strict=True))
        found.append(_call(function, _sample(args, chosen), _sample(kwargs, chosen)))
    return _stacked(name, found, levels, tuple(sizes.values()))


def _sample(value: Any, chosen: dict[int, int]) -> Any:
    if isinstance(value, Tensor):
        held = value._array
        if type(held) is not BatchedArray:
            return value
        place: Any = (*(chosen[level] for level in held.levels), ...)
        return held.array[place]
    if type(value) in (list, tuple):
        return type(value)(_sample(item, chosen) for item in value)
    if type(value) is dict:
        return {key: _sample(item, chosen) for key, item in value.items()}
    return value


def _stacked(name: str, found: list[Any], levels: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """The results of all samples as batched tensors; what is no number must not vary."""
    first = found[0]
    if isinstance(first, _NUMBERS):
        arrays = [np.asarray(result) for result in found]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1 or arrays[0].dtype.kind not in "biufc":
            raise DataDependentError(
                f"vmap: the results of {name} cannot be stacked: their shapes are {sorted(shapes)}"
            )
        return finished(np.stack(arrays).reshape(*sizes, *arrays[0].shape), levels, sizes)
    if isinstance(first, dict):
        return type(first)(
            {key: _stacked(name, [r[key] for r in found], levels, sizes) for key in first}
        )
    if isinstance(first, list | tuple):
        parts = [_stacked(name, list(p), levels, sizes) for p in zip(*found, strict=True)]
        return first._make(parts) if hasattr(first, "_make") else type(first)(parts)
    if all(result is first or result == first for result in found):
        return first
    raise DataDependentError(
        f"vmap: {name} returns a {type(first).__name__}, which cannot vary with the sample"
    )
