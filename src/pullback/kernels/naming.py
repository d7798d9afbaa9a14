"""Errors that say which operator was called, and with which shapes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

__all__ = ["P", "R", "named"]

P = ParamSpec("P")
R = TypeVar("R")


def named(prefix: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Puts the public name of a kernel, and the shapes it was called with, into NumPy's errors."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = prefix + function.__name__

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except (ValueError, IndexError) as error:  # LinAlgError and AxisError are such
                shapes = [str(x.shape) for x in args if isinstance(x, np.ndarray)]
                text, given = str(error).rstrip("."), " and ".join(shapes)
                if given not in text:
                    text += f" (shape{'s' if len(shapes) > 1 else ''} {given} given)"
                raise type(error)(f"{name}: {text}") from None

        return call

    return decorate
