"""Anomaly mode: which forward operation a failing backward belongs to, and the first NaN.

While the mode is on, every node remembers the stack of the call that recorded it, and the engine
checks what nodes return. The mode holds for the whole process. Turning it on or off makes every
operator link its kernels anew, so that programs which never use it pay nothing.
"""

from __future__ import annotations

import traceback
import warnings
from types import TracebackType
from typing import Any, Self

from pullback.autograd.node import Node
from pullback.dispatch import registry
from pullback.dispatch.table import LOCK

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "remember_call",
    "report_call",
    "set_detect_anomaly",
]

_TRACEBACK = "traceback_"  # PyTorch's name in Node.metadata

_enabled = False
_check_nan = True


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on.

    >>> is_anomaly_enabled()
    False
    """
    return _enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, where it is on, also looks for NaN.

    >>> is_anomaly_check_nan_enabled()
    True
    """
    return _check_nan


def _switch(enabled: bool, check_nan: bool) -> None:
    global _enabled, _check_nan
    with LOCK:
        changes = enabled != _enabled
        _enabled, _check_nan = enabled, check_nan
        if changes:
            for entry in registry.all_entries():
                entry.invalidate()


class set_detect_anomaly:  # noqa: N801 - PyTorch's name
    """Turns anomaly mode on or off: at once, or for a block.

    >>> with set_detect_anomaly(True, check_nan=False):
    ...     is_anomaly_enabled(), is_anomaly_check_nan_enabled()
    (True, False)
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._before = (_enabled, _check_nan)
        _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass  # in force since it was made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _switch(*self._before)


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """A block in anomaly mode: for finding errors, and slow.

    >>> import pullback as pb, warnings
    >>> x = pb.tensor([0.0], requires_grad=True)
    >>> with warnings.catch_warnings(action="ignore"), detect_anomaly():
    ...     (pb.sqrt(x) * 0).sum().backward()
    Traceback (most recent call last):
        ...
    pullback.errors.AutogradError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True):
        self._check_nan = check_nan
        self._before: list[tuple[bool, bool]] = []
        warnings.warn(
            "Anomaly Detection is on: every operation notes where it was called and every gradient "
            "is checked, which is slow. Use it to find an error, and then turn it off.",
            stacklevel=2,
        )

    def __enter__(self) -> Self:
        self._before.append((_enabled, _check_nan))
        _switch(True, self._check_nan)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _switch(*self._before.pop())


def remember_call(node: Any) -> None:
    """Keeps the present stack with a node, without the frames of this package's own calls."""
    node.metadata[_TRACEBACK] = traceback.format_list(traceback.extract_stack()[:-2])


def report_call(node: Node) -> None:
    """Warns with the forward call that a failing node belongs to."""
    lines = node.metadata.get(_TRACEBACK)
    if lines is None:
        warnings.warn(
            f"{node.name()} failed. No forward pass information available: anomaly mode was off "
            f"when the operation was recorded. Turn it on around the forward pass, too.",
            stacklevel=2,
        )
        return
    warnings.warn(
        f"{node.name()} failed. The operation was recorded by this call:\n{''.join(lines)}",
        stacklevel=2,
    )
