"""Forward formulas on raw arrays, also for many tangents at once.

Called by the kernels of ``dual_arrays.py``. Tangents that ``jacfwd`` pushes together have batch
axes in front, of which the primals know nothing. How a formula gets along with that is its *form*,
which the generator finds out:

- ``"elementwise"``: all arrays broadcast against each other, once the tangents have as many axes
  behind the batch as the result has;
- ``"calls"``: there is nothing in it but operators, whose batching rules take the place of their
  kernels;
- ``"linear"``: the same, and it reads neither primals nor the result;
- ``"matrices"``: the same, and NumPy broadcasts the operators itself where all arrays have as many
  axes, two at least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.autograd.namespaces import arrays
from pullback.batching.rules import array_rule
from pullback.kernels.broadcasting import HUGE, Wide
from pullback.tensor.batched import BatchedArray

__all__ = ["DeclinedError", "Formula", "Function", "samples"]

Function = Callable[..., Any]

_ndarray = np.ndarray


class DeclinedError(Exception):
    """A batching rule is missing, or cannot take a call."""


class _Samples:
    """A namespace for formulas: operators on arrays with `k` batch axes in front."""

    def __init__(self, k: int):
        self._k = k

    def __getattr__(self, name: str) -> Function:
        rule, k = array_rule(f"pullback::{name}"), self._k

        def run(*args: Any, **kwargs: Any) -> Any:
            found = NotImplemented if rule is None else rule(k, *args, **kwargs)
            if found is NotImplemented:
                raise DeclinedError(name)
            return found

        setattr(self, name, run)
        return run


_spaces: dict[int, _Samples] = {}


def samples(k: int) -> Any:
    """The namespace of operators on arrays with `k` batch axes in front."""
    return _spaces.get(k) or _spaces.setdefault(k, _Samples(k))


class Formula:
    """The forward formula of one operator.

    Its methods take primals and results as arrays, and each tangent as an array, a batched one, or
    None; `held` is one of the tangents, a batched one if there is any. They return the tangent of
    the result as an array that has the batch axes of `held`, or axes that broadcast to them.

    Attributes:
        declines: whether a rule for batch axes was missing or has declined once. Then the general
            way is taken for batched tangents, so that nothing is computed twice.
    """

    __slots__ = ("_by_element", "_is_linear", "_jvp", "_of_matrices", "declines")

    def __init__(self, jvp: Function, form: str):
        self._jvp = jvp
        self._by_element = form == "elementwise"
        self._is_linear = form == "linear"
        self._of_matrices = form == "matrices"
        self.declines = False

    def of_one(self, held: Any, primal: Any, others: Sequence[Any], result: Any) -> Any:
        """The tangent where the first argument has one."""
        if type(held) is not BatchedArray:
            return self._jvp(arrays, primal, *others, held, result)
        if self._by_element:
            if result.size * len(held.array) >= HUGE:
                return self._by_threads([primal, *others], [held.array], result)
            return self._jvp(arrays, primal, *others, held.array, result)
        k = len(held.levels)
        if others:
            others = [_led(value, k) for value in others]
        if not self._is_linear:
            primal, result = _led(primal, k), _led(result, k)
        return self._by_rules(k, primal, *others, held.array, result)

    def of_two(
        self, held: Any, primals: Sequence[Any], first: Any, second: Any, result: Any
    ) -> Any:
        """The tangent where one of the first two arguments has one, or both."""
        if type(held) is not BatchedArray:
            return self._jvp(arrays, *primals, first, second, result)
        k = len(held.levels)
        if self._by_element:
            ndim = k + result.ndim
            first, second = _padded(first, k, ndim), _padded(second, k, ndim)
            if result.size * len(held.array) >= HUGE:
                return self._by_threads(primals, [first, second], result)
            return self._jvp(arrays, *primals, first, second, result)
        if self._of_matrices:
            a, b = primals
            if a.ndim == b.ndim > 1:
                first, second = _padded(first, k, 0), _padded(second, k, 0)
                return self._jvp(arrays, a, b, first, second, result)
        primals = [_led(value, k) for value in primals]
        first, second = _samples_in(first, k), _samples_in(second, k)
        return self._by_rules(k, *primals, first, second, _led(result, k))

    def of_any(self, held: Any, primals: Sequence[Any], given: Sequence[Any], result: Any) -> Any:
        """The tangent where any arguments have one; given is what the formula takes for each."""
        if type(held) is not BatchedArray:
            return self._jvp(arrays, *primals, *given, result)
        k = len(held.levels)
        if self._by_element:
            ndim = k + result.ndim
            parts = [_padded(part, k, ndim) for part in given]
            if result.size * len(held.array) >= HUGE:
                return self._by_threads(primals, parts, result)
            return self._jvp(arrays, *primals, *parts, result)
        parts = [_samples_in(part, k) for part in given]
        return self._by_rules(k, *(_led(p, k) for p in primals), *parts, _led(result, k))

    def _by_threads(self, primals: Sequence[Any], parts: Sequence[Any], result: Any) -> Any:
        """The same of so many numbers that threads share the work on each product and sum."""
        wide = [part.view(Wide) if type(part) is _ndarray else part for part in parts]
        found = self._jvp(arrays, *primals, *wide, result)
        return found.view(_ndarray) if type(found) is Wide else found

    def _by_rules(self, k: int, *values: Any) -> Any:
        try:
            return self._jvp(_spaces.get(k) or samples(k), *values)
        except DeclinedError:
            self.declines = True
            raise


def _padded(held: Any, k: int, ndim: int) -> Any:
    """Samples with `ndim` axes in all: new ones come between the batch and the rest."""
    if type(held) is not BatchedArray:
        return held
    array = held.array
    missing = ndim - array.ndim
    if missing <= 0:
        return array
    shape = array.shape
    return array.reshape(shape[:k] + (1,) * missing + shape[k:])


def _led(value: Any, k: int) -> Any:
    """What is the same for all samples as a batching rule takes it: with axes of length 1."""
    if type(value) is _ndarray:
        return value[(None,) * k]  # a third of what reshape takes
    if type(value) is list:
        return [_led(item, k) for item in value]
    return value


def _samples_in(held: Any, k: int) -> Any:
    """A tangent as a batching rule takes it."""
    if type(held) is BatchedArray:
        return held.array
    if type(held) is list:
        return [_samples_in(item, k) for item in held]
    return _led(held, k)
