"""``test_threads``: does the operator keep what belongs to a call in a place that calls share?

First without threads: two calls, and then the backward pass of the first. Then several threads at
once, made to take turns before every line, call and access in code that is not Pullback's, so that
a race shows at the first try and not once a week.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any

import numpy as np

from pullback._cpython import CAN_READ_BYTECODE, is_shared_access
from pullback.autograd.api import grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.library.checks.case import Case, CheckFailedError, named_tensors
from pullback.library.checks.outcome import (
    Outcome,
    describe_difference,
    find_difference,
    run_both_ways,
    same_values,
    weights_for,
)
from pullback.library.kernel_call import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_threads"]

_STANDARD = os.path.dirname(os.__file__) + os.sep
# Code that may run while one of our locks is held: a switch there would stop all threads.
_QUIET = (
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep,
    os.path.dirname(np.__file__) + os.sep,
    "<",
)
_THREADS = 3
_MOST_TURNS = 400  # for each thread: enough for a race, and an end for long loops
_WAIT = 0.05


def check_threads(case: Case) -> str:
    """Interleaved calls, then concurrent ones, compared with calls one after the other."""
    if not case.schema.is_mutable and case.needs_grad():
        _check_interleaved(_scaled(case, 0), _scaled(case, 1))
    return _check_together(case)


def _scaled(case: Case, number: int) -> Case:
    """The same call with other values, near enough to be in the operator's domain."""

    def change(_: str, tensor: Tensor) -> Tensor:
        if tensor.dtype.kind not in "fc":
            return tensor
        made = wrap(np.asarray(tensor._array * (1 - number / 64), tensor.dtype))
        made._flags |= tensor._flags & REQUIRES_GRAD
        return made

    return case.changed(change)


def _check_interleaved(first: Case, second: Case) -> None:
    """The backward pass of a call after another one, which was whole or has yet to go backward."""
    expected = run_both_ways(first)
    if not expected.gradients:
        return
    for what, is_whole in (
        ("called again, forward and backward, before the backward pass", True),
        ("called again before the backward pass of the first call", False),
    ):
        outputs, leaves = _record(first)
        if is_whole:
            run_both_ways(second)
        else:
            _record(second)
        weights = [wrap(weights_for(out._array)) for out in outputs]
        found = grad(outputs, list(leaves.values()), weights, allow_unused=True)
        for name, gradient in zip(leaves, found, strict=True):
            ours = None if gradient is None else gradient._array
            theirs = expected.gradients.get(name)
            if not same_values(first, ours, theirs):
                raise CheckFailedError(
                    f"the gradient of {name!r} is {describe_difference(ours, theirs)}, where the "
                    f"operator is {what}: the two calls share state, and the first one gets what "
                    f"the second one has left.",
                    "keep what backward needs on ctx (save_for_backward, attributes), not in a "
                    "global, a stack or on the function.",
                )


def _record(case: Case) -> tuple[list[Tensor], dict[str, Tensor]]:
    """A recorded call: its differentiable outputs, and its leaves."""
    args, kwargs = case.fresh()
    given = named_tensors(case, args, kwargs)
    leaves = {p.name: p.tensor for p in given if p.tensor.requires_grad and p.tensor.is_leaf}
    result = case.operator(*args, **kwargs)
    return [out for out in tensors_in([result]) if out.requires_grad], leaves


def _check_together(case: Case) -> str:
    cases = [_scaled(case, number) for number in range(_THREADS)]

    expected = [run_both_ways(one) for one in cases]
    found: list[Any] = [None] * _THREADS
    barrier = threading.Barrier(_THREADS)
    turns = _Turns()

    def work(number: int) -> None:
        barrier.wait()
        sys.settrace(turns.tracer(number))
        try:
            found[number] = run_both_ways(cases[number])
        except Exception as error:
            found[number] = error
        finally:
            sys.settrace(None)
            turns.leave(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        _compare(cases[number], ours, theirs)
    return f"{_THREADS} threads, taking turns at every line, call and access" + (
        "" if case.schema.is_mutable else "; 2 calls before a backward pass"
    )


def _is_users(file: str) -> bool:
    if file.startswith(_STANDARD) and "site-packages" not in file:
        return False
    return not file.startswith(_QUIET)


class _Turns:
    """Lets one thread after the other run a line of its code."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alive = list(range(_THREADS))
        self._turn = 0
        self._patience = 3  # a thread that waits for a lock cannot take its turn

    def tracer(self, me: int) -> Any:
        """A trace function that passes the turn on before lines and steps that are the user's."""
        left = _MOST_TURNS

        def lines(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
            nonlocal left
            is_step = event == "opcode" and is_shared_access(frame)
            if left and (event == "line" or is_step):
                left -= 1
                self._pass_on(me)
            return lines

        def calls(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
            if not _is_users(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes = CAN_READ_BYTECODE  # a kernel may be one line of several steps
            return lines

        return calls

    def _pass_on(self, me: int) -> None:
        with self._changed:
            self._next(me)
            if self._patience and not self._changed.wait_for(lambda: self._turn == me, _WAIT):
                self._patience -= 1

    def leave(self, me: int) -> None:
        """Ends a thread's part."""
        with self._changed:
            self._next(me)
            self._alive.remove(me)

    def _next(self, me: int) -> None:
        after = [other for other in self._alive if other > me] or self._alive
        self._turn = after[0]
        self._changed.notify_all()


def _compare(case: Case, found: Any, expected: Outcome) -> None:
    fix = "keep what belongs to one call in local variables or on ctx; guard what calls share."
    if isinstance(found, Exception):
        raise CheckFailedError(
            f"the call raised {type(found).__name__} when several threads called at once: {found}",
            fix,
        ) from found
    difference = find_difference(case, found, expected)
    if difference is not None:
        what, numbers = difference
        raise CheckFailedError(
            f"{what} is different when several threads call at once: {numbers}.", fix
        )
