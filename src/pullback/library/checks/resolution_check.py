"""Are results in double precision computed in double precision?

A value that was rounded to float32 on its way is a staircase: it does not change at all under steps
that float32 cannot resolve, and changes as it should over wide ones. A function that is only badly
conditioned is noisy at all steps, and is not reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.modes import no_grad
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError, named_tensors
from pullback.library.checks.jacobian import gradient_grain, magnitudes
from pullback.library.checks.numeric import ladder_slope
from pullback.library.checks.pass_check import FIX_PRECISION
from pullback.library.checks.problem import Problem
from pullback.library.kernel_call import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_gradient_resolution", "check_value_resolution"]

_Array = NDArray[Any]
_Function = Callable[[_Array], list[_Array]]
_TINY_STEPS = (3e-11, 1e-11)  # of an input: far below the 6e-8 of float32, far above float64's
_STEPS_OF_SINGLE = (4e-7, 4e-6)  # several roundings to float32
_WIDE = 2e-3
_EPS = float(np.finfo(np.float64).eps)


class _Stair(NamedTuple):
    """An element that does not follow tiny steps: where it is, and its rate over both."""

    array: int
    place: tuple[int, ...]
    tiny: float
    wide: float


def check_value_resolution(case: Case) -> None:
    """Raises if a float64 output of the call is computed in lower precision."""
    if case.schema.is_view:
        return
    directions = _directions(case)
    if not directions:
        return

    def values(step: _Array) -> list[_Array]:
        def change(name: str, tensor: Tensor) -> Tensor:
            if name not in directions:
                return wrap(tensor._array)
            return wrap(tensor._array + float(step) * directions[name])

        args, kwargs = case.changed(change).fresh()
        given = list(named_tensors(case, args, kwargs))
        with no_grad():
            result = case.operator(*args, **kwargs)
        written = [p.tensor for p in given if p.name.partition("[")[0] in case.written]
        return _wide_arrays([*tensors_in([result]), *written])

    stair = _find_stair(values, None)
    if stair is not None:
        raise CheckFailedError(
            f"output {stair.array}{_place(stair)} changes by {stair.tiny:.6g} for each unit of a "
            f"step of 1e-11 of the inputs, and by {stair.wide:.6g} for each unit of a wide step, "
            f"though float64 resolves both: the kernel computes in lower precision than float64, "
            f"at least a part of the value.",
            FIX_PRECISION,
        )


def check_gradient_resolution(problem: Problem) -> None:
    """Raises if a gradient of the call is computed in lower precision."""
    directions = {
        name: np.asarray(problem.noise(at) * magnitudes(at), at.dtype)
        for name, at in problem.at.items()
        if at.size and at.dtype in (np.float64, np.complex128)
    }
    names = [name for name in problem.names if name in directions]
    if not names:
        return

    def gradients(step: _Array) -> list[_Array]:
        found = problem.gradients(
            {name: problem.at[name] + float(step) * directions[name] for name in names}
        )
        return [found[name] for name in names]

    here = [problem.base[name] for name in names]
    stair = _find_stair(gradients, here, [gradient_grain(problem, name) for name in names])
    if stair is not None:
        raise CheckFailedError(
            f"the gradient of {names[stair.array]!r}{_place(stair)} changes by {stair.tiny:.6g} "
            f"for each unit of a step of 1e-11 of the inputs, and by {stair.wide:.6g} for each "
            f"unit of a wide step, though float64 resolves both: backward computes in lower "
            f"precision than float64, at least a part of the gradient.",
            FIX_PRECISION,
        )


def _directions(case: Case) -> dict[str, _Array]:
    random = np.random.default_rng(11)
    made = {}
    for place in case.places():
        array = np.asarray(place.tensor._array)
        if array.dtype in (np.float64, np.complex128) and array.size:
            noise = random.choice([-1.0, 1.0], array.shape) * random.uniform(0.5, 1.0, array.shape)
            direction = np.where(np.isfinite(array), noise * magnitudes(array), 0)
            made[place.name] = np.asarray(direction, array.dtype)
    return made


def _wide_arrays(tensors: list[Tensor]) -> list[_Array]:
    """The arrays; those that are not in double precision as empty ones, to keep the order."""
    arrays = [np.array(t._array) for t in tensors]
    return [a if a.dtype in (np.float64, np.complex128) else np.zeros(0) for a in arrays]


def _place(stair: _Stair) -> str:
    return f" at {[*stair.place]}" if stair.place else ""


def _find_stair(
    fn: _Function, here: list[_Array] | None, grain: list[_Array] | None = None
) -> _Stair | None:
    """The worst element of the arrays that is constant, or too flat, under tiny steps only.

    `here` is ``fn(0)``, if it is known; `grain` the size of the numbers that the arrays are
    differences of, or else the largest element.
    """
    try:
        with errstate(all="ignore"):
            here = fn(np.zeros(())) if here is None else here
            sizes = [np.max(np.abs(f), initial=0.0, where=np.isfinite(f)) for f in here]
            if grain is not None:
                sizes = [np.maximum(size, g) for size, g in zip(sizes, grain, strict=True)]
            wide, tiny = _rate(fn, here, _WIDE), _rate(fn, here, _TINY_STEPS[0])
            rates = zip(tiny, wide, sizes, strict=True)
            if not any(_exceeds(*each).any() for each in rates):
                return None
            return _confirm(fn, here, sizes)
    except Exception:  # a step may leave the domain in a way that the kernel refuses
        return None


def _rate(fn: _Function, here: list[_Array], step: float) -> list[_Array]:
    pairs = zip(here, fn(np.asarray(step)), fn(np.asarray(-step)), strict=True)
    return [
        (a - b) / (2 * step) if a.shape == b.shape == f.shape else np.full(f.shape, np.nan)
        for f, a, b in pairs
    ]


def _exceeds(tiny: _Array, wide: _Array, size: _Array, error: Any = 0.0) -> NDArray[np.bool_]:
    """A mask of rates that differ by a hundredth, and by more than the error of both."""
    gap = np.abs(tiny - wide)
    limit = 20 * error + 0.01 * np.abs(wide) + 64 * _EPS * size / _TINY_STEPS[-1]
    return np.asarray(np.isfinite(gap) & (gap > limit))


def _confirm(fn: _Function, here: list[_Array], sizes: list[_Array]) -> _Stair | None:
    """Compares with the best of many widths.

    All tiny steps have to agree with each other, and steps of several roundings to float32 with the
    wide ones: other staircases come from cancellation.
    """
    best = ladder_slope(fn, np.zeros(()), np.ones(()), {1.0})
    rates = [_rate(fn, here, count * step) for step in _TINY_STEPS for count in (1, 2, 3)]
    singles = [_rate(fn, here, step) for step in _STEPS_OF_SINGLE]
    for number, (value, error) in enumerate(zip(best.values, best.errors, strict=True)):
        tiny = np.array([rate[number] for rate in rates])
        middle = tiny.mean(0)
        spread = np.abs(tiny - middle).max(0)
        gap = np.abs(middle - value)
        found = _exceeds(middle, value, sizes[number], error) & (spread <= 0.05 * gap)
        found &= np.any([np.abs(rate[number] - value) <= 0.5 * gap for rate in singles], axis=0)
        if found.any():
            index = np.unravel_index(int(np.argmax(np.where(found, gap, -1.0))), found.shape)
            place = tuple(int(i) for i in index)
            return _Stair(number, place, float(np.abs(middle[index])), float(np.abs(value[index])))
    return None
