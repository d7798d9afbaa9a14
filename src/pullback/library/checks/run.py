"""``opcheck``: runs every check on one call of an operator, and reports all of them in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.autograd.modes import is_grad_enabled, set_grad_enabled
from pullback.dispatch import OpOverload, OpOverloadPacket
from pullback.errors import NoDataError, OpCheckError, OperatorDefinitionError, message_of
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError, Skipped
from pullback.library.checks.derived_check import check_derived_calls
from pullback.library.checks.fake_check import check_fake
from pullback.library.checks.gradient_check import check_gradients
from pullback.library.checks.layout_check import check_layouts, check_zero_size
from pullback.library.checks.registration_check import check_registration
from pullback.library.checks.repeat_check import check_again, check_repeated_calls
from pullback.library.checks.report import Report, Row
from pullback.library.checks.schema_check import check_schema
from pullback.library.checks.thread_check import check_threads
from pullback.library.checks.trace_check import check_trace
from pullback.library.checks.vmap_check import check_vmap
from pullback.library.custom_op import CustomOp

__all__ = ["ALL_TESTS", "CHECKS", "opcheck", "operator_of"]

CHECKS: dict[str, Callable[[Case], str]] = {
    "test_schema": check_schema,
    "test_autograd_registration": check_registration,
    "test_faketensor": check_fake,
    "test_aot_dispatch": check_trace,
    "test_gradients": check_gradients,
    "test_vmap": check_vmap,
    "test_threads": check_threads,
    "test_layouts": check_layouts,
    "test_zero_size": check_zero_size,
    "test_repeated_calls": check_repeated_calls,
    "test_derived_calls": check_derived_calls,
}
ALL_TESTS = tuple(CHECKS)
_REPEATED = "test_repeated_calls"
_DERIVED = "test_derived_calls"
_CALLS_AFTER_FAILURE = 24
_SEEDED = "nondeterministic_seeded"
_WITHOUT_VALUES = ("test_schema", "test_autograd_registration", "test_faketensor")


def opcheck(
    op: OpOverload | OpOverloadPacket | CustomOp,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    tests: str | Sequence[str] = ALL_TESTS,
    raise_exception: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    derive: bool = True,
) -> Report:
    """Checks an operator on one call: registrations, derivatives, batching rules, side effects.

    All checks run, each on copies of the arguments. Inputs that should be differentiated have to
    require grad.

    Args:
        op: a custom operator, an overload, or a packet with one overload.
        args: positional arguments of the call.
        kwargs: keyword arguments.
        tests: the names of the checks to run; ``"ALL"`` for all of them.
        raise_exception: raise ``OpCheckError`` with the table if a check fails.
        rtol: relative tolerance of comparisons; with `atol`, or neither.
        atol: absolute tolerance.
        derive: also check calls that are derived from the given one, as ``test_derived_calls``.

    Returns:
        A dict from each check to ``"SUCCESS"`` or its exception, whose text is the table.

    >>> import pullback as pb
    >>> x = pb.tensor([0.5, 2.0], requires_grad=True)
    >>> print(opcheck(pb.ops.pullback.sin.default, (x,), tests=["test_schema", "test_layouts"]))
    opcheck(pullback::sin): all checks passed
      test_schema   ok       1 call: 1 argument(s) compared byte by byte, 1 output(s)
      test_layouts  ok       3 layouts of 1 argument(s), and of cotangents
    """
    if (rtol is None) != (atol is None):
        raise OperatorDefinitionError(
            "opcheck(op, ...): rtol and atol come together; give both, or neither"
        )
    operator = operator_of(op)
    if not isinstance(args, (tuple, list)):
        raise OperatorDefinitionError(
            f"opcheck(op, args, ...): expected args to be a tuple of the operator's arguments, "
            f"such as (x,), but got {type(args).__name__}"
        )
    names = [name for name in _names(tests) if derive or name != _DERIVED]
    case = Case(operator, tuple(args), kwargs or {}, rtol, atol)
    report = Report(operator.name(), _run_all(names, case))
    if raise_exception and report.failures:
        raise OpCheckError(_message(report)) from report.failures[0].error
    return report


def _run_all(names: list[str], case: Case) -> list[Row]:
    """The rows in the order of `names`; repeated calls run first, to see the first call."""
    order = sorted(names, key=lambda name: (name != _REPEATED) + (name == _DERIVED))
    rows: dict[str, Row] = {}
    for name in order:
        if name == _DERIVED and any(row.error is not None for row in rows.values()):
            rows[name] = Row(name, "skipped", "another check failed on the given call")
        else:
            rows[name] = _run(name, case)
    if _REPEATED in rows and rows[_REPEATED].result == "ok":
        is_failed = any(row.error is not None for row in rows.values())
        try:
            # A failure may come from a call that rarely differs: worth more calls.
            check_again(case, _CALLS_AFTER_FAILURE if is_failed else 1)
        except CheckFailedError as error:
            rows[_REPEATED] = Row(_REPEATED, "FAILED", _describe_call(case), _without_frames(error))
    if _REPEATED in rows and isinstance(rows[_REPEATED].error, CheckFailedError):
        rows = {name: _with_note(row) for name, row in rows.items()}
    return [rows[name] for name in names]


def _without_frames(error: CheckFailedError) -> CheckFailedError:
    """The message alone: frames of a traceback would keep the caller's variables alive."""
    bare = CheckFailedError(error.why, error.fix)
    bare.__cause__ = error.__cause__
    return bare


def _with_note(row: Row) -> Row:
    """A failed comparison of values, with a note that calls with equal arguments differ."""
    if row.test == _REPEATED or not isinstance(row.error, CheckFailedError):
        return row
    note = f" Calls with the same arguments differ, which may be the cause: see {_REPEATED}."
    return Row(
        row.test, row.result, row.tried, CheckFailedError(row.error.why + note, row.error.fix)
    )


def _message(report: Report) -> str:
    failed = ", ".join(row.test for row in report.failures)
    return f"opcheck(op, ...): {failed} failed\n{report}"


def operator_of(op: Any) -> OpOverload:
    """The one overload to check."""
    if isinstance(op, CustomOp):
        return op.op
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        names = op.overloads()
        if len(names) != 1:
            raise OpCheckError(
                f"opcheck can only test operators without overloads, and {op} has several "
                f"({', '.join(names)}); name one: {op}.{names[0]}"
            )
        found: OpOverload = getattr(op, names[0])
        return found
    raise OperatorDefinitionError(
        f"opcheck(op, ...): expected op to be a CustomOp, an OpOverload or an OpOverloadPacket, "
        f"such as pullback.ops.mylib.my_op.default, but got {type(op).__name__}"
    )


def _names(tests: str | Sequence[str]) -> list[str]:
    if tests == "ALL":
        return list(ALL_TESTS)
    names = [tests] if isinstance(tests, str) else list(tests)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise OperatorDefinitionError(
            f"opcheck(op, ...): expected tests (test_utils) to be subset of "
            f"{', '.join(ALL_TESTS)}, but got {', '.join(map(repr, unknown))}"
        )
    return names


def _run(name: str, case: Case) -> Row:
    if case.has_payloads():
        return Row(name, "skipped", "an argument has no data")
    if _SEEDED in case.operator.tags and name not in _WITHOUT_VALUES:
        return Row(name, "skipped", f"values are random, by the tag {_SEEDED!r}")
    try:
        # A kernel may change modes of the thread; that is for test_schema to say.
        with errstate(), set_grad_enabled(is_grad_enabled()):
            return Row(name, "ok", CHECKS[name](case))
    except Skipped as reason:
        return Row(name, "skipped", str(reason))
    except CheckFailedError as error:
        return Row(name, "FAILED", _describe_call(case), _without_frames(error))
    except NoDataError as error:
        return Row(name, "FAILED", _describe_call(case), _explain_kept_tensor(error))
    except Exception as error:
        return Row(name, "FAILED", _describe_call(case), error)


def _explain_kept_tensor(error: NoDataError) -> CheckFailedError:
    """All arguments have data, so a tensor without data is left from another check's call."""
    return CheckFailedError(
        f"all arguments have data, and a call or its backward pass met a tensor that has none: "
        f"{message_of(error)}. The likely cause: state that calls share, in which another call has "
        f"left it.",
        "keep what backward needs on ctx (save_for_backward, attributes), not in a global, a stack "
        "or on the function.",
    )


def _describe_call(case: Case) -> str:
    tensors = ", ".join(f"{p.name}: {p.tensor.dtype}{list(p.tensor.shape)}" for p in case.places())
    return f"called with {tensors}" if tensors else "called without tensors"
