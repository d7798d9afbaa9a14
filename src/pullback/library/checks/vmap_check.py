"""``test_vmap``: is the result of many samples at once that of one after the other?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.modes import no_grad
from pullback.errors import AutogradError
from pullback.func.vmap import vmap
from pullback.library.checks.case import Case, CheckFailedError, Place, Skipped, with_tensors
from pullback.library.checks.layout_check import same_values
from pullback.library.running import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_vmap"]

_SAMPLES = 3
_FIX = (
    "correct the rule of register_vmap: in_dims says which axis counts the samples (None: an "
    "argument that all samples share), and out_dims which axis of the output does."
)


def check_vmap(case: Case) -> str:
    """Maps all tensors, and each one alone, over a first and a last axis."""
    places = case.places()
    if not places:
        raise Skipped("no tensor argument")
    if case.schema.is_mutable:
        raise Skipped("the operator writes to its arguments")
    tried = 0
    everything = tuple(place.name for place in places)
    for chosen in dict.fromkeys([everything, *((name,) for name in everything)]):
        for axis in (0, -1):
            _check_one(case, places, chosen, axis)
            tried += 1
    return f"{tried} ways to map {_SAMPLES} samples"


def _check_one(case: Case, places: list[Place], chosen: tuple[str, ...], axis: int) -> None:
    samples = {p.name: _samples(p.tensor._array) for p in places if p.name in chosen}
    others = {p.name: wrap(np.array(p.tensor._array)) for p in places if p.name not in chosen}

    def call(**mapped: Tensor) -> list[Tensor]:
        given = {**others, **{name: mapped[f"_{n}"] for n, name in enumerate(samples)}}
        args, kwargs = with_tensors(case, case.args, case.kwargs, lambda name, _: given[name])
        return list(tensors_in([case.operator(*args, **kwargs)]))

    with no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a slow road is right too
        one_by_one = [
            [
                out._array
                for out in call(
                    **{f"_{n}": wrap(s[i].copy()) for n, s in enumerate(samples.values())}
                )
            ]
            for i in range(_SAMPLES)
        ]
        if any(len({out[n].shape for out in one_by_one}) > 1 for n in range(len(one_by_one[0]))):
            raise Skipped("the shape of the output depends on the values")
        names = [f"_{n}" for n in range(len(samples))]
        stacked = [wrap(np.moveaxis(s, 0, axis).copy()) for s in samples.values()]
        try:
            together = vmap(
                lambda *tensors: call(**dict(zip(names, tensors, strict=True))), in_dims=axis
            )(*stacked)
        except AutogradError as error:
            if str(error).startswith("vmap: "):
                raise Skipped(f"refused: {error}") from None
            raise
    what = f"over axis {axis} of {', '.join(map(repr, chosen))}"
    for number, out in enumerate(together):
        expected = np.stack([sample[number] for sample in one_by_one])
        if not same_values(case, out._array, expected):
            raise CheckFailedError(
                f"output {number} of vmap {what} is {_difference(out._array, expected)} from what "
                f"the same samples give one by one.",
                _FIX,
            )


def _samples(array: NDArray[Any]) -> NDArray[Any]:
    """Several arrays of the same shape, near enough to be in the operator's domain."""
    if array.dtype.kind not in "fc":
        return np.stack([array] * _SAMPLES)
    return np.stack([(array * (1 - n / 64)).astype(array.dtype) for n in range(_SAMPLES)])


def _difference(found: NDArray[Any], expected: NDArray[Any]) -> str:
    if found.shape != expected.shape:
        return f"different in shape ({found.shape}, not {expected.shape})"
    return "different in dtype" if found.dtype != expected.dtype else "different in value"
