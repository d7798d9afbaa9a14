"""The command ``python -m pullback codegen``; the package's own command line calls :func:`main`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pullback.codegen.load_derivatives import load_tables
from pullback.codegen.load_ops import load_ops
from pullback.codegen.report import make_report
from pullback.codegen.tables import Tables
from pullback.errors import CodegenError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return 0, or 2 after a one-line message about bad input."""
    options = _parser().parse_args(argv)
    try:
        print(make_report(_load(options)))
    except CodegenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _load(options: argparse.Namespace) -> Tables:
    two_files = (options.native_functions, options.derivatives)
    if options.ops and not any(two_files):
        return load_ops(*options.ops)
    if all(two_files) and not options.ops:
        return load_tables(*two_files, options.tags)
    raise CodegenError("give both --native-functions and --derivatives, or only --ops")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pullback codegen", description="Work on operator tables."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="print statistics and coverage of operator tables")
    for option, text in (
        ("--native-functions", "the operators, as in PyTorch's native_functions.yaml"),
        ("--derivatives", "their formulas, as in PyTorch's derivatives.yaml"),
        ("--tags", "the tags that operators may have, as in PyTorch's tags.yaml"),
    ):
        report.add_argument(option, metavar="FILE", help=text)
    report.add_argument(
        "--ops", metavar="FILE", nargs="+", help="tables of our own form, instead of the two files"
    )
    return parser
