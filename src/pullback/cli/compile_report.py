"""``python -m pullback compile-report script.py``: what a script compiles, and what it does not."""

from __future__ import annotations

import inspect
import runpy
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from pullback.cli.script import script_arguments
from pullback.compiled.report import record_functions

__all__ = ["run_report"]


def run_report(script: str, arguments: Sequence[str], *, is_module: bool = False) -> int:
    """Runs a script as its own program, then prints a report about its compiled functions.

    A script that ends with an error has a report, too. Returns the script's exit code.

    Args:
        script: a Python file, or the name of a module.
        arguments: the script's own.
        is_module: whether `script` is a module, as behind ``python -m``.
    """
    code = 0
    with record_functions() as found:
        try:
            _run(script, arguments, is_module)
        except SystemExit as exit_:
            code = _exit_code(exit_)
        except Exception:
            traceback.print_exc()
            code = 1
        except KeyboardInterrupt:
            _print_report(found)
            raise
    _print_report(found)
    return code


def _run(script: str, arguments: Sequence[str], is_module: bool) -> None:
    if not is_module:
        with script_arguments(script, arguments):
            runpy.run_path(script, run_name="__main__")
        return
    before = sys.argv
    sys.argv = [script, *arguments]  # its first item becomes the file of the module
    try:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    finally:
        sys.argv = before


def _exit_code(exit_: SystemExit) -> int:
    """The exit code that Python gives a program; prints the message where it does."""
    if exit_.code is None or isinstance(exit_.code, int):
        return exit_.code or 0
    print(exit_.code, file=sys.stderr)
    return 1


def _print_report(found: Sequence[Any]) -> None:
    print(f"\ncompile-report: {len(found)} compiled function(s)")
    for function in found:
        print(*_describe(function), sep="\n")


def _describe(function: Any) -> list[str]:
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    name = getattr(inner, "__name__", repr(inner))
    lines = [f"\n{name}{where}"]
    if not any(function.stats.values()):
        return [*lines, "  never called"]
    return lines + [f"  {line}" for line in function.report().splitlines()]
