"""``autograd.misc.flatten``: nested containers of numbers and arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.utils import pytree

__all__ = ["flatten", "flatten_func"]


def _in_order(value: Any) -> Any:
    """The same containers, with the keys of dictionaries sorted, as HIPS autograd reads them."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return type(value)(map(_in_order, value)) if type(value) in (list, tuple) else value


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All numbers in a vector, and the function that puts a vector back into the containers.

    >>> vector, unflatten = flatten({"a": np.ones((2, 2)), "b": [3.0]})
    >>> vector.tolist()
    [1.0, 1.0, 1.0, 1.0, 3.0]
    >>> unflatten(2 * vector)["b"]
    [np.float64(6.0)]
    """
    leaves, structure = pytree.flatten(_in_order(value))
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes]).tolist()
    joined = anp.concatenate([anp.ravel(leaf) for leaf in leaves]) if leaves else np.zeros(0)

    def unflatten(vector: Any) -> Any:
        starts = [0, *ends[:-1]]
        parts = (
            anp.reshape(vector[start:end], shape) if shape else vector[start]
            for start, end, shape in zip(starts, ends, shapes, strict=True)
        )
        return pytree.unflatten(structure, parts)

    return joined, unflatten


def flatten_func(
    func: Callable[..., Any], example: Any
) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """A function of containers as one of vectors; how to go back, and the example as a vector.

    >>> flat, _, start = flatten_func(lambda p: {"a": 2 * p["a"]}, {"a": np.ones(2)})
    >>> flat(start).tolist()
    [2.0, 2.0]
    """
    vector, unflatten = flatten(example)

    def flat(given: Any, *args: Any, **kwargs: Any) -> Any:
        return flatten(func(unflatten(given), *args, **kwargs))[0]

    return flat, unflatten, vector
