"""``test_layouts`` and ``test_zero_size``: values in other strides, and no values at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.api import grad
from pullback.autograd.modes import no_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import AutogradNotRegisteredError
from pullback.library.checks.case import Case, CheckFailedError, Skipped, named_tensors
from pullback.library.running import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_layouts", "check_zero_size", "run_both_ways", "same_values", "weights_for"]

_Array = NDArray[Any]

# What an operator may raise for a shape that it is not for; anything else is an accident.
_REFUSALS = (ValueError, TypeError, RuntimeError)


def run_both_ways(
    case: Case, *, strict: bool = False
) -> tuple[list[_Array], dict[str, _Array | None]]:
    """The outputs of a call, and the gradients of its inputs for a fixed gradient of each.

    There are no gradients where the backward pass raises, which is for ``test_gradients`` to say;
    unless `strict`.
    """
    args, kwargs = case.fresh()
    used = {p.name: p.tensor for p in named_tensors(case, args, kwargs)}
    try:
        result = case.operator(*args, **kwargs)
    except AutogradNotRegisteredError:
        with no_grad():
            result = case.operator(*args, **kwargs)
    outputs = list(tensors_in([result]))
    arrays = [np.array(out._array) for out in outputs]
    leaves = {name: t for name, t in used.items() if t.requires_grad and t.is_leaf}
    roots = [out for out in outputs if out.requires_grad]
    if not leaves or not roots:
        return arrays, {}
    weights = [wrap(weights_for(out._array)) for out in roots]
    try:
        found = grad(roots, list(leaves.values()), weights, allow_unused=True)
    except Exception:
        if strict:
            raise
        return arrays, {}
    gradients = [None if g is None else np.array(g._array) for g in found]
    return arrays, dict(zip(leaves, gradients, strict=True))


def weights_for(like: _Array) -> _Array:
    """A fixed gradient for an output: no two elements have the same."""
    return np.linspace(0.5, 1.5, like.size).reshape(like.shape).astype(like.dtype)


def same_values(case: Case, first: _Array | None, second: _Array | None) -> bool:
    """Whether two arrays agree but for rounding."""
    if first is None or second is None:
        return first is second
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    eps = float(np.finfo(first.dtype).eps)
    scale = float(np.max(np.abs(second[np.isfinite(second)]), initial=0.0))
    rtol = case.rtol or eps * 1e4
    return bool(np.allclose(first, second, rtol, case.atol or eps * 1e3 * scale, equal_nan=True))


def check_layouts(case: Case) -> str:
    """Compares with calls on the same values, spread out, reversed and transposed in memory."""
    places = [p for p in case.places() if p.tensor.ndim]
    if not places:
        raise Skipped("no tensor argument has axes")
    if case.schema.is_view:
        raise Skipped("the operator makes views, whose strides are those of its input")
    mode = no_grad if case.schema.is_mutable else _as_it_is
    with mode():
        expected = run_both_ways(case.changed(lambda _, t: _laid_out(t, "contiguous")))
    for layout in ("spread out", "reversed", "transposed"):
        with mode():
            found = run_both_ways(case.changed(lambda _, t: _laid_out(t, layout)))  # noqa: B023
        _compare(case, layout, found, expected)
    return f"3 layouts of {len(places)} argument(s)"


class _as_it_is:  # noqa: N801 - stands beside no_grad
    def __enter__(self) -> None:
        """Changes nothing."""

    def __exit__(self, *_: object) -> None:
        """Puts nothing back."""


def _laid_out(tensor: Tensor, layout: str) -> Tensor:
    """The same values in another layout of memory; what lies between them is rubbish."""
    array = tensor._array
    if layout == "spread out" and array.ndim:
        memory = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), 77, array.dtype)
        laid = memory[..., 1::2]
    elif layout == "reversed" and array.ndim:
        laid = np.empty_like(array, order="C")[::-1]
    elif layout == "transposed":
        laid = np.empty(array.shape[::-1], array.dtype).T
    else:
        laid = np.empty(array.shape, array.dtype)
    laid[...] = array
    made = wrap(laid)
    made._flags |= tensor._flags & REQUIRES_GRAD
    return made


def _compare(case: Case, layout: str, found: Any, expected: Any) -> None:
    for number, (ours, theirs) in enumerate(zip(found[0], expected[0], strict=True)):
        if not same_values(case, ours, theirs):
            raise CheckFailedError(
                f"output {number} is different when the same values are {layout} in memory.",
                "do not read memory in the order in which it lies: index by axes, or start from "
                "np.ascontiguousarray(x.numpy()).",
            )
    for name, theirs in expected[1].items():
        if not same_values(case, found[1].get(name), theirs):
            raise CheckFailedError(
                f"the gradient of {name!r} is different when the same values are {layout} in "
                f"memory.",
                "the backward pass reads memory in the order in which it lies; index by axes.",
            )


def check_zero_size(case: Case) -> str:
    """Calls the operator with nothing along the first axis of all tensors, and of each one."""
    names = [p.name for p in case.places() if p.tensor.ndim]
    if not names:
        raise Skipped("no tensor argument has axes")
    ran = refused = 0
    mode = no_grad if case.schema.is_mutable else _as_it_is
    for chosen in dict.fromkeys([tuple(names), *((name,) for name in names)]):
        empty = case.changed(lambda name, t: _emptied(t) if name in chosen else t)  # noqa: B023
        try:
            with mode(), np.errstate(all="ignore"):
                _, gradients = run_both_ways(empty, strict=True)
        except Exception as error:
            if isinstance(error, _REFUSALS) or (isinstance(error, IndexError) and _indexes(case)):
                refused += 1
                continue
            what = "all tensor arguments" if len(chosen) > 1 else f"{chosen[0]!r}"
            raise CheckFailedError(
                f"with no elements in {what}, the call raised {type(error).__name__}: {error}.",
                "return an empty result, or raise a ValueError that says which argument must not "
                "be empty.",
            ) from error
        ran += 1
        shapes = {p.name: p.tensor.shape for p in empty.places()}
        for name, gradient in gradients.items():
            if gradient is not None and np.isnan(gradient).any():
                raise CheckFailedError(
                    f"with no elements in {', '.join(map(repr, chosen))}, the gradient of {name!r} "
                    f"of shape {shapes[name]} is NaN.",
                    "a sum over nothing is zero; do not divide by the number of elements there.",
                )
    return f"{ran} call(s) with empty tensors ran, {refused} were refused"


def _indexes(case: Case) -> bool:
    """Whether a call has integers, which may be indices that nothing empty can have."""
    values = [*case.args, *case.kwargs.values()]
    flat = [item for v in values for item in (v if isinstance(v, list) else [v])]
    return any(
        item.dtype.kind in "iub" if isinstance(item, Tensor) else type(item) is int for item in flat
    )


def _emptied(tensor: Tensor) -> Tensor:
    made = wrap(tensor._array[:0].copy())
    made._flags |= tensor._flags & REQUIRES_GRAD
    return made
