"""``test_layouts`` and ``test_zero_size``: values in other strides, and no values at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pullback.autograd.modes import no_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import DerivativeMissingError, message_of
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError, Place, Skipped
from pullback.library.checks.fake_check import fake_outputs
from pullback.library.checks.outcome import (
    Outcome,
    find_difference,
    run_both_ways,
    weights_for,
)
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_layouts", "check_zero_size"]

# What an operator may raise for a shape that it is not for; anything else is an accident.
_REFUSALS = (ValueError, TypeError, RuntimeError)
_LAYOUTS = ("spread out", "reversed", "transposed", "reversed along the last axis")
_RUBBISH = 77  # between elements that are spread out
_FIX_VALUES = (
    "do not read memory in the order in which it lies, nor what lies beside it (.base): index by "
    "axes, or start from np.ascontiguousarray(x.numpy())."
)
_FIX_GRADIENTS = "the backward pass reads memory in the order in which it lies; index by axes."


def check_layouts(case: Case) -> str:
    """Compares with calls on the same values, in several layouts of memory."""
    places = [p for p in case.places() if p.tensor.ndim]
    if not places:
        raise Skipped("no tensor argument has axes")
    if case.schema.is_view:
        raise Skipped("the operator makes views, whose strides are those of its input")
    plain = case.changed(lambda _, t: _laid_out(t, "contiguous"))
    expected = run_both_ways(plain)
    names = [p.name for p in places]
    deepest = max(p.tensor.ndim for p in places)
    layouts = _LAYOUTS if deepest > 1 else _LAYOUTS[:2]  # with one axis, the others are the same
    chosen = [(layout, tuple(names)) for layout in layouts]
    if len(names) > 1:
        chosen += [("transposed", (name,)) for name in names if _axes(places, name) > 1]
        chosen += [("reversed", (name,)) for name in names]
    for layout, where in chosen:
        found = run_both_ways(_changed(case, layout, where))
        _compare(case, f"the same values are {layout} in memory", found, expected)
    if case.schema.is_mutable:
        _check_outside(_changed(case, "spread out", tuple(names)))
    _check_expanded(case, names, (0, -1) if deepest > 1 else (0,))
    _check_cotangents(plain, expected)
    return f"{len(layouts) + 1} layouts of {len(places)} argument(s), and of cotangents"


def _check_outside(spread: Case) -> None:
    """Calls the operator on arguments that are spread out, and looks at what lies between them."""
    with no_grad():
        spread.operator(*spread.args, **spread.kwargs)
    for place in spread.places():
        memory = place.tensor._array.base
        if memory is not None and np.any(memory[..., ::2] != np.asarray(_RUBBISH, memory.dtype)):
            raise CheckFailedError(
                f"the call writes beside {place.name!r} where its elements are spread out in "
                f"memory, to memory that belongs to others.",
                "write to the elements by their axes, and not to x.numpy().base or by the number "
                "of bytes.",
            )


def _axes(places: list[Place], name: str) -> int:
    return max(int(p.tensor.ndim) for p in places if p.name == name)


def _changed(case: Case, layout: str, names: tuple[str, ...]) -> Case:
    return case.changed(lambda name, t: _laid_out(t, layout if name in names else "contiguous"))


def _check_expanded(case: Case, names: list[str], axes: tuple[int, ...]) -> None:
    """Arguments of equal values along an axis, whose stride is zero; none that is written to."""
    kept = [name for name in names if name.partition("[")[0] not in case.written]

    def equal(axis: int) -> Callable[[str, Tensor], Tensor]:
        def change(name: str, tensor: Tensor) -> Tensor:
            if name not in kept:
                return _laid_out(tensor, "contiguous")
            return _constant(tensor, axis, is_expanded=False)

        return change

    def expanded(axis: int) -> Callable[[str, Tensor], Tensor]:
        return lambda name, t: (
            _constant(t, axis, is_expanded=True) if name in kept else _laid_out(t, "contiguous")
        )

    for axis in axes:
        try:
            with errstate(all="ignore"):
                expected = run_both_ways(case.changed(equal(axis)))
        except Exception:  # equal values may be outside of the domain
            continue
        with errstate(all="ignore"):
            found = run_both_ways(case.changed(expanded(axis)))
        what = f"the same values are expanded (stride 0) along axis {axis} in memory"
        _compare(case, what, found, expected)


def _check_cotangents(case: Case, expected: Outcome) -> None:
    """Cotangents in other layouts, and one that was expanded from a single number."""
    if not expected.gradients:
        return
    deepest = max((out.ndim for out in expected.outputs), default=0)
    layouts = ("reversed", "transposed", "reversed along the last axis")
    for layout in layouts if deepest > 1 else layouts[:deepest]:
        found = run_both_ways(
            case,
            cotangent=lambda like: _laid_out(wrap(weights_for(like)), layout),  # noqa: B023
        )
        _compare(case, f"the same cotangent is {layout} in memory", found, expected)
    ones = run_both_ways(case, cotangent=lambda like: wrap(np.ones(like.shape, like.dtype)))
    found = run_both_ways(
        case, cotangent=lambda like: wrap(np.broadcast_to(np.ones((), like.dtype), like.shape))
    )
    _compare(case, "the same cotangent is expanded (stride 0) in memory", found, ones)


def _constant(tensor: Tensor, axis: int, *, is_expanded: bool) -> Tensor:
    """The first slice along an axis in the place of all."""
    array = tensor._array
    if not array.ndim or not array.shape[axis]:
        return tensor
    first = np.array(np.take(array, [0], axis=axis), order="C")
    laid = np.broadcast_to(first, array.shape)
    made = wrap(laid if is_expanded else laid.copy())
    made._flags |= tensor._flags & REQUIRES_GRAD
    return made


def _laid_out(tensor: Tensor, layout: str) -> Tensor:
    """The same values in another layout of memory; gaps between them hold other numbers."""
    array = tensor._array
    if layout == "spread out" and array.ndim:
        memory = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), _RUBBISH, array.dtype)
        laid = memory[..., 1::2]
    elif layout == "reversed" and array.ndim:
        laid = np.empty_like(array, order="C")[::-1]
    elif layout == "reversed along the last axis" and array.ndim:
        laid = np.empty_like(array, order="C")[..., ::-1]
    elif layout == "transposed":
        laid = np.empty(array.shape[::-1], array.dtype).T
    else:
        laid = np.empty(array.shape, array.dtype)
    laid[...] = array
    made = wrap(laid)
    made._flags |= tensor._flags & REQUIRES_GRAD
    return made


def _compare(case: Case, when: str, found: Outcome, expected: Outcome) -> None:
    difference = find_difference(case, found, expected)
    if difference is not None:
        what, numbers = difference
        is_gradient = what.startswith("the gradient")
        raise CheckFailedError(
            f"{what} is different when {when}: {numbers}.",
            _FIX_GRADIENTS if is_gradient else _FIX_VALUES,
        )


def check_zero_size(case: Case) -> str:
    """Calls the operator with an axis of length zero in all tensors, and in each one."""
    places = [p for p in case.places() if p.tensor.ndim]
    names = [p.name for p in places]
    if not names:
        raise Skipped("no tensor argument has axes")
    ran = refused = 0
    deepest = max(p.tensor.ndim for p in places)
    for axis in (0, -1) if deepest > 1 else (0,):
        for chosen in dict.fromkeys([tuple(names), *((name,) for name in names)]):
            empty = case.changed(lambda name, t: _emptied(t, axis) if name in chosen else t)  # noqa: B023
            if _check_empty(case, empty, chosen, axis):
                ran += 1
            else:
                refused += 1
    return f"{ran} call(s) with empty tensors ran, {refused} were refused"


def _check_empty(case: Case, empty: Case, chosen: tuple[str, ...], axis: int) -> bool:
    """Whether the call ran; raises for what is wrong with it."""
    what = "all tensor arguments" if len(chosen) > 1 else f"{chosen[0]!r}"
    try:
        with errstate(all="ignore"):
            forward = run_both_ways(empty.detached())
    except Exception as error:
        is_index = isinstance(error, IndexError) and _indexes(case)
        if axis or isinstance(error, _REFUSALS) or is_index:
            return False
        raise CheckFailedError(
            f"with no elements in {what}, the call raised "
            f"{type(error).__name__}: {message_of(error)}.",
            "return an empty result, or raise a ValueError that says which argument must not "
            "be empty.",
        ) from error
    _check_empty_metadata(empty, forward, what)
    if not axis:
        _check_by_sizes(case, empty, forward, what)
    try:
        with errstate(all="ignore"):
            outcome = run_both_ways(empty, strict=True)
    except DerivativeMissingError:
        return True
    except Exception as error:
        is_refusal = isinstance(error, _REFUSALS)
        if axis or (is_refusal and not _is_elementwise(case, empty, forward, chosen)):
            return False
        raise CheckFailedError(
            f"with no elements in {what}, the call ran and its backward pass raised "
            f"{type(error).__name__}: {message_of(error).rstrip('.')}.",
            "return an empty gradient of the input's shape.",
        ) from error
    shapes = {p.name: p.tensor.shape for p in empty.places()}
    for name, gradient in outcome.gradients.items():
        if gradient is not None and np.isnan(gradient).any():
            raise CheckFailedError(
                f"with no elements in {', '.join(map(repr, chosen))}, the gradient of {name!r} "
                f"of shape {shapes[name]} is NaN.",
                "a sum over nothing is zero; do not divide by the number of elements there.",
            )
    return True


def _is_elementwise(case: Case, empty: Case, found: Outcome, chosen: tuple[str, ...]) -> bool:
    """Whether all tensors are empty, and outputs have the shape of an input or none."""
    shapes = {p.name: p.tensor.shape for p in empty.places()}
    if set(shapes) != set(chosen) or any(_is_square(t.tensor) for t in case.places()):
        return False
    return all(out.shape in {(), *shapes.values()} for out in found.outputs)


def _is_square(tensor: Tensor) -> bool:
    """Whether two axes have the same length, which emptying one of them would end."""
    return len({*tensor.shape}) < tensor.ndim


def _check_empty_metadata(empty: Case, found: Outcome, what: str) -> None:
    """Shapes and dtypes are those of the fake kernel."""
    fix = "return the shape that the fake kernel computes: the same axes, with no elements."
    fakes = fake_outputs(empty.detached())
    if len(fakes) != len(found.outputs):
        return
    for number, (fake, real) in enumerate(zip(fakes, found.outputs, strict=True)):
        if tuple(fake.shape) != real.shape:
            raise CheckFailedError(
                f"with no elements in {what}, output {number} has shape {real.shape}, and the fake "
                f"kernel says {tuple(fake.shape)}.",
                fix,
            )
        if fake.dtype != real.dtype:
            raise CheckFailedError(
                f"with no elements in {what}, output {number} has dtype {real.dtype}, and the fake "
                f"kernel says {fake.dtype}.",
                "give the result its dtype, also where there are no values to take it from.",
            )


def _check_by_sizes(case: Case, empty: Case, found: Outcome, what: str) -> None:
    """An output that has the shape of the only input in other calls has it when empty."""
    given, cut = case.places(), empty.places()
    if len(given) != 1 or len(found.outputs) != 1 or not given[0].tensor.ndim:
        return
    before, after = given[0].tensor.shape, cut[0].tensor.shape
    if before[0] < 2:
        return
    half = case.changed(lambda _, t: wrap(t._array[:1].copy()))
    try:
        with errstate(all="ignore"):
            real = run_both_ways(case.detached()).outputs[0].shape
            one = run_both_ways(half).outputs[0].shape
    except Exception:
        return
    if real == before and one == half.places()[0].tensor.shape and found.outputs[0].shape != after:
        raise CheckFailedError(
            f"with no elements in {what}, output 0 has shape {found.outputs[0].shape}; the outputs "
            f"of other calls have the shape of the input, which is {after} here.",
            "return an empty result with the axes of the input.",
        )


def _indexes(case: Case) -> bool:
    """Whether a call has integers, which may be indices that nothing empty can have."""
    values = [*case.args, *case.kwargs.values()]
    flat = [item for v in values for item in (v if isinstance(v, list) else [v])]
    return any(
        item.dtype.kind in "iub" if isinstance(item, Tensor) else type(item) is int for item in flat
    )


def _emptied(tensor: Tensor, axis: int) -> Tensor:
    if not tensor.ndim:
        return tensor
    made = wrap(np.take(tensor._array, [], axis=axis))
    made._flags |= tensor._flags & REQUIRES_GRAD
    return made
