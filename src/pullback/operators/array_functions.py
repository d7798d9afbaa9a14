"""Functions on arrays that no schema can describe.

They take any number of arrays, nested tuples, slices or functions. All are made of operators, so
they differentiate by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from pullback._generated import functions_creation as creation
from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated import functions_sorting as sorting
from pullback.operators.creation.devices import check_device
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, as_operand, holds_number, wrap

__all__ = [
    "UniqueAllResult",
    "UniqueCountsResult",
    "UniqueInverseResult",
    "astype",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "delete",
    "gradient",
    "insert",
    "meshgrid",
    "piecewise",
    "select",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unstack",
    "where",
]


def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The elements as another data type; with ``copy=False``, the tensor itself if it has it.

    >>> import pullback as pb
    >>> x = pb.tensor([1.5, 2.5])
    >>> pb.astype(x, int).tolist(), pb.astype(x, float, copy=False) is x
    ([1, 2], True)
    """
    tensor, wanted = as_operand(x), np.dtype(dtype)
    check_device(device, tensor.device)
    return tensor if not copy and tensor.dtype == wanted else pointwise._astype(tensor, wanted)


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Elements of `x` where the condition holds, of `y` elsewhere.

    With the condition alone, the places where it holds, as ``nonzero`` gives them.

    >>> import pullback as pb
    >>> pb.where([True, False], 1.0, 2.0).tolist(), pb.where([False, True])[0].tolist()
    ([1.0, 2.0], [1])
    """
    if x is None and y is None:
        return sorting.nonzero(condition)
    if x is None or y is None:
        raise ValueError("where: either both or neither of x and y should be given")
    return pointwise._where(condition, x, y)


class UniqueAllResult(NamedTuple):
    """Result of `unique_all`.

    >>> import pullback as pb
    >>> pb.unique_all(pb.tensor([2, 1, 2])).counts
    tensor([1, 2])
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """Result of `unique_counts`.

    >>> import pullback as pb
    >>> pb.unique_counts(pb.tensor([2, 1, 2])).counts
    tensor([1, 2])
    """

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """Result of `unique_inverse`.

    >>> import pullback as pb
    >>> pb.unique_inverse(pb.tensor([2, 1, 2])).inverse_indices
    tensor([1, 0, 1])
    """

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAllResult:
    """The distinct elements, where each is first, how to restore the input, how often each occurs.

    As in PyTorch they have no derivative; ``np.unique(x)`` has one.

    >>> import pullback as pb
    >>> [part.tolist() for part in pb.unique_all([3.0, 1.0, 3.0])]
    [[1.0, 3.0], [1, 0], [1, 0, 1], [1, 2]]
    """
    return UniqueAllResult(*sorting.unique_all(x))


def unique_counts(x: Any, /) -> UniqueCountsResult:
    """The distinct elements, and how often each occurs.

    >>> import pullback as pb
    >>> pb.unique_counts([3.0, 1.0, 3.0]).counts.tolist()
    [1, 2]
    """
    return UniqueCountsResult(*sorting.unique_counts(x))


def unique_inverse(x: Any, /) -> UniqueInverseResult:
    """The distinct elements, and how to restore the input from them.

    >>> import pullback as pb
    >>> pb.unique_inverse([3.0, 1.0, 3.0]).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverseResult(*sorting.unique_inverse(x))


def unstack(x: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as a tuple of views.

    >>> import pullback as pb
    >>> [part.item() for part in pb.unstack(pb.asarray([1.0, 2.0]))]
    [1.0, 2.0]
    """
    return tuple(shape.unbind(x, axis))


def _one_or_all(made: list[Tensor]) -> Any:
    return made[0] if len(made) == 1 else tuple(made)


def atleast_1d(*arrays: Any) -> Any:
    """Tensors with at least one axis; a tuple unless one is given.

    >>> import pullback as pb
    >>> pb.atleast_1d(3.0).shape
    (1,)
    """
    tensors = map(_tensor, arrays)
    return _one_or_all([t if t.ndim else shape.reshape(t, 1) for t in tensors])


def atleast_2d(*arrays: Any) -> Any:
    """Tensors with at least two axes; one axis becomes a row.

    >>> import pullback as pb
    >>> pb.atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    tensors = map(_tensor, arrays)
    return _one_or_all([t if t.ndim > 1 else shape.reshape(t, (1, -1)) for t in tensors])


def atleast_3d(*arrays: Any) -> Any:
    """Tensors with at least three axes; a matrix gets a last axis of length one.

    >>> import pullback as pb
    >>> pb.atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """
    made = []
    for tensor in map(_tensor, arrays):
        rows = tensor if tensor.ndim > 1 else shape.reshape(tensor, (1, -1))
        made.append(rows if rows.ndim > 2 else shape.expand_dims(rows, 2))
    return _one_or_all(made)


def _tensor(value: Any) -> Tensor:
    """An argument as a tensor around an array, numbers too."""
    tensor = as_operand(value)
    return wrap(tensor._array) if holds_number(tensor) else tensor


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Tensors repeated to their common shape, as views.

    >>> import pullback as pb
    >>> [t.shape for t in pb.broadcast_arrays(pb.zeros(3), pb.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    tensors = [_tensor(array) for array in arrays]
    common = np.broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t if t.shape == common else shape.broadcast_to(t, common) for t in tensors)


def meshgrid(
    *arrays: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> tuple[Tensor, ...]:
    """Coordinates of a grid from those along its axes.

    >>> import pullback as pb
    >>> x, y = pb.meshgrid([1.0, 2.0], [3.0, 4.0, 5.0])
    >>> x.shape, y.tolist()[1]
    ((3, 2), [4.0, 4.0])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    count = len(arrays)
    made = []
    for number, array in enumerate(arrays):
        place = 1 - number if indexing == "xy" and count > 1 and number < 2 else number
        made.append(shape.reshape(array, (1,) * place + (-1,) + (1,) * (count - place - 1)))
    if not sparse:
        made = list(broadcast_arrays(*made))
    return tuple(pointwise.clone(t) for t in made) if copy else tuple(made)


def delete(x: Any, obj: Any, axis: int | None = None) -> Tensor:
    """A copy without some slices of an axis; `obj` is an index, several, a slice or a mask.

    >>> import pullback as pb
    >>> pb.delete([1.0, 2.0, 3.0], 1).tolist()
    [1.0, 3.0]
    """
    tensor, axis = _along(x, axis)
    kept = np.delete(np.arange(tensor.shape[axis]), _values("delete", "obj", obj))
    return indexing.take(tensor, kept, axis)


def insert(x: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """A copy with values put before some places of an axis.

    >>> import pullback as pb
    >>> pb.insert([1.0, 2.0], 1, 7.0).tolist()
    [1.0, 7.0, 2.0]
    """
    tensor, axis = _along(x, axis)
    n = tensor.shape[axis]
    if values.__class__ is int and tensor.dtype.kind in "iu":
        values = np.asarray(values, tensor.dtype)  # raises for one that does not fit
    new = _tensor(values)
    new = shape.reshape(new, (1,) * (tensor.ndim - new.ndim) + new.shape)
    obj = _values("insert", "obj", obj)
    places = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if not places.ndim:  # one place: the first axis of the values counts them
        new = shape.moveaxis(new, 0, axis)
    count = int(places.sum()) if places.dtype == bool else places.size
    lengths = list(tensor.shape)
    lengths[axis] = new.shape[axis] if count == 1 else count
    new = pointwise._astype(shape.broadcast_to(new, lengths), tensor.dtype)
    order = np.insert(np.arange(n), obj, n + np.arange(lengths[axis]))
    return indexing.take(shape.concatenate([tensor, new], axis), order, axis)


def _along(x: Any, axis: int | None) -> tuple[Tensor, int]:
    """A tensor and an axis of it; without an axis, its elements in a row."""
    tensor = _tensor(x)
    if axis is None:
        return shape.reshape(tensor, -1), 0
    if not -tensor.ndim <= axis < tensor.ndim:
        raise np.exceptions.AxisError(axis, tensor.ndim)
    return tensor, axis % tensor.ndim


def _values(function: str, argument: str, given: Any) -> Any:
    """An argument whose values decide what is computed, as an array; raises if it has none."""
    held = given._array if isinstance(given, Tensor) else given
    if isinstance(held, Payload):
        return held.as_numpy(f"{function}: the values of {argument}")
    return held


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Each element from the first choice whose condition holds.

    >>> import pullback as pb
    >>> x = pb.asarray([1.0, 2.0, 3.0])
    >>> pb.select([x < 2, x > 2], [x, x * 10]).tolist()
    [1.0, 0.0, 30.0]
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            f"select: {len(condlist)} conditions and {len(choicelist)} choices are given; there "
            f"must be as many, and at least one"
        )
    result = as_operand(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = pointwise._where(condition, choice, result)
    return result


def piecewise(
    x: Any, condlist: Any, funclist: Sequence[Callable[..., Any] | Any], *args: Any, **kwargs: Any
) -> Tensor:
    """Each element from the function, or number, of the last condition that holds for it.

    A function gets only the elements that it is for. One more function than conditions is for the
    elements for which none holds; they are zero if there is no such function.

    >>> import pullback as pb
    >>> x = pb.asarray([-1.0, 2.0])
    >>> pb.piecewise(x, [x < 0], [lambda v: -v, lambda v: v * v]).tolist()
    [1.0, 4.0]
    """
    tensor = _tensor(x)
    given = [condlist] if isinstance(condlist, Tensor | np.ndarray | bool) else list(condlist)
    masks = [np.asarray(_values("piecewise", "condlist", mask), dtype=bool) for mask in given]
    if len(masks) == 1 and masks[0].ndim > tensor.ndim:
        masks = list(masks[0])
    if len(funclist) == len(masks) + 1:
        masks.append(~np.any([np.broadcast_to(m, tensor.shape) for m in masks], axis=0))
    if len(funclist) != len(masks):
        raise ValueError(
            f"piecewise: {len(masks)} conditions need {len(masks)} functions, or one more; "
            f"{len(funclist)} are given"
        )
    result = creation._zeros_like(tensor)
    for mask, function in zip(masks, funclist, strict=True):
        where = wrap(np.broadcast_to(mask, tensor.shape))
        value = function
        if callable(function):
            if not where._array.any():
                continue
            value = function(indexing._index(tensor, [where]), *args, **kwargs)
        result = indexing.index_put(result, [where], value)
    return result


def gradient(
    f: Any, /, *spacing: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Any:
    """Slopes along each axis, from differences that are of second order inside.

    Spacing is one distance for all axes, or a distance or the coordinates for each; without it all
    distances are one. Gives one tensor for one axis, else a tuple.

    >>> import pullback as pb
    >>> pb.gradient([1.0, 2.0, 4.0]).tolist(), pb.gradient([1.0, 2.0, 4.0], 2.0).tolist()
    ([1.0, 1.5, 2.0], [0.5, 0.75, 1.0])
    """
    return _one_or_all(reduction._gradient(f, spacing, axis=axis, edge_order=edge_order))
