"""The types that arguments and returns of an operator may have.

A type is a base type with any number of suffixes, which bind outwards: ``Tensor?[]`` is a list of
optional tensors and ``int[2]?`` an optional list of two ints. Alias annotations are no part of a
type; they live beside it, on the argument or return. Every class here is frozen and hashable, and
``str`` gives back the text a type is written with. Assumes nothing; every other module of the
package builds on it.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = [
    "CUSTOM_CLASS_PREFIX",
    "BaseTy",
    "BaseType",
    "CustomClassType",
    "ListType",
    "OptionalType",
    "Type",
]

CUSTOM_CLASS_PREFIX = "__torch__.torch.classes."


class BaseTy(enum.Enum):
    """The names of the atomic types; the value is the text in a schema.

    ``dtype`` and ``device`` are other spellings of ``ScalarType`` and ``Device``.

    >>> BaseTy["Tensor"].value
    'Tensor'
    """

    Generator = "Generator"
    ScalarType = "ScalarType"
    Tensor = "Tensor"
    int = "int"
    DimVector = "DimVector"
    float = "float"
    str = "str"
    bool = "bool"
    Layout = "Layout"
    Device = "Device"
    DeviceIndex = "DeviceIndex"
    Scalar = "Scalar"
    MemoryFormat = "MemoryFormat"
    QScheme = "QScheme"
    Storage = "Storage"
    Stream = "Stream"
    SymInt = "SymInt"
    SymBool = "SymBool"
    GraphModule = "GraphModule"
    dtype = "dtype"
    device = "device"
    complex = "complex"


class Type(ABC):
    """Type of a value: a base type, a custom class, or an optional or a list of a type.

    >>> OptionalType(BaseType(BaseTy.Tensor)).is_tensor_like()
    True
    """

    __slots__ = ()

    @abstractmethod
    def is_base_ty_like(self, base_ty: BaseTy) -> bool:
        """Whether ``base_ty`` is what stands below all the ``?`` and ``[]``."""

    @abstractmethod
    def is_nullable(self) -> bool:
        """Whether ``None`` may occur, as the value or, in a list, as an element."""

    @abstractmethod
    def is_list_like(self) -> ListType | None:
        """The outermost list below all ``?``, or ``None`` where there is no list."""

    def is_tensor_like(self) -> bool:
        """Whether this is ``Tensor`` under any nesting."""
        return self.is_base_ty_like(BaseTy.Tensor)

    def is_generator_like(self) -> bool:
        """Whether this is ``Generator`` under any nesting."""
        return self.is_base_ty_like(BaseTy.Generator)

    def is_symint_like(self) -> bool:
        """Whether this is ``SymInt`` under any nesting."""
        return self.is_base_ty_like(BaseTy.SymInt)


@dataclass(frozen=True, slots=True)
class BaseType(Type):
    """An atomic type.

    >>> str(BaseType(BaseTy.int))
    'int'
    """

    name: BaseTy

    def __str__(self) -> str:
        return self.name.value

    def is_base_ty_like(self, base_ty: BaseTy) -> bool:
        """Whether this is ``base_ty`` itself."""
        return self.name is base_ty

    def is_nullable(self) -> bool:
        """Never."""
        return False

    def is_list_like(self) -> ListType | None:
        """Never."""
        return None


@dataclass(frozen=True, slots=True)
class CustomClassType(Type):
    """A class that a library registered under a dotted name.

    >>> str(CustomClassType("rnn.CellParams"))
    '__torch__.torch.classes.rnn.CellParams'
    """

    class_name: str

    def __str__(self) -> str:
        return CUSTOM_CLASS_PREFIX + self.class_name

    def is_base_ty_like(self, base_ty: BaseTy) -> bool:  # noqa: ARG002 - no base type is a class
        """Never."""
        return False

    def is_nullable(self) -> bool:
        """Never."""
        return False

    def is_list_like(self) -> ListType | None:
        """Never."""
        return None


@dataclass(frozen=True, slots=True)
class OptionalType(Type):
    """A type that also allows ``None``.

    >>> str(OptionalType(BaseType(BaseTy.float)))
    'float?'
    """

    elem: Type

    def __str__(self) -> str:
        return f"{self.elem}?"

    def is_base_ty_like(self, base_ty: BaseTy) -> bool:
        """Whether the type below is."""
        return self.elem.is_base_ty_like(base_ty)

    def is_nullable(self) -> bool:
        """Always."""
        return True

    def is_list_like(self) -> ListType | None:
        """The list below, if there is one."""
        return self.elem.is_list_like()


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A list; with a size, a single element may stand for that many equal ones.

    >>> str(ListType(BaseType(BaseTy.int), size=2)), str(ListType(BaseType(BaseTy.Tensor), None))
    ('int[2]', 'Tensor[]')
    """

    elem: Type
    size: int | None

    def __str__(self) -> str:
        return f"{self.elem}[{'' if self.size is None else self.size}]"

    def is_base_ty_like(self, base_ty: BaseTy) -> bool:
        """Whether the elements are."""
        return self.elem.is_base_ty_like(base_ty)

    def is_nullable(self) -> bool:
        """Whether the elements are."""
        return self.elem.is_nullable()

    def is_list_like(self) -> ListType | None:
        """This list."""
        return self
