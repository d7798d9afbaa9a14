"""Levels: the transforms that a thread is inside of, innermost last.

``func.grad`` of a function that calls ``func.jvp`` of another has two levels while the inner
function runs. A level belongs to the context that entered it, so threads are independent; only
``forward_ad.dual_level`` holds for the whole process, as in PyTorch. Levels are numbered in the
order in which they begin, hence an inner one has a higher number than an outer one.

A level distinguishes tensors made inside it from tensors that the function captured: a tensor
without history has the number of its level beside its version counter (``tensor.tag_level``), and
the node of a tensor with history has a sequence number. Writing to a captured tensor raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pullback._lazy import lazy_module
from pullback.autograd.graph.node import node_of, sequence_counter
from pullback.autograd.graph.views import view_of
from pullback.dispatch.keys import AUTOGRAD_BITS, DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import (
    INFERENCE,
    MAPPING,
    TAPE,
    TRANSFORM,
    State,
    get_state,
    set_state,
    state_of,
)
from pullback.errors import AutogradError, InplaceError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.levels import active_levels, leave_levels, next_serial
from pullback.tensor.tensor import TENSOR_TYPES, TRACKED, Tensor, current_level_id, version_of

if TYPE_CHECKING:
    from pullback.utils import pytree
else:
    pytree = lazy_module("pullback.utils.pytree")

__all__ = [
    "Level",
    "ProcessLevel",
    "TransformLevel",
    "check_capture",
    "current_level",
    "forbid_in_transform",
    "has_transform_since",
    "in_forward_mode",
    "leave_tape",
    "only_forward_level",
    "process_levels",
    "records_in_transform",
    "run_outside_transforms",
    "tangents_are_recorded",
]

_T = TypeVar("_T")
_current: ContextVar[TransformLevel | None] = ContextVar("pullback_level", default=None)
current_level: Callable[[], Any] = _current.get
process_levels: list[Level] = []  # the level of forward_ad, if one is active


class Level:
    """Owner of tangents, which are dropped when it ends.

    Attributes:
        recorded: whether tangents of this level, or of one around it, came with a history.
    """

    __slots__ = ("alive", "recorded", "saved", "serial")

    def __init__(self) -> None:
        self.serial = next_serial()
        self.alive = True
        self.recorded = False
        self.saved: list[Any] = []  # saved values with tangents of this level

    @uninterrupted_entry
    def end(self) -> None:
        """Removes the tangents of saved values, which may be part of a reference cycle; other
        tangents are dropped by ``tangents_of``, which tests `alive`."""
        self.alive = False
        for value in self.saved:
            value.tangents.pop(self, None)
        self.saved.clear()


class ProcessLevel(Level):
    """The level of ``forward_ad``."""

    __slots__ = ()

    def begin(self) -> None:
        """Begins the level for the whole process."""
        try:
            process_levels.append(self)
        except BaseException:
            self.end()
            raise

    @uninterrupted_entry
    def end(self) -> None:
        """Ends the level for the whole process."""
        try:
            if self in process_levels:
                process_levels.remove(self)
        finally:
            Level.end(self)  # without ``super()``, a call after which an interrupt could come


class TransformLevel(Level):
    """A transform of ``pullback.func`` while its function runs; entered once, with ``with``.

    Args:
        forward: whether tangents belong to this level; else it is one of reverse mode, and history
            is recorded inside whatever the mode outside.

    Attributes:
        modes: of the state inside, beside those outside.
    """

    __slots__ = (
        "_before",
        "_outer_level_id",
        "_outer",
        "arguments",
        "forward",
        "has_tangents",
        "inputs",
        "records",
        "start",
    )
    modes = TRANSFORM

    def __init__(self, *, forward: bool):
        super().__init__()
        self.forward = forward
        self.records = not forward  # whether history is recorded inside

    def __enter__(self) -> Self:
        self._outer = outer = _current.get()
        self.has_tangents: bool = self.forward or (outer is not None and outer.has_tangents)
        self.recorded = outer is not None and outer.recorded
        self.inputs: list[list[int]] = []
        self.arguments: Any = ()  # those not differentiated by, which may be written to
        self.start = sequence_counter()()
        self._before = before = get_state()
        self._outer_level_id = current_level_id.get()
        try:
            current_level_id.set(self.serial)
            _current.set(self)
            inside = _inside.get((before, self.records, self.modes))
            set_state(inside or _state_inside(before, self.records, self.modes))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        try:
            set_state(self._before)
        finally:
            try:
                _current.set(self._outer)
            finally:
                try:
                    current_level_id.set(self._outer_level_id)
                finally:
                    self.end()

    @property
    def tape(self) -> Any:
        """The records of the innermost tangent tape around this level, or None."""
        return None if self._outer is None else self._outer.tape

    def compute_tangents(self) -> None:
        """Called before a write to memory that tangents may still have to be computed from."""

    def leave_tape(self) -> None:
        """Called where tangents propagate otherwise than recorded history says."""

    def take_input(self, tensor: Tensor) -> list[int]:
        """Registers an input, which must not be written to; returns its version counter."""
        counter = version_of(tensor) if tensor._counter is None else tensor._counter
        self.inputs.append(counter)
        return counter


_inside: dict[tuple[State, bool, int], State] = {}  # by what ``_state_inside`` takes


def _state_inside(before: State, records: bool, modes: int) -> State:
    """The state of a thread inside a transform."""
    keep = before.keep | AUTOGRAD_BITS
    # Recording, or propagation of tangents, is on inside even where it is off outside.
    keep |= REQUIRES_GRAD if records else DUAL
    inside = before.modes & ~INFERENCE | modes
    found = _inside[before, records, modes] = state_of(before.include | TRACKED, keep, inside)
    return found


def has_transform_since(serial: int) -> bool:
    """Whether this thread is inside a transform that began after the level of that number."""
    level = _current.get()
    return level is not None and level.serial > serial


def in_forward_mode() -> bool:
    """Returns whether tensors may have tangents, and tangents propagate."""
    level = _current.get()
    may_be = bool(process_levels) or (level is not None and level.has_tangents)
    return may_be and bool(get_state().keep & DUAL)


def only_forward_level() -> Level | None:
    """The level of all tangents that there may be, if there is just one."""
    found: Level | None = None
    level = _current.get()
    if process_levels:
        if level is not None and level.has_tangents:
            return None
        return process_levels[0] if len(process_levels) == 1 else None
    while level is not None and level.has_tangents:
        if level.forward:
            if found is not None:
                return None
            found = level
        level = level._outer
    return found


def tangents_are_recorded() -> bool:
    """Whether there may be tangents that can be differentiated backwards."""
    level = _current.get()
    if level is not None and level.recorded:
        return True
    return bool(process_levels) and any(of.recorded for of in process_levels)


def leave_tape() -> None:
    """Says that tangents depend on what happens now, and recorded history does not."""
    if get_state().modes & TAPE:
        level = _current.get()
        while level is not None:
            level.leave_tape()
            level = level._outer


def records_in_transform() -> bool:
    """Whether this thread is inside a transform of reverse mode, at any depth."""
    level = _current.get()
    while level is not None and not level.records:
        level = level._outer
    return level is not None


def run_outside_transforms(function: Callable[[], _T]) -> _T:
    """Calls a function as if this thread were inside no transform and no mapped function.

    The call has a context of its own, so that nothing has to be restored afterwards.
    """
    if not get_state().modes & (TRANSFORM | MAPPING):
        return function()
    return copy_context().run(_run_outside, function)


def _run_outside(function: Callable[[], _T]) -> _T:
    _current.set(None)
    leave_levels()
    state = get_state()
    set_state(state_of(state.include, state.keep, state.modes & ~(TRANSFORM | MAPPING | TAPE)))
    return function()


def forbid_in_transform(what: str, advice: str) -> None:
    """Raises inside a transform, whose result must depend on nothing but its arguments."""
    if get_state().modes & (TRANSFORM | MAPPING):
        raise AutogradError(
            f"You are attempting to call {what} inside of a function being transformed by "
            f"pullback.func. This is not supported; {advice}"
        )


def check_capture(tensor: Tensor) -> None:
    """Refuses a write, inside a transform, to memory that came from outside."""
    level = outer = _current.get()
    while outer is not None:
        outer.compute_tangents()
        outer = outer._outer
    if level is None or tensor.dtype.kind not in "fc":
        return
    counter = tensor._counter
    if any(counter is taken for taken in level.inputs):
        raise InplaceError(
            "a leaf Variable that requires grad is being used in an in-place operation: it is an "
            "input of a function being transformed by pullback.func. Write to a copy (clone())."
        )
    if counter is not None and len(counter) > 1 and counter[1] >= level.serial:
        return
    view = view_of(tensor)
    edge = tensor._edge if view is None else view.base._edge
    node = node_of(edge)
    if node is None or node._seq < level.start:
        if _is_argument(tensor, level):
            return
        raise InplaceError(
            "During a grad (vjp, jvp, grad, etc) transform, an in-place operation would mutate a "
            "captured Tensor, one that was made outside of the function. Make it an argument of "
            "the function and write to a clone(), or make it inside."
        )


def _is_argument(tensor: Tensor, level: TransformLevel) -> bool:
    """Whether memory belongs to an argument that the outermost transform does not differentiate by.

    Such memory may be written to. The caller finds the new elements in it, as constants: their
    history ends with the transform.
    """
    if level._outer is not None or active_levels():
        return False
    counter = version_of(tensor)
    leaves = pytree.leaves(level.arguments)
    return any(type(leaf) in TENSOR_TYPES and version_of(leaf) is counter for leaf in leaves)
