"""``autograd.builtins``: Python's containers and questions about types, inside of derivatives.

Tensors stand in ordinary containers, so that `dict`, `list` and `tuple` make those. `isinstance`
and `type` look at the value of a tensor, which is an array or a number.

>>> import numpy as np
>>> from pullback.compat.autograd import grad
>>> grad(lambda x: x * isinstance(x, float))(3.0)
1.0
"""

from __future__ import annotations

import builtins
from typing import Any

from pullback.compat.autograd.boxes import getval

__all__ = ["dict", "isinstance", "list", "tuple", "type"]


def isinstance(x: Any, types: Any) -> bool:
    """Whether a value, or the value of a tensor, is of a type."""
    return builtins.isinstance(x, types) or builtins.isinstance(getval(x), types)


def type(x: Any) -> builtins.type:
    """The type of a value, or of the value of a tensor."""
    return builtins.type(getval(x))


class _Container(builtins.type):
    """Instances are those of the built-in class that the class derives from."""

    def __instancecheck__(cls, instance: object) -> bool:
        return builtins.isinstance(instance, cls.__bases__[0])


class tuple(builtins.tuple, metaclass=_Container):  # type: ignore[type-arg] # noqa: N801
    """``tuple(xs)``, an ordinary tuple."""

    def __new__(cls, xs: Any = ()) -> Any:
        """Makes the ordinary tuple."""
        return builtins.tuple(xs)


class list(builtins.list, metaclass=_Container):  # type: ignore[type-arg] # noqa: N801
    """``list(xs)``, an ordinary list."""

    def __new__(cls, xs: Any = ()) -> Any:
        """Makes the ordinary list."""
        return builtins.list(xs)


class dict(builtins.dict, metaclass=_Container):  # type: ignore[type-arg] # noqa: N801
    """``dict(...)``, an ordinary dictionary."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes the ordinary dictionary."""
        return builtins.dict(*args, **kwargs)
