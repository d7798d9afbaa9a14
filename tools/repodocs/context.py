"""What the pages of one file need from other files, as plain data.

Its digest, together with the key of the file's record, is the fingerprint of the pages: they are
written again only where one of the two has changed.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from typing import NamedTuple, TypedDict

from tools.repodocs.analyse import Summary
from tools.repodocs.project import Place, Project, Use, is_test
from tools.repodocs.records import TOOL_VERSION
from tools.repodocs.roles import Role

MOST_EXAMPLES = 12
MOST_SIBLINGS = 40


class FileContext(TypedDict):
    """Links of one file to others. Uses are lists of path, line and source line."""

    path: str
    key: str
    module: str
    layer: int
    layers: int
    role: list[object]
    own_role: list[object]
    resolved: dict[str, str]  # imported module -> path
    imported_by: list[list[object]]
    uses: dict[str, list[list[object]]]
    tests: list[list[object]]
    covered_by: list[str]
    examples: list[list[object]]
    siblings: list[list[str]]
    changed_with: list[list[object]]


class Sources(NamedTuple):
    """Everything that contexts are made from."""

    project: Project
    roles: dict[str, Role]
    changes: dict[str, list[tuple[str, int]]]
    coverage: dict[str, list[str]]
    folders: dict[str, list[str]]


def file_context(sources: Sources, path: str) -> FileContext:
    """Return the context of one file."""
    project = sources.project
    summary = project.files[path]
    folder = posixpath.dirname(path)
    importers = sorted(project.importers[path].values())
    return FileContext(
        path=path,
        key=summary.key,
        module=project.module_of.get(path, ""),
        layer=project.layers.get(path, 0),
        layers=max(project.layers.values(), default=0),
        role=list(_nearest_role(sources.roles, folder)),
        own_role=list(sources.roles.get(path, ())),
        resolved=_resolved_imports(project, summary),
        imported_by=[list(use) for use in importers if _is_code(project, use.path)],
        uses={
            name.qualname: [list(use) for use in users]
            for name in summary.names
            if (users := project.users_of(path, name.qualname, name.kind))
        },
        tests=_tests(project, path, importers),
        covered_by=sources.coverage.get(path, []),
        examples=[list(use) for use in _examples(project, path)],
        siblings=[
            [other, project.files[other].purpose]
            for other in sources.folders[folder][:MOST_SIBLINGS]
            if other != path
        ],
        changed_with=[list(pair) for pair in sources.changes.get(path, [])],
    )


def fingerprint(context: object, *more: str) -> str:
    """Return the digest of everything that a page is made from."""
    text = json.dumps([TOOL_VERSION, context, *more], sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _nearest_role(roles: dict[str, Role], folder: str) -> tuple[object, ...]:
    while folder and folder not in roles:
        folder = posixpath.dirname(folder)
    return tuple(roles[folder]) if folder in roles else ()


def _is_code(project: Project, path: str) -> bool:
    return project.files[path].kind == "python"


def _resolved_imports(project: Project, summary: Summary) -> dict[str, str]:
    found = {}
    for statement in summary.imports:
        place = project.resolve(statement["module"])
        if place is not None and place.path != summary.path:
            found[statement["module"]] = place.path
        for entry in statement["names"]:
            dotted = f"{statement['module']}.{entry['name']}"
            inner = project.resolve(dotted) if entry["name"] not in ("", "*") else None
            if inner is not None and inner.path != summary.path:
                found[dotted] = inner.path
    return found


def _tests(project: Project, path: str, importers: list[Use]) -> list[list[object]]:
    """Return the tests that import the file, with the names of it that each one uses."""
    names: dict[str, set[str]] = {}
    for name in project.files[path].names:
        for use in project.uses.get(Place(path, name.qualname), []):
            names.setdefault(use.path, set()).add(name.qualname)
    return [
        [use.path, use.line, ", ".join(sorted(names.get(use.path, ()))[:12])]
        for use in importers
        if is_test(use.path) and use.path != path
    ]


def _examples(project: Project, path: str) -> list[Use]:
    """Return uses in documents and examples first, then in tests; import lines do not count."""
    found: list[tuple[int, Use]] = []
    places = [Place(path, name.qualname) for name in project.files[path].names]
    for place in places:
        for use in project.uses.get(place, []):
            is_prose = project.files[use.path].kind == "prose"
            if use.text.startswith(("import ", "from ")) or not use.text.strip("(),"):
                continue
            in_examples = "examples" in use.path.split("/")
            if is_prose or in_examples or is_test(use.path):
                found.append((0 if is_prose else 1 if in_examples else 2, use))
    return [use for _, use in sorted(set(found))[:MOST_EXAMPLES]]
