"""Operator names: namespace, base name and overload.

A base name carries meaning in its spelling, and these classes keep it apart: a trailing ``_`` or
an augmented assignment such as ``__iadd__`` marks an in-place operator, a trailing ``_functional``
the functional twin of a mutating one. Assumes only characters that the parser has accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BaseOperatorName", "OperatorName", "is_dunder", "split_base_name"]

_AUGMENTED = frozenset(
    f"i{name}"
    for name in ("add", "sub", "mul", "div", "mod", "pow", "lshift", "rshift", "and", "xor", "or")
)
_FUNCTIONAL = "_functional"


@dataclass(frozen=True, slots=True)
class BaseOperatorName:
    """The name of an operator family, and which of its variants this is.

    >>> split_base_name("add_")
    BaseOperatorName(base='add', inplace=True, dunder_method=False, functional_overload=False)
    >>> str(BaseOperatorName("or", inplace=True, dunder_method=True, functional_overload=False))
    '__ior__'
    """

    base: str
    inplace: bool
    dunder_method: bool
    functional_overload: bool = False

    def __str__(self) -> str:
        if self.dunder_method:
            return f"__{'i' if self.inplace else ''}{self.base}__"
        if self.functional_overload:
            return self.base + _FUNCTIONAL
        return f"{self.base}_" if self.inplace else self.base


@dataclass(frozen=True, slots=True)
class OperatorName:
    """The full name of one overload; ``overload_name`` is empty for the unnamed one.

    >>> name = OperatorName("demo", split_base_name("add_"), "Tensor")
    >>> str(name), name.unqualified
    ('demo::add_.Tensor', 'add_.Tensor')
    """

    namespace: str | None
    name: BaseOperatorName
    overload_name: str

    def __str__(self) -> str:
        return (
            self.unqualified if self.namespace is None else f"{self.namespace}::{self.unqualified}"
        )

    @property
    def unqualified(self) -> str:
        """The name without its namespace."""
        return f"{self.name}.{self.overload_name}" if self.overload_name else str(self.name)


def is_dunder(text: str) -> bool:
    """Whether ``text`` is ``__word__`` with no underscore inside the word.

    >>> is_dunder("__add__"), is_dunder("__floor_div__")
    (True, False)
    """
    word = text[2:-2]
    return text == f"__{word}__" and bool(word) and "_" not in word


def split_base_name(text: str) -> BaseOperatorName:
    """Read the marks off a base name; ``str`` of the result is ``text`` again.

    >>> split_base_name("norm_functional").functional_overload
    True
    """
    if is_dunder(text):
        word = text[2:-2]
        inplace = word in _AUGMENTED
        return BaseOperatorName(word[1:] if inplace else word, inplace, dunder_method=True)
    if text.endswith("_"):
        return BaseOperatorName(text[:-1], inplace=True, dunder_method=False)
    if text.endswith(_FUNCTIONAL) and text != _FUNCTIONAL:
        base = text.removesuffix(_FUNCTIONAL)
        return BaseOperatorName(base, False, False, functional_overload=True)
    return BaseOperatorName(text, inplace=False, dunder_method=False)
