"""Events of a profile, and what it stores with each recorded node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.node import Node
from pullback.kernels.errstate import errstate
from pullback.tensor.tensor import Tensor

__all__ = ["Event", "NodeProfile", "norm_of", "profile_of"]

_PROFILE = "profile_"  # key in Node.metadata


class Event(NamedTuple):
    """One call of an operator, or one run of a node in a backward pass. Times in nanoseconds.

    >>> import pullback as pb
    >>> with pb.profiler.profile() as prof:
    ...     _ = pb.sin(pb.ones(4))
    >>> event = prof.events()[-1]
    >>> event.name, event.phase, event.nbytes
    ('sin', 'forward', 32)
    """

    name: str
    phase: str  # "forward" or "backward"
    start: int
    duration: int
    self_duration: int  # without the operators that it calls
    nbytes: int  # of new arrays among the results
    thread: int
    line: str  # the user's file and line


class NodeProfile:
    """Measurements of one node.

    Attributes:
        line: the user's file and line that recorded it.
        scopes: the modules and functions that were running, the outermost first.
        loop: identity of the call site in its frame, and how often it had run before.
        is_finite: whether its results were finite; None if that was not checked.
        forward_time: nanoseconds of the call that recorded it.
        backward_time: nanoseconds of its last run, None before one.
        cotangent_norm: the Euclidean norm of what arrived last, None before.
        profiles: keys of the profiles that measure its backward.
    """

    __slots__ = (
        "backward_time",
        "cotangent_norm",
        "forward_time",
        "is_finite",
        "line",
        "loop",
        "profiles",
        "scopes",
    )

    def __init__(self, line: str, scopes: tuple[str, ...], loop: tuple[Any, int]):
        self.line = line
        self.scopes = scopes
        self.loop = loop
        self.is_finite: bool | None = None
        self.forward_time = 0
        self.backward_time: int | None = None
        self.cotangent_norm: float | None = None
        self.profiles: list[object] = []

    def attach(self, node: Node) -> None:
        """Stores this with a node."""
        node.metadata[_PROFILE] = self


def norm_of(cotangents: Iterable[Tensor | None]) -> float | None:
    """The Euclidean norm of all elements; None without any cotangent that has data."""
    arrays = [cotangent._array for cotangent in cotangents if cotangent is not None]
    if not arrays or not all(isinstance(array, np.ndarray) for array in arrays):
        return None
    with errstate(all="ignore"):
        return float(np.linalg.norm([np.linalg.norm(array.ravel()) for array in arrays]))


def profile_of(node: Node) -> NodeProfile | None:
    """Measurements of a node by a profile, or None."""
    hooks = node._hooks
    return None if hooks is None else hooks.metadata.get(_PROFILE)
