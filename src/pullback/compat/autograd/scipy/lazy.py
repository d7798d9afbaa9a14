"""SciPy's modules, loaded at the first use."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from pullback.errors import AutogradUsageError

__all__ = ["scipy_module"]


@functools.cache
def scipy_module(name: str) -> Any:
    """A module of SciPy; an error that says so if SciPy is not installed."""
    try:
        return importlib.import_module(f"scipy.{name}")
    except ImportError as error:
        raise AutogradUsageError(
            f"pullback.compat.autograd.scipy.{name} needs SciPy, which is not installed: pip "
            f"install scipy"
        ) from error
