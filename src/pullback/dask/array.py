"""``DaskArray``: the payload of tensors whose values are a lazy dask array.

An axis along which all values are equal, as after ``broadcast_to`` or in the seed of a backward
pass, has length one in the dask array and its full length in the shape: repeating costs no task.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable
from threading import Lock
from typing import Any, ClassVar, NoReturn

import dask.array as da
import numpy as np
from dask.graph_manipulation import clone

from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.errors import AutogradTypeError, DaskError, NoDataError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import TRACKED, Tensor, fresh

__all__ = [
    "DASK_BITS",
    "DaskArray",
    "constant",
    "from_dask",
    "is_dask",
    "on_first_use",
    "to_dask",
    "unique_name",
]

DASK_BITS = KEY_BITS[DispatchKey.Dask]


def unique_name(prefix: str) -> str:
    """A name for the tasks of one call.

    It does not depend on the arguments: dask would merge the recomputation of a checkpointed region
    with its first computation if both had the same names.
    """
    return f"{prefix}-{uuid.uuid4().hex}"


_first_use: list[Callable[[], object]] = []
_using = Lock()


def on_first_use(function: Callable[[], object]) -> None:
    """Has a function called before the first payload is made.

    The fallback is registered then: a module must not acquire the lock of the tables while it is
    imported.
    """
    _first_use.append(function)


class _Storage:
    """The payloads that stand for views of one memory."""

    __slots__ = ("members", "__weakref__")

    def __init__(self) -> None:
        self.members: weakref.WeakSet[DaskArray] = weakref.WeakSet()


def _without_empty_blocks(array: Any) -> Any:
    """The array in blocks that have elements, so that an axis of length one has one block."""
    if not any(0 in chunk and len(chunk) > 1 for chunk in array.chunks):
        return array
    return array.rechunk(tuple(tuple(n for n in chunk if n) or (0,) for chunk in array.chunks))


class DaskArray(Payload):
    """A lazy dask array, in which repeated axes have length one.

    Attributes:
        array: the dask array.
        shape: the lengths of the axes that the program sees.
        storage: what it shares with the payloads of its views.
    """

    __slots__ = ("array", "_shape", "storage", "__weakref__")

    flags: ClassVar[int] = DASK_BITS | TRACKED | KEY_BITS[DispatchKey.AutogradDask]

    def __init__(
        self, array: Any, shape: tuple[int, ...] | None = None, viewed: DaskArray | None = None
    ):
        if _first_use:
            with _using:
                for function in _first_use:
                    function()
                _first_use.clear()
        self.array = _without_empty_blocks(array)
        self._shape = tuple(array.shape if shape is None else shape)
        self.storage: _Storage = _Storage() if viewed is None else viewed.storage
        self.storage.members.add(self)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The lengths of the axes that the program sees."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The type of the elements."""
        return self.array.dtype  # type: ignore[no-any-return]

    @property
    def contiguous(self) -> bool:
        """True: a view of another order does not exist here."""
        return True

    def is_repeated(self, axis: int) -> bool:
        """Whether all values along an axis are equal by construction."""
        return bool(self.array.shape[axis] != self._shape[axis])

    def whole(self) -> Any:
        """The dask array with all axes in their full length."""
        if self.array.shape == self._shape:
            return self.array
        return da.broadcast_to(self.array, self._shape)

    def replace(self, array: Any, shape: tuple[int, ...], operator: str) -> None:
        """Replaces the values by others; raises where views of the old ones are alive."""
        if len(self.storage.members) > 1:
            raise DaskError(
                f"{operator}: an in-place write to a tensor on dask that has views, or is one. "
                f"Dask arrays are immutable, and a write reaches only one tensor; write "
                f"x = pb.where(mask, value, x), or x = x + y, instead"
            )
        self.array, self._shape = array, shape

    def copy(self, order: str = "K") -> DaskArray:  # noqa: ARG002 - lazy arrays have no layout
        """The same values in a payload of its own."""
        return DaskArray(self.array, self._shape)

    def shares_memory(self, other: Any) -> bool:
        """Whether one was made as a view of the other."""
        return isinstance(other, DaskArray) and other.storage is self.storage

    def maker(self, layout: tuple[int, ...] | None = None) -> Callable[[], DaskArray]:  # noqa: ARG002
        """Returns a function that makes zeros of this shape."""
        shape, dtype = self._shape, self.dtype
        return lambda: constant(0, shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> DaskArray:
        """Zeros of any shape, without a task for each block."""
        return constant(0, tuple(shape), np.dtype(dtype))

    def ones(self, shape: tuple[int, ...], dtype: Any) -> DaskArray:
        """Ones of any shape, without a task for each block."""
        return constant(1, tuple(shape), np.dtype(dtype))

    def for_recomputation(self) -> DaskArray:
        """The same values by tasks of other names, which dask does not merge with the first."""
        return DaskArray(clone(self.array), self._shape)

    def refusal(self, what: str) -> Exception:
        """The error for an access to values, and for a use inside vmap."""
        return NoDataError(
            f"{what}: the tensor holds a lazy dask array of shape {self.shape}, whose values are "
            f"not computed; call pb.dask.compute(x) first. vmap does not take such tensors"
        )

    def _refuse_arithmetic(self, *_: Any) -> NoReturn:
        """Refuses operators of Python on payloads, with which optimizers compute on arrays."""
        raise self.refusal("arithmetic on arrays")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse_arithmetic
    __truediv__ = __rtruediv__ = __neg__ = __pow__ = __matmul__ = _refuse_arithmetic

    def __repr__(self) -> str:
        blocks = "x".join(map(str, self.array.numblocks)) or "1"
        return f"..., shape={self.shape}, dtype={self.dtype.name}, blocks={blocks}"

    def __reduce__(self) -> tuple[type[DaskArray], tuple[Any, ...]]:
        return DaskArray, (self.array, self._shape)


def constant(value: Any, shape: tuple[int, ...], dtype: Any) -> DaskArray:
    """One number in every place: a dask array of one element, repeated along all axes."""
    ones = tuple(min(n, 1) for n in shape)
    return DaskArray(da.full(ones, value, dtype=dtype, name=unique_name("full")), shape)


def from_dask(array: Any, *, requires_grad: bool = False) -> Tensor:
    """A tensor whose values are a dask array; operators on it extend dask's graph.

    Nothing is computed before `pullback.dask.compute`.

    >>> import dask.array as da, pullback as pb
    >>> x = pb.dask.from_dask(da.ones((4, 3), chunks=(2, 3)), requires_grad=True)
    >>> (gradient,) = pb.autograd.grad((x * x).sum(), [x])
    >>> pb.dask.compute(gradient)[0][0].tolist()
    [2.0, 2.0, 2.0]
    """
    if not isinstance(array, da.Array):
        raise AutogradTypeError(
            f"from_dask: expected a dask array, but got {type(array).__name__}; "
            f"da.from_array(x, chunks=...) makes one"
        )
    if any(n != n for n in array.shape):
        raise AutogradTypeError(
            f"from_dask: an axis of the array has an unknown length (shape {array.shape}); call "
            f"array.compute_chunk_sizes() first"
        )
    if array.dtype.kind not in "biufc":
        raise AutogradTypeError(f"from_dask: tensors hold numbers, not {array.dtype}")
    shape = tuple(int(n) for n in array.shape)
    tensor = fresh(DaskArray(array, shape))
    return tensor.requires_grad_() if requires_grad else tensor


def is_dask(value: Any) -> bool:
    """Whether a value is a tensor that holds a dask array.

    >>> import pullback as pb
    >>> pb.dask.is_dask(pb.tensor([1.0]))
    False
    """
    return isinstance(getattr(value, "_array", None), DaskArray)


def to_dask(tensor: Tensor) -> Any:
    """The dask array of a tensor, with every axis in its full length.

    >>> import dask.array as da, pullback as pb
    >>> pb.dask.to_dask(pb.dask.from_dask(da.zeros(4, chunks=2)) + 1).chunks
    ((2, 2),)
    """
    held = getattr(tensor, "_array", None)
    if not isinstance(held, DaskArray):
        raise AutogradTypeError(
            f"to_dask: expected a tensor that holds a dask array, but got {type(tensor).__name__}"
        )
    return held.whole()
