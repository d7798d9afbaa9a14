"""Line search for a step that satisfies the strong Wolfe conditions.

The method of Nocedal and Wright, *Numerical Optimization*, algorithms 3.5 and 3.6: a bracket is
found by growing steps, then shrunk by cubic interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SearchResult", "Trial", "Vector", "search_strong_wolfe"]

Vector = NDArray[np.floating]

_SUFFICIENT_DECREASE = 1e-4  # c1 of the first Wolfe condition
_CURVATURE = 0.9  # c2 of the second


class Trial(NamedTuple):
    """Value, gradient and directional derivative at one length of the step."""

    step: float
    value: float
    grad: Vector
    slope: float


class SearchResult(NamedTuple):
    """The accepted trial, and how often the function was evaluated."""

    trial: Trial
    evaluations: int


def _minimum_of_cubic(a: Trial, b: Trial, low: float, high: float) -> float:
    """The minimum, within bounds, of the cubic with the values and slopes of two trials."""
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    left, right = (a, b) if a.step <= b.step else (b, a)
    share = (right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2)
    return min(max(right.step - (right.step - left.step) * share, low), high)


def search_strong_wolfe(
    evaluate: Callable[[float], Trial],
    start: Trial,
    step: float,
    largest: float,
    rounds: int = 25,
    tolerance: float = 1e-9,
) -> SearchResult:
    """Finds a step along a direction of descent.

    Args:
        evaluate: the function along the direction, at a step.
        start: the function at step 0.
        step: the first step to try.
        largest: the largest absolute component of the direction.
        rounds: evaluations after the first one.
        tolerance: a bracket shorter than this ends the search.

    >>> def parabola(t):
    ...     return Trial(t, (t - 1) ** 2, np.array([2 * (t - 1)]), 2 * (t - 1))
    >>> search_strong_wolfe(parabola, parabola(0.0), 3.0, 1.0).trial.step
    1.0
    """
    search = _Search(evaluate, start, rounds)
    bracket = search.find_bracket(step)
    return SearchResult(search.shrink(bracket, largest, tolerance), search.evaluations)


class _Search:
    def __init__(self, evaluate: Callable[[float], Trial], start: Trial, rounds: int):
        self._evaluate, self._start = evaluate, start
        self.evaluations = 0
        self._rounds_left = rounds

    def _try(self, step: float) -> Trial:
        self.evaluations += 1
        return self._evaluate(step)

    def _is_too_high(self, trial: Trial) -> bool:
        allowed = _SUFFICIENT_DECREASE * trial.step * self._start.slope
        return trial.value > self._start.value + allowed

    def _is_flat(self, trial: Trial) -> bool:
        return abs(trial.slope) <= -_CURVATURE * self._start.slope

    def find_bracket(self, step: float) -> list[Trial]:
        """Two trials with an acceptable step between them, or one that is accepted."""
        last, trial, growths = self._start, self._try(step), 0
        while self._rounds_left > 0:
            if self._is_too_high(trial) or (growths > 1 and trial.value >= last.value):
                return [last, trial]
            if self._is_flat(trial):
                return [trial]
            if trial.slope >= 0:
                return [last, trial]
            low, high = trial.step + 0.01 * (trial.step - last.step), trial.step * 10
            last, trial = trial, self._try(_minimum_of_cubic(last, trial, low, high))
            growths += 1
            self._rounds_left -= 1
        return [self._start, trial]

    def shrink(self, bracket: list[Trial], largest: float, tolerance: float) -> Trial:
        """The accepted trial of a bracket."""
        if len(bracket) == 1:
            return bracket[0]
        low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
        was_near_end = False
        while self._rounds_left > 0:
            left, right = sorted(trial.step for trial in bracket)
            if (right - left) * largest < tolerance:
                break
            step = _minimum_of_cubic(bracket[0], bracket[1], left, right)
            margin = 0.1 * (right - left)
            is_near_end = min(right - step, step - left) < margin
            if is_near_end and (was_near_end or step >= right or step <= left):
                is_near_end = False
                step = right - margin if abs(step - right) < abs(step - left) else left + margin
            was_near_end = is_near_end
            trial = self._try(step)
            self._rounds_left -= 1
            if self._is_too_high(trial) or trial.value >= bracket[low].value:
                bracket[high] = trial
                low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
                continue
            if self._is_flat(trial):
                return trial
            if trial.slope * (bracket[high].step - bracket[low].step) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = trial
        return bracket[low]
