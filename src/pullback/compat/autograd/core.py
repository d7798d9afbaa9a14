"""``autograd.core``: rules of primitives, vector spaces, and products at a point.

`make_vjp` and `make_jvp` take the function and its argument here; those of the package take the
function, and give a function of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.autograd import differential_operators as operators
from pullback.compat.autograd.primitives import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    primitive_jvps,
    primitive_vjps,
)
from pullback.compat.autograd.vspaces import VSpace, vspace

__all__ = [
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "make_jvp",
    "make_vjp",
    "primitive",
    "primitive_jvps",
    "primitive_vjps",
    "primitive_with_deprecation_warnings",
    "vspace",
]

primitive_with_deprecation_warnings = primitive


def make_vjp(fun: Callable[[Any], Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """The function that pulls cotangents back, and the value.

    >>> vjp, value = make_vjp(lambda x: x**2, 3.0)
    >>> vjp(1.0), value
    (6.0, 9.0)
    """
    found: tuple[Callable[[Any], Any], Any] = operators.make_vjp(fun)(x)
    return found


def make_jvp(fun: Callable[[Any], Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The function that gives the value and the derivative in a direction.

    >>> make_jvp(lambda x: x**2, 3.0)(1.0)
    (9.0, 6.0)
    """
    found: Callable[[Any], tuple[Any, Any]] = operators.make_jvp(fun)(x)
    return found
