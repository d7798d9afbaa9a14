"""Pages about many files: folders, the front page, and the index of all names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from tools.repodocs.blocks import (
    Block,
    Bullets,
    Inline,
    Line,
    Link,
    Page,
    Paragraph,
    Section,
    Table,
    docs_page,
    folder_page,
    keyword_page,
    marked,
)
from tools.repodocs.context import Sources

NAMES = "_names"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def folder_tree(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the files of every folder, folders without files of their own included."""
    folders: dict[str, list[str]] = {"": []}
    for path in paths:
        folder = posixpath.dirname(path)
        folders.setdefault(folder, []).append(path)
        while folder:
            folder = posixpath.dirname(folder)
            folders.setdefault(folder, [])
    return folders


def subfolders(folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the folders that lie directly in each folder."""
    children: dict[str, list[str]] = {}
    for folder in sorted(folders):
        if folder:
            children.setdefault(posixpath.dirname(folder), []).append(folder)
    return children


def _file_row(sources: Sources, path: str) -> Sequence[Line]:
    summary = sources.project.files[path]
    return [
        [Link(posixpath.basename(path), docs_page(path), "", is_code=True)],
        marked(summary.purpose or summary.problem),
        [f"{summary.lines:,}"],
        [Link("keywords", keyword_page(path))],
    ]


def _folder_description(sources: Sources, folder: str) -> Line:
    role = sources.roles.get(folder)
    if role is None:
        return ["No document describes this folder."]
    link = Link(f"{role.source}:{role.line}", docs_page(role.source), f"L{role.line}", is_code=True)
    return [*marked(role.text), " (", link, ")"]


def folder_page_of(sources: Sources, children: dict[str, list[str]], folder: str) -> Page:
    """Return the page of a folder: description, what lies in it, and what it imports."""
    paths = sources.folders[folder]
    blocks: list[Block] = [
        Section("Description", "description", [Paragraph(_folder_description(sources, folder))])
    ]
    if folder in children:
        folder_rows: list[Sequence[Line]] = [
            [
                [Link(posixpath.basename(f) + "/", folder_page(f), "", is_code=True)],
                marked(sources.roles[f].text) if f in sources.roles else [],
            ]
            for f in children[folder]
        ]
        blocks.append(
            Section("Folders", "folders", [Table(("folder", "description"), folder_rows)])
        )
    if paths:
        rows = [_file_row(sources, path) for path in sorted(paths)]
        table = Table(("file", "purpose", "lines", ""), rows)
        blocks.append(Section("Files", "files", [table]))
    blocks += _folder_imports(sources, folder)
    return Page(folder_page(folder), folder or "Files", posixpath.dirname(folder), blocks)


def _folder_imports(sources: Sources, folder: str) -> list[Block]:
    """Return the folders that files of this one import, with the number of imports."""
    counts: dict[str, int] = {}
    for path in sources.folders[folder]:
        for target in sources.project.dependencies[path]:
            other = posixpath.dirname(target)
            if other != folder:
                counts[other] = counts.get(other, 0) + 1
    if not counts:
        return []
    items: list[Line] = [
        [Link(other or "/", folder_page(other), "", is_code=True), f" {count} imports"]
        for other, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return [Section("Imports from folders", "imports", [Bullets(items)])]


def front_page(sources: Sources, children: dict[str, list[str]], title: str) -> Page:
    """Return the front page: the root folder, figures, and links to the indexes."""
    page = folder_page_of(sources, children, "")
    files = sources.project.files.values()
    names = sum(len(summary.names) for summary in files)
    kinds: dict[str, int] = {}
    for summary in files:
        kind = summary.language or summary.kind
        kinds[kind] = kinds.get(kind, 0) + 1
    figures = [
        f"{len(files):,} files in {len(sources.folders):,} folders, "
        f"{sum(s.lines for s in files):,} lines, {names:,} definitions."
    ]
    rows: list[Sequence[Line]] = [
        [[kind], [f"{count:,}"]] for kind, count in sorted(kinds.items(), key=lambda p: (-p[1], p))
    ]
    problems: list[Line] = [
        [Link(s.path, docs_page(s.path), "", is_code=True), f" {s.problem}"]
        for s in files
        if s.problem and s.kind != "binary"
    ]
    blocks: list[Block] = [
        *page.blocks,
        Section("All names", "names", [Paragraph([Link("Index of names", f"{NAMES}/index")])]),
        Section("Contents", "contents", [Paragraph(figures), Table(("language", "files"), rows)]),
    ]
    if problems:
        blocks.append(Section("Files with problems", "problems", [Bullets(problems)]))
    return page._replace(title=title, blocks=blocks)


def name_pages(sources: Sources) -> list[Page]:
    """Return the index of all definitions, one page for each first letter."""
    groups: dict[str, list[tuple[str, str, str, int]]] = {}
    for path, summary in sources.project.files.items():
        for name in summary.names:
            last = name.qualname.rpartition(".")[2]
            first = last.lstrip("_")[:1].upper()
            letter = first if first in LETTERS and first else "other"
            groups.setdefault(letter, []).append((last, name.kind, path, name.line))
    links: list[Inline] = []
    pages = []
    for letter, entries in sorted(groups.items()):
        target = f"{NAMES}/{letter.lower()}"
        links += ["  " if links else "", Link(f"{letter} ({len(entries):,})", target)]
        rows: list[Sequence[Line]] = []
        for last, kind, path, line in sorted(entries, key=lambda e: (e[0].lower(), e[2], e[3])):
            link = Link(f"{path}:{line}", docs_page(path), f"L{line}", is_code=True)
            rows.append([[last], [kind], [link]])
        table = Table(("name", "kind", "defined"), rows)
        pages.append(Page(target, f"Names: {letter}", "", [table]))
    front = [Paragraph(links or ["The repository has no definitions."])]
    return [Page(f"{NAMES}/index", "Index of names", "", front), *pages]
