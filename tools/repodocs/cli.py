"""The command ``python -m tools.repodocs``, run from the root of the repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.repodocs.blocks import printable
from tools.repodocs.build import Options, build, stale_pages
from tools.repodocs.links import broken_links

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Return 0, 1 for stale pages or broken links, 2 after bad input, 130 after Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    options = Options(
        root=arguments.path,
        out=arguments.out,
        format=arguments.format,
        title=arguments.title,
        home=arguments.home,
        coverage=arguments.coverage,
        processes=arguments.jobs,
    )
    if not options.root.is_dir():
        print(f"error: {options.root} is not a folder", file=sys.stderr)
        return 2
    try:
        return _check(options) if arguments.command == "check" else _build(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the next build goes on from here", file=sys.stderr)
        return 130


def _build(options: Options) -> int:
    outcome = build(options)
    for problem in outcome.problems:
        print(f"problem: {problem}", file=sys.stderr)
    print(
        f"{outcome.files:,} files: {outcome.written:,} pages written, {outcome.unchanged:,}"
        f" unchanged, {outcome.removed:,} removed"
    )
    return 1 if outcome.problems else 0


def _check(options: Options) -> int:
    found = stale_pages(options)
    if (options.out / "index.html").is_file():
        found += [f"broken link in {printable(link)}" for link in broken_links(options.out)]
    for sentence in found:
        print(sentence)
    print(f"{len(found):,} problems" if found else "all pages are up to date, no broken link")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.repodocs",
        description="Pages about every file of a Python repository. Nothing in it is run.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, text in (
        ("build", "write the pages; unchanged ones stay"),
        ("check", "list pages that are stale or missing, and broken links"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("path", type=Path, metavar="PATH", help="the repository")
        command.add_argument("--out", type=Path, required=True, metavar="DIR", help="the pages")
        command.add_argument("--coverage", type=Path, metavar="FILE", help="with test contexts")
        command.add_argument(
            "--jobs", type=int, default=0, metavar="N", help="processes; all cores"
        )
    command.set_defaults(format="html", title="", home="")  # check takes those of the build
    made = commands.choices["build"]
    made.add_argument("--format", choices=("html", "md"), default="html")
    made.add_argument("--title", default="", help="of the pages; the folder's name")
    made.add_argument(
        "--home", default="", metavar="URL", help="a link in each page's head, from DIR"
    )
    return parser
