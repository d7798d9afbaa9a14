"""Explains a wrong gradient: the mistake in the formula that it probably comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.kernels.errstate import errstate
from pullback.library.checks.case import CheckFailedError

__all__ = ["diagnosis"]

_Array = NDArray[Any]
_RTOL = 3e-7


def _differs(found: _Array, expected: _Array) -> NDArray[np.bool_]:
    """A mask of the elements that differ, each by its own magnitude, beyond the rounding of all."""
    with errstate(all="ignore"):
        scale = np.maximum(np.abs(expected), np.abs(found))
        top = np.max(scale, initial=0.0, where=np.isfinite(scale))
        near = np.abs(found - expected) <= _RTOL * scale + 1e-15 * top
    same = near | (np.isnan(found) & np.isnan(expected)) | (found == expected)
    return np.asarray(~same)


def _close(found: _Array, expected: _Array) -> bool:
    return found.shape == expected.shape and not _differs(found, expected).any()


def _worst(found: _Array, expected: _Array) -> str:
    """The element that differs most by its own magnitude, in both versions."""
    with errstate(all="ignore"):
        scale = np.maximum(np.abs(expected), np.abs(found))
        gap = np.abs(found - expected) / np.where(scale == 0, 1, scale)
    gap = np.where(_differs(found, expected), np.where(np.isnan(gap), np.inf, gap), 0)
    index = np.unravel_index(int(np.argmax(gap)), gap.shape) if gap.size else ()
    place = f" at [{', '.join(map(str, index))}]" if index else ""
    return f"{found[index]:.8g}{place}, where finite differences give {expected[index]:.8g}"


def diagnosis(
    name: str, found: dict[str, _Array], expected: dict[str, _Array], of_what: str
) -> CheckFailedError | None:
    """The error for the gradient of one input, among those of all inputs; None if it is right."""
    if _close(found[name], expected[name]):
        return None
    error = _diagnosis(name, found, expected)
    return CheckFailedError(
        f"{error.why} (It is the gradient of a sum of {of_what} with random weights.)", error.fix
    )


def _diagnosis(
    name: str, gradients: dict[str, _Array], right: dict[str, _Array]
) -> CheckFailedError:
    found, expected = gradients[name], right[name]
    if not np.any(found):
        return CheckFailedError(
            f"there is no gradient for {name!r}, or it is zero, but the output depends on it: "
            f"finite differences give up to {np.max(np.abs(expected)):.6g}.",
            f"return a gradient in the place of {name!r}.",
        )
    start = f"the gradient of {name!r} is {_worst(found, expected)}"
    if np.isnan(found).any() and not np.isnan(expected).any():
        return CheckFailedError(
            f"{start}: the formula divides by zero or leaves its domain there.",
            "treat the edge of the domain separately, with where() on both sides of the division.",
        )
    if _close(found, -expected):
        return CheckFailedError(
            f"{start}: the sign is wrong everywhere.", f"negate what is returned for {name!r}."
        )
    if found.dtype.kind == "c" and _close(found, np.conj(expected)):
        return CheckFailedError(
            f"{start}: it is the complex conjugate of the right one.",
            "use conj() of what multiplies grad: the gradient of f(z) is grad * conj(f'(z)).",
        )
    for other, gradient in right.items():
        if other != name and _close(found, gradient) and not _close(gradients[other], gradient):
            return CheckFailedError(
                f"{start}: it is the gradient of {other!r}.",
                "return the gradients in the order of the arguments.",
            )
    if found.ndim == 2 and found.shape[0] == found.shape[1] and _close(found, expected.T):
        return CheckFailedError(
            f"{start}: it is the right one transposed: a sum or product runs over the wrong axis.",
            "exchange the axes in the formula: transpose the matrix that multiplies grad, or sum "
            "over the other axis.",
        )
    return _by_elements(name, start, found, expected)


def _factor(ratio: Any) -> str:
    """A factor in as many digits as show that it is not one."""
    text = f"{ratio:.6g}"
    return f"{ratio:.9g}" if text in ("1", "1+0j") else text


def _by_elements(name: str, start: str, found: _Array, expected: _Array) -> CheckFailedError:
    wrong = _differs(found, expected)
    top = float(np.max(np.abs(expected), initial=0.0))
    # Against the element of the rule, where there is one: a small derivative is no zero.
    is_zero = np.abs(expected) <= np.where(found == 0, 1e-9 * top, 1e-6 * np.abs(found))
    counted = f"{int(np.sum(wrong))} of {wrong.size} elements are wrong"
    if wrong.any() and is_zero[wrong].all() and not np.all(is_zero):
        return CheckFailedError(
            f"{start}: it is not zero where the output does not depend on {name!r}, and right "
            f"elsewhere; {counted}.",
            "the gradient leaks where the kernel clips, masks or selects: multiply it by the same "
            "mask.",
        )
    if is_zero.all():
        return CheckFailedError(
            f"{start}: it is not zero where the output does not depend on {name!r}; {counted}.",
            f"return None or zeros for {name!r}, or multiply by the mask of the kernel.",
        )
    if np.abs(np.where(wrong, found, 0)).max(initial=0) == 0:
        return CheckFailedError(
            f"{start}: it is zero where the output depends on {name!r}; {counted}.",
            "the formula masks or drops elements that the kernel uses.",
        )
    counts = ~is_zero & (wrong | (np.abs(expected) > 1e-12 * top))
    with errstate(all="ignore"):
        ratios = found[counts] / expected[counts]
    is_multiple = bool(ratios.size) and not wrong[is_zero].any()
    if is_multiple and _close(ratios, np.full_like(ratios, ratios[0])):
        return CheckFailedError(
            f"{start}: it is {_factor(ratios[0])} times the right one everywhere.",
            "correct the factor; where an input is broadcast or repeated, its gradient is the sum "
            "(not the mean, and not one) of those of its copies.",
        )
    return CheckFailedError(
        f"{start}; {counted}.",
        f"compare the formula of {name!r} with the derivative of the kernel; where an input is "
        f"broadcast, sum over the broadcast axes.",
    )
