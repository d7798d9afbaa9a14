"""Devices and memory of tensors: ``x.to(...)``, ``x.to_device(...)``, ``x.share_memory_()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._lazy import lazy_module
from pullback.autograd.function import Function
from pullback.errors import AutogradError, NoDataError
from pullback.operators.creation.devices import check_device
from pullback.tensor.tensor import Tensor, has_values

if TYPE_CHECKING:
    from pullback import meta
    from pullback.tensor import shared_pickles
else:
    meta = lazy_module("pullback.meta")
    shared_pickles = lazy_module("pullback.tensor.shared_pickles")

__all__ = ["ToMeta", "is_shared", "share_memory_", "to", "to_device"]


class ToMeta(Function):
    """The shape of a tensor. Its gradient is a shape too, which no data can be made of."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        """A meta tensor."""
        return meta.meta_tensor(x)

    @staticmethod
    def backward(_: Any, *grads: Any) -> Any:
        """Always raises."""
        raise NoDataError(
            f"the gradient of shape {grads[0].shape} of a tensor that was moved to the meta device "
            f"has no data that could be brought back; move x.detach() instead"
        )


def to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device: itself if it is there, and its shape alone on ``"meta"``.

    >>> import pullback as pb
    >>> pb.zeros(3).to_device("meta").device
    'meta'
    """
    if stream is not None:
        raise ValueError(f"to_device: there are no streams here; stream is {stream!r}, not None")
    check_device(device)
    if device in (None, self.device):
        return self
    if device == "cpu":
        raise NoDataError(
            f"to: Cannot copy out of meta tensor; no data! Make a tensor of its shape, with "
            f"empty_like(x, device='cpu'); the shape is {self.shape}"
        )
    return ToMeta.apply(self)  # type: ignore[no-any-return]


def to(
    self: Tensor, *args: Any, dtype: Any = None, device: str | None = None, copy: bool = False
) -> Tensor:
    """The tensor with another dtype or on another device: ``x.to("meta")``, ``x.to(np.float32)``.

    Another tensor stands for its dtype and its device. Without any change the tensor itself comes
    back, unless `copy` is true.

    >>> import pullback as pb
    >>> pb.zeros(3).to("meta", "float32")
    tensor(..., shape=(3,), dtype=float32, device='meta')
    """
    for given in args:
        if isinstance(given, Tensor):
            dtype, device = given.dtype, given.device
        elif given in ("cpu", "meta"):
            device = given
        else:
            dtype = given
    wanted = self.dtype if dtype is None else np.dtype(dtype)
    moved = to_device(self, self.device if device is None else device)
    if wanted != self.dtype:
        return pointwise._astype(moved, wanted)
    return pointwise.clone(moved) if copy and moved is self else moved


def share_memory_(self: Tensor) -> Tensor:
    """Moves the elements into shared memory: processes that get the tensor see each other's writes.

    The tensor stays the same object, so that modules and optimizers go on with it. Views that were
    made before keep the old memory. There are no locks; see the guarantees in ``docs/hogwild.md``.

    >>> import pullback as pb
    >>> x = pb.ones(3).share_memory_()
    >>> x.is_shared(), x.tolist()
    (True, [1.0, 1.0, 1.0])
    """
    if not has_values(self):
        raise AutogradError("share_memory_: the tensor has no array that could be shared")
    if not self.is_leaf:
        raise AutogradError(
            "share_memory_: the tensor was computed from others; share x.detach() or a leaf"
        )
    if not shared_pickles.is_in_shared_memory(self):
        self.data = shared_pickles.move_to_shared_memory(self)
    return self


def is_shared(self: Tensor) -> bool:
    """Whether the elements are in shared memory.

    >>> import pullback as pb
    >>> pb.ones(3).is_shared()
    False
    """
    return has_values(self) and shared_pickles.is_in_shared_memory(self)


for _method in (to, to_device, share_memory_, is_shared):
    setattr(Tensor, _method.__name__, _method)
