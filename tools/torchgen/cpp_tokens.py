"""A tokenizer for the C++ expressions in PyTorch's derivative formulas.

It knows names, numbers, strings, comments and punctuation, which is all that the rules about
formulas need; it does not parse. The callers are ``cpp`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

from pullback.errors import CodegenError

__all__ = ["Edit", "Token", "apply_edits", "is_free_name", "tokenize", "words"]

_PAIRS = frozenset({"->", "::", "==", "!=", "<=", ">=", "&&", "||"})
_SINGLES = frozenset("()[]{}<>.,;:?+-*/%=!&|~^")


class Token(NamedTuple):
    """A piece of a formula and where it begins."""

    kind: Literal["name", "number", "string", "mark"]
    text: str
    start: int

    @property
    def end(self) -> int:
        """The index after the last character."""
        return self.start + len(self.text)


class Edit(NamedTuple):
    """A replacement of the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str


@lru_cache(maxsize=4096)
def tokenize(formula: str) -> tuple[Token, ...]:
    """Split a formula into tokens; blanks and comments leave none.

    >>> [token.text for token in tokenize('grad * self->dim() /* why */ + 0.5')]
    ['grad', '*', 'self', '->', 'dim', '(', ')', '+', '0.5']
    """
    found: list[Token] = []
    at, end = 0, len(formula)
    while at < end:
        char = formula[at]
        if char.isspace():
            at += 1
        elif formula.startswith("/*", at):
            close = formula.find("*/", at + 2)
            if close < 0:
                raise CodegenError("this comment has no end", at)
            at = close + 2
        else:
            token = _token(formula, at)
            found.append(token)
            at = token.end
    return tuple(found)


def _token(formula: str, at: int) -> Token:
    char = formula[at]
    if char.isalpha() or char == "_":
        return Token("name", formula[at : _word_end(formula, at)], at)
    if char.isdigit() or (char == "." and formula[at + 1 : at + 2].isdigit()):
        return Token("number", formula[at : _number_end(formula, at)], at)
    if char == '"':
        return Token("string", formula[at : _string_end(formula, at)], at)
    if formula[at : at + 2] in _PAIRS:
        return Token("mark", formula[at : at + 2], at)
    if char in _SINGLES:
        return Token("mark", char, at)
    raise CodegenError(f"unexpected character {char!r} in a C++ formula", at)


def _word_end(formula: str, at: int) -> int:
    while at < len(formula) and (formula[at].isalnum() or formula[at] == "_"):
        at += 1
    return at


def _number_end(formula: str, at: int) -> int:
    start = at
    while at < len(formula):
        char = formula[at]
        # A sign belongs to the number right after its exponent mark, as in 1e-5.
        signed = char in "+-" and at > start and formula[at - 1] in "eE"
        if not (char.isalnum() or char == "." or signed):
            break
        at += 1
    return at


def _string_end(formula: str, at: int) -> int:
    start = at
    at += 1
    while at < len(formula) and formula[at] != '"':
        at += 2 if formula[at] == "\\" else 1
    if at >= len(formula):
        raise CodegenError("this string has no end", start)
    return at + 1


def is_free_name(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether a token is a name that stands for itself: no member, no part of ``a::b``.

    >>> tokens = tokenize("self.dim() + at::dim")
    >>> [token.text for i, token in enumerate(tokens) if is_free_name(tokens, i)]
    ['self']
    """
    if tokens[index].kind != "name":
        return False
    before = tokens[index - 1].text if index else ""
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return before not in (".", "->", "::") and after != "::"


def words(formula: str) -> frozenset[str]:
    """Return every word of a text, whatever it is part of.

    >>> sorted(words('f("the grad", x.y)'))
    ['f', 'grad', 'the', 'x', 'y']
    """
    return frozenset("".join(c if c.isalnum() or c == "_" else " " for c in formula).split())


def apply_edits(formula: str, edits: Iterable[Edit]) -> str:
    """Replace pieces of a formula that do not overlap; all else stays to the letter.

    >>> apply_edits("grad  *  self", [Edit(9, 13, "other")])
    'grad  *  other'
    """
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits):
        pieces += (formula[at : edit.start], edit.text)
        at = edit.end
    return "".join((*pieces, formula[at:]))
