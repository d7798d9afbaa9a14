"""Checkpointed call: holders in place of saved tensors, and their recomputation.

While the function runs, saved-tensor hooks put a ``_Holder`` in the place of every saved tensor, so
nothing is kept but the function's arguments::

    forward    y = f(x)      saves a, b, c   ->  holders 0, 1, 2
    backward   wants 2       f runs again, saves a, b, c: the values of holders 0, 1, 2

The graph of the first run stays, that of the second is discarded; only its saved values are used.
They belong to the backward pass that needed them, and are released when they are used or when the
pass ends, whichever is first. The second run ends as soon as the last holder has its value.

The arguments are themselves saved tensors, of a node outside of the graph: so the version check
finds writes to them, and the hooks of an outer checkpoint drop them too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from pullback._cpython import get_frame
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.engine.graph_task import GraphTask
from pullback.autograd.graph.node import Node, next_sequence_number
from pullback.autograd.graph.output_metadata import UNDESCRIBED
from pullback.autograd.graph.rewound import rebuild_content
from pullback.autograd.graph.saved import load_tensor
from pullback.autograd.graph.saved_hooks import pack_inputs, saved_tensors_hooks
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.levels import run_outside_transforms
from pullback.autograd.modes import enable_grad
from pullback.autograd.record.record import save_list
from pullback.errors import CheckpointError, SavedVersionError
from pullback.kernels.random import watch_generators
from pullback.tensor.batched import BatchedArray, Levels, batched, levels_of
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, version_of, wrap
from pullback.utils import pytree
from pullback.utils.checkpoint.randomness import RandomState

__all__ = ["Contexts", "Frame", "run_in_frame"]

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


class _Holder:
    """Placeholder in the graph for a value that is recomputed when it is needed."""

    __slots__ = ("place", "__weakref__")

    def __init__(self, place: int):
        self.place = place


class _Record(NamedTuple):
    """Metadata of one saved tensor of the first run."""

    holder: ref[_Holder]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    counter: list[int]
    version: int
    line: str
    levels: Levels  # at which it is batched, by a vmap inside of the function

    def differs(self, tensor: Tensor) -> bool:
        """Whether a tensor of the second run is of another kind."""
        return (self.shape, self.dtype) != (tensor.shape, tensor.dtype)


class _Stop(BaseException):
    """Ends a second run; a BaseException, so that no handler in the function catches it."""

    def __init__(self, run: Any):
        self.run = run


class _Arguments(Node):
    """Keeps the tensors among the arguments of a checkpointed function."""

    __slots__ = ("_edges", "tensors", "tensors_v")
    _saves = ("tensors",)
    _saves_tensors = ("tensors",)
    tensors: Any
    tensors_v: Any

    def __init__(self, tensors: list[Tensor]):
        self._edges = ()
        self._output_metadata = UNDESCRIBED
        self._seq = next_sequence_number()  # compared with the number of a later `detach_`
        save_list(self, "tensors", list(tensors))
        pack_inputs(self)

    def load(self) -> list[Tensor]:
        """The tensors, checked for writes."""
        loaded: list[Tensor] = load_tensor(self, self.tensors, self.tensors_v)
        return loaded

    def name(self) -> str:
        """The name of the arguments in errors."""
        return "checkpoint, arguments"


class _Call:
    """A function and its arguments, with saved tensors."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]):
        self.function = function
        leaves, self.spec = pytree.flatten((args, kwargs), none_is_leaf=True)
        self.places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.arguments = _Arguments([leaves[n] for n in self.places])
        self.others = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

    def again(self) -> None:
        """Calls the function as the first time."""
        leaves = list(self.others)
        for place, tensor in zip(self.places, self.arguments.load(), strict=True):
            leaves[place] = _for_recomputation(tensor)
        args, kwargs = pytree.unflatten(self.spec, leaves)
        self.function(*args, **kwargs)


def _for_recomputation(tensor: Tensor) -> Tensor:
    """An argument of the second run; a lazy payload has to be computed again there."""
    held = tensor._array
    other = held.for_recomputation() if isinstance(held, Payload) else held
    if other is held:
        return tensor
    made = wrap(other)
    return made.requires_grad_() if requires_grad(tensor) else made


class Frame:
    """One checkpointed call."""

    def __init__(
        self,
        call: _Call,
        contexts: tuple[AbstractContextManager[Any], AbstractContextManager[Any]],
        *,
        early_stop: bool,
        checks_metadata: bool,
        preserves_rng: bool,
        debug: bool,
    ):
        self.call = call
        self.forward_context, self.recompute_context = contexts
        self.early_stop = early_stop
        self.checks_metadata = checks_metadata
        self.debug = debug
        self.random = RandomState() if preserves_rng else None
        self.records: list[_Record] = []
        self.is_complete = False
        self.values: WeakKeyDictionary[GraphTask, dict[int, tuple[Tensor, int]]]
        self.values = WeakKeyDictionary()

    def pack(self, tensor: Tensor) -> _Holder:
        """Replaces a tensor of the first run by a holder; keeps its metadata for comparison."""
        holder = _Holder(len(self.records))
        counter = version_of(tensor)
        line = _user_line() if self.debug else ""
        self.records.append(
            _Record(
                ref(holder),
                tensor.shape,
                tensor.dtype,
                counter,
                counter[0],
                line,
                levels_of(tensor),
            )
        )
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """The tensor of a holder, by a second run if this backward pass has had none yet."""
        task = current_graph_task()
        values = None if task is None else self.values.get(task)
        if values is None or holder.place not in values:
            # The levels of the pass are not those of the function: a batch of gradients, or a
            # tangent of one, has nothing to do with the values that it saved.
            values = run_outside_transforms(_Recomputation(self).run)
            if task is not None:
                self.values[task] = values
        tensor, version = values.pop(holder.place)
        if version_of(tensor)[0] != version:
            content = rebuild_content(tensor, version)
            if content is not None:
                return wrap(content)
            raise SavedVersionError(
                "checkpoint: a tensor that the function saves has been modified by an inplace "
                "operation further on in the function; compute with a clone() before writing"
            )
        return tensor


def _at_levels(tensor: Tensor, levels: Levels) -> Tensor:
    """A recomputed tensor at the vmap levels of the first run; the second one has levels anew."""
    held = tensor._array
    if type(held) is not BatchedArray or held.levels == levels or len(held.levels) != len(levels):
        return tensor
    moved = batched(held.array, levels)
    version_of(moved)[0] = version_of(tensor)[0]
    return moved


class _Recomputation:
    """A second run of a frame's function."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.count = 0
        self.values: dict[int, tuple[Tensor, int]] = {}
        self.different: list[tuple[int, Tensor]] = []
        self.lines: list[str] = []

    def run(self) -> dict[int, tuple[Tensor, int]]:
        """Returns the values of all holders that are still alive."""
        frame = self.frame
        random = nullcontext() if frame.random is None else frame.random.restored()
        hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)
        try:
            with random, frame.recompute_context, enable_grad(), hooks:
                frame.call.again()
        except _Stop as stop:
            if stop.run is not self:
                raise
        if frame.is_complete:
            self._check()
        return self.values

    def _pack(self, tensor: Tensor) -> Tensor:
        frame, place = self.frame, self.count
        self.count += 1
        if frame.debug:
            self.lines.append(_user_line())
        detached = tensor.detach()
        if place >= len(frame.records):
            return detached
        record = frame.records[place]
        counter = version_of(tensor)
        if counter is record.counter and counter[0] != record.version:
            raise SavedVersionError(
                f"checkpoint: one of the variables needed for gradient computation has been "
                f"modified by an inplace operation: a tensor of shape {list(tensor.shape)} that "
                f"the function reads is at version {counter[0]}; expected version "
                f"{record.version} instead. Compute with a copy (clone()) before writing."
            )
        if record.differs(tensor):
            self.different.append((place, tensor))
        if record.holder() is not None:
            self.values[place] = (_at_levels(detached, record.levels), counter[0])
        if self.count == len(frame.records) and (frame.early_stop or not frame.is_complete):
            raise _Stop(self)
        return detached

    def _check(self) -> None:
        frame = self.frame
        if self.count > len(frame.records):
            raise CheckpointError(
                f"checkpoint: trying to save more tensors during recomputation than during the "
                f"original forward pass: {len(frame.records)} at first and {self.count} then. The "
                f"function has to do the same both times.{self._trace()}"
            )
        if self.count != len(frame.records):
            raise CheckpointError(
                f"checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation: {len(frame.records)} at first and {self.count} then. The "
                f"function has to do the same both times.{self._trace()}"
            )
        if frame.checks_metadata and self.different:
            found = "".join(
                f"\ntensor at position {place}: {frame.records[place].dtype} "
                f"{list(frame.records[place].shape)} at first, {tensor.dtype} "
                f"{list(tensor.shape)} then"
                for place, tensor in self.different
            )
            raise CheckpointError(
                f"checkpoint: Recomputed values for the following tensors have different metadata "
                f"than during the forward pass.{found}{self._trace()}"
            )

    def _trace(self) -> str:
        if not self.frame.debug:
            return "\nPass `debug=True` to checkpoint() to see where tensors are saved."
        first = [record.line for record in self.frame.records]
        return (
            "\nYou are seeing this error because you passed `debug=True` to checkpoint."
            + "".join(
                f"\nSaved during the {name}:\n  " + "\n  ".join(lines or ["nothing"])
                for name, lines in (("original forward", first), ("recomputation", self.lines))
            )
        )


def run_in_frame(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    contexts: Contexts,
    **options: bool,
) -> Any:
    """Calls a function and drops its saved tensors."""
    frame = Frame(_Call(function, args, kwargs), contexts(), **options)
    generators = {} if frame.random is None else frame.random.generators
    hooks = saved_tensors_hooks(frame.pack, frame.unpack)
    with hooks, watch_generators(generators), frame.forward_context:
        results = function(*args, **kwargs)
    frame.is_complete = True
    return results


def _user_line() -> str:
    """The innermost line of user code, with its file and function."""
    frame = get_frame(1)
    while frame.f_globals.get("__name__", "").startswith("pullback") and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno}, in {code.co_name}"
