"""``ProgressBar``: tqdm's if it is installed, else a line of text on standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shows how much of some work is done, if it is to be visible.

    >>> with ProgressBar("rows", 3, is_visible=False) as bar:
    ...     bar.update(3)
    """

    def __init__(self, name: str, total: int | None, is_visible: bool = True, unit: str = "it"):
        self._name, self._total, self._count = name, total, 0
        self._is_visible = is_visible
        self._unit = unit
        tqdm = _tqdm() if is_visible else None
        self._bar: Any = tqdm(desc=name, total=total, unit=unit) if tqdm is not None else None

    def update(self, count: int = 1) -> None:
        """Counts further units of work."""
        self._count += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._is_visible:
            of = "" if self._total is None else f" of {self._total}"
            sys.stderr.write(f"\r{self._name}: {self._count}{of} {self._unit}")
            sys.stderr.flush()

    def close(self) -> None:
        """Ends the line of the bar."""
        if self._bar is not None:
            self._bar.close()
        elif self._is_visible:
            sys.stderr.write("\n")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _tqdm() -> Any:
    try:
        return __import__("tqdm").tqdm
    except ImportError:
        return None
