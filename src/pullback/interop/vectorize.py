"""``np.vectorize``, ``np.r_``, ``np.c_`` and ``np.ndenumerate`` on tensors, for `numpy_mode`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shape
from pullback.interop import creation as numpy_creation
from pullback.interop.arguments import as_tensor, refusal
from pullback.operators import array_functions
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor

__all__ = ["enumerated", "joined", "vectorized"]


def vectorized(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a ``np.vectorize`` with tensors: one call an element, and the results stacked."""
    if self.signature is not None:
        raise refusal(
            f"numpy.vectorize of {self.pyfunc.__name__}",
            "vectorize with signature= cannot be run on tensors",
            "Loop over the leading axes, and np.stack the results.",
        )
    excluded = self.excluded or set()
    places: list[Any] = [i for i in range(len(args)) if i not in excluded]
    places += [key for key in kwargs if key not in excluded]
    everything: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    spread = array_functions.broadcast_arrays(*(as_tensor(everything[p]) for p in places))
    lengths = spread[0].shape
    made = []
    for at in np.ndindex(*lengths):
        now = everything | {p: t[at] for p, t in zip(places, spread, strict=True)}
        options = {key: value for key, value in now.items() if isinstance(key, str)}
        made.append(self.pyfunc(*(now[i] for i in range(len(args))), **options))
    if not made:
        raise ValueError("cannot call `vectorize` on size 0 inputs of tensors")
    if isinstance(made[0], tuple):
        columns = zip(*made, strict=True)
        return tuple(_stacked(c, lengths, self.otypes, i) for i, c in enumerate(columns))
    return _stacked(made, lengths, self.otypes, 0)


def _stacked(values: Any, lengths: tuple[int, ...], otypes: Any, number: int) -> Tensor:
    result = shape.reshape(creation.asarray(list(values)), lengths)
    return pointwise._astype(result, np.dtype(otypes[number])) if otypes else result


def joined(original: Callable[[Any, Any], Any], joiner: Any, key: Any) -> Tensor:
    """``np.r_[...]`` and ``np.c_[...]`` with tensors among the parts.

    NumPy joins arrays of element numbers; the result is the permutation for the real elements.
    """
    pool: list[Tensor] = []
    parts: list[Any] = []
    count = 0
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, str):
            parts.append(part)
            continue
        tensor = _range(part) if isinstance(part, slice) else as_tensor(creation.asarray(part))
        numbers = count + np.arange(tensor.size, dtype=float).reshape(tensor.shape)
        parts.append(numbers if tensor.ndim else float(numbers))
        pool.append(shape.reshape(tensor, -1))
        count += tensor.size
    places = np.asarray(original(joiner, tuple(parts))).astype(int)
    return indexing.take(shape.concatenate(pool), places)


def _range(part: slice) -> Tensor:
    """``start:stop:step``, where an imaginary step is a number of points."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return numpy_creation.linspace(start, part.stop, int(abs(part.step)))  # type: ignore[no-any-return]
    return numpy_creation.arange(start, part.stop, 1 if part.step is None else part.step)


def enumerated(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """``np.ndenumerate`` of a tensor."""
    tensor = as_tensor(arr)
    for at in np.ndindex(*tensor.shape):
        yield at, tensor[at]
