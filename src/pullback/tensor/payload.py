"""Payloads: objects that a tensor holds instead of an array.

A tensor's ``_array`` is an ndarray, or an instance of a ``Payload``: a shape without data (meta),
or a batched array (vmap). Its kernels are registered below autograd, at the key in its `flags`;
recording, versions, views, tangents and hooks work above it as they do for arrays. The tensor reads
shape and dtype from it; an access to single elements raises the payload's own error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from pullback.errors import NoDataError

__all__ = ["Payload", "shares_memory"]


class Payload:
    """Base class of objects that a tensor holds instead of an array.

    A subclass has the attributes `shape` and `dtype`, the class attribute `flags`, and the methods
    ``copy``, ``shares_memory`` and ``maker``.

    Attributes:
        shape: the lengths of the axes that the program sees.
        dtype: the type of the elements.
        flags: the flags of a tensor around it: the bits of the backend and functionality keys at
            which its kernels are, ``TRACKED``, and those of an autograd key.
        device: what ``Tensor.device`` says.
        memory: the array that in-place writes change, if the payload has one: they are logged, with
            the ``place()`` of each, and ``rebuilt(array, place)`` is the payload before a write.
    """

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    flags: ClassVar[int]
    device: ClassVar[str] = "cpu"
    memory: NDArray[Any] | None = None
    base: ClassVar[None] = None  # of whose memory an array is a part
    tensor_class: Any = None  # the class of tensors around it, if that is a subclass of Tensor
    attributes: dict[str, Any]  # what such tensors have in their __dict__

    @property
    def is_made_here(self) -> bool:
        """Whether the program that computes with it has made it, and not its caller."""
        return True

    def place(self) -> Any:
        """The place in a program at which it is now."""
        raise NotImplementedError(f"{type(self).__name__} has no place()")

    def rebuilt(self, content: NDArray[Any], place: Any) -> Payload:
        """The payload with the content that it had at a place."""
        raise NotImplementedError(f"{type(self).__name__} has no rebuilt()")

    # --- what subclasses have to say --------------------------------------------------------------

    def copy(self, order: str = "K") -> Self:
        """The same values in memory of their own."""
        raise NotImplementedError(f"{type(self).__name__} has no copy()")

    def deepcopy(self, memo: dict[int, Any]) -> Self:  # noqa: ARG002 - for subclasses
        """The payload of a deep copy of a tensor."""
        return self.copy()

    def shares_memory(self, other: Any) -> bool:
        """Whether this was made as a view of another payload's or array's memory."""
        raise NotImplementedError(f"{type(self).__name__} has no shares_memory()")

    def maker(self, layout: tuple[int, ...] | None = None) -> Callable[[], Payload]:
        """A function that makes an uninitialized payload of this kind and shape.

        `layout` lists the axes from the widest stride to the narrowest; by default this payload's
        own. The function holds no data, because the graph keeps it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no maker()")

    # --- what they may say otherwise --------------------------------------------------------------

    def refusal(self, what: str) -> Exception:
        """The error for an access to single values; `what` is how it was tried."""
        return NoDataError(
            f"{what}: the tensor holds a {type(self).__name__}, which has no values to give"
        )

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Zeros of any shape that can be computed with together with this payload."""
        return np.zeros(shape, dtype)

    def ones(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Ones of any shape that can be computed with together with this payload."""
        made = np.empty(shape, dtype)
        made.fill(1)  # two calls less than np.ones
        return made

    def for_recomputation(self) -> Self:
        """The same values for the second run of a checkpointed function."""
        return self

    def is_true(self) -> bool | None:
        """The truth value of the only element, for a check of values; None where it is unknown."""
        return None

    def has_nan(self) -> bool:
        """Whether a value is known to be NaN."""
        return False

    @property
    def layout(self) -> tuple[int, ...]:
        """The axes from the widest stride to the narrowest."""
        return tuple(range(self.ndim))

    @property
    def contiguous(self) -> bool:
        """Whether the elements are known to lie in memory in C order, without gaps."""
        return False

    def view(self, dtype: Any) -> Payload:  # noqa: ARG002 - for subclasses
        """The same memory read as another dtype."""
        raise self.refusal("view(dtype)")

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, for each axis."""
        raise self.refusal("strides")

    def __repr__(self) -> str:
        name = (self.tensor_class or type(self)).__name__
        return f"{name}(shape={self.shape}, dtype={self.dtype.name})"

    # --- what follows from the shape --------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    # --- what an array would answer ---------------------------------------------------------------

    def as_numpy(self, what: str = "numpy()") -> NDArray[Any]:
        """The values as an array; raises unless a subclass has any."""
        raise self.refusal(what)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self.refusal("numpy()")

    def __bool__(self) -> NoReturn:
        raise self.refusal("bool()")

    def __index__(self) -> NoReturn:
        raise self.refusal("use as an index")

    def take_number(self) -> Any:
        """The only element as a number of a program that is traced; None if there is none."""
        return None

    def item(self) -> NoReturn:
        """Always raises."""
        raise self.refusal("item()")

    def tolist(self) -> NoReturn:
        """Always raises."""
        raise self.refusal("tolist()")

    def __dlpack__(self, **_: Any) -> NoReturn:
        raise self.refusal("__dlpack__()")

    def __dlpack_device__(self) -> NoReturn:
        raise self.refusal("__dlpack_device__()")


def shares_memory(array: NDArray[Any] | Payload, other: Any) -> bool:
    """Whether an array or payload may be a view of another one.

    >>> whole = np.zeros(3)
    >>> shares_memory(whole[:2], whole), shares_memory(whole + 1, whole)
    (True, False)
    """
    if isinstance(array, Payload):
        return array.shares_memory(other)
    return not isinstance(other, Payload) and np.may_share_memory(array, other)
