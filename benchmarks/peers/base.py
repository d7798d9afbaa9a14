"""What a peer does: it turns a problem into a callable that runs it once.

Each task of `benchmarks/workloads/base.py` that a peer can do is a method of the same name. It
prepares as much as a user would prepare once, and returns the part that a user would repeat. Two
more methods are about memory: ``forward`` returns a callable whose result keeps the graph alive,
and ``saved_bytes`` tells how much a forward pass keeps for the backward pass, beside its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workloads.base import Array, Problem, Task

Run = Callable[[], Any]
LACKS = {
    "saved_bytes": "does not show what it saves",
    "forward": "keeps no graph",
    "first_call": "does not compile",
}


class UnavailableError(Exception):
    """The peer has no way to do this; the message says why."""


class Peer:
    """One library under measurement, in its own process."""

    name: str
    xp: Any  # the namespace that workloads are written against

    def version(self) -> str:
        raise NotImplementedError

    def prepare(self, task: Task, problem: Problem) -> Run:
        return self.ability(task)(problem)

    def ability(self, name: str) -> Callable[..., Any]:
        """One of the methods above, or the reason why there is none."""
        method: Callable[..., Any] | None = getattr(self, name, None)
        if method is None:
            raise UnavailableError(LACKS.get(name, f"has no {name}"))
        return method

    def arrays(self, result: Any) -> list[Array]:
        """What a run returned, as flat arrays: the same list from every peer."""
        return [np.asarray(leaf) for leaf in flatten(result)]


def flatten(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


class StackedRows(NamedTuple):
    """The result of the task ``row_loop``, computed for all observations at once."""

    outputs: Any  # arrays with an entry for each observation
    rows: Any  # for each output, the gradients of its entries by every parameter

    def by_observation(self) -> Any:
        """The same in the order of the loop."""
        count = len(self.outputs[0])
        values = [[y[i] for y in self.outputs] for i in range(count)]
        return values, [[[g[i] for g in grads] for grads in self.rows] for i in range(count)]
