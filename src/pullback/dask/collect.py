"""Values of tensors on dask: computed, kept in the memory of a cluster, or drawn as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.views import requires_grad
from pullback.dask.array import DaskArray
from pullback.errors import AutogradTypeError
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["compute", "persist", "visualize"]


def _payloads(name: str, tensors: Sequence[Any]) -> list[DaskArray]:
    found = []
    for place, tensor in enumerate(tensors):
        held = getattr(tensor, "_array", None)
        if not isinstance(held, DaskArray):
            raise AutogradTypeError(
                f"{name}: expected tensors that hold dask arrays, as from_dask makes them, but "
                f"argument {place} is a {type(tensor).__name__} without one"
            )
        found.append(held)
    return found


def compute(*tensors: Tensor, **options: Any) -> tuple[NDArray[Any], ...]:
    """The values of tensors as NumPy arrays, computed together so that they share tasks.

    `options` are those of ``dask.compute``, such as ``scheduler``.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.arange(4.0, chunks=2), requires_grad=True)
    >>> loss = (x**2).sum()
    >>> loss.backward()
    >>> value, gradient = pb.dask.compute(loss, x.grad)
    >>> float(value), gradient.tolist()
    (14.0, [0.0, 2.0, 4.0, 6.0])
    """
    held = _payloads("compute", tensors)
    arrays = dask.compute(*[payload.array for payload in held], **options)
    pairs = zip(arrays, held, strict=True)
    return tuple(np.array(np.broadcast_to(a, p.shape), dtype=p.dtype) for a, p in pairs)


def persist(*tensors: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Tensors without history whose blocks are computed and kept in the memory of the workers.

    >>> import dask.array as da, pullback as pb
    >>> (y,) = pb.dask.persist(pb.dask.from_dask(da.ones(4, chunks=2)) + 1)
    >>> y.shape
    (4,)
    """
    held = _payloads("persist", tensors)
    arrays = dask.persist(*[payload.array for payload in held], **options)
    made = []
    for tensor, array, payload in zip(tensors, arrays, held, strict=True):
        copy = fresh(DaskArray(array, payload.shape))
        made.append(copy.requires_grad_() if requires_grad(tensor) and tensor.is_leaf else copy)
    return tuple(made)


def visualize(*tensors: Tensor, **options: Any) -> Any:
    """Draws the graph of tasks by ``dask.visualize``, with its options; needs graphviz.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.ones(4, chunks=2))
    >>> pb.dask.visualize(x * 2, filename="tasks.svg")  # doctest: +SKIP
    """
    return dask.visualize(
        *[payload.array for payload in _payloads("visualize", tensors)], **options
    )
