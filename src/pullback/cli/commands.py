"""The command line: ``python -m pullback <command>``.

Every command returns its exit code: 0 for success, 1 if the output pipe was closed early, 2 for
wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from pullback.cli.compile_report import run_report
from pullback.cli.demo import run_demo
from pullback.cli.describe import describe_operator
from pullback.cli.explain_error import describe_error, error_tree
from pullback.cli.pages import dispatch_page, inspect_script
from pullback.codegen import cli as codegen_cli
from pullback.dispatch import PythonDispatcher
from pullback.errors import PullbackError, message_of

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    >>> main(["dispatch", "GPU"])
    2
    """
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # As after `| head`. What is still buffered goes nowhere, or Python would print an error at
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["codegen"]:  # has commands of its own
        return codegen_cli.main(arguments[1:])
    of_script: list[str] = []
    if arguments[:1] == ["inspect"] and "--" in arguments:
        cut = arguments.index("--")
        arguments, of_script = arguments[:cut], arguments[cut + 1 :]
    options = _parser().parse_args(arguments)
    if options.command == "compile-report":
        return _report(options.script, options.arguments, options.m)
    if options.command == "demo":
        run_demo()
        return 0
    if options.command == "inspect":
        return inspect_script(options.script, of_script, options.out)
    if options.command == "op":
        return _described("op", describe_operator, options.name)
    if options.command == "error":
        if options.name is None:
            print(error_tree())
            return 0
        return _described("error", describe_error, options.name)
    return _dispatch(options.keys, options.html)


def _described(command: str, describe: Callable[[str], str], name: str) -> int:
    try:
        print(describe(name))
    except PullbackError as error:
        print(f"pullback {command}: {message_of(error)}", file=sys.stderr)
        return 2
    return 0


def _report(script: str, arguments: list[str], is_module: bool) -> int:
    if not is_module and not os.path.isfile(script):
        print(f"pullback compile-report: there is no file {_one_line(script)}", file=sys.stderr)
        return 2
    return run_report(script, arguments, is_module=is_module)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pullback", description="PyTorch's autograd machinery.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("demo", help="show what the library does, with real results")
    dispatch = commands.add_parser("dispatch", help="show the dispatch table of registered keys")
    dispatch.add_argument("keys", nargs="*", metavar="KEY", help="keys that have a kernel")
    dispatch.add_argument("--html", action="store_true", help="as an HTML page")
    script = commands.add_parser("inspect", help="run a script and write a page about its graph")
    script.add_argument("script", metavar="SCRIPT", help="a Python file; its arguments after --")
    script.add_argument("--out", metavar="FILE", help="the page; inspect.html unless given")
    operator = commands.add_parser("op", help="show everything known about an operator")
    operator.add_argument("name", metavar="NAME", help="such as mul, multiply or pullback::mul")
    error = commands.add_parser("error", help="show the cause and the fix of an error")
    error.add_argument("name", nargs="?", metavar="NAME", help="such as saved-version; or all")
    report = commands.add_parser("compile-report", help="run a script, show what it compiled")
    report.add_argument("-m", action="store_true", help="SCRIPT is the name of a module")
    report.add_argument("script", metavar="SCRIPT", help="a Python file")
    report.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    commands.add_parser("codegen", help="derivative tables: see 'pullback codegen --help'")
    return parser


def _dispatch(keys: list[str], as_html: bool) -> int:
    dispatcher = PythonDispatcher()
    try:
        dispatcher.register(keys)
    except PullbackError as error:
        print(f"pullback dispatch: {_one_line(message_of(error))}", file=sys.stderr)
        return 2
    if as_html:
        print(dispatch_page(dispatcher))
        return 0
    print(dispatcher.registrations())
    print(dispatcher.dispatchTable())
    return 0


def _one_line(text: str) -> str:
    """The text with its control characters, which a key may bring along, written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
