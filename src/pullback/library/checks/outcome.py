"""Outcome of one call: outputs, written arguments and gradients, as arrays to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.api import grad
from pullback.autograd.modes import no_grad
from pullback.errors import AutogradNotRegisteredError
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, named_tensors
from pullback.library.checks.numeric import rounding_unit
from pullback.library.kernel_call import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "Outcome",
    "describe_difference",
    "find_difference",
    "run_both_ways",
    "same_values",
    "weights_for",
]

_Array = NDArray[Any]


class Outcome(NamedTuple):
    """The arrays of one call; gradients are those for `weights_for` each output."""

    outputs: list[_Array]
    gradients: dict[str, _Array | None]
    written: dict[str, _Array]

    def pairs(self, other: Outcome) -> Iterator[tuple[str, _Array | None, _Array | None]]:
        """Pairs of corresponding arrays of two outcomes, with their names."""
        for number in range(max(len(self.outputs), len(other.outputs))):
            yield (
                f"output {number}",
                self.outputs[number] if number < len(self.outputs) else None,
                other.outputs[number] if number < len(other.outputs) else None,
            )
        for name, array in other.written.items():
            yield f"the argument {name!r} after the call", self.written.get(name), array
        for name, gradient in other.gradients.items():
            yield f"the gradient of {name!r}", self.gradients.get(name), gradient


def run_both_ways(
    case: Case,
    *,
    strict: bool = False,
    cotangent: Callable[[_Array], Tensor] | None = None,
) -> Outcome:
    """The outputs of a call, and the gradients of its inputs for a fixed gradient of each.

    There are no gradients where the backward pass raises, which is for ``test_gradients`` to say;
    unless `strict`. An operator that writes to its arguments runs without gradients.
    """
    args, kwargs = case.fresh()
    used = {p.name: p.tensor for p in named_tensors(case, args, kwargs)}
    with no_grad() if case.schema.is_mutable else nullcontext():
        try:
            result = case.operator(*args, **kwargs)
        except AutogradNotRegisteredError:
            with no_grad():
                result = case.operator(*args, **kwargs)
    written = case.written
    after = {n: np.array(t._array) for n, t in used.items() if n.partition("[")[0] in written}
    outputs = list(tensors_in([result]))
    arrays = [np.array(out._array) for out in outputs]
    leaves = {name: t for name, t in used.items() if t.requires_grad and t.is_leaf}
    roots = [out for out in outputs if out.requires_grad]
    if not leaves or not roots or case.schema.is_mutable:
        return Outcome(arrays, {}, after)
    make = cotangent or (lambda like: wrap(weights_for(like)))
    try:
        weights = [make(out._array) for out in roots]
        found = grad(roots, list(leaves.values()), weights, allow_unused=True)
    except Exception:
        if strict:
            raise
        return Outcome(arrays, {}, after)
    gradients = [None if g is None else np.array(g._array) for g in found]
    return Outcome(arrays, dict(zip(leaves, gradients, strict=True)), after)


def weights_for(like: _Array) -> _Array:
    """A fixed gradient for an output: no two elements have the same."""
    return np.linspace(0.5, 1.5, like.size).reshape(like.shape).astype(like.dtype)


def same_values(case: Case, first: _Array | None, second: _Array | None) -> bool:
    """Whether two arrays agree but for rounding."""
    if first is None or second is None:
        return first is second
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.tobytes() == second.tobytes():  # as in most comparisons
        return True
    if first.dtype.kind not in "fc":
        return False
    eps = rounding_unit(first.dtype)
    scale = float(np.max(np.abs(second[np.isfinite(second)]), initial=0.0))
    rtol = case.rtol or eps * 1e4
    return bool(np.allclose(first, second, rtol, case.atol or eps * 1e3 * scale, equal_nan=True))


def find_difference(case: Case, found: Outcome, expected: Outcome) -> tuple[str, str] | None:
    """The first thing in which two outcomes differ, and the two numbers; None if they agree."""
    for what, ours, theirs in found.pairs(expected):
        if not same_values(case, ours, theirs):
            return what, describe_difference(ours, theirs)
    return None


def describe_difference(found: _Array | None, expected: _Array | None) -> str:
    """The largest difference of two arrays, as 'a at [i], not b'."""
    if found is None or expected is None:
        lost, there = ("missing", expected) if found is None else (found, None)
        return f"{_short(lost)}, not {'missing' if there is None else _short(there)}"
    if found.shape != expected.shape:
        return f"of shape {found.shape}, not {expected.shape}"
    if found.dtype != expected.dtype:
        return f"of dtype {found.dtype}, not {expected.dtype}"
    if not found.size:
        return "the same"
    if found.dtype.kind not in "fc":
        gap: _Array = (found != expected).astype(float)
    else:
        with errstate(all="ignore"):
            scale = np.maximum(np.abs(expected), 1e-300)
            gap = np.abs(found - expected) / scale
        gap = np.where(np.isnan(found) & np.isnan(expected), 0, gap)
        gap = np.where(np.isnan(gap), np.inf, gap)
    index = np.unravel_index(int(np.argmax(gap)), gap.shape)
    place = f" at [{', '.join(map(str, index))}]" if index else ""
    return f"{found[index]:.10g}{place}, not {expected[index]:.10g}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{np.asarray(value).ravel()[:3].tolist()}"
