"""Twins of user functions on arrays: the same code with arrays where it captured tensors.

SciPy's solvers call the user's function thousands of times, on arrays. A twin has the same code,
and arrays in the place of tensors in closure cells, defaults, global names, bound arguments and
instances, so that no operation of these calls is recorded. Under ``vmap`` there is one twin for
each sample, with that sample's arrays. What the search misses stays a tensor: the results of twins
are converted to arrays, so it is slower and not wrong.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from itertools import product
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.implicit.custom import run_detached
from pullback.interop.arguments import carries_gradient
from pullback.scipy.captures import global_names, is_callback
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["Samples"]

_NEVER = (type, ModuleType, np.ndarray, np.generic, str, bytes, int, float, complex, type(None))
_LIBRARIES = frozenset({"pullback", "numpy", "scipy", *sys.stdlib_module_names})
_MAX_DEPTH = 8


class _Twin:
    """One walk over values, functions and objects that replaces tensors."""

    def __init__(self, leaf: Callable[[Tensor], Any]):
        self._leaf = leaf
        self._memo: dict[int, Any] = {}
        self._kept: list[Any] = []  # ids in the memo stay valid while these live

    def of(self, value: Any, depth: int = 0) -> Any:
        """The value with tensors replaced; the same object if it holds none."""
        if isinstance(value, Tensor):
            return self._leaf(value)
        if isinstance(value, _NEVER) or depth > _MAX_DEPTH:
            return value
        if id(value) in self._memo:
            return self._memo[id(value)]
        self._kept.append(value)
        self._memo[id(value)] = value
        made = self._memo[id(value)] = self._made(value, depth + 1)
        return made

    def _made(self, value: Any, depth: int) -> Any:
        if type(value) in (list, tuple):
            return self._sequence(value, depth)
        if isinstance(value, dict):
            return self._mapping(value, depth)
        if isinstance(value, FunctionType):
            return self._function(value, depth)
        if isinstance(value, MethodType):
            function, owner = self.of(value.__func__, depth), self.of(value.__self__, depth)
            same = function is value.__func__ and owner is value.__self__
            return value if same else MethodType(function, owner)
        if isinstance(value, functools.partial):
            parts = self.of([value.func, value.args, value.keywords], depth)
            same = parts[0] is value.func and parts[1] is value.args and parts[2] is value.keywords
            return value if same else functools.partial(parts[0], *parts[1], **parts[2])
        return self._instance(value, depth)

    def _sequence(self, value: Any, depth: int) -> Any:
        made = [self.of(item, depth) for item in value]
        same = all(new is old for new, old in zip(made, value, strict=True))
        return value if same else type(value)(made)

    def _mapping(self, value: dict[Any, Any], depth: int) -> Any:
        made = {key: self.of(item, depth) for key, item in value.items()}
        return value if all(made[key] is value[key] for key in made) else made

    def _instance(self, value: Any, depth: int) -> Any:
        held = getattr(value, "__dict__", None)
        if not held or type(value).__module__.partition(".")[0] in _LIBRARIES - {"scipy"}:
            return value
        made = self._mapping(held, depth)
        if made is held:
            return value
        twin = copy.copy(value)
        twin.__dict__.update(made)
        return twin

    def _function(self, function: FunctionType, depth: int) -> Any:
        is_library = (function.__module__ or "").partition(".")[0] in _LIBRARIES
        if is_library and not function.__closure__:
            return function
        cells = tuple(CellType() for _ in function.__closure__ or ())
        twin = FunctionType(
            function.__code__, function.__globals__, function.__name__, None, cells or None
        )
        self._memo[id(function)] = twin  # a function may capture itself
        changed = self._fill(function, cells, depth)
        defaults = self.of(function.__defaults__, depth)
        keywords = self.of(function.__kwdefaults__, depth)
        names = self._globals(function, depth)
        changed |= bool(names)
        changed |= defaults is not function.__defaults__
        changed |= keywords is not function.__kwdefaults__
        if not changed:
            return function
        if names:
            space = {**function.__globals__, **names}
            again = FunctionType(function.__code__, space, function.__name__, None, cells or None)
            twin = again
        twin.__defaults__, twin.__kwdefaults__ = defaults, keywords
        twin.__dict__.update(function.__dict__)
        return twin

    def _fill(self, function: FunctionType, cells: tuple[CellType, ...], depth: int) -> bool:
        changed = False
        for cell, new in zip(function.__closure__ or (), cells, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            new.cell_contents = self.of(value, depth)
            changed |= new.cell_contents is not value and value is not function
        return changed

    def _globals(self, function: FunctionType, depth: int) -> dict[str, Any]:
        space = function.__globals__
        found = {}
        for name in global_names(function.__code__):
            if name in space:
                value = space[name]
                made = self.of(value, depth)
                if made is not value and value is not function:
                    found[name] = made
        return found


def _numeric_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns arrays and numbers, unless it is called with a tensor."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        kind = type(found)
        if kind is np.ndarray or kind is float or any(type(value) is Tensor for value in args):
            return found
        return _numbers(found)

    return run


def _numbers(value: Any) -> Any:
    if isinstance(value, Tensor):
        array = np.asarray(value._array)
        return array if array.ndim else array[()]
    if type(value) in (list, tuple):
        return type(value)(map(_numbers, value))
    return value


class Samples:
    """The arguments of a solver on arrays: one set, or one for each sample under vmap.

    Attributes:
        has_gradient: whether a tensor in the arguments carries a gradient.
        is_batched: whether a tensor in the arguments is batched.
        levels: the vmap levels of batched tensors.
        sizes: the batch size of each level.
    """

    def __init__(self, *values: Any, **named: Any):
        self._values = [list(values), named]
        tensors: dict[int, Tensor] = {}

        def collect(tensor: Tensor) -> Any:
            tensors[id(tensor)] = tensor
            return tensor

        _Twin(collect).of(self._values)
        self.has_gradient = any(map(carries_gradient, tensors.values()))
        found = {
            level: size
            for tensor in tensors.values()
            if type(tensor._array) is BatchedArray
            for level, size in zip(tensor._array.levels, tensor._array.array.shape, strict=False)
        }
        self.levels = tuple(sorted(found))
        self.sizes = tuple(found[level] for level in self.levels)
        self.is_batched = bool(found)

    def run(self, solve: Callable[..., Any]) -> list[Any]:
        """Calls a function with the arguments on arrays, once or once per sample."""
        found = []
        for place in product(*map(range, self.sizes)):
            chosen = dict(zip(self.levels, place, strict=True))
            twin = _Twin(functools.partial(_array_of, chosen=chosen))
            given, named = _numeric(twin.of(self._values))
            found.append(run_detached(functools.partial(solve, *given, **named)))
        return found

    def join(self, arrays: list[Any]) -> Tensor:
        """The results of `run` as a constant tensor, batched if the arguments were."""
        if not self.is_batched:
            return fresh(np.array(arrays[0]))
        whole: NDArray[Any] = np.stack(arrays)
        shaped = whole.reshape(*self.sizes, *whole.shape[1:])
        return fresh(BatchedArray(shaped, self.levels))


def _array_of(tensor: Tensor, chosen: dict[int, int]) -> Any:
    held = tensor._array
    if type(held) is BatchedArray:
        held = held.array[tuple(chosen[level] for level in held.levels)]
    array = np.asarray(held)
    return array if array.ndim else array[()]


def _numeric(value: Any) -> Any:
    """The value with functions whose results are arrays, also in lists and constraints."""
    if is_callback(value):
        return _numeric_function(value)
    if type(value) in (list, tuple):
        return type(value)(map(_numeric, value))
    if type(value) is dict:
        return {key: _numeric(item) for key, item in value.items()}
    if callable(getattr(value, "fun", None)):  # scipy.optimize.NonlinearConstraint
        value = copy.copy(value)
        value.__dict__.update(_numeric(vars(value)))
    return value
