"""Recording kernels in `numpy_mode`: what their nodes save is uncovered in the undo log.

A covered part of memory is not logged again, because no node has saved its present content
(`graph/undo_log.py`). So a kernel whose node saves a tensor calls `uncover` for it first. Each
function here puts that around a kernel; an operator has the cheapest one that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")

__all__ = ["uncover_all", "uncover_one", "uncover_others", "uncover_two", "uncover_written"]

_Function = Callable[..., Any]


def uncover_one(kernel: _Function) -> _Function:
    """For kernels of one tensor; 40 ns more."""

    def call(self: Tensor) -> Any:
        counter = self._counter
        if counter is not None and len(counter) > 1:  # else it has no log
            undo_log.uncover(self)
        return kernel(self)

    return call


def uncover_two(kernel: _Function, self_for: int, other_for: int) -> _Function:
    """For kernels of two tensors; 60 ns more.

    `self_for` and `other_for` say for which gradients each is saved: 1 that of the first, 2 that of
    the second. ``y * 2.0`` saves nothing of `y`.
    """

    def call(self: Tensor, other: Tensor) -> Any:
        counter = self._counter
        if counter is not None and len(counter) > 1 and self_for & _needed(self, other):
            undo_log.uncover(self)
        counter = other._counter
        if counter is not None and len(counter) > 1 and other_for & _needed(self, other):
            undo_log.uncover(other)
        return kernel(self, other)

    return call


def _needed(self: Tensor, other: Tensor) -> int:
    """The gradients that are needed, or may be: a view of a tensor that requires grad needs one."""
    first = 1 if self._flags & (REQUIRES_GRAD | PLAIN_VIEW) else 0
    return first | 2 if other._flags & (REQUIRES_GRAD | PLAIN_VIEW) else first


def _uncover(*values: Any) -> None:
    for value in values:
        for item in value if type(value) is list else (value,):
            if isinstance(item, Tensor):
                undo_log.uncover(item)


def uncover_all(kernel: _Function) -> _Function:
    """For kernels of any arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        _uncover(*args, *kwargs.values())
        return kernel(*args, **kwargs)

    return call


def uncover_others(kernel: _Function) -> _Function:
    """For kernels that write to their first argument: what is saved of that is a copy."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        _uncover(*args, *kwargs.values())
        return kernel(self, *args, **kwargs)

    return call


def uncover_written(kernel: _Function) -> _Function:
    """The same where the written result is saved, too."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        _uncover(*args, *kwargs.values())
        result = kernel(self, *args, **kwargs)
        undo_log.uncover(self)
        return result

    return call
