"""Default values: the text of a literal and the Python value it stands for.

Assumes text that the parser has accepted. ``arguments.py`` converts defaults to values with it, and
``parse.py`` checks that a default fits its argument's type.
"""

from __future__ import annotations

from pullback.schema.types import BaseTy, BaseType, ListType, OptionalType, Type

__all__ = ["INT_LIKE", "REDUCTIONS", "Atom", "Literal", "fits", "literal_value"]

Atom = None | bool | int | float | str
Literal = Atom | list[Atom]

_KEYWORDS: dict[str, Atom] = {"None": None, "True": True, "False": False}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# The names that an int may have as a default: PyTorch's ways to reduce a loss, by their numbers.
REDUCTIONS = {"Mean": 1, "Sum": 2}
INT_LIKE = (BaseTy.int, BaseTy.SymInt, BaseTy.DeviceIndex, BaseTy.DimVector)
_TEXTUAL = (BaseTy.str, BaseTy.Device, BaseTy.device)


def literal_value(text: str) -> Literal:
    """The value of a default; a bare identifier such as ``Mean`` stands for itself, as a str.

    >>> [literal_value(text) for text in ("None", "-1", "1e-05", "[0,1]", "'a'", "long")]
    [None, -1, 1e-05, [0, 1], 'a', 'long']
    """
    if text[0] == "[":
        return [_atom(item) for item in _items(text[1:-1])]
    return _atom(text)


def _atom(text: str) -> Atom:
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if text[0] in "'\"":
        return _unescape(text[1:-1])
    if text[0] in "-.0123456789":
        return float(text) if set(text) & set(".eE") else int(text)
    return text


def fits(type_: Type, text: str) -> bool:
    """Whether the default ``text`` can be a value of ``type_``.

    ``None`` fits optional types, and ``Tensor`` itself, where it stands for no tensor.

    >>> int_type = BaseType(BaseTy.int)
    >>> fits(int_type, "3"), fits(int_type, "Mean"), fits(int_type, "0.5"), fits(int_type, "None")
    (True, True, False, False)
    """
    if text == "None":
        return isinstance(type_, OptionalType) or type_ == BaseType(BaseTy.Tensor)
    while isinstance(type_, OptionalType):
        type_ = type_.elem
    if isinstance(type_, ListType):
        if text[0] == "[":
            return all(fits(type_.elem, item) for item in _items(text[1:-1]))
        # One number or name may stand for a whole list of fixed size, as it may in a call.
        repeats = type_.size is not None and isinstance(type_.elem, BaseType)
        return repeats and text[0] not in "'\"" and fits(type_.elem, text)
    if not isinstance(type_, BaseType) or text[0] == "[":
        return False
    return _fits_base(type_.name, text)


def _fits_base(base: BaseTy, text: str) -> bool:
    value = _atom(text)
    quoted = text[0] in "'\""
    if base is BaseTy.Tensor or base is BaseTy.Generator:
        return False
    if base in _TEXTUAL:
        return quoted
    if base in (BaseTy.bool, BaseTy.SymBool):
        return isinstance(value, bool)
    if base in (BaseTy.float, BaseTy.complex):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if base is BaseTy.Scalar:
        return isinstance(value, int | float)
    if quoted or isinstance(value, bool):
        return False
    if base in INT_LIKE:
        return isinstance(value, int) or (value in REDUCTIONS and base is not BaseTy.DeviceIndex)
    # What is left are enumerations, which may be written as a number or by name.
    return isinstance(value, int | str)


def _items(body: str) -> list[str]:
    return body.split(",") if body else []


def _unescape(body: str) -> str:
    if "\\" not in body:
        return body
    characters = iter(body)
    return "".join(
        _ESCAPES.get(following := next(characters), following) if character == "\\" else character
        for character in characters
    )
