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
from pullback.kernels.broadcasting import MIN_THREADED_SIZE, ThreadedArray

__all__ = ["DeclinedError", "Formula", "Function", "led", "samples"]

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

    Its methods take primals, results and tangents as arrays, None for an argument without a
    tangent; tangents have `k` batch axes in front. They return the tangent of the result as an
    array that has these axes too, or axes that broadcast to them.

    Attributes:
        declines: whether a rule for batch axes was missing or has declined once. Then the general
            way is taken for batched tangents, so that nothing is computed twice.
        is_linear: whether it reads neither the result nor the arguments that may have tangents.
    """

    __slots__ = ("_by_element", "_jvp", "_of_matrices", "declines", "is_linear")

    def __init__(self, jvp: Function, form: str):
        self._jvp = jvp
        self._by_element = form == "elementwise"
        self.is_linear = form == "linear"
        self._of_matrices = form == "matrices"
        self.declines = False

    def of_one(self, k: int, tangent: Any, primal: Any, others: Sequence[Any], result: Any) -> Any:
        """The tangent where the first argument has one."""
        if not k:
            return self._jvp(arrays, primal, *others, tangent, result)
        if self._by_element:
            if result.size * len(tangent) >= MIN_THREADED_SIZE:
                return self._by_threads([primal, *others], [tangent], result)
            return self._jvp(arrays, primal, *others, tangent, result)
        if others:
            others = [led(value, k) for value in others]
        if not self.is_linear:
            primal, result = led(primal, k), led(result, k)
        return self._by_rules(k, primal, *others, tangent, result)

    def of_two(self, k: int, primals: Sequence[Any], first: Any, second: Any, result: Any) -> Any:
        """The tangent where one of the first two arguments has one, or both."""
        if not k:
            return self._jvp(arrays, *primals, first, second, result)
        if self._by_element:
            ndim = k + result.ndim
            if first is not None and first.ndim != ndim:
                first = _padded(first, k, ndim)
            if second is not None and second.ndim != ndim:
                second = _padded(second, k, ndim)
            if result.size * len(second if first is None else first) >= MIN_THREADED_SIZE:
                return self._by_threads(primals, [first, second], result)
            return self._jvp(arrays, *primals, first, second, result)
        if self._of_matrices:
            a, b = primals
            if a.ndim == b.ndim > 1:
                return self._jvp(arrays, a, b, first, second, result)
        primals = [led(p, k) for p in primals]
        return self._by_rules(k, *primals, first, second, led(result, k))

    def of_any(self, k: int, primals: Sequence[Any], given: Sequence[Any], result: Any) -> Any:
        """The tangent where any arguments have one; given is what the formula takes for each."""
        if not k:
            return self._jvp(arrays, *primals, *given, result)
        if self._by_element:
            ndim = k + result.ndim
            parts = [_padded(part, k, ndim) for part in given]
            counts = [len(part) for part in parts if type(part) is _ndarray]
            if result.size * max(counts, default=1) >= MIN_THREADED_SIZE:
                return self._by_threads(primals, parts, result)
            return self._jvp(arrays, *primals, *parts, result)
        result = None if self.is_linear else led(result, k)
        return self._by_rules(k, *[led(p, k) for p in primals], *given, result)

    def _by_threads(self, primals: Sequence[Any], parts: Sequence[Any], result: Any) -> Any:
        """The same of so many numbers that threads share the work on each product and sum."""
        wide = [part.view(ThreadedArray) if type(part) is _ndarray else part for part in parts]
        found = self._jvp(arrays, *primals, *wide, result)
        return found.view(_ndarray) if type(found) is ThreadedArray else found

    def _by_rules(self, k: int, *values: Any) -> Any:
        try:
            return self._jvp(_spaces.get(k) or samples(k), *values)
        except DeclinedError:
            self.declines = True
            raise


def _padded(array: Any, k: int, ndim: int) -> Any:
    """Samples with `ndim` axes in all: new ones come between the batch and the rest."""
    missing = ndim - array.ndim if type(array) is _ndarray else 0
    if missing <= 0:
        return array
    shape = array.shape
    return array.reshape(shape[:k] + (1,) * missing + shape[k:])


def led(value: Any, k: int) -> Any:
    """What is the same for all samples as a batching rule takes it: with axes of length 1."""
    if type(value) is _ndarray:
        return value[(None,) * k]  # a third of what reshape takes
    if type(value) is list:
        return [led(item, k) for item in value]
    return value
