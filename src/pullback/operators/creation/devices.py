"""Devices of new tensors: the CPU, or the meta device, which has shapes and no data.

The functions of ``operators/creation/functions.py`` get the kernel for a device from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pullback._generated import functions_creation as functions
from pullback._generated import operators
from pullback._lazy import lazy_module
from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.kernels.layout import order_of
from pullback.tensor.tensor import Tensor, as_operand, fresh

if TYPE_CHECKING:
    from pullback import meta
else:
    meta = lazy_module("pullback.meta")

__all__ = ["check_device", "maker_like", "maker_on", "tensor_on"]

_DEVICES = ("cpu", "meta")


def check_device(device: str | None, *only: str) -> None:
    """Refuses a device that does not exist, or is none of those that are possible here."""
    known = only or _DEVICES
    if device is not None and device not in known:
        listed = " or ".join(map(repr, known))
        raise ValueError(f"device must be {listed}, or None, not {device!r}")


def maker_on(device: str | None, name: str) -> Callable[..., Tensor]:
    """The function of a creation operator for a device.

    >>> maker_on("meta", "zeros")((2, 3), None).shape
    (2, 3)
    """
    check_device(device)
    if device == "meta":
        entry: Any = getattr(operators, name)
        return entry.link_call(KEY_BITS[DispatchKey.Meta])  # type: ignore[no-any-return]
    return getattr(functions, "_" + name)  # type: ignore[no-any-return]


def tensor_on(device: str | None, array: NDArray[Any]) -> Tensor:
    """The tensor of a new array; on the meta device, of its shape."""
    check_device(device)
    return meta.meta_tensor(array) if device == "meta" else fresh(array)


def maker_like(x: Any, device: str | None, name: str) -> Callable[[Any], Tensor]:
    """A function of a dtype that makes a tensor of the shape of `x`, by default on its device.

    On the same device it has the layout of `x`, too.
    """
    like = as_operand(x)
    if device in (None, like.device):
        if name != "empty":
            return lambda dtype: getattr(functions, f"_{name}_like")(like, dtype)
        order = order_of(like.shape, like.strides)
        if order != tuple(range(like.ndim)):  # zeros are as good as nothing, and keep the order
            return lambda dtype: functions._zeros_like(like, dtype)
    make = maker_on(like.device if device is None else device, name)
    return lambda dtype: make(like.shape, like.dtype if dtype is None else dtype)
