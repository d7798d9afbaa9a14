"""Scripts that a command runs as Python itself runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["script_arguments"]


@contextmanager
def script_arguments(script: str, arguments: Sequence[str]) -> Iterator[None]:
    """A block in which ``sys.argv`` is the script's, and its folder the first place of imports."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[0:1] = [script, *arguments], [os.path.dirname(os.path.abspath(script))]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
