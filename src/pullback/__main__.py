"""``python -m pullback``."""

from __future__ import annotations

import sys

from pullback.cli import main

sys.exit(main())
