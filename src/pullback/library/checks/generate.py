"""``generate_opcheck_tests``: checks operators in the calls that a test suite makes anyway.

For every test of a class and every check there will be one test more: it runs the original and has
the check look at each call of an operator in the given namespaces.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pullback.dispatch import OpOverload
from pullback.dispatch.registry import find
from pullback.errors import OpCheckError
from pullback.library.checks.failures import FailuresDict
from pullback.library.checks.interception import watching
from pullback.library.checks.run import ALL_TESTS, opcheck

__all__ = ["ACCEPT", "COMPLIANT", "dontGenerateOpCheckTests", "generate_opcheck_tests"]

ACCEPT = "PULLBACK_OPCHECK_ACCEPT"  # set to 1: the failures file is brought up to date
COMPLIANT = "pt2_compliant_tag"

_F = TypeVar("_F", bound=Callable[..., Any])
_SKIP = "_pullback_no_opcheck"


def dontGenerateOpCheckTests(reason: str) -> Callable[[_F], _F]:  # noqa: N802 - PyTorch's name
    """Decorates a test from which no checks are to be made.

    >>> @dontGenerateOpCheckTests("too slow")
    ... def test_everything(self): ...
    """

    def mark(fn: _F) -> _F:
        setattr(fn, _SKIP, reason)
        return fn

    return mark


def generate_opcheck_tests(
    testcase: type,
    namespaces: Iterable[str],
    failures_dict_path: str | os.PathLike[str] | None = None,
    additional_decorators: dict[str, Callable[..., Any]] | None = None,
    test_utils: Sequence[str] = ALL_TESTS,
) -> None:
    """Adds a test ``<check>__<test>`` for every check and every test of a class.

    Args:
        testcase: a ``unittest.TestCase``, or any class whose tests are methods ``test_*``.
        namespaces: operators of these are checked; all others only run.
        failures_dict_path: a JSON file of known failures. It may be missing; with
            ``PULLBACK_OPCHECK_ACCEPT=1`` in the environment it is written.
        additional_decorators: by the names of generated tests, what to put around them.
        test_utils: the checks to make.

    >>> import unittest
    >>> class Tests(unittest.TestCase):
    ...     def test_mine(self): ...
    >>> generate_opcheck_tests(Tests, ["mylib"], test_utils=["test_schema"])
    >>> [name for name in vars(Tests) if name.startswith("test")]
    ['test_mine', 'test_schema__test_mine']
    """
    known = FailuresDict.load(None if failures_dict_path is None else Path(failures_dict_path))
    methods = {
        name: value
        for name, value in vars(testcase).items()
        if name.startswith("test") and callable(value) and not hasattr(value, _SKIP)
    }
    known.check(testcase.__name__, methods, tuple(dict.fromkeys([*ALL_TESTS, *test_utils])))
    made: dict[str, Callable[..., Any]] = {}
    for util in test_utils:
        for name, method in methods.items():
            made[f"{util}__{name}"] = _generated(
                testcase, util, name, method, tuple(namespaces), known
            )
    for op in known.data:
        made[f"test_pt2_compliant_tag_{op.replace('::', '_').replace('.', '_')}"] = _compliance(
            op, known
        )
    for name, test in made.items():
        if hasattr(testcase, name):
            raise OpCheckError(
                f"generate_opcheck_tests: {testcase.__name__} already has method named {name!r}; "
                f"has it been called for this class before?"
            )
        decorate = (additional_decorators or {}).get(name)
        setattr(testcase, name, test if decorate is None else decorate(test))


def _generated(
    testcase: type,
    util: str,
    name: str,
    method: Callable[..., Any],
    namespaces: tuple[str, ...],
    known: FailuresDict,
) -> Callable[..., Any]:
    label = f"{testcase.__name__}.{util}__{name}"

    @functools.wraps(method)
    def test(*args: Any, **kwargs: Any) -> Any:
        failures: dict[str, tuple[Exception, str]] = {}
        seen: set[str] = set()

        def handler(
            op: OpOverload,
            given: tuple[Any, ...],
            named: dict[str, Any],
            run: Callable[[], Any],
        ) -> Any:
            qualname = op.name()
            if op.namespace in namespaces and known.status(qualname, label) != "skip":
                seen.add(qualname)
                error = opcheck(op, given, named, tests=[util], raise_exception=False)[util]
                if isinstance(error, Exception):
                    failures.setdefault(qualname, (error, _repro(op, given, named, util)))
            return run()

        with watching(handler):
            result = method(*args, **kwargs)
        _judge(label, seen, failures, known)
        return result

    test.__name__ = f"{util}__{name}"
    test.__qualname__ = f"{testcase.__qualname__}.{test.__name__}"
    return test


def _judge(
    label: str,
    seen: set[str],
    failures: dict[str, tuple[Exception, str]],
    known: FailuresDict,
) -> None:
    """Compares what happened with what the failures file expects."""
    if os.environ.get(ACCEPT) == "1":
        for op in seen:
            known.set_status(op, label, "xfail" if op in failures else "xsuccess")
        known.save()
        return
    surprises = [
        op for op in sorted(seen) if known.status(op, label) == "xfail" and op not in failures
    ]
    if surprises:
        raise OpCheckError(
            f"{label}: Unexpected success of {', '.join(surprises)}. Take the entry out of the "
            f"failures file {known.path}, or run the test with {ACCEPT}=1."
        )
    wrong = [op for op in sorted(failures) if known.status(op, label) != "xfail"]
    if wrong:
        texts = "\n\n".join(f"{op}: {failures[op][0]}\n{failures[op][1]}" for op in wrong)
        raise OpCheckError(f"{label} failed on operators {wrong}\n\n{texts}") from failures[
            wrong[0]
        ][0]


def _repro(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], util: str) -> str:
    """The instructions to run the check by itself."""
    return (
        f"To run it by itself:\n    import pullback as pb\n    pb.library.opcheck("
        f"pb.ops.{op}, args, kwargs, tests=[{util!r}])\nwith args = {args!r:.300} and "
        f"kwargs = {kwargs!r:.100}"
    )


def _compliance(op: str, known: FailuresDict) -> Callable[..., Any]:
    """A test that an operator which claims to pass all checks has no known failure."""

    def test(self: Any) -> None:  # noqa: ARG001 - a method
        entry = find(op)
        if entry is None or not entry.is_defined:
            # Not imported above: users of the library need no test runner.
            raise importlib.import_module("unittest").SkipTest(f"{op} is not defined")
        failing = [name for name, e in known.data.get(op, {}).items() if e["status"] == "xfail"]
        if COMPLIANT in entry.tags and failing:
            raise OpCheckError(
                f"{op} has the tag {COMPLIANT!r}, which says that it passes every check, but "
                f"{known.path} lists failures: {', '.join(failing)}. Fix them, or drop the tag (an "
                f"operator of custom_op always has it)."
            )

    return test
