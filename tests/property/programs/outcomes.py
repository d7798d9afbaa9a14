"""What a run of a program gave, and how two runs are compared."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pullback.dispatch.modes import get_state

PACKAGE = str(Path("src") / "pullback")


@dataclass(frozen=True)
class Finding:
    """A disagreement: which check failed, how, and the two results."""

    check: str
    cause: str  # the same for findings that one bug makes
    message: str


@dataclass(frozen=True)
class Outcome:
    """The arrays that a run gave, or the error that it raised."""

    arrays: tuple[np.ndarray, ...] = ()
    error: Exception | None = None

    @property
    def is_finite(self) -> bool:
        """Whether there are numbers, and none of them is infinite or NaN."""
        return self.error is None and all(bool(np.isfinite(a).all()) for a in self.arrays)

    def text(self) -> str:
        """The outcome in a few lines."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {str(self.error)[:400]}"
        with np.printoptions(precision=10, threshold=40):
            return "; ".join(repr(array) for array in self.arrays)


def as_arrays(values: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Tensors of either library, arrays and numbers as arrays; None as an empty one."""
    made = []
    for value in values:
        if value is None:
            made.append(np.zeros(0))
        elif hasattr(value, "detach"):
            made.append(np.array(value.detach().numpy()))
        else:
            made.append(np.array(value))
    return tuple(made)


def attempt(run: Callable[[], Sequence[Any]]) -> Outcome:
    """Runs something, without NumPy's warnings about overflow."""
    try:
        with np.errstate(all="ignore"):
            return Outcome(as_arrays(run()))
    except Exception as error:  # whatever is raised is the outcome
        return Outcome(error=error)


def difference(got: Outcome, want: Outcome, rtol: float = 1e-6, atol: float = 1e-8) -> str | None:
    """How two outcomes with numbers differ; None if they agree."""
    if len(got.arrays) != len(want.arrays):
        return f"{len(got.arrays)} results instead of {len(want.arrays)}"
    for place, (a, b) in enumerate(zip(got.arrays, want.arrays, strict=True)):
        if a.shape != b.shape:
            return f"result {place} has shape {a.shape} instead of {b.shape}"
        scale = float(np.abs(b).max()) if b.size else 0.0
        if not np.allclose(a, b, rtol=rtol, atol=atol * max(1.0, scale) + rtol * 1e-3 * scale):
            return f"result {place}: {a.tolist()} instead of {b.tolist()}"
    return None


def where_raised(error: BaseException) -> str:
    """The innermost place in the package that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if PACKAGE in frame.filename]
    if not ours:
        return type(error).__name__
    name = ours[-1].filename.rpartition(PACKAGE)[2].lstrip("/")
    return f"{type(error).__name__} in {name}:{ours[-1].name}"


def process_state() -> tuple[object, ...]:
    """What every program must leave as it was."""
    return get_state(), tuple(sorted(np.geterr().items()))
