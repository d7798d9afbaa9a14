"""Batches made of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pullback._generated.functions_shape import stack
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = ["default_collate", "default_convert"]


def default_convert(data: Any) -> Any:
    """Arrays and NumPy's numbers as tensors, inside containers too; all else as it is.

    >>> import numpy as np
    >>> default_convert({"x": np.zeros(2), "name": "a"})
    {'x': tensor([0., 0.]), 'name': 'a'}
    """
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else asarray(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple | list):
        values = [default_convert(value) for value in data]
        return _like(data, values) if hasattr(data, "_fields") else values
    return data


def _like(sample: Any, values: Any) -> Any:
    """Values in a container of the sample's class, or in a plain one if it does not take them."""
    if isinstance(sample, tuple):
        return type(sample)(*values) if hasattr(sample, "_fields") else tuple(values)
    if type(sample) in (list, dict):
        return values
    try:
        return type(sample)(values)
    except TypeError:
        return values


def default_collate(batch: Any) -> Any:
    """A batch of items: arrays, tensors and numbers are stacked, containers are transposed.

    >>> default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': tensor([1., 2.]), 'name': ['a', 'b']}
    >>> default_collate([(0, [1.5]), (1, [2.5])])
    [tensor([0, 1]), [tensor([1.5, 2.5])]]
    """
    items = list(batch)
    first = items[0]
    if isinstance(first, Tensor):
        return stack(items)
    if isinstance(first, np.ndarray | np.generic) and first.dtype.kind in "biufc":
        return asarray(np.stack(items))
    if isinstance(first, bool | int | float | complex):
        return asarray(np.array(items))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([item[key] for item in items]) for key in first})
    if isinstance(first, Sequence):
        lengths = {len(item) for item in items}
        if len(lengths) > 1:
            raise RuntimeError(
                f"each element in list of batch should be of equal size, but lengths are "
                f"{sorted(lengths)}"
            )
        columns = [default_collate(column) for column in zip(*items, strict=True)]
        return _like(first, columns) if hasattr(first, "_fields") else columns
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first).__name__}"
    )
