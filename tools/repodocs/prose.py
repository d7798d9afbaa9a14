"""Analysis of prose: headings, first sentences, terms, and Python code in it.

Terms are words that look like names: with capitals, digits or underscores inside, in capitals, or
capitalised and no ordinary word. They are what a reader searches in a document.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from importlib import resources

from tools.repodocs.records import FileRecord, Heading

MOST_LINES = 20  # of one term
TERM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[A-Za-z0-9]|[A-Z]")
SPECIAL = re.compile(r"[a-z][A-Z]|_|\d|\A[A-Z]{2}")
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\betc)[.!?](?=\s|\Z)|:\Z|\n\s*\n")
MARKDOWN_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\Z")
RST_RULE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}\Z")
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*\{?([\w+-]*)")
DIRECTIVE = re.compile(r"\.\. (?:code-block|code|sourcecode|ipython)::\s*(?:python|ipython|$)")
PYTHON_FENCES = {"python", "py", "python3", "pycon", "doctest", "code-cell", "ipython3"}
ORDINARY = frozenset(
    (resources.files("tools.repodocs") / "assets/ordinary_words.txt").read_text("ascii").split()
)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, on one line.

    >>> first_sentence("Reads tables, e.g. of names. Then more.")
    'Reads tables, e.g. of names.'
    """
    text = text.strip()
    end = SENTENCE_END.search(text)
    return " ".join((text[: end.end()] if end else text).split())[:400]


def add_terms(terms: dict[str, list[int]], lines: Iterable[tuple[int, str]]) -> None:
    """Add the terms of numbered lines, each with the first lines that have it."""
    for number, line in lines:
        for word in TERM.findall(line):
            if not _is_term(word):
                continue
            places = terms.setdefault(word, [])
            if len(places) < MOST_LINES and number not in places:
                places.append(number)


def _is_term(word: str) -> bool:
    if SPECIAL.search(word):
        return word.strip("_0") != ""
    return word[0].isupper() and word.lower() not in ORDINARY


def analyse_prose(record: FileRecord, text: str) -> None:
    """Fill the record of a prose file."""
    lines = text.split("\n")
    record["headings"] = list(_headings(record["language"], lines))
    add_terms(record["terms"], enumerate(lines, 1))
    title = record["headings"][0]["text"] if record["headings"] else ""
    sentence = first_sentence(_first_paragraph(record["language"], lines))
    record["doc"] = sentence
    record["purpose"] = f"{title}: {sentence}" if title and sentence else title or sentence


def _headings(language: str, lines: list[str]) -> Iterator[Heading]:
    fence, rules = "", []
    for number, line in enumerate(lines, 1):
        if opened := FENCE.match(line):
            mark = opened.group(1)
            if not fence:
                fence = mark
            elif mark.startswith(fence):
                fence = ""
            continue
        if fence:
            continue
        if language == "Markdown" and (found := MARKDOWN_HEADING.match(line)):
            yield Heading(level=len(found.group(1)), text=found.group(2), line=number)
        elif language == "reStructuredText" and number > 1 and RST_RULE.match(line.rstrip()):
            title = lines[number - 2].strip()
            if title and not RST_RULE.match(title) and len(line.rstrip()) >= len(title):
                mark = line[0]
                if mark not in rules:
                    rules.append(mark)
                yield Heading(level=rules.index(mark) + 1, text=title, line=number - 1)


def _first_paragraph(language: str, lines: list[str]) -> str:
    """Return the first lines that are text: no heading, rule, directive, badge or fence."""
    paragraph: list[str] = []
    fenced = False
    for index, line in enumerate(lines):
        text = line.strip()
        if FENCE.match(line):
            fenced = not fenced
        under = lines[index + 1].strip() if index + 1 < len(lines) else ""
        is_title = language == "reStructuredText" and bool(text) and bool(RST_RULE.match(under))
        marks = ("#", "..", "[!", "![", "<", "---", "===", "|", ":")
        if not text or fenced or is_title or text.startswith(marks) or FENCE.match(line):
            if paragraph:
                break
            continue
        paragraph.append(text)
    return " ".join(paragraph)


def python_code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the blocks of Python code of a document, each with the number of its first line.

    These are fenced blocks, ``code-block`` directives and doctests.
    """
    block: list[str] = []
    start, end = 0, ""  # the end of a block: a fence, "directive" or "doctest"
    for number, line in enumerate([*text.split("\n"), ""], 1):
        opened, stripped = FENCE.match(line), line.lstrip()
        is_prompt = stripped.startswith((">>> ", "... "))
        if end == "directive" and (not stripped or line[:1].isspace()):
            block.append(line)
            continue
        if (end == "doctest" and stripped) or (end[:1] in "`~" and end and not opened):
            block.append(line)
            continue
        if end and start:
            yield start, without_prompts(block)
        closed, end, block = bool(opened) and end[:1] in ("`", "~"), "", []
        if opened and not closed:
            end = opened.group(1)
            start = number + 1 if opened.group(2).lower() in PYTHON_FENCES else 0
        elif DIRECTIVE.match(line):
            start, end = number + 1, "directive"
        elif is_prompt:
            start, end, block = number, "doctest", [line]


def without_prompts(lines: list[str]) -> str:
    """Return a block without the prompts and outputs of an interactive session."""
    if not any(line.lstrip().startswith(">>> ") for line in lines):
        return textwrap.dedent("\n".join(lines))
    texts = [line.lstrip() for line in lines]
    return "\n".join(t[4:] if t.startswith((">>> ", "... ")) else "" for t in texts)
