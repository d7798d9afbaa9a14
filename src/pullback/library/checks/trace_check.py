"""``test_aot_dispatch``: can calls be recorded ahead of time, and replayed?

The operator and its backward pass run on tensors without data while every operator call is taken
down; then the list is replayed on the real arguments, and has to give what a direct call gives. So
kernels and formulas that depend on anything but their arguments are found, and formulas that read
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from pullback.autograd.api import grad
from pullback.autograd.modes import no_grad
from pullback.dispatch import OpOverload
from pullback.errors import (
    DataDependentError,
    DerivativeMissingError,
    KernelNotFoundError,
    NoDataError,
    message_of,
)
from pullback.library.checks.case import Case, CheckFailedError, Skipped, named_tensors
from pullback.library.checks.fake_check import meta_arguments
from pullback.library.checks.interception import watching
from pullback.library.checks.outcome import (
    describe_difference,
    run_both_ways,
    same_values,
    weights_for,
)
from pullback.library.checks.second_check import refuses_second_derivatives
from pullback.library.checks.setup_check import check_setup
from pullback.library.kernel_call import tensors_in
from pullback.meta import MetaArray, meta_tensor
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_trace"]

_Array = NDArray[Any]


class _Tape:
    """Operator calls in their order; tensors are known by what they hold."""

    def __init__(self) -> None:
        self.calls: list[tuple[OpOverload, Any, Any, Any]] = []

    def record(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Runs a call, and takes it down."""
        before = _held((args, kwargs))
        result = run()
        self.calls.append((op, before, kwargs.keys(), _held(result)))
        return result

    def replay(self, known: dict[int, Tensor]) -> None:
        """Runs the calls on real tensors; `known` gets what they return."""
        for op, (args, kwargs), _, result in self.calls:
            given, named = _real(args, known), _real(kwargs, known)
            _learn(result, op(*given, **named), known)


def _held(value: Any) -> Any:
    """A structure with what its meta tensors hold in their place; kept, so that it is unique."""
    if isinstance(value, Tensor):
        return value._array if isinstance(value._array, MetaArray) else value
    if isinstance(value, list | tuple):
        return type(value)([_held(item) for item in value])
    if isinstance(value, dict):
        return {key: _held(item) for key, item in value.items()}
    return value


def _real(value: Any, known: dict[int, Tensor]) -> Any:
    if isinstance(value, MetaArray):
        found = known.get(id(value))
        if found is None:
            raise Skipped("the backward pass makes a constant without data")
        return found
    if isinstance(value, list | tuple):
        return type(value)([_real(item, known) for item in value])
    if isinstance(value, dict):
        return {key: _real(item, known) for key, item in value.items()}
    return value


def _learn(held: Any, result: Any, known: dict[int, Tensor]) -> None:
    if isinstance(held, MetaArray):
        known[id(held)] = result
    elif isinstance(held, list | tuple):
        for part, item in zip(held, result, strict=True):
            _learn(part, item, known)


@contextmanager
def _explaining() -> Iterator[None]:
    """Turns errors of a call without data into results of the check."""
    try:
        yield
    except DataDependentError as error:
        raise Skipped(message_of(error)) from None
    except (KernelNotFoundError, NoDataError) as error:
        raise CheckFailedError(
            f"the call or its backward pass cannot be recorded without data: {message_of(error)}",
            "write the fake kernel, setup_context and backward with Pullback's operators, without "
            ".numpy() and without asking for values.",
        ) from error
    except DerivativeMissingError as error:
        raise Skipped(f"the operator says that it has no derivative: {message_of(error)}") from None


def check_trace(case: Case) -> str:
    """Takes the calls down without data, replays them with it, and compares."""
    if case.schema.is_mutable or case.schema.is_view:
        raise Skipped("the operator writes to its arguments or makes views of them")
    tape = _Tape()
    meta_args, meta_kwargs = meta_arguments(case)
    given = {p.name: p.tensor for p in named_tensors(case, meta_args, meta_kwargs)}
    leaves = {name: tensor for name, tensor in given.items() if tensor.requires_grad}
    found: tuple[Tensor | None, ...] = ()
    # One block for both passes: entering and leaving it makes every operator link its calls anew.
    with watching(tape.record):
        with _explaining():
            outputs = list(tensors_in([case.operator(*meta_args, **meta_kwargs)]))
        roots = [out for out in outputs if out.requires_grad]
        weights = [meta_tensor(out) for out in roots]
        failure: CheckFailedError | None = None
        try:
            with _explaining():
                if roots and leaves:
                    found = grad(roots, list(leaves.values()), weights, allow_unused=True)
        except CheckFailedError as error:
            failure = error
    if failure is not None:
        if not refuses_second_derivatives(case):
            raise failure
        # Such a backward runs without recording, so it may compute on arrays.
        return "recorded without data, but for the backward pass, which is once_differentiable"
    expected, gradients, _ = run_both_ways(case, strict=True)
    args, kwargs = case.fresh()
    real = {p.name: p.tensor for p in named_tensors(case, args, kwargs)}
    known = {id(given[name]._array): real[name] for name in given}
    real_weights = [a for a, o in zip(expected, outputs, strict=True) if o.requires_grad]
    known |= {
        id(w._array): wrap(weights_for(a)) for w, a in zip(weights, real_weights, strict=True)
    }
    with no_grad():
        tape.replay(known)
    _compare_outputs(case, outputs, expected, known)
    _compare_gradients(case, dict(zip(leaves, found, strict=False)), gradients, known)
    return f"{len(tape.calls)} operator call(s) recorded without data and replayed"


def _value(tensor: Tensor | None, known: dict[int, Tensor]) -> _Array | None:
    if tensor is None:
        return None
    found = known.get(id(tensor._array))
    if found is None:
        raise Skipped("the backward pass makes a constant without data")
    return found._array  # type: ignore[no-any-return]


def _compare_outputs(
    case: Case, outputs: list[Tensor], expected: list[_Array], known: dict[int, Tensor]
) -> None:
    for number, (out, theirs) in enumerate(zip(outputs, expected, strict=True)):
        ours = _value(out, known)
        if not same_values(case, ours, theirs):
            check_setup(case)
            raise CheckFailedError(
                f"Outputs of the operator are different in eager-mode and in a replay of its "
                f"recording: return {number} is {describe_difference(theirs, ours)}.",
                "a kernel may depend on nothing but its arguments: no counters, no global state, "
                "no unseeded random numbers.",
            )


def _compare_gradients(
    case: Case,
    found: dict[str, Tensor | None],
    expected: dict[str, _Array | None],
    known: dict[int, Tensor],
) -> None:
    for name, theirs in expected.items():
        ours = _value(found.get(name), known)
        if not same_values(case, ours, theirs):
            raise CheckFailedError(
                f"Gradients of the operator are different in eager-mode and in a replay of its "
                f"recording: that of {name!r} is {describe_difference(theirs, ours)}.",
                "a backward may depend on nothing but ctx and the gradients that it gets.",
            )
