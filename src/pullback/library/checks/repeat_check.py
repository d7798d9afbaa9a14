"""``test_repeated_calls``: is every call like the first one, and does each have its own memory?

It runs before every other check, so that it sees the operator's first call, and once more after
them.
"""

from __future__ import annotations

import numpy as np

from pullback.autograd.api import grad
from pullback.autograd.modes import no_grad
from pullback.errors import AutogradNotRegisteredError, message_of
from pullback.library.checks.case import Case, CheckFailedError, named_tensors
from pullback.library.checks.outcome import (
    Outcome,
    find_difference,
    run_both_ways,
    weights_for,
)
from pullback.library.kernel_call import in_same_memory, tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_again", "check_repeated_calls"]

_CALLS = 4
_CALLS_IF_RANDOM = 16  # of an operator that draws random numbers, which may rarely show


def check_repeated_calls(case: Case) -> str:
    """Compares several calls with the same arguments."""
    outcomes: list[Outcome] = []
    errors: list[Exception] = []
    draws_before = _position_of_generator()
    calls = _CALLS
    while len(outcomes) + len(errors) < calls:
        try:
            outcomes.append(run_both_ways(case))
        except Exception as error:  # every other check says so, unless only some calls raise
            errors.append(error)
        if _position_of_generator() != draws_before:
            calls = _CALLS_IF_RANDOM
    if errors:
        if not outcomes:
            raise errors[0]
        raise CheckFailedError(
            f"{len(errors)} of {calls} calls with the same arguments raised "
            f"{type(errors[0]).__name__}: {message_of(errors[0])}",
            "a call may depend on nothing but its arguments.",
        ) from errors[0]
    _compare_all(case, outcomes)
    _check_own_memory(case)
    case.first_outcome = outcomes[0]
    return f"{calls} calls with the same arguments, and one after all other checks"


def _position_of_generator() -> tuple[bytes, int]:
    """The state of NumPy's global generator, which every drawn random number changes."""
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes(), int(position)


def check_again(case: Case, calls: int) -> None:
    """More calls, after all other checks."""
    for _ in range(calls):
        if case.first_outcome is not None:
            _compare_all(case, [case.first_outcome, run_both_ways(case)], "one of many later calls")


def _compare_all(case: Case, outcomes: list[Outcome], last: str = "") -> None:
    fix = (
        "a call may depend on nothing but its arguments: no counters, no state that the first call "
        "sets up, no unseeded random numbers (an argument can be the seed)."
    )
    for number, outcome in enumerate(outcomes[1:], 2):
        difference = find_difference(case, outcome, outcomes[0])
        if difference is None:
            continue
        what, numbers = difference
        rest = [find_difference(case, other, outcome) for other in outcomes[number:]]
        if _is_random(case):
            why = "it follows NumPy's global random numbers"
        elif any(rest):
            why = "calls count or change state, or draw random numbers"
        elif number == 2 and len(outcomes) > 2:
            why = "the first call leaves state behind, which later ones use"
        else:
            why = "state changes with the number of calls"
        which = last or f"call {number}"
        raise CheckFailedError(
            f"{what} of {which} is {numbers}, which call 1 gave for the same arguments: {why}.",
            fix,
        )


def _is_random(case: Case) -> bool:
    """Whether setting the seed of NumPy's global generator makes calls equal."""
    state = np.random.get_state()
    try:
        found = []
        for seed in (1, 1, *range(2, _CALLS_IF_RANDOM)):
            np.random.seed(seed)
            found.append(run_both_ways(case))
    except Exception:
        return False
    finally:
        np.random.set_state(state)
    same = find_difference(case, found[1], found[0]) is None
    return same and any(find_difference(case, other, found[0]) for other in found[2:])


def _run(case: Case) -> list[tuple[str, Tensor]]:
    """The outputs of a call and the gradients of its inputs, as they were returned."""
    args, kwargs = case.fresh()
    used = {p.name: p.tensor for p in named_tensors(case, args, kwargs)}
    try:
        result = case.operator(*args, **kwargs)
    except AutogradNotRegisteredError:
        with no_grad():
            result = case.operator(*args, **kwargs)
    outputs = list(tensors_in([result]))
    made: list[tuple[str, Tensor]] = [(f"output {n}", out) for n, out in enumerate(outputs)]
    roots = [out for out in outputs if out.requires_grad]
    leaves = {name: t for name, t in used.items() if t.requires_grad and t.is_leaf}
    if roots and leaves:
        try:
            weights = [wrap(weights_for(out._array)) for out in roots]
            found = grad(roots, list(leaves.values()), weights, allow_unused=True)
        except Exception:
            return made
        made += [
            (f"the gradient of {name!r}", g)
            for name, g in zip(leaves, found, strict=True)
            if g is not None
        ]
    return made


def _check_own_memory(case: Case) -> None:
    if case.schema.is_mutable or case.schema.is_view:
        return
    first, second = _run(case), _run(case)
    for (what, one), (_, two) in zip(first, second, strict=False):
        if one.size and two.size and in_same_memory(one, two):
            raise CheckFailedError(
                f"{what} of two calls lies in the same memory: the second call overwrites what the "
                f"first one returned.",
                "return new memory from every call; a buffer that is used again must not leave it.",
            )
