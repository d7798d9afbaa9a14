"""``python -m pullback compile-report script.py``: what a script compiles, and what it does not."""

from __future__ import annotations

import inspect
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from pullback.compiled.report import record_functions

__all__ = ["run_report"]


def run_report(script: str, arguments: Sequence[str]) -> int:
    """Runs a script as its own program, then prints a report about its compiled functions."""
    before = sys.argv
    sys.argv = [script, *arguments]
    error: BaseException | None = None
    with record_functions() as found:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as exit_:
            error = exit_ if exit_.code not in (None, 0) else None
        finally:
            sys.argv = before
    print(f"\ncompile-report: {len(found)} compiled function(s)")
    for function in found:
        print(*_describe(function), sep="\n")
    return 0 if error is None else 1


def _describe(function: Any) -> list[str]:
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    name = getattr(inner, "__name__", repr(inner))
    lines = [f"\n{name}{where}"]
    if not any(function.stats.values()):
        return [*lines, "  never called"]
    return lines + [f"  {line}" for line in function.report().splitlines()]
