"""Runs the command line of :mod:`tools.torchgen.cli`."""

from __future__ import annotations

import sys

from tools.torchgen.cli import main

sys.exit(main())
