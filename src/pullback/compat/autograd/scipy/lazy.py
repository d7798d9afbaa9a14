"""SciPy's modules, loaded at the first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from pullback.errors import AutogradUsageError

__all__ = ["scipy_function", "scipy_method", "scipy_module"]


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


def scipy_function(module: str, name: str) -> Callable[..., Any]:
    """A function of SciPy, which has a derivative rule for tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(scipy_module(module), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``scipy.{module}.{name}``."
    return call


def scipy_method(distribution: str, name: str) -> Callable[..., Any]:
    """A method of one of SciPy's distributions, which has a derivative rule for tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(scipy_module("stats"), distribution), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``scipy.stats.{distribution}.{name}``."
    return call
