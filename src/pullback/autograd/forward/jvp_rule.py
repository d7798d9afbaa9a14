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
- None: the formula runs on batched tensors (``apply_mapped``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.batching.rules import array_rule
from pullback.dispatch.modes import TAPE, TRANSFORM, StateGuard
from pullback.dispatch.table import OperatorEntry
from pullback.kernels.broadcasting import MIN_THREADED_SIZE, ThreadedArray
from pullback.tensor.batched import BatchedArray
from pullback.tensor.levels import MapLevel
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["JVP_RULES", "Function", "JvpRule", "UnsupportedFastPath", "lead", "unwrap"]

Function = Callable[..., Any]

_ndarray = np.ndarray


class UnsupportedFastPath(Exception):  # noqa: N818 - a signal to take the general path
    """An operation that cannot be done on raw arrays; the general path is taken instead."""


class JvpRule:
    """How the results of an operator change with its arguments.

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
        given = [None if each is None else _pad(each, batch_ndim, ndim) for each in tangents]
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
        if self.batching == "matrices":
            ndims = {primal.ndim for primal in primals if type(primal) is _ndarray}
            if len(ndims) == 1 and ndims.pop() > 1:
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

    def apply_mapped(self, primals: list[Any], tangents: Sequence[Any], results: Any) -> Any:
        """As ``apply`` with one batch axis, for every formula: by batched tensors."""
        try:
            return self.apply(arrays, primals, tangents, results, 1)
        except UnsupportedFastPath:
            size = max(map(_batch_size, tangents))
        # The level of this call is the only one around the formula.
        with StateGuard(end=TRANSFORM | TAPE), MapLevel(size, "error") as level:

            def batch(value: Any) -> Any:
                if type(value) is list:
                    return [batch(item) for item in value]
                # Zeros of arguments without a tangent have a batch axis of length 1.
                if type(value) is _ndarray and len(value) != size:
                    value = np.broadcast_to(value, (size, *value.shape[1:]))
                return None if value is None else wrap(BatchedArray(value, (level.number,)))

            values = map(_to_tensor, primals)
            found = self.apply(
                tensors, values, [*map(batch, tangents)], [*map(_to_tensor, results)]
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


def _pad(tangent: Any, batch_ndim: int, ndim: int) -> Any:
    """A batched tangent with `ndim` axes in all: new ones come behind those of the batch."""
    shape = tangent.shape
    return tangent.reshape(shape[:batch_ndim] + (1,) * (ndim - len(shape)) + shape[batch_ndim:])


def lead(value: Any, batch_ndim: int) -> Any:
    """What is the same for a whole batch as batching rules take it: with axes of length 1."""
    if type(value) is _ndarray:
        return value[(None,) * batch_ndim]  # a third of what reshape takes
    if type(value) is list:
        return [lead(item, batch_ndim) for item in value]
    return value


def unwrap(value: Any) -> Any:
    """The arrays of the tensors in an argument or a result."""
    if type(value) is Tensor:
        return value._array
    if type(value) is list:
        return [unwrap(item) for item in value]
    return value


def _to_tensor(value: Any) -> Any:
    if type(value) is list:
        return [_to_tensor(item) for item in value]
    return wrap(value) if isinstance(value, _ndarray) else value


def _batch_size(tangent: Any) -> int:
    if type(tangent) is list:
        return max(map(_batch_size, tangent), default=0)
    return 0 if tangent is None else len(tangent)


def _unbatch(value: Any) -> Any:
    """The arrays of batched tensors; what does not vary gets a batch axis of length 1."""
    if isinstance(value, tuple | list):
        return type(value)(map(_unbatch, value))
    if not isinstance(value, Tensor):
        return value
    array = value._array
    return array.array if type(array) is BatchedArray else array[None]
