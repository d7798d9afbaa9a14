"""The command ``python -m tools.torchgen``, run from the root of the repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pullback.codegen import Tables, load_ops
from pullback.errors import CodegenError, message_of
from tools.torchgen.load_derivatives import load_tables
from tools.torchgen.report import make_report

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 2 after a message about bad input."""
    options = _parser().parse_args(argv)
    try:
        print(make_report(_load(options)))
    except CodegenError as error:
        print(f"error: {message_of(error)}", file=sys.stderr)
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
        prog="python -m tools.torchgen", description="Reads PyTorch's own tables of operators."
    )
    report = parser.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "report", help="print statistics and coverage of operator tables"
    )
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
