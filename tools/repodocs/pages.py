"""The pages of one file: its documentation (``<path>_docs``) and its keywords (``<path>_kw``)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

from tools.repodocs.blocks import (
    Block,
    Bullets,
    Code,
    Inline,
    Line,
    Link,
    Page,
    Paragraph,
    Section,
    Source,
    Table,
    anchor_of,
    docs_page,
    folder_page,
    keyword_page,
    marked,
)
from tools.repodocs.context import FileContext
from tools.repodocs.records import Definition, FileRecord, ImportRecord, Note

MOST_SECURITY = 100
SECTIONS = (
    ("metadata", "File metadata"),
    ("purpose", "Purpose"),
    ("structure", "Code structure"),
    ("architecture", "Architecture and design"),
    ("dependencies", "Dependencies"),
    ("patterns", "Code patterns and idioms"),
    ("performance", "Performance notes"),
    ("security", "Security and safety"),
    ("tests", "Testing"),
    ("examples", "Usage examples"),
    ("related", "Related files"),
    ("references", "Cross-references"),
    ("source", "Source"),
)


def file_pages(record: FileRecord, text: str, context: FileContext) -> list[Page]:
    """Return the two pages of a file."""
    path = record["path"]
    folder = posixpath.dirname(path)
    contents: dict[str, Sequence[Block]] = {
        "metadata": _metadata(record, context),
        "purpose": _purpose(record, context),
        "structure": _structure(record),
        "architecture": _architecture(context),
        "dependencies": _dependencies(record, context),
        "patterns": _notes(record["patterns"], "The analysis found none of the patterns it knows."),
        "performance": _notes(
            record["performance"], "Nothing about cost is visible in the source."
        ),
        "security": _security(record),
        "tests": _tests(context),
        "examples": _examples(record, context),
        "related": _related(context),
        "references": _cross_references(record, context),
        "source": _source(record, text),
    }
    if record["kind"] != "python":
        for name in ("patterns", "performance", "security"):
            del contents[name]
    blocks = [Section(title, name, contents[name]) for name, title in SECTIONS if name in contents]
    if record["problem"]:
        blocks[0] = blocks[0]._replace(
            blocks=[Paragraph(["Note: ", record["problem"]]), *blocks[0].blocks]
        )
    return [
        Page(docs_page(path), path, folder, blocks),
        Page(keyword_page(path), f"Keywords: {path}", folder, _keywords(record, context)),
    ]


# --- pieces ---------------------------------------------------------------------------------------


def _file(path: str, line: int = 0) -> Link:
    anchor = f"L{line}" if line else ""
    return Link(f"{path}:{line}" if line else path, docs_page(path), anchor, is_code=True)


def _line(line: int) -> Link:
    return Link(f"line {line}", "", f"L{line}")


def _joined(parts: Iterable[Inline], separator: str = ", ") -> list[Inline]:
    joined: list[Inline] = []
    for part in parts:
        joined += [separator, part] if joined else [part]
    return joined


def _bullets(items: Sequence[Line], otherwise: str) -> list[Block]:
    return [Bullets(items)] if items else [Paragraph([otherwise])]


def _size(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size / 1000:,.1f} kB ({size:,} bytes)"


# --- sections of the documentation ----------------------------------------------------------------


def _metadata(record: FileRecord, context: FileContext) -> list[Block]:
    rows: list[tuple[str, Inline]] = [
        ("Path", Code(record["path"])),
        ("Size", _size(record["size"])),
        ("Lines", f"{record['lines']:,}" if record["kind"] not in ("binary", "symlink") else "-"),
        ("Type", record["media_type"] or record["kind"]),
        ("Language", record["language"] or "-"),
        ("Encoding", record["encoding"] or "-"),
    ]
    if context["module"]:
        rows.append(("Module", Code(context["module"])))
    if record["digest"]:
        rows.append(("SHA-256", Code(record["digest"])))
    rows.append(("Keywords", Link("keyword index", keyword_page(record["path"]))))
    return [Table(("", ""), [[[name], [value]] for name, value in rows])]


def _purpose(record: FileRecord, context: FileContext) -> list[Block]:
    if record["purpose"]:
        return [Paragraph(marked(record["purpose"]))]
    if context["role"]:
        folder = posixpath.dirname(record["path"]) or "the repository"
        return [Paragraph(["Part of ", Code(folder), ": ", *marked(cast(str, context["role"][0]))])]
    return [Paragraph(["Neither the file nor its folder describes its purpose."])]


def _structure(record: FileRecord) -> list[Block]:
    if record["kind"] == "prose":
        headings = record["headings"]
        items: list[Line] = [
            ["· " * (h["level"] - 1), h["text"], " ", _line(h["line"])] for h in headings
        ]
        return _bullets(items, "The document has no headings.")
    definitions = record["definitions"]
    if not definitions:
        return [Paragraph(["The file has no classes, functions or constants."])]
    blocks: list[Block] = []
    if record["doc"]:
        blocks += _prose(record["doc"])
    constants = [d for d in definitions if d["kind"] == "constant"]
    for definition in definitions:
        if definition["kind"] != "constant":
            blocks.append(_definition(definition))
    if constants:
        rows: list[Sequence[Line]] = [
            [[_defined(d)], [Code(d["signature"])], [_line(d["line"])]] for d in constants
        ]
        blocks.append(Section("Constants", "constants", [Table(("name", "value", "line"), rows)]))
    return blocks


def _prose(text: str) -> list[Block]:
    """Paragraphs of a docstring; whatever is indented or has prompts stays as it is."""
    blocks: list[Block] = []
    for part in text.split("\n\n"):
        is_code = (
            part.startswith(" ")
            or ">>>" in part
            or any(line.startswith(("    ", "---", "- ")) for line in part.split("\n"))
        )
        if is_code:
            language = "pycon" if ">>>" in part else ""
            blocks.append(Source(part, language, "", numbered=False))
        elif part.strip():
            blocks.append(Paragraph(marked(" ".join(part.split()))))
    return blocks


def _defined(definition: Definition) -> Inline:
    return Code(definition["name"])


def _definition(definition: Definition) -> Section:
    title = f"{definition['kind']} {definition['qualname']}"
    if definition["kind"] == "class":
        title += f"({', '.join(definition['bases'])})" if definition["bases"] else ""
    else:
        title += definition["signature"]
    where: list[Inline] = [_line(definition["line"])]
    where += [" to ", _line(definition["end"])] if definition["end"] > definition["line"] else []
    for decorator in definition["decorators"]:
        where += ["; ", Code(f"@{decorator}")]
    doc = _prose(definition["doc"]) if definition["doc"] else []
    return Section(title, definition["anchor"], [Paragraph(where), *doc])


def _architecture(context: FileContext) -> list[Block]:
    items: list[Line] = []
    if context["own_role"]:
        items.append(["The file: ", *_role(context["own_role"])])
    if context["role"]:
        items.append(["Its folder: ", *_role(context["role"])])
    if context["layer"]:
        text = f"Layer {context['layer']} of {context['layers']}"
        items.append([f"{text}, by the longest chain of imports inside the repository."])
    return _bullets(items, "No document describes the folder, and it has no imports.")


def _role(role: list[object]) -> list[Inline]:
    text, source, line = cast("tuple[str, str, int]", role)
    return [*marked(text), " (", _file(source, line), ")"]


def _dependencies(record: FileRecord, context: FileContext) -> list[Block]:
    if record["kind"] != "python":
        users = [_used(use) for use in context["imported_by"]]
        return _bullets(users, "The file has no imports.")
    blocks: list[Block] = []
    outside = [_import_line(s, context) for s in record["imports"]]
    blocks.append(Section("Imports", "imports", _bullets(outside, "It imports nothing.")))
    users = [_used(use) for use in context["imported_by"]]
    otherwise = "No file of the repository imports it by name."
    blocks.append(Section("Imported by", "imported-by", _bullets(users, otherwise)))
    return blocks


def _used(use: list[object]) -> Line:
    path, line, text = cast("tuple[str, int, str]", use)
    return [_file(path, line), " ", Code(text)] if text else [_file(path, line)]


def _import_line(statement: ImportRecord, context: FileContext) -> Line:
    module = statement["module"]
    target = context["resolved"].get(module)
    parts: list[Inline] = [
        Link(module, docs_page(target), "", is_code=True) if target else Code(module or ".")
    ]
    names = [entry for entry in statement["names"] if entry["name"]]
    for number, entry in enumerate(names):
        inner = context["resolved"].get(f"{module}.{entry['name']}")
        text = entry["name"] + (f" as {entry['alias']}" if entry["alias"] else "")
        parts.append(", " if number else ": ")
        parts.append(Link(text, docs_page(inner), "", is_code=True) if inner else Code(text))
    if statement["typing_only"]:
        parts.append(" (for type checkers only)")
    if statement["in_function"]:
        parts.append(" (inside a function)")
    return [*parts, " ", _line(statement["line"])]


def _notes(notes: Sequence[Note], otherwise: str) -> list[Block]:
    items: list[Line] = []
    ordered = sorted(notes, key=lambda note: (note["name"], note["line"]))
    for name, group in groupby(ordered, key=lambda note: note["name"]):
        links = [Link(note["detail"], "", f"L{note['line']}") for note in group]
        items.append([f"{name}: ", *_joined(links)])
    return _bullets(items, otherwise)


def _security(record: FileRecord) -> list[Block]:
    if not record["scanner"]:
        return [Paragraph(["Not scanned: the file is not valid Python, or ruff is missing."])]
    said = Paragraph([f"Scanned with {record['scanner']}."])
    groups: dict[tuple[str, str], list[int]] = {}
    for note in record["security"]:
        groups.setdefault((note["name"], note["detail"]), []).append(note["line"])
    if not groups:
        return [said, Paragraph(["No findings."])]
    items = [
        [Code(code), f" {detail}: ", *_joined(_line(n) for n in lines[:MOST_SECURITY])]
        for (code, detail), lines in sorted(groups.items())
    ]
    return [said, Bullets(items)]


def _tests(context: FileContext) -> list[Block]:
    items: list[Line] = []
    for path, line, names in cast("list[tuple[str, int, str]]", context["tests"]):
        items.append([_file(path, line), f" uses {names}" if names else " imports it"])
    blocks = _bullets(items, "No test imports the file.")
    if context["covered_by"]:
        covered = [[Code(name)] for name in context["covered_by"]]
        blocks.append(Section("By coverage", "covered-by", [Bullets(covered)]))
    return blocks


def _examples(record: FileRecord, context: FileContext) -> list[Block]:
    items: list[Line] = []
    for path, line, text in cast("list[tuple[str, int, str]]", context["examples"]):
        items.append([Code(text), " ", _file(path, line)])
    for definition in record["definitions"]:
        if ">>>" in definition["doc"]:
            link = Link(definition["qualname"], "", definition["anchor"], is_code=True)
            items.append(["Example in the docstring of ", link])
    return _bullets(items, "No document, example or test uses a name of this file.")


def _related(context: FileContext) -> list[Block]:
    folder = posixpath.dirname(context["path"])
    siblings: list[Line] = [[_file(p), " ", *marked(purpose)] for p, purpose in context["siblings"]]
    neighbours: list[Line] = [[_file(p)] for p in sorted(set(context["resolved"].values()))]
    changed = cast("list[tuple[str, int]]", context["changed_with"])
    together: list[Line] = [[_file(p), f" {count} commits"] for p, count in changed]
    parts = (
        ("In the same folder", "same-folder", siblings, "The only file of its folder."),
        ("Imported files", "neighbours", neighbours, "None."),
        ("Changed together", "changed-together", together, "Git has no commits that say so."),
    )
    up = Paragraph(["Folder: ", Link(folder or "/", folder_page(folder), "", is_code=True)])
    return [up, *(Section(t, a, _bullets(items, otherwise)) for t, a, items, otherwise in parts)]


def _cross_references(record: FileRecord, context: FileContext) -> list[Block]:
    rows: list[Sequence[Line]] = []
    for definition in record["definitions"]:
        users = context["uses"].get(definition["qualname"], [])
        if users:
            link = Link(definition["qualname"], "", _section_of(definition), is_code=True)
            rows.append([[link], _joined(_user(use) for use in users)])
    if not rows:
        return [Paragraph(["No other file uses a name of this one, as far as imports show."])]
    return [Table(("name", "used in"), rows)]


def _user(use: list[object]) -> Link:
    path, line, _ = cast("tuple[str, int, str]", use)
    return _file(path, line)


def _section_of(definition: Definition) -> str:
    is_constant = definition["kind"] == "constant"
    return "constants" if is_constant else definition["anchor"]


def _source(record: FileRecord, text: str) -> list[Block]:
    if record["kind"] in ("binary", "symlink", "special", "unreadable"):
        return [Paragraph([record["problem"]])]
    if not text:
        return [Paragraph(["The file is empty."])]
    return [Source(text, record["language"], record["path"])]


# --- keywords -------------------------------------------------------------------------------------

KINDS = (
    ("class", "Classes"),
    ("function", "Functions"),
    ("method", "Methods"),
    ("constant", "Constants"),
)


def _keywords(record: FileRecord, context: FileContext) -> list[Block]:
    page = docs_page(record["path"])
    about: list[Block] = [
        Paragraph(["Keywords of ", _file(record["path"]), ". ", record["problem"]]),
    ]
    blocks: list[Block] = [Section("File information", "file", about)]
    for kind, title in KINDS:
        definitions = [d for d in record["definitions"] if d["kind"] == kind]
        if definitions:
            rows = [_keyword_row(page, d, context) for d in _by_name(definitions)]
            table = Table(("name", "defined", "section", "used in"), rows)
            blocks.append(Section(title, anchor_of(title), [table]))
    if record["imports"]:
        blocks.append(Section("Imports", "imports", [_import_table(page, record, context)]))
    if record["identifiers"]:
        items = [
            [Link(name, page, f"L{line}", is_code=True)]
            for name, line in sorted(record["identifiers"].items())
        ]
        blocks.append(Section("Identifiers", "identifiers", [Paragraph(_joined_lines(items))]))
    if record["terms"]:
        rows = [
            [[Code(term)], _joined(Link(str(n), page, f"L{n}") for n in lines)]
            for term, lines in sorted(record["terms"].items())
        ]
        title = "Terms" if record["kind"] == "prose" else "Terms in comments and strings"
        blocks.append(Section(title, "terms", [Table(("term", "lines"), rows)]))
    if len(blocks) == 1:
        blocks.append(Paragraph(["The file has no keywords."]))
    return blocks


def _by_name(definitions: list[Definition]) -> list[Definition]:
    return sorted(definitions, key=lambda d: (d["qualname"].lower(), d["line"]))


def _joined_lines(lines: Sequence[Line]) -> list[Inline]:
    return _joined(part for line in lines for part in line)


def _keyword_row(page: str, definition: Definition, context: FileContext) -> Sequence[Line]:
    users = context["uses"].get(definition["qualname"], [])
    line = definition["line"]
    is_constant = definition["kind"] == "constant"
    section = Link("constants" if is_constant else "code structure", page, _section_of(definition))
    return [
        [Code(definition["qualname"])],
        [Link(f"line {line}", page, f"L{line}")],
        [section],
        _joined(_user(use) for use in users) or ["-"],
    ]


def _import_table(page: str, record: FileRecord, context: FileContext) -> Table:
    lines: dict[str, tuple[int, str | None]] = {}
    for statement in record["imports"]:
        module = statement["module"]
        if module:
            lines.setdefault(module, (statement["line"], context["resolved"].get(module)))
        for entry in statement["names"]:
            if entry["name"] and entry["name"] != "*":
                target = context["resolved"].get(f"{module}.{entry['name']}")
                lines.setdefault(entry["name"], (entry["line"], target))
    rows: list[Sequence[Line]] = [
        [
            [Code(name)],
            [Link(f"line {line}", page, f"L{line}")],
            [Link("imports", page, "imports")],
            [_file(target)] if target else ["outside of the repository"],
        ]
        for name, (line, target) in sorted(lines.items())
    ]
    return Table(("name", "imported", "section", "file"), rows)
