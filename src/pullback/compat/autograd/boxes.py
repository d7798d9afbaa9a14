"""Values under differentiation: tensors, and boxes around values of types that users register.

A tensor carries its own history. A value of a registered type has none, so that a box pairs it with
a handle: a tensor without axes, whose edges order the backward pass. Cotangents of such values
cannot travel along the edges. They are added in a cell of the box (`CotangentCell`), which the
producer of the value empties when its turn in the pass comes; the handle's own gradient is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pullback.errors import AutogradTypeError
from pullback.interop.arguments import raw
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor

__all__ = ["SPACES", "Box", "CotangentCell", "box_value", "getval", "is_user_type", "isbox"]

SPACES: dict[type, Callable[[Any], Any]] = {}  # makers of vector spaces, by types of values


class _BoxType(type):
    """Tensors count as instances of `Box`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or (cls is Box and isinstance(instance, Tensor))


class CotangentCell:
    """Sum of the cotangents of one value of a registered type, in one backward pass."""

    __slots__ = ("_sum", "space")

    def __init__(self, space: Any):
        self.space = space
        self._sum: Any = None

    def add(self, cotangent: Any) -> None:
        """Adds a cotangent."""
        self._sum = cotangent if self._sum is None else self.space.add(self._sum, cotangent)

    def take(self) -> Any:
        """Returns the sum, and empties the cell for the next pass."""
        found, self._sum = self._sum, None
        return self.space.zeros() if found is None else found


class Box(metaclass=_BoxType):
    """Base class of boxes for registered types: ``MyBox.register(MyType)``.

    Attributes:
        type_mappings: the classes of boxes, by types of values.
    """

    type_mappings: ClassVar[dict[type, type]] = {}

    def __init__(self, value: Any, trace: CotangentCell, node: Tensor):
        self._value = value
        self._trace = trace
        self._node = node

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r})"

    @classmethod
    def register(cls, value_type: type) -> None:
        """Makes this the class of boxes for values of a type."""
        Box.type_mappings[value_type] = cls


def is_user_type(value: Any) -> bool:
    """Returns whether a value is of a type that has a box class, or such a box."""
    return type(value) in Box.type_mappings or (
        isinstance(value, Box) and not isinstance(value, Tensor)
    )


def box_value(value: Any, node: Tensor | None = None) -> Box:
    """Puts a value of a registered type into a new box.

    Args:
        value: the value.
        node: the handle, by default one without history.
    """
    if isinstance(value, Box):
        raise AutogradTypeError(
            f"derivatives of derivatives by values of type {type(getval(value)).__name__} are not "
            f"offered; differentiate such values once, or use arrays"
        )
    maker = SPACES.get(type(value))
    if maker is None:
        raise AutogradTypeError(
            f"Can't differentiate w.r.t. type {type(value).__name__}: it has a box class and no "
            f"vector space; call register({type(value).__name__}) of its subclass of VSpace"
        )
    handle = creation.asarray(np.zeros(())) if node is None else node
    made: Box = Box.type_mappings[type(value)](value, CotangentCell(maker(value)), handle)
    return made


def isbox(value: Any) -> bool:
    """Returns whether a value is a tensor or a box.

    >>> isbox(2.0)
    False
    """
    return isinstance(value, Box)


def getval(value: Any) -> Any:
    """The value of a tensor or box as an array, a NumPy number or the boxed object.

    >>> from pullback.compat.autograd import grad
    >>> seen = []
    >>> grad(lambda x: seen.append(getval(x)) or x**2)(3.0), seen
    (6.0, [np.float64(3.0)])
    """
    if isinstance(value, Tensor):
        return raw(value)[()]
    return getval(value._value) if isinstance(value, Box) else value
