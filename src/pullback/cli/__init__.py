"""The command line: ``python -m pullback <command>``."""

from __future__ import annotations

from pullback.cli.commands import main

__all__ = ["main"]
