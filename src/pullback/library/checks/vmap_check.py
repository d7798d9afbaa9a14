"""``test_vmap``: is the result of many samples at once that of one after the other?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.api import grad
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.modes import no_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import (
    AutogradError,
    AutogradNotRegisteredError,
    DerivativeMissingError,
    message_of,
)
from pullback.func.vmap import vmap
from pullback.library.checks.case import Case, CheckFailedError, Place, Skipped, with_tensors
from pullback.library.checks.outcome import describe_difference, same_values, weights_for
from pullback.library.kernel_call import tensors_in
from pullback.library.rules import rules_of
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_vmap"]

_Array = NDArray[Any]
_SAMPLES = 3
_MOST_COMBINED = 4  # tensor arguments; of more, not all combinations are mapped
_FIX = (
    "correct the rule of register_vmap: in_dims says which axis counts the samples (None: an "
    "argument that all samples share), and out_dims which axis of the output does."
)
_FIX_WRITES = "compute into new memory: the caller uses the samples again."
_FIX_TAG = (
    "the tag 'elementwise' has vmap run the kernel on all samples at once; drop it, unless every "
    "element of the output depends on one element of each input."
)
_FIX_LOOP = (
    "there is no batching rule, so vmap calls the operator on one sample after the other, each a "
    "view of the stacked tensor: do not read memory beyond the elements of an argument (.base), or "
    "in the order in which it lies; nor state of other calls."
)


def check_vmap(case: Case) -> str:
    """Maps every combination of tensors over a first axis, and some over a last one."""
    places = case.places()
    if not places:
        raise Skipped("no tensor argument")
    if case.schema.is_mutable:
        raise Skipped("the operator writes to its arguments")
    tried = 0
    everything = tuple(place.name for place in places)
    for chosen in dict.fromkeys(_combinations(everything)):
        for axis in (0, -1) if len(chosen) in (1, len(everything)) else (0,):
            _Mapping(case, places, chosen, axis, _SAMPLES).check()
            tried += 1
    _Mapping(case, places, everything, 0, 1).check()
    return f"{tried + 1} ways to map {_SAMPLES} samples, and their gradients"


def _combinations(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield names
    count = len(names)
    sizes = range(1, count) if count <= _MOST_COMBINED else (1, 2, count - 1)
    for size in sizes:
        yield from combinations(names, size)


class _Mapping:
    """One way to map an operator: which arguments hold samples, along which axis, and how many."""

    def __init__(
        self, case: Case, places: list[Place], chosen: tuple[str, ...], axis: int, count: int
    ):
        self.case, self.axis, self.count = case, axis, count
        self.samples = {
            p.name: _samples(p.tensor._array, count) for p in places if p.name in chosen
        }
        self.others = {p.name: np.array(p.tensor._array) for p in places if p.name not in chosen}
        self.needs = {p.name for p in places if requires_grad(p.tensor)}
        samples = f"{count} sample{'s' if count > 1 else ''}"
        self.what = f"of {samples} over axis {axis} of {', '.join(map(repr, chosen))}"

    def _call(self, given: dict[str, Tensor]) -> list[Tensor]:
        case = self.case
        args, kwargs = with_tensors(case, case.args, case.kwargs, lambda name, _: given[name])
        return list(tensors_in([case.operator(*args, **kwargs)]))

    def _map(self, given: dict[str, Tensor]) -> list[Tensor]:
        names = list(self.samples)
        others = {name: given[name] for name in self.others}

        def one(*tensors: Tensor) -> list[Tensor]:
            return self._call({**others, **dict(zip(names, tensors, strict=True))})

        found: list[Tensor] = vmap(one, in_dims=self.axis)(*(given[name] for name in names))
        return found

    def check(self) -> None:
        """Compares values, and then gradients."""
        with no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an operator without a rule is slow
            one_by_one = [
                [out._array for out in self._call(self._sample(i))] for i in range(self.count)
            ]
            if any(
                len({out[n].shape for out in one_by_one}) > 1 for n in range(len(one_by_one[0]))
            ):
                raise Skipped("the shape of the output depends on the values")
            given = self._stacked()
            try:
                together = self._map(given)
            except AutogradError as error:
                if "writes to its arguments" in str(error):
                    raise CheckFailedError(
                        f"the batching rule writes to an argument, and vmap {self.what} raised "
                        f"{type(error).__name__}: {message_of(error)}.",
                        _FIX_WRITES,
                    ) from error
                if str(error).startswith("vmap: "):
                    raise Skipped(f"refused: {message_of(error)}") from None
                raise
        self._check_writes(given)
        for number, out in enumerate(together):
            expected = np.stack([sample[number] for sample in one_by_one])
            if not same_values(self.case, out._array, expected):
                numbers = describe_difference(np.asarray(out._array), expected)
                raise CheckFailedError(
                    f"output {number} of vmap {self.what} is {numbers}, which the same samples "
                    f"give one by one.",
                    self._fix(),
                )
        if self.needs and self.axis == 0 and self.count > 1:
            self._check_gradients()

    def _check_writes(self, given: dict[str, Tensor]) -> None:
        """The stacked tensors are as they were before the call."""
        for name, before in self._stacked().items():
            now = given[name]._array
            if now.tobytes() != before._array.tobytes():
                rules = rules_of(self.case.operator)
                has_rule = rules is not None and rules.vmap is not None
                raise CheckFailedError(
                    f"{'the batching rule' if has_rule else 'the operator'} writes to {name!r}: "
                    f"after vmap {self.what}, {name!r} is "
                    f"{describe_difference(now, before._array)}, as it was before.",
                    _FIX_WRITES,
                )

    def _fix(self) -> str:
        rules = rules_of(self.case.operator)
        if rules is not None:
            return _FIX if rules.vmap is not None else _FIX_LOOP
        return _FIX_TAG if "elementwise" in self.case.operator.tags else _FIX

    def _sample(self, number: int) -> dict[str, Tensor]:
        made = {name: wrap(s[number].copy()) for name, s in self.samples.items()}
        return {**{name: wrap(a.copy()) for name, a in self.others.items()}, **made}

    def _stacked(self) -> dict[str, Tensor]:
        made = {n: wrap(np.moveaxis(s, 0, self.axis).copy()) for n, s in self.samples.items()}
        return {**{name: wrap(a.copy()) for name, a in self.others.items()}, **made}

    def _check_gradients(self) -> None:
        expected = self._gradients_one_by_one()
        if expected is None:
            return
        given = self._stacked()
        leaves = self._leaves(given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outputs = self._map(given)
                self._check_writes(given)
                found = _gradients(outputs, leaves)
            except DerivativeMissingError:
                return
            except AutogradError as error:
                if str(error).startswith("vmap: "):
                    return  # it says that it cannot be mapped
                raise
        for name, theirs in expected.items():
            ours = found.get(name)
            if ours is not None and name in self.samples:
                ours = np.moveaxis(ours, self.axis, 0)
            if ours is None and not np.any(theirs):
                continue
            if not same_values(self.case, ours, theirs):
                raise CheckFailedError(
                    f"the gradient of {name!r} through vmap {self.what} is "
                    f"{describe_difference(ours, theirs)}, which the same samples give one by one.",
                    "a batching rule is differentiated like any function: compute with Pullback's "
                    "operators on the tensors that it gets, without detach() and .numpy().",
                )

    def _leaves(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        leaves = {name: t for name, t in given.items() if name in self.needs}
        for tensor in leaves.values():
            tensor._flags |= REQUIRES_GRAD
        return leaves

    def _gradients_one_by_one(self) -> dict[str, _Array] | None:
        """By input: the gradients of its samples, or their sum where all share it."""
        parts: dict[str, list[_Array]] = {name: [] for name in self.needs}
        for number in range(self.count):
            given = self._sample(number)
            leaves = self._leaves(given)
            try:
                outputs = self._call(given)
                roots = [out for out in outputs if out.requires_grad]
                if not roots:
                    return None
                weights = [
                    wrap(weights_for(np.zeros((self.count, *out.shape), out.dtype))[number].copy())
                    for out in roots
                ]
                found = grad(roots, list(leaves.values()), weights, allow_unused=True)
            except (AutogradNotRegisteredError, DerivativeMissingError):
                return None
            for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
                parts[name].append(
                    np.zeros(leaf.shape, leaf.dtype) if gradient is None else gradient._array
                )
        return {
            name: np.stack(arrays) if name in self.samples else sum(arrays[1:], arrays[0])
            for name, arrays in parts.items()
        }


def _gradients(outputs: list[Tensor], leaves: dict[str, Tensor]) -> dict[str, _Array | None]:
    roots = [out for out in outputs if out.requires_grad]
    if not roots:
        return {}
    weights = [wrap(weights_for(out._array)) for out in roots]
    found = grad(roots, list(leaves.values()), weights, allow_unused=True)
    return {
        name: None if g is None else np.asarray(g._array)
        for name, g in zip(leaves, found, strict=True)
    }


def _samples(array: _Array, count: int) -> _Array:
    """Several arrays of the same shape, near enough to be in the operator's domain."""
    if array.dtype.kind not in "fc":
        return np.stack([array] * count)
    return np.stack([(array * (1 - n / 64)).astype(array.dtype) for n in range(count)])
