"""``JvpRule``: the forward-mode rule of one operator, applied in every namespace.

A rule computes the tangents of an operator's results from primals and tangents. ``apply`` serves
dual tensors (``jvp_kernels.py``), dual arrays (``dual_array.py``) and the tangent tape
(``linearize/tangent_tape.py``).

Tangents that are pushed together have batch axes in front, which primals do not have. `batching`
says how a formula treats them; the generator derives it from the formula:

- ``"elementwise"``: all arrays broadcast, once tangents have as many axes behind the batch axes as
  the result has;
- ``"calls"``: the formula consists of operators, whose batching rules replace their kernels;
- ``"linear"``: the same, and it reads neither primals nor the result;
- ``"matrices"``: the same, and NumPy broadcasts the operators where all arrays have equally many
  axes, two at least;
- None: the formula runs on batched tensors (``apply_to_arrays``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.batching.rules import array_rule
from pullback.dispatch.modes import TAPE, TRANSFORM, StateGuard
from pullback.dispatch.table import OperatorEntry
from pullback.kernels.broadcasting import MIN_THREADED_SIZE, ThreadedArray
from pullback.tensor.batched import BatchedArray
from pullback.tensor.levels import MapLevel
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.tensor import TENSOR_TYPES, Tensor, wrap

__all__ = [
    "JVP_RULES",
    "Function",
    "JvpRule",
    "UnsupportedFastPath",
    "fit_tangent",
    "lead",
    "pad_tangent",
    "unwrap",
]

Function = Callable[..., Any]

_ndarray = np.ndarray


class UnsupportedFastPath(Exception):  # noqa: N818 - a signal to take the general path
    """An operation that cannot be done on raw arrays; the general path is taken instead."""


class JvpRule:
    """JVP rule of an operator: the tangents of its results from those of its arguments.

    Attributes:
        name: the operator's name, without that of its library.
        function: the formula, a function of a namespace, all arguments, the tangents of those at
            `places`, and the results; None if the operator has no rule.
        places: the positions of the arguments that may have tangents.
        skips_none: whether the formula leaves out the terms of arguments whose tangent is None.
        refused: positions of arguments without a derivative, each with the missing one's name.
        is_constant: whether no result ever has a tangent.
        batching: see the module.
        lacks_batching: whether an operator of the formula has no batching rule for some call.
            Then nothing is computed twice: batched tangents take the general path at once.
    """

    __slots__ = (
        "batching",
        "entry",
        "function",
        "is_constant",
        "lacks_batching",
        "name",
        "places",
        "refused",
        "skips_none",
    )

    def __init__(
        self,
        entry: OperatorEntry,
        function: Function | None,
        places: tuple[int, ...] = (),
        skips_none: bool = False,
        refused: tuple[tuple[int, str], ...] = (),
        batching: str | None = None,
        is_constant: bool = False,
    ):
        self.entry = entry
        self.name = entry.name.removeprefix("pullback::").replace(".", "_")
        self.function = function
        self.places = places
        self.skips_none = skips_none
        self.refused = refused
        self.batching = batching
        self.is_constant = is_constant
        self.lacks_batching = False

    def arguments(self) -> Sequence[Any]:
        """The operator's parameters; the schema is parsed when this is first called."""
        assert self.entry.schema is not None
        return self.entry.schema.arguments.flat_all

    def has_only_tensors(self) -> bool:
        """Whether one tensor is returned, and tensors are taken at `places` only, not in lists."""
        assert self.entry.schema is not None
        arguments = enumerate(self.arguments())
        kinds = {p: str(each.type) for p, each in arguments if each.type.is_tensor_like()}
        returns = [str(each.type) for each in self.entry.schema.returns]
        wanted = dict.fromkeys(self.places, "Tensor")
        return kinds == wanted and returns == ["Tensor"] and not self.refused

    def result_count(self) -> int:
        """The number of results that the operator returns."""
        assert self.entry.schema is not None
        return len(self.entry.schema.returns)

    def reads(self) -> list[bool]:
        """For each argument, and then for the results, whether the formula reads them.

        In generated formulas the names of others begin with an underscore.
        """
        code = getattr(self.function, "__code__", None)
        names = [argument.name for argument in self.arguments()]
        if code is None or code.co_argcount <= len(names):
            return [True] * (len(names) + 1)
        given = code.co_varnames[1 : code.co_argcount]
        results = given[len(names) + len(self.places) :]
        return [
            *[own != f"_{name}" for own, name in zip(given, names, strict=False)],
            any(not name.startswith("_") for name in results),
        ]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in the formula's order, defaults included."""
        values = list(args)
        for argument in self.arguments()[len(args) :]:
            name = argument.name
            values.append(kwargs[name] if name in kwargs else argument.default_value())
        return values

    def apply(
        self,
        xp: Namespace,
        primals: Iterable[Any],
        tangents: Sequence[Any],
        results: Sequence[Any],
        batch_ndim: int = 0,
    ) -> Any:
        """The tangent of the result, or those of several results.

        Args:
            xp: the namespace that primals, tangents and results belong to.
            primals: all arguments of the call, in the formula's order.
            tangents: one for each of `places`, None or zeros for an argument without one.
            results: of the operator, a list if it returns one.
            batch_ndim: how many batch axes every tangent has in front, in the namespace of arrays.

        Raises ``UnsupportedFastPath`` where batch axes are not supported. The tangent of batched
        tangents has their batch axes or such as broadcast to them; no other shape is checked.
        """
        if batch_ndim:
            if self.batching != "elementwise":
                return self._apply_by_rules([*primals], tangents, results, batch_ndim)
            ndim = batch_ndim + results[0].ndim
            for tangent in tangents:
                if tangent is not None and (
                    tangent.ndim != ndim or tangent.size >= MIN_THREADED_SIZE
                ):
                    return self._apply_padded(primals, tangents, results[0], batch_ndim)
        return self.function(xp, *primals, *tangents, *results)  # type: ignore[misc]

    def _apply_padded(
        self, primals: Iterable[Any], tangents: Sequence[Any], result: Any, batch_ndim: int
    ) -> Any:
        """The element-wise formula on tangents with as many axes as the result, or large ones."""
        ndim = batch_ndim + result.ndim
        given = [None if each is None else pad_tangent(each, batch_ndim, ndim) for each in tangents]
        function: Any = self.function
        if all(each is None or each.size < MIN_THREADED_SIZE for each in given):
            return function(arrays, *primals, *given, result)
        # Threads share the work on each product and sum.
        wide = [None if each is None else each.view(ThreadedArray) for each in given]
        found = function(arrays, *primals, *wide, result)
        return found.view(_ndarray) if type(found) is ThreadedArray else found

    def _apply_by_rules(
        self, primals: list[Any], tangents: Sequence[Any], results: Sequence[Any], batch_ndim: int
    ) -> Any:
        if self.batching is None or self.lacks_batching:
            raise UnsupportedFastPath(self.name)
        function: Any = self.function
        if self.batching == "matrices" and primals[0].ndim == primals[-1].ndim > 1:  # one or two
            return function(arrays, *primals, *tangents, *results)
        if self.batching == "linear":  # most of the time goes into new views of arrays
            primals = [None if n in self.places else p for n, p in enumerate(primals)]
            results = [None] * len(results)
        xp = _batched_arrays.get(batch_ndim) or _BatchedArrays(batch_ndim)
        led = [lead(value, batch_ndim) for value in primals]
        try:
            return function(xp, *led, *tangents, *[lead(r, batch_ndim) for r in results])
        except UnsupportedFastPath:
            self.lacks_batching = True
            raise

    def apply_to_arrays(
        self, primals: list[Any], tangents: list[Any], results: Any, batch_shape: tuple[int, ...]
    ) -> Any:
        """As ``apply`` to arrays, with at most one batch axis, for every formula."""
        if not batch_shape:
            return self.apply(arrays, primals, tangents, results)
        try:
            return self.apply(arrays, primals, tangents, results, len(batch_shape))
        except UnsupportedFastPath:
            pass
        # By batched tensors, of a vmap level around nothing but the formula.
        with StateGuard(end=TRANSFORM | TAPE), MapLevel(batch_shape[0], "error") as level:
            wrap_batch = partial(BatchedArray, levels=(level.number,))
            found = self.apply(
                tensors,
                _to_tensors(primals),
                _to_tensors(tangents, wrap_batch),
                _to_tensors(list(results)),
            )
        return _unbatch(found)


JVP_RULES: dict[str, JvpRule] = {}  # by the names of operators; filled as tables are loaded


class _BatchedArrays:
    """Operators on arrays that all have some batch axes in front: their batching rules."""

    def __init__(self, batch_ndim: int):
        self._batch_ndim = batch_ndim
        _batched_arrays[batch_ndim] = self

    def __getattr__(self, name: str) -> Function:
        rule, batch_ndim = array_rule(f"pullback::{name}"), self._batch_ndim

        def run(*args: Any, **kwargs: Any) -> Any:
            found = NotImplemented if rule is None else rule(batch_ndim, *args, **kwargs)
            if found is NotImplemented:
                raise UnsupportedFastPath(name)
            return found

        setattr(self, name, run)
        return run


_batched_arrays: dict[int, Any] = {}


def pad_tangent(tangent: Any, batch_ndim: int, ndim: int) -> Any:
    """A batched tangent with `ndim` axes in all: new ones come behind those of the batch."""
    shape = tangent.shape
    return tangent.reshape(shape[:batch_ndim] + (1,) * (ndim - len(shape)) + shape[batch_ndim:])


def lead(value: Any, batch_ndim: int) -> Any:
    """Gives an unbatched value batch dimensions of length 1, as batching rules take it."""
    if type(value) is _ndarray:
        return value[(None,) * batch_ndim]  # a third of what reshape takes
    if type(value) is list:
        return [lead(item, batch_ndim) for item in value]
    return value


def unwrap(value: Any) -> Any:
    """The arrays of the tensors in an argument or a result."""
    if type(value) in TENSOR_TYPES:
        return value._array
    if type(value) is list or isinstance(value, tuple):
        items = [unwrap(item) for item in value]
        return items if type(value) is list else tuple(items)
    return value


def _to_tensors(values: list[Any], wrap_array: Function | None = None) -> list[Any]:
    """Tensors in the place of arrays, also of those in lists."""
    made: list[Any] = []
    for value in values:
        if type(value) is list:
            value = _to_tensors(value, wrap_array)
        elif isinstance(value, _ndarray | np.generic):
            value = wrap(np.asarray(value) if wrap_array is None else wrap_array(value))
        made.append(value)
    return made


def _unbatch(value: Any) -> Any:
    """The arrays of batched tensors; what does not vary gets a batch axis of length 1."""
    if isinstance(value, tuple | list):
        return type(value)(map(_unbatch, value))
    if not isinstance(value, Tensor):
        return value
    array = value._array
    return array.array if type(array) is BatchedArray else array[None]


def fit_tangent(
    tangent: Any, batch_shape: tuple[int, ...], result: Any, given: Sequence[Any]
) -> Any:
    """The tangent of a result as a formula has returned it, in memory of its own.

    It gets the result's shape and memory layout behind the batch axes, and its dtype unless that
    would drop an imaginary part. None stands for zeros. `given` are the tangents that the formula
    got.
    """
    shape, dtype = batch_shape + result.shape, result.dtype
    for other in given:
        if other is tangent:
            break
    else:
        if (
            type(tangent) is _ndarray
            and tangent.base is None
            and tangent.dtype is dtype
            and tangent.shape == shape
            and (len(shape) < 2 or (tangent.flags.c_contiguous and result.flags.c_contiguous))
        ):
            return tangent
    tangent = np.asarray(0.0 if tangent is None else tangent)
    order = layout_of(result)
    if batch_shape:
        k = len(batch_shape)
        order = (*range(k), *(k + axis for axis in order))
    if tangent.dtype.kind == "c" and dtype.kind != "c":
        dtype = tangent.dtype
    if (
        tangent.shape != shape
        or tangent.dtype != dtype
        or 0 in tangent.strides
        or layout_of(tangent) != order
        or _is_given(tangent, given)
    ):
        whole, tangent = tangent, empty_in_layout(shape, dtype, order)
        np.copyto(tangent, whole)
    return tangent


def _is_given(tangent: Any, given: Sequence[Any]) -> bool:
    """Whether a tangent is one of those that were given, or lies in the memory of one."""
    for array in given:
        if type(array) is list:
            if _is_given(tangent, array):
                return True
        elif array is not None and (tangent is array or np.may_share_memory(tangent, array)):
            return True
    return False
