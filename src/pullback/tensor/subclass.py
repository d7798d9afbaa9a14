"""Registration of a subclass of ``Tensor`` whose results of operators stay in the class.

``pullback.compat.torch`` registers one. Such a class has no slots of its own, so that any tensor
can become an instance of it in place (`as_subclass`): identity, memory, version and history stay.
An instance has the bit ``SUBCLASS`` in its flags; the tables of operators link calls with the bit
through the linker of the class, and other calls as if there were no such class, so that those cost
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.dispatch.table import set_subclass_linker
from pullback.tensor.tensor import SUBCLASSES, TENSOR_TYPES, Tensor

__all__ = ["register_subclass"]


def register_subclass(
    cls: type[Tensor], linker: Callable[[Any, Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Registers the subclass; ``linker(operator, kernel)`` makes its kernel of an operator."""
    if cls.__dictoffset__ or cls.__basicsize__ != Tensor.__basicsize__:
        raise TypeError(
            f"register_subclass: {cls.__name__} must have `__slots__ = ()` and no __dict__, so "
            f"that a tensor can become an instance of it"
        )
    SUBCLASSES[:] = [cls]
    TENSOR_TYPES.add(cls)
    set_subclass_linker(linker)
