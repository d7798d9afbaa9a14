"""NumPy's warnings at singular points, off for a backward pass: anomaly mode finds bad numbers.

``np.errstate`` costs as much as two operations of a small pass. NumPy reads its settings from a
context variable, so the settings of ``errstate(all="ignore")`` are made once and put there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy._core import umath

__all__ = ["begin_quiet", "end_quiet"]


def _enter() -> Any:
    guard = np.errstate(all="ignore")
    guard.__enter__()
    return guard


def _leave(guard: Any) -> None:
    guard.__exit__(None, None, None)


# ``end_quiet(begin_quiet())``: the first returns what the second needs to put the settings back.
begin_quiet: Callable[[], Any] = _enter
end_quiet: Callable[[Any], None] = _leave

_settings: Any = getattr(umath, "_extobj_contextvar", None)
if _settings is not None:  # else a NumPy that keeps them elsewhere
    begin_quiet = partial(_settings.set, umath._make_extobj(all="ignore"))
    end_quiet = _settings.reset
