"""Commands that write HTML: ``inspect SCRIPT`` and ``dispatch --html``."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from typing import Any

import pullback as pb
from pullback.cli.script import script_arguments
from pullback.dispatch import PythonDispatcher
from pullback.inspector.html_repr import text_html

__all__ = ["dispatch_page", "inspect_script"]


def dispatch_page(dispatcher: PythonDispatcher) -> str:
    """The registrations and the computed table as one page.

    >>> print(dispatch_page(PythonDispatcher()).splitlines()[0])
    <!doctype html>
    """
    texts = (dispatcher.registrations(), dispatcher.dispatchTable())
    tables = "".join(text_html(text.strip()) for text in texts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Dispatch table</title>'
        "<style>:root{color-scheme:light dark}body{font-family:sans-serif;margin:2rem}</style>"
        f"</head><body><h1>Dispatch table</h1>{tables}</body></html>"
    )


def inspect_script(script: str, arguments: list[str], out: str | None) -> int:
    """Runs a script in a profile, then writes a page about the tensors that it leaves.

    These are the module's own variables: tensors with a history are the results, leaves that
    require grad the inputs.
    """
    path = out or "inspect.html"
    if not os.path.isfile(script):
        print(f"pullback inspect: there is no file {script!r}", file=sys.stderr)
        return 2
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        print(f"pullback inspect: there is no folder for --out {path!r}", file=sys.stderr)
        return 2
    try:
        with (
            script_arguments(script, arguments),
            pb.profiler.profile(check_finite=True) as measured,
        ):
            names = runpy.run_path(script, run_name="__main__")
    except Exception:
        traceback.print_exc()
        return 1
    results, inputs = _tensors_of(names)
    if not results:
        print(
            "pullback inspect: the script leaves no tensor with a history; assign the result to a "
            "variable of the module, as y = f(x)",
            file=sys.stderr,
        )
        return 2
    pb.inspect(results, inputs=inputs, out=path, title=os.path.basename(script), measured=measured)
    print(f"wrote {path}: {', '.join(_result_names(names))}")
    return 0


def _is_result(value: Any) -> bool:
    return isinstance(value, pb.Tensor) and value.requires_grad and value.grad_fn is not None


def _result_names(names: dict[str, Any]) -> list[str]:
    return [name for name, value in names.items() if _is_result(value)]


def _tensors_of(names: dict[str, Any]) -> tuple[list[pb.Tensor], list[pb.Tensor]]:
    """Results, the last assigned first, and inputs among the variables of a script."""
    results = [names[name] for name in reversed(_result_names(names))]
    inputs = [
        value
        for value in names.values()
        if isinstance(value, pb.Tensor) and value.requires_grad and value.grad_fn is None
    ]
    return results, inputs
