"""Anomaly mode: which forward operation a failing backward belongs to, and the first bad number.

While the mode is on, every node stores the stack of the call that recorded it, the engine checks
what nodes return, and ``forward_trace.py`` wraps every forward call. The mode holds for the whole
process. Turning it on or off makes every operator link its calls anew, so that programs which never
use it pay nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pullback import errors
from pullback._cpython import get_frame
from pullback._lazy import lazy_module
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.graph.node import Node
from pullback.dispatch.table import LOCK, observe_calls
from pullback.interrupts import run_to_end, uninterrupted_entry

if TYPE_CHECKING:
    import traceback
else:
    traceback = lazy_module("traceback")

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_finite_enabled",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "line_of",
    "observe_with",
    "remember_call",
    "report_call",
    "set_detect_anomaly",
    "user_frame",
]

_TRACEBACK = "traceback_"  # PyTorch's names in Node.metadata
_PARENT = "parent_"
_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__)) + os.sep
_OURS = (_PACKAGE, "<operator ", "<pullback.")  # files of ours, and source compiled by us


class _Switches(NamedTuple):
    enabled: bool = False
    check_nan: bool = True
    check_finite: bool = False


_switches = _Switches()
_observer: Callable[[Any, Callable[..., Any]], Callable[..., Any]] | None = None


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on.

    >>> is_anomaly_enabled()
    False
    """
    return _switches.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, where it is on, also looks for NaN in gradients.

    >>> is_anomaly_check_nan_enabled()
    True
    """
    return _switches.check_nan


def is_anomaly_check_finite_enabled() -> bool:
    """Whether anomaly mode, where it is on, also looks for inf and NaN in the forward pass.

    >>> is_anomaly_check_finite_enabled()
    False
    """
    return _switches.check_finite


def observe_with(observer: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Sets the wrapper of forward calls while the mode is on: ``observer(operator, kernel)``."""
    global _observer
    _observer = observer


@uninterrupted_entry
def _switch(switches: _Switches) -> None:
    """Sets the switches, even if it is interrupted."""
    run_to_end(_switch_once, switches)


def _switch_once(switches: _Switches) -> None:
    global _switches
    with LOCK:
        if switches.enabled != _switches.enabled and _observer is not None:
            observe_calls(_observer, switches.enabled)
        _switches = switches  # last, so that a second call does the same


class set_detect_anomaly:  # noqa: N801 - PyTorch's name
    """Turns anomaly mode on or off: at once, or for a block.

    >>> with set_detect_anomaly(True, check_nan=False):
    ...     is_anomaly_enabled(), is_anomaly_check_nan_enabled()
    (True, False)
    """

    def __init__(self, mode: bool, check_nan: bool = True, *, check_finite: bool = False):
        self._before = before = _switches
        try:
            _switch(_Switches(mode, check_nan, check_finite))
        except BaseException:
            _switch(before)
            raise

    def __enter__(self) -> None:
        pass  # in force since it was made

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        _switch(self._before)


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """A block in anomaly mode: for finding errors, and slow.

    Args:
        check_nan: a node that returns NaN in a backward pass raises, as in PyTorch.
        check_finite: a forward operation that makes inf or NaN out of finite numbers raises, and so
            does a node that returns inf.

    >>> import pullback as pb, warnings
    >>> x = pb.tensor([0.0], requires_grad=True)
    >>> with warnings.catch_warnings(action="ignore"), detect_anomaly():
    ...     (pb.sqrt(x) * 0).sum().backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    pullback.errors.NotFiniteError: Function 'SqrtBackward0' returned nan values in its 0th ...
    """

    def __init__(self, check_nan: bool = True, *, check_finite: bool = False):
        self._inside = _Switches(True, check_nan, check_finite)
        self._entered: tuple[Any, ...] = ()  # the switches before each entry, and the last tuple
        warnings.warn(
            "Anomaly Detection has been enabled: every operation records where it was called and "
            "every gradient is checked, which is slow. Use it to find an error, then turn it off.",
            stacklevel=2,
        )

    def __enter__(self) -> Self:
        before = _switches
        try:
            _switch(self._inside)
        except BaseException:
            _switch(before)
            raise
        self._entered = (before, self._entered)
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        before, self._entered = self._entered
        _switch(before)


def user_frame() -> FrameType:
    """The innermost frame that is not this package's own."""
    frame = get_frame(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def remember_call(node: Node) -> None:
    """Keeps the present stack with a node, without the frames of this package's own calls.

    In a backward pass, the node that runs is kept too: its operation induced the recorded one.
    """
    node.metadata[_TRACEBACK] = traceback.format_list(traceback.extract_stack(user_frame()))
    parent = getattr(current_graph_task(), "node", None)  # of an AnomalyTask
    if parent is not None and parent is not node:
        node.metadata[_PARENT] = parent


def line_of(node: Node) -> str | None:
    """The user's file and line that recorded a node, if anomaly mode was on."""
    lines = None if node._hooks is None else node._hooks.metadata.get(_TRACEBACK)
    if not lines:
        return None
    file, line = lines[-1].split('"')[1], lines[-1].split("line ", 1)[1].split(",")[0]
    return f"{file}:{line}"


def report_call(node: Node) -> None:
    """Warns with the forward call that a failing node belongs to, and those that induced it.

    A node that was recorded by another one's backward has that as its parent, and so on.
    """
    start = f"Error detected in {node.name()}. Traceback of forward call that caused the error"
    while True:
        lines = node.metadata.get(_TRACEBACK)
        if lines is None:
            warnings.warn(
                f"Error detected in {node.name()}. No forward pass information available: anomaly "
                f"mode was off when the operation was recorded. Turn it on around the forward "
                f"pass, too.",
                stacklevel=2,
            )
            return
        warnings.warn(f"{start}:\n{''.join(lines)}", stacklevel=2)
        parent = node.metadata.get(_PARENT)
        if parent is None:
            return
        node = parent
        start = (
            f"Previous calculation was induced by {node.name()}. Traceback of forward call that "
            f"induced the previous calculation"
        )
