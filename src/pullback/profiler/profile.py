"""``profile``: measures every operator call and every node of backward passes in a block.

Forward calls are measured by an observer of the dispatch tables, as anomaly mode has one: operators
link their calls anew when it is set and when it is removed, so that programs pay nothing while no
profile is active. Nodes that are recorded meanwhile get a pre-hook and a post-hook, which measure
the backward pass; passes over them run in the engine's general loop.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from types import FrameType
from typing import Any, Self

import numpy as np

from pullback._cpython import get_frame, get_instruction
from pullback.autograd.debug.anomaly import user_frame
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.autograd.graph.node import Node, node_of
from pullback.autograd.graph.views import edge_of, view_of
from pullback.batching.align import tensors_in
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.table import observe_calls
from pullback.errors import AutogradError
from pullback.interrupts import uninterrupted_entry
from pullback.nn import Module
from pullback.profiler.averages import Averages
from pullback.profiler.events import Event, NodeProfile, norm_of, profile_of
from pullback.tensor.tensor import Tensor

__all__ = ["profile"]

_MOST_FRAMES = 60  # of the stack that are searched for modules


class profile:  # noqa: N801 - PyTorch's name
    """A block in which every operator and every backward node is measured.

    Profiles nest, and each one measures the calls of all threads. Anomaly mode may be on.

    Args:
        check_finite: also check whether results are finite, for the inspector.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with profile() as prof:
    ...     pb.exp(x).sum().backward()
    >>> [event.name for event in prof.events()]
    ['exp', 'sum', 'SumBackward0', 'ExpBackward0']
    """

    def __init__(self, *, check_finite: bool = False):
        self._check_finite = check_finite
        self._key = object()  # names this profile in the records of nodes
        self._events: list[Event] = []
        self._handles: list[RemovableHandle] = []
        self._stacks = threading.local()
        self._sites: Counter[Any] = Counter()
        self._modules: dict[int, tuple[Module, str]] = {}
        self._is_active = False

    def __enter__(self) -> Self:
        if self._is_active:
            raise AutogradError("profile: this profile is active already; make another one")
        self._is_active = True
        observe_calls(self._observe, True)
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        observe_calls(self._observe, False)
        self._is_active = False
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._modules.clear()
        self._sites.clear()

    # --- measuring --------------------------------------------------------------------------------

    def _observe(self, operator: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a linked call."""
        name = operator.name().removeprefix("pullback::").removesuffix(".default")

        def call(*args: Any, **kwargs: Any) -> Any:
            stack = self._stack()
            stack.append(0)  # the time of calls inside
            start = perf_counter_ns()
            try:
                results = kernel(*args, **kwargs)
            finally:
                duration = perf_counter_ns() - start
                inside = stack.pop()
            if stack:
                stack[-1] += duration
            if self._is_active:
                made = list(tensors_in([results]))
                nbytes = _new_bytes(made, tensors_in([*args, *kwargs.values()]))
                event = (name, start, duration, duration - inside, nbytes)
                self._record_call(made, *event)
            return results

        return call

    def _stack(self) -> list[int]:
        stack: list[int] | None = getattr(self._stacks, "stack", None)
        if stack is None:
            stack = self._stacks.stack = []
        return stack

    def _record_call(
        self,
        made: list[Tensor],
        name: str,
        start: int,
        duration: int,
        self_duration: int,
        nbytes: int,
    ) -> None:
        frame = user_frame()
        line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        phase = "forward" if current_graph_task() is None else "backward"
        thread = threading.get_ident()
        self._events.append(
            Event(name, phase, start, duration, self_duration, nbytes, thread, line)
        )
        for tensor in made:
            if tensor._flags & REQUIRES_GRAD:
                view = view_of(tensor)
                is_write = view is not None and name.endswith("_")  # recorded at the base
                node = node_of(edge_of(view.base if is_write and view is not None else tensor))
                if node is not None:
                    self._measure_node(node, frame, line, duration, tensor)

    def _measure_node(
        self, node: Node, frame: FrameType, line: str, duration: int, tensor: Tensor
    ) -> None:
        """Attaches a record to a new node, with hooks that measure its backward."""
        record = profile_of(node)
        if getattr(node, "variable", None) is not None or (record and self._key in record.profiles):
            return
        if record is None:
            site = (id(frame), frame.f_code, get_instruction(frame))
            record = NodeProfile(line, self._scopes(frame), (site, self._sites[site]))
            self._sites[site] += 1
            record.forward_time = duration
            record.attach(node)
        record.profiles.append(self._key)
        if self._check_finite and isinstance(tensor._array, np.ndarray):
            record.is_finite = bool(np.isfinite(tensor._array).all())
        self._add_hooks(node, record)

    def _add_hooks(self, node: Node, record: NodeProfile) -> None:
        began, node_name = [0], node.name()

        def before(grads: tuple[Tensor | None, ...]) -> None:
            record.cotangent_norm = norm_of(grads)
            began[0] = perf_counter_ns()

        def after(*_: Any) -> None:
            record.backward_time = elapsed = perf_counter_ns() - began[0]
            thread = threading.get_ident()
            event = (node_name, "backward", began[0], elapsed, elapsed, 0, thread, record.line)
            self._events.append(Event(*event))

        hooks = node.make_hooks()
        self._handles.append(RemovableHandle(hooks.pre, before))
        self._handles.append(RemovableHandle(hooks.post, after))

    def _scopes(self, frame: FrameType) -> tuple[str, ...]:
        """The modules and the function that are running, the outermost first."""
        scopes: list[str] = []
        inner: FrameType | None = get_frame(1)
        for _ in range(_MOST_FRAMES):
            if inner is None:
                break
            if inner is frame and frame.f_code.co_name != "<module>":
                scopes.append(frame.f_code.co_qualname)
            if inner.f_code.co_name == "forward":
                module = inner.f_locals.get("self")
                if isinstance(module, Module):
                    scopes.append(self._module_name(module))
            inner = inner.f_back
        return tuple(reversed(scopes))

    def _module_name(self, module: Module) -> str:
        """The class of a module, numbered among those of its class."""
        if id(module) not in self._modules:
            kind = type(module).__name__
            number = sum(type(other) is type(module) for other, _ in self._modules.values())
            self._modules[id(module)] = (module, f"{kind} {number + 1}")
        return self._modules[id(module)][1]

    # --- results ----------------------------------------------------------------------------------

    def events(self) -> list[Event]:
        """Every measured call, in the order in which they ended."""
        return list(self._events)

    def key_averages(self) -> Averages:
        """Sums by name and phase; ``key_averages().table()`` is their table."""
        return Averages.of_events(self._events)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace that ``chrome://tracing`` and ui.perfetto.dev open."""
        process = os.getpid()
        first = min((event.start for event in self._events), default=0)
        events = [
            {
                "name": event.name,
                "cat": event.phase,
                "ph": "X",
                "ts": (event.start - first) / 1e3,
                "dur": event.duration / 1e3,
                "pid": process,
                "tid": event.thread,
                "args": {"line": event.line, "bytes": event.nbytes},
            }
            for event in self._events
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)

    def __str__(self) -> str:
        return self.key_averages().table()

    def _repr_html_(self) -> str:
        return self.key_averages()._repr_html_()


def _new_bytes(made: list[Tensor], given: Iterator[Tensor]) -> int:
    """The memory of results that share none with the arguments."""
    old = {id(_owner(tensor._array)) for tensor in given}
    owners = {id(owner): owner for tensor in made for owner in [_owner(tensor._array)]}
    return sum(getattr(array, "nbytes", 0) for key, array in owners.items() if key not in old)


def _owner(array: Any) -> Any:
    """The array that owns the memory of a view."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array
