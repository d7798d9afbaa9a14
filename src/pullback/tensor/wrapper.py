"""Tensors of subclasses with ``__torch_dispatch__``: wrapper tensors.

A wrapper tensor has a shape and a dtype but no array; what it stands for is in attributes that its
class gives it (``x.inner``). Operators on it call the class's ``__torch_dispatch__`` at the key
Python, below autograd. Class and attributes belong to the payload, because autograd makes further
tensors around one payload: views, detached tensors, saved values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from pullback.dispatch.keys import INTERCEPT, KEY_BITS, DispatchKey
from pullback.dispatch.table import ENTRIES
from pullback.errors import AutogradError
from pullback.tensor.payload import Payload, shares_memory
from pullback.tensor.tensor import CPU_FLAGS, Tensor, wrap

__all__ = ["WrapperPayload", "make_wrapper_subclass"]


class WrapperPayload(Payload):
    """Shape and dtype of a wrapper tensor, its class and its attributes."""

    __slots__ = ("attributes", "dtype", "shape", "tensor_class")

    flags: ClassVar[int] = CPU_FLAGS | KEY_BITS[DispatchKey.Python] | INTERCEPT

    def __init__(self, tensor_class: type[Tensor], shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.tensor_class = tensor_class
        self.shape = shape
        self.dtype = dtype
        self.attributes: dict[str, Any] = {}

    def copy(self, order: str = "K") -> WrapperPayload:  # noqa: ARG002 - a payload has it
        """A payload of its own with the same attributes: what they hold is not copied."""
        copied = WrapperPayload(self.tensor_class, self.shape, self.dtype)
        copied.attributes.update(self.attributes)
        return copied

    def deepcopy(self, memo: dict[int, Any]) -> WrapperPayload:
        """A payload with deep copies of the attributes."""
        copied = WrapperPayload(self.tensor_class, self.shape, self.dtype)
        copied.attributes.update(deepcopy(self.attributes, memo))
        return copied

    def ones(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Ones as the class makes them: the cotangent of a root goes through its handler."""
        if shape != self.shape or dtype != self.dtype:
            return super().ones(shape, dtype)
        made = ENTRIES["pullback::ones_like"].operator(wrap(self))
        return made._array

    def shares_memory(self, other: Any) -> bool:
        """Whether tensors or arrays among its attributes share memory with the other's."""
        if other is self or not isinstance(other, WrapperPayload):
            return other is self
        theirs = _held(other.attributes)
        return any(shares_memory(a, b) for a in _held(self.attributes) for b in theirs)

    def maker(
        self,
        layout: tuple[int, ...] | None = None,  # noqa: ARG002 - a payload has it
    ) -> Callable[[], Payload]:
        """Raises: a class does not say how to make tensors of its own kind."""
        raise self.refusal("an in-place write to a view that is differentiated")

    def refusal(self, what: str) -> Exception:
        """The error for an access to values."""
        return AutogradError(
            f"{what}: {self.tensor_class.__name__} is a wrapper tensor without an array of its "
            f"own; ask what it wraps, an attribute that its class gives it"
        )


def _held(attributes: dict[str, Any]) -> list[Any]:
    """The arrays and payloads among attributes."""
    values = [v._array if isinstance(v, Tensor) else v for v in attributes.values()]
    return [v for v in values if isinstance(v, np.ndarray | Payload)]


def make_wrapper_subclass(
    cls: type[Tensor],
    size: Sequence[int],
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of a subclass with a shape and a dtype, but without data.

    The subclass has a static or class method ``__torch_dispatch__(func, types, args, kwargs)``,
    and calls this in its ``__new__``: it is ``Tensor._make_wrapper_subclass``.

    >>> import pullback as pb
    >>> class Tagged(pb.Tensor):
    ...     def __new__(cls, inner):
    ...         made = pb.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    ...         made.inner = inner
    ...         return made
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         plain = [a.inner if isinstance(a, Tagged) else a for a in args]
    ...         return Tagged(func(*plain, **(kwargs or {})))
    >>> x = Tagged(pb.tensor([1.0, 2.0]))
    >>> y = pb.sin(x) * 2
    >>> type(y).__name__, y.shape, y.inner
    ('Tagged', (2,), tensor([1.68294197, 1.81859485]))
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)) or cls is Tensor:
        raise TypeError(
            f"_make_wrapper_subclass: cls must be a subclass of Tensor, not {cls!r}; call it in "
            f"the __new__ of the subclass and pass cls on"
        )
    if not hasattr(cls, "__torch_dispatch__"):
        raise TypeError(
            f"_make_wrapper_subclass: {cls.__name__} has no __torch_dispatch__(cls, func, types, "
            f"args=(), kwargs=None), which has to compute for a tensor without data; define it as "
            f"a class method"
        )
    if device not in (None, "cpu"):
        raise ValueError(f"_make_wrapper_subclass: device must be 'cpu' or None, not {device!r}")
    made = wrap(WrapperPayload(cls, tuple(map(int, size)), np.dtype(dtype)))
    if requires_grad:
        made.requires_grad = True
    return made
