"""Runs operator records on dask tensors and compares them with the same calls on arrays."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, field
from typing import Any

import dask
import dask.array as da
import numpy as np

import pullback as pb
import pullback.dask  # registers the fallback before tests compare the dispatcher's state
from pullback.dask import DaskError
from pullback.errors import NoDataError
from tests.samples.opinfo import Make, OpInfo

CHUNKINGS = ("halves", "uneven")


@dataclass
class Outcome:
    """What a record's samples gave."""

    compared: int = 0
    refusals: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    parallel: int = 0  # samples in several blocks without an operator that gathers


def chunks_of(shape: tuple[int, ...], chunking: str) -> tuple[tuple[int, ...], ...]:
    """Every axis in two halves, or in pieces of 1 and the rest."""
    made = []
    for n in shape:
        first = n // 2 if chunking == "halves" else min(1, n - 1)
        made.append((n,) if n < 2 else (first, n - first))
    return tuple(made)


def function_of(info: OpInfo) -> Any:
    """The function that a record is about."""
    func = functools.reduce(getattr, info.name.split("."), pb)
    return info.through(func) if info.through else func


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def _converted(value: Any, make: Any) -> Any:
    if isinstance(value, np.ndarray):
        return make(value)
    if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(_converted(v, make) for v in value)
    return value


def _on_dask(chunking: str) -> Any:
    def make(array: np.ndarray[Any, Any]) -> Any:
        lazy = da.from_array(array, chunks=chunks_of(array.shape, chunking), name=False)
        return pb.dask.from_dask(lazy, requires_grad=_is_float(array))

    return make


def _in_memory(array: np.ndarray[Any, Any]) -> Any:
    return pb.tensor(array.copy(), requires_grad=_is_float(array))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, pb.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return []


def _run(info: OpInfo, sample: Any, make: Any) -> tuple[list[Any], list[Any]]:
    """Results and gradients of one call; the seed of a backward pass is the result's cosine."""
    args = [_converted(a, make) for a in sample.args]
    kwargs = {key: _converted(a, make) for key, a in sample.kwargs.items()}
    inputs = [t for t in _leaves([args, list(kwargs.values())]) if t.requires_grad]
    results = _leaves([function_of(info)(*args, **kwargs)])
    roots = [r for r in results if r.requires_grad]
    if not info.differentiable or not roots or not inputs:
        return results, []
    total = sum(pb.sum(pb.real(r * pb.cos(pb.real(r.detach())))) for r in roots)
    return results, list(pb.autograd.grad(total, inputs, allow_unused=True))


def _values(tensors: list[Any]) -> list[Any]:
    lazy = [t for t in tensors if t is not None and pb.dask.is_dask(t)]
    found = iter(pb.dask.compute(*lazy, scheduler="synchronous")) if lazy else iter(())
    return [None if t is None else next(found) if pb.dask.is_dask(t) else t.detach().numpy()
            for t in tensors]  # fmt: skip


def _difference(info: OpInfo, ours: list[Any], reference: list[Any]) -> str:
    for place, (a, b) in enumerate(zip(ours, reference, strict=True)):
        if a is None or b is None:
            if not all(x is None or not np.any(x) for x in (a, b)):
                return f"result {place}: {a} instead of {b}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {place}: {a.shape} {a.dtype} instead of {b.shape} {b.dtype}"
        tolerance = 1e-10 if a.dtype in (np.float64, np.complex128) else 1e-5
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"result {place}: {a} instead of {b}"
    return ""


def check_record(info: OpInfo, chunking: str, *, is_complex: bool = False) -> Outcome:
    """Runs all samples of a record in one chunking."""
    outcome = Outcome()
    for number, sample in enumerate(info.samples(Make(1, is_complex=is_complex))):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                reference, slopes = _run(info, sample, _in_memory)
            except Exception:
                continue
            try:
                with (
                    pb.dask.gathered_operators() as gathered,
                    dask.config.set(scheduler=_forbidden),
                ):
                    results, gradients = _run(info, sample, _on_dask(chunking))
                ours = _values([*results, *gradients])
            except (DaskError, NoDataError) as error:
                outcome.refusals.append(str(error))
                continue
            except Exception as error:
                outcome.wrong.append(f"{info.name} sample {number}: {error!r}"[:600])
                continue
        outcome.compared += 1
        text = _difference(info, ours, _values([*reference, *slopes]))
        if text:
            outcome.wrong.append(f"{info.name} sample {number} ({chunking}): {text}"[:600])
        elif not gathered and any(_several(a, chunking) for a in sample.args):
            outcome.parallel += 1
    return outcome


def _several(value: Any, chunking: str) -> bool:
    if isinstance(value, list | tuple):
        return any(_several(item, chunking) for item in value)
    return isinstance(value, np.ndarray) and any(
        len(c) > 1 for c in chunks_of(value.shape, chunking)
    )


def _forbidden(*_: Any, **__: Any) -> Any:
    raise AssertionError("a dask array was computed while the graph was built")
