"""From a gradient that is wrong to the mistake that makes it so."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.library.checks.case import CheckFailedError

__all__ = ["diagnosis", "worst"]

_Array = NDArray[Any]
_OF_WHAT = "(It is the gradient of a sum of all outputs with random weights.)"


def _close(a: _Array, b: _Array, rtol: float) -> bool:
    return a.shape == b.shape and bool(
        np.allclose(a, b, rtol=rtol, atol=rtol * max(1e-30, float(np.max(np.abs(b), initial=0))))
    )


def worst(found: _Array, expected: _Array) -> str:
    """Where two arrays differ most, and by what."""
    with np.errstate(all="ignore"):
        gap = np.abs(found - expected)
    gap = np.where(np.isnan(gap), np.inf, gap)
    index = np.unravel_index(int(np.argmax(gap)), gap.shape) if gap.size else ()
    place = f" at [{', '.join(map(str, index))}]" if index else ""
    return f"{found[index]:.6g}{place}, where finite differences give {expected[index]:.6g}"


def diagnosis(
    name: str, found: _Array | None, expected: _Array, others: dict[str, _Array], rtol: float
) -> CheckFailedError:
    """The error for the gradient of one input; `others` are the right gradients of the rest."""
    error = _diagnosis(name, found, expected, others, rtol)
    return CheckFailedError(f"{error.why} {_OF_WHAT}", error.fix)


def _diagnosis(
    name: str, found: _Array | None, expected: _Array, others: dict[str, _Array], rtol: float
) -> CheckFailedError:
    what = f"the gradient of {name!r}"
    if found is None or not np.any(found):
        return CheckFailedError(
            f"there is no gradient for {name!r}, or it is zero, but the output depends on it: "
            f"finite differences give up to {np.max(np.abs(expected)):.6g}.",
            f"return a gradient in the place of {name!r}.",
        )
    start = f"{what} is {worst(found, expected)}"
    if np.isnan(found).any() and not np.isnan(expected).any():
        return CheckFailedError(
            f"{start}: the formula divides by zero or leaves its domain there.",
            "treat the edge of the domain separately, with where() on both sides of the division.",
        )
    if _close(found, -expected, rtol):
        return CheckFailedError(
            f"{start}: the sign is wrong everywhere.", f"negate what is returned for {name!r}."
        )
    if found.dtype.kind == "c" and _close(found, np.conj(expected), rtol):
        return CheckFailedError(
            f"{start}: it is the complex conjugate of the right one.",
            "use conj() of what multiplies grad: the gradient of f(z) is grad * conj(f'(z)).",
        )
    for other, gradient in others.items():
        if _close(found, gradient, rtol):
            return CheckFailedError(
                f"{start}: it is the gradient of {other!r}.",
                "return the gradients in the order of the arguments.",
            )
    return _by_ratio(name, start, found, expected, rtol)


def _by_ratio(
    name: str, start: str, found: _Array, expected: _Array, rtol: float
) -> CheckFailedError:
    with np.errstate(all="ignore"):
        ratios = np.where(expected != 0, found / np.where(expected == 0, 1, expected), np.nan)
    known = ratios[~np.isnan(ratios)]
    if known.size and _close(known, np.full_like(known, known[0]), rtol):
        return CheckFailedError(
            f"{start}: it is {known[0]:.6g} times the right one everywhere.",
            "correct the factor; where an input is broadcast or repeated, its gradient is the sum "
            "(not the mean, and not one) of those of its copies.",
        )
    wrong = ~np.isclose(found, expected, rtol=rtol, atol=rtol * float(np.max(np.abs(expected))))
    return CheckFailedError(
        f"{start}; {int(np.sum(wrong))} of {wrong.size} elements are wrong.",
        f"compare the formula of {name!r} with the derivative of the kernel; where an input is "
        f"broadcast, sum over the broadcast axes.",
    )
