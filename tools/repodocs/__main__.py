"""Runs the command line of :mod:`tools.repodocs.cli`."""

from __future__ import annotations

import sys

from tools.repodocs.cli import main

if __name__ == "__main__":
    sys.exit(main())
