"""Do values depend on anything but values: on grad modes, on ``requires_grad``, on precision?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.modes import inference_mode, no_grad
from pullback.dispatch import AutoDispatchBelowAutograd, DispatchKey
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import PullbackError
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError, named_tensors, with_tensors
from pullback.library.checks.forward_check import push
from pullback.library.checks.jacobian import magnitudes
from pullback.library.checks.outcome import (
    Outcome,
    describe_difference,
    run_both_ways,
    same_values,
    weights_for,
)
from pullback.library.checks.problem import Problem
from pullback.library.checks.setup_check import check_setup
from pullback.library.kernel_call import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_modes", "check_precision"]

_Array = NDArray[Any]
_EPS = float(np.finfo(np.float32).eps)
_SINGLE = {"f": np.float32, "c": np.complex64}
_FIX_HISTORY = "values must not depend on the history of an input: do not read is_leaf or .grad."


def _values(
    case: Case,
    mode: Any = None,
    keep: set[str] | None = None,
    prepare: Callable[[Tensor], Tensor] = lambda tensor: tensor,
) -> list[_Array]:
    """The outputs and written arguments of a call in a mode; `keep` require grad, if given."""

    def change(name: str, tensor: Tensor) -> Tensor:
        if keep is None or name in keep:
            return tensor
        made = wrap(tensor._array)
        made._flags &= ~REQUIRES_GRAD
        return made

    args, kwargs = case.changed(change).fresh()
    args, kwargs = with_tensors(case, args, kwargs, lambda _, tensor: prepare(tensor))
    given = list(named_tensors(case, args, kwargs))
    if mode is None:
        result = case.operator(*args, **kwargs)
    else:
        with mode():
            result = case.operator(*args, **kwargs)
    written = case.written
    after = [p.tensor for p in given if p.name.partition("[")[0] in written]
    return [np.array(t._array) for t in [*tensors_in([result]), *after]]


def _as_result(tensor: Tensor) -> Tensor:
    """The tensor as the result of another operator, which is no leaf."""
    return tensor * 1 if tensor.requires_grad else tensor


def _with_gradient(tensor: Tensor) -> Tensor:
    """The tensor as a leaf that has accumulated a gradient."""
    if tensor.requires_grad and tensor.is_leaf:
        tensor.grad = wrap(np.ones(tensor.shape, tensor.dtype))
    return tensor


def check_modes(case: Case) -> None:
    """The same values with and without recording, and below autograd."""
    names = case.needs_grad()
    if case.schema.is_mutable:
        plain = _values(case, no_grad, set())
        _compare(
            case, _values(case, no_grad), plain, "with inputs that require grad, under no_grad"
        )
        return
    recorded = _values(case)
    _compare(case, _values(case, no_grad), recorded, "under no_grad()")
    plain = _values(case, None, set())
    _compare(case, plain, recorded, "with inputs that have requires_grad=False")
    inner = _values(case, prepare=_as_result)
    _compare(case, inner, recorded, "with inputs that are results of other operators", _FIX_HISTORY)
    _compare_histories(case)
    again = _values(case, prepare=_with_gradient)
    _compare(case, again, recorded, "with inputs whose .grad is there", _FIX_HISTORY)
    if len(names) > 1:
        for name in names:
            _compare(
                case,
                _values(case, None, {name}),
                recorded,
                f"where {name!r} alone has requires_grad=True",
            )
    if DispatchKey.CompositeImplicitAutograd not in case.operator.entry.kernels:
        _compare_below(case, recorded)
    _compare(case, _values(case, inference_mode), recorded, "in inference_mode()")


def _compare_histories(case: Case) -> None:
    """Outputs are recorded for inputs that are leaves and for results of other operators."""
    flags = []
    for prepare in (_with_gradient, _as_result):
        args, kwargs = with_tensors(case, *case.fresh(), lambda _, t: prepare(t))  # noqa: B023
        flags.append([out.requires_grad for out in tensors_in([case.operator(*args, **kwargs)])])
    for number, (of_leaves, of_results) in enumerate(zip(*flags, strict=True)):
        if of_leaves != of_results:
            where, other = "leaves", "results of other operators"
            raise CheckFailedError(
                f"output {number} has a history where the inputs are "
                f"{where if of_leaves else other}, and none where they are "
                f"{other if of_leaves else where}: the gradient is lost in silence.",
                _FIX_HISTORY,
            )


def _compare_below(case: Case, recorded: list[_Array]) -> None:
    try:
        below = _values(case, AutoDispatchBelowAutograd, set())
    except PullbackError:  # no kernel of a backend
        return
    _compare(
        case,
        below,
        recorded,
        "from the backend kernel, below autograd",
        "the kernel at Autograd computes something else than the backend kernel; have it call the "
        "operator below autograd (AutoDispatchBelowAutograd) instead of computing by itself.",
    )


def _compare(
    case: Case, found: list[_Array], expected: list[_Array], where: str, fix: str = ""
) -> None:
    if len(found) != len(expected):
        raise CheckFailedError(
            f"there are {len(found)} outputs {where}, and {len(expected)} otherwise.", fix
        )
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not same_values(case, ours, theirs):
            check_setup(case)
            raise CheckFailedError(
                f"output {number} is {describe_difference(ours, theirs)}, {where}; the second "
                f"number is that of a recorded call, on inputs that have requires_grad=True.",
                fix
                or "values must not depend on requires_grad or on the grad mode: do not ask for "
                "either in a kernel.",
            )


def check_precision(case: Case, wide: Case) -> str:
    """Results in the given precision are those in double precision, but for rounding.

    A function may be badly conditioned: its own noise, which double precision shows, is allowed for
    in all results. Formulas that magnify rounding by themselves are mistakes, so the noise of the
    given precision counts for outputs only.
    """
    narrow = [p for p in case.places() if p.tensor.dtype in (np.float32, np.complex64)]
    if not narrow:
        return ""
    with errstate(all="ignore"):
        ours, theirs = _run_rounded(case), _run_rounded(wide)
        noise: dict[str, _Array] = {}
        grains = _grains(case, theirs.outputs)
        for what, found, expected in ours.pairs(theirs):
            if found is None or expected is None or found.shape != expected.shape:
                if (found is None) != (expected is None) or found is not None:
                    raise CheckFailedError(
                        f"{what} in float32 is {describe_difference(found, expected)}, the second "
                        f"being that in float64.",
                        "kernel and formulas have to do the same in every precision.",
                    )
                continue
            if found.dtype.kind not in "fc" or not found.size:
                continue
            grain = grains.get(what.removeprefix("the gradient of ").strip("'"))
            if grain is None:
                limit = _rounding(expected, 1e3)
            else:
                limit = 4 * grain + _rounding(expected, _roundings(case))
            if (np.abs(found - expected) > limit).any():
                noise = noise or _noise_of_both(case, ours, wide, theirs)
                _compare_precisions(what, found, expected, limit + 30 * noise[what])
        if not case.schema.is_mutable:
            _check_tangents(case, wide)
    return "float32 like float64"


def _noise_of_both(case: Case, ours: Outcome, wide: Case, theirs: Outcome) -> dict[str, _Array]:
    """That of the function itself, and for outputs also that of the given precision."""
    noise = _noise(wide, theirs)
    for what, more in _noise(case, ours).items():
        if not what.startswith("the gradient"):
            noise[what] = noise[what] + more
    return noise


def _run_rounded(case: Case) -> Outcome:
    """The outcome for cotangents that float32 can represent."""
    return run_both_ways(
        case,
        cotangent=lambda like: wrap(
            weights_for(like).astype(_SINGLE[like.dtype.kind], copy=False).astype(like.dtype)
        ),
    )


def _check_tangents(case: Case, wide: Case) -> None:
    """Tangents in single precision are those in double precision, but for rounding."""
    if not case.needs_grad():
        return
    narrow, double = Problem(case), Problem(wide)
    grains = _grains(case, double.here)
    for name, at in narrow.at.items():
        if not at.size:
            continue
        direction = np.asarray(narrow.noise(at), at.dtype)
        ours = push(narrow, {name: wrap(np.array(direction))})
        wide_direction = np.asarray(direction, double.at[name].dtype)
        theirs = push(double, {name: wrap(wide_direction)})
        if ours is None or theirs is None:
            return
        grain = float(np.sum(grains[name] * np.abs(direction)))
        limits = [4 * grain + _rounding(expected, _roundings(case)) for expected in theirs]
        triples = list(zip(ours, theirs, limits, strict=True))
        if not any((np.abs(a - b) > limit).any() for a, b, limit in triples):
            continue
        nearby = []
        for _ in range(2):
            signs = double.random.choice([-1.0, 1.0], at.shape)
            moved = np.asarray(double.at[name] * (1 + 2.5e-7 * signs), double.at[name].dtype)
            nearby.append(push(double, {name: wrap(wide_direction)}, {name: wrap(moved)}))
        for number, (found, expected, limit) in enumerate(triples):
            noise = np.max([np.abs(near[number] - expected) for near in nearby if near], axis=0)
            what = f"the tangent of output {number}"
            _compare_precisions(what, found, expected, limit + 30 * noise)


def _roundings(case: Case) -> float:
    """The number of float32 roundings that a result of some products and sums may have."""
    return 64.0 + max((p.tensor.size for p in case.places()), default=0)


def _rounding(expected: _Array, count: float) -> _Array:
    """As many roundings of each element, and thirty of the largest."""
    scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
    return np.asarray(_EPS * (min(count, 1e3) * np.abs(expected) + 30 * scale))


def _grains(case: Case, outputs: list[_Array]) -> dict[str, _Array]:
    """The rounding of the elements of a gradient that cancels, from the sizes of the call."""
    sizes = [np.abs(o[np.isfinite(o)]) for o in outputs if o.dtype.kind in "fc"]
    reach = max((float(np.max(size, initial=0.0)) for size in sizes), default=0.0)
    return {
        p.name: _EPS * reach / np.minimum(magnitudes(p.tensor._array), 1.0)
        for p in case.places()
        if p.tensor.dtype.kind in "fc"
    }


def _noise(case: Case, base: Outcome) -> dict[str, _Array]:
    """The change of the results when inputs change by the rounding of single precision."""
    random = np.random.default_rng(3)
    worst: dict[str, _Array] = {}
    for _ in range(2):

        def change(_: str, tensor: Tensor) -> Tensor:
            if tensor.dtype.kind not in "fc":
                return tensor
            factor = 1 + 2 * _EPS * random.choice([-1.0, 1.0], tensor.shape)
            made = wrap(np.asarray(tensor._array * factor, tensor.dtype))
            made._flags |= tensor._flags & REQUIRES_GRAD
            return made

        moved = _run_rounded(case.changed(change))
        for what, found, expected in moved.pairs(base):
            fits = found is not None and expected is not None and found.shape == expected.shape
            if fits and found is not None and expected is not None:
                gap: Any = np.abs(found.astype(complex) - expected.astype(complex))
                gap = np.where(np.isfinite(gap), gap, np.inf)
            else:
                gap = np.asarray(np.inf)
            worst[what] = np.maximum(worst[what], gap) if what in worst else gap
    return worst


def _compare_precisions(what: str, found: _Array, expected: _Array, limit: _Array) -> None:
    gap = np.abs(found - expected)
    wrong = (gap > limit) & np.isfinite(expected) & (np.abs(expected) < 1e37)
    wrong &= np.maximum(np.abs(expected), np.abs(found)) > 1e-30
    if not wrong.any():
        return
    index = np.unravel_index(int(np.argmax(np.where(wrong, gap, -1))), gap.shape)
    place = f" at {[int(i) for i in index]}" if index else ""
    raise CheckFailedError(
        f"{what} in float32 is {found[index]:.8g}{place}, where the same call in float64 gives "
        f"{expected[index]:.8g}: the gap of {gap[index]:.2g} is more than the {limit[index]:.2g} "
        f"that rounding explains.",
        "look for what depends on the dtype (constants, thresholds, casts), and for differences of "
        "nearly equal numbers, which lose the digits that they have in common.",
    )
