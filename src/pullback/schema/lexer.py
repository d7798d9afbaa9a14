"""Tokens of the schema language, and errors that point at a place in the text.

The lexer holds one token at a time. It remembers the white space before it, because the strict
dialect prescribes every blank while the loose one ignores them. Only ``parse.py`` uses it.
"""

from __future__ import annotations

import re
from typing import NoReturn

from pullback.errors import SchemaError

__all__ = ["Lexer", "shorten"]

# A word may contain dots, as overloads and class names do; the parser checks where they may stand.
_TOKEN = re.compile(
    r"""
    [ \t\r\n]*
    (?: (?P<word>   [A-Za-z_][A-Za-z0-9_.]* )
      | (?P<number> -? (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
      | (?P<string> " (?: [^"\\\r\n] | \\[\\'"nrt] )* " | ' (?: [^'\\\r\n] | \\[\\'"nrt] )* ' )
      | (?P<mark>   -> | :: | \.\.\. | [()\[\]?!|*,=] )
      | (?P<end>    \Z )
      | (?P<bad>    . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_LONGEST_EXCERPT = 1000


class Lexer:
    """A cursor over the tokens of ``source``: ``kind`` and ``text`` describe the current one.

    The kind is ``word``, ``number``, ``string``, ``end``, ``bad``, or a punctuation mark itself.

    >>> lexer = Lexer("f (", strict=False)
    >>> lexer.take("word", "a name"), lexer.kind, lexer.start
    ('f', '(', 2)
    """

    __slots__ = ("_gap_start", "kind", "source", "start", "strict", "text")

    def __init__(self, source: str, *, strict: bool) -> None:
        self.source = source
        self.strict = strict
        self._read(0)

    def _read(self, position: int) -> None:
        match = _TOKEN.match(self.source, position)
        assert match is not None, "the last alternatives match everything"
        group = match.lastgroup or "bad"
        self._gap_start = position
        self.start = match.start(group)
        self.text = match[group]
        self.kind = self.text if group == "mark" else group

    def advance(self) -> None:
        """Go on to the next token."""
        self._read(self.start + len(self.text))

    def take(self, wanted: str, what: str, gap: str = "") -> str:
        """Consume the current token, which must be of kind ``wanted``; return its text.

        In the strict dialect exactly ``gap`` must precede it. ``what`` names it in errors.
        """
        if self.kind != wanted:
            self.fail_expected(what, gap)
        if self.strict and self.source[self._gap_start : self.start] != gap:
            self.fail(
                f"expected {'one space' if gap else 'no white space'} before {what}",
                self._first_fault(gap),
            )
        text = self.text
        self.advance()
        return text

    def fail_expected(self, what: str, gap: str = "") -> NoReturn:
        """Report that the current token, with ``gap`` before it, should have been ``what``."""
        position = self._first_fault(gap) if self.strict else self.start
        if self.kind == "end":
            found = "the end of the text"
        elif self.kind == "bad" and self.text in "'\"":
            found = (
                "a string without its end, or with an escape other than \\\\ \\' \\\" \\n \\r \\t"
            )
        else:
            found = repr(shorten(self.text))
        self.fail(f"expected {what} but found {found}", position)

    def fail(self, message: str, position: int) -> NoReturn:
        """Raise a ``SchemaError`` with a caret under the character at ``position``."""
        first = max(0, position - _LONGEST_EXCERPT // 2)
        excerpt = self.source[first : first + _LONGEST_EXCERPT]
        if not excerpt.isprintable():
            # Line breaks and other control characters would move the caret away from the fault.
            excerpt = "".join(c if c.isprintable() else " " for c in excerpt)
        head = "..." if first else ""
        tail = "..." if len(self.source) > first + _LONGEST_EXCERPT else ""
        caret = " " * (len(head) + position - first) + "^"
        where = f"(column {position + 1})\n    {head}{excerpt}{tail}\n    {caret}"
        raise SchemaError(f"Invalid function schema: {message} {where}")

    def _first_fault(self, gap: str) -> int:
        """The first position where the text departs from ``gap`` followed by another token."""
        found = self.source[self._gap_start : self.start]
        common = 0
        while common < min(len(found), len(gap)) and found[common] == gap[common]:
            common += 1
        return self._gap_start + common


def shorten(text: str) -> str:
    """``text`` as it may stand in a message, however long it is.

    >>> shorten("Tensor"), len(shorten("x" * 1000))
    ('Tensor', 43)
    """
    return text if len(text) <= 40 else f"{text[:40]}..."
