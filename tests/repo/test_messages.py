"""Literals that Python joins silently keep a space between their words.

Raw strings (patterns), bytes and texts without any space (hashes, addresses) are no messages.
A value that brings its own space (`{hint}`) belongs into the literal that it continues.
"""

from __future__ import annotations

import ast
import io
import tokenize
from itertools import pairwise

FSTRING_START = getattr(tokenize, "FSTRING_START", -1)  # tokens of their own from Python 3.12 on
FSTRING_END = getattr(tokenize, "FSTRING_END", -1)
SKIPPED = {tokenize.NL, tokenize.COMMENT}
VALUE = "\0"  # stands for the value of an f-string field


def _literals(source: str):
    """Runs of adjacent string literals: lists of (line, text of the literal)."""
    lines = source.splitlines(keepends=True)
    run, depth, start = [], 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == FSTRING_START:
            start = start if depth else token.start
            depth += 1
        elif token.type == FSTRING_END:
            depth -= 1
            if not depth:
                text = "".join(lines[start[0] - 1 : token.end[0]])
                tail = len(lines[token.end[0] - 1]) - token.end[1]
                run.append((start[0], text[start[1] : len(text) - tail]))
        elif depth or token.type in SKIPPED:
            continue
        elif token.type == tokenize.STRING:
            run.append((token.start[0], token.string))
        else:
            yield run
            run = []


def _text(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.IfExp):
        return _text(part.value.body) or _text(part.value.orelse)  # a choice between two texts
    return str(part.value) if isinstance(part, ast.Constant) else VALUE


def _content(literal: str) -> str | None:
    prefix = literal[: min(literal.find(quote) % len(literal) for quote in "'\"")].lower()
    if "r" in prefix or "b" in prefix:
        return None
    node = ast.parse(literal, mode="eval").body
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(map(_text, parts))


def lost_spaces(source: str) -> list[int]:
    """Lines of literals that run into the word before them."""
    found = []
    for run in _literals(source):
        for (_, first), (line, second) in pairwise(run):
            left, right = _content(first), _content(second)
            if not left or not right or not any(c.isspace() for c in left + right):
                continue
            ends = left[-1].isalnum() or left[-1] in f"_,.;:!?){VALUE}"
            begins = right[0].isalnum() or right[0] in f"_'`\"({VALUE}"
            if ends and begins and not left[-1] == right[0] == VALUE:
                found.append(line)
    return found


def test_no_message_lost_a_space(code):
    assert {path: lines for path, text in code.items() if (lines := lost_spaces(text))} == {}


PAIRS = [
    ('"the first part"', '"and the second"', True),
    ('"the first part,"', '"and the second"', True),
    ("f'got {x}'", "'of the wrong type'", True),
    ("'expected a'", "f'{x} here'", True),
    ("f'''got {x!r:>{w}}.'''", "f'Use {y}'", True),
    ("'a kernel gets it by keyword'", 'f\'{"after x" if y else ""}\'', True),
    ("'a kernel gets it by keyword'", 'f\'{", after x" if y else ""}.\'', False),
    ('"the first part "', '"and the second"', False),
    ('"the first part"', '" and the second"', False),
    ('"the first line\\n"', '"and the second"', False),
    ('"a bracket ("', '"and its content)"', False),
    ('f"{name} of {x}"', 'f"{suffix}"', False),
    ('"9f86d081"', '"884c7d65"', False),
    ('r"one word \\w"', 'r"or two"', False),
]


def test_a_lost_space_is_caught_and_a_kept_one_is_not():
    for first, second, is_lost in PAIRS:
        source = f"x = (\n    {first}  # why\n    {second}\n)\n"
        assert lost_spaces(source) == ([3] if is_lost else []), source
