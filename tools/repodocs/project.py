"""Links between the files of a repository: modules, imports, uses of names, tests, layers.

Works on the summaries of all files. A dotted name is resolved as Python would do it, without
importing: the longest prefix that is a module, then its definitions, then the names that the module
imports itself (re-exports), with star imports last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from tools.repodocs.analyse import Item, Summary
from tools.repodocs.python_source import bound_names

MOST_STEPS = 20  # of a chain of re-exports; names of compiled modules would grow without end
TEST_FOLDERS = {"test", "tests", "testing"}


class Place(NamedTuple):
    """A file with one of its definitions; the name is empty for the module itself."""

    path: str
    qualname: str


class Use(NamedTuple):
    """A line of another file that uses something."""

    path: str
    line: int
    text: str


def module_items(paths: Sequence[str], root_name: str) -> list[Item]:
    """Return the module name of every Python file, from the packages that it lies in."""
    known = set(paths)
    is_package = {p.rpartition("/")[0] for p in known if p.rpartition("/")[2] == "__init__.py"}
    items = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        stem, extension = os.path.splitext(name)
        if extension not in (".py", ".pyi"):
            items.append(Item(path, "", False))
            continue
        parts = [] if stem == "__init__" else [stem]
        while folder in is_package:
            parts.insert(0, folder.rpartition("/")[2] or root_name)
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        items.append(Item(path, ".".join(parts), stem == "__init__"))
    return items


def is_test(path: str) -> bool:
    """Whether a path is a test by pytest's naming, or lies in a folder of tests."""
    pure = PurePosixPath(path)
    named = pure.name.startswith("test_") or pure.stem.endswith("_test")
    return pure.suffix == ".py" and (named or bool(TEST_FOLDERS & set(pure.parts[:-1])))


class Project:
    """All files of a repository with the links between them."""

    def __init__(self, summaries: Iterable[Summary], items: Iterable[Item]) -> None:
        self.files = {summary.path: summary for summary in summaries}
        self.modules: dict[str, str] = {}
        named = [item for item in items if item.module and item.path in self.files]
        for item in sorted(named, key=lambda item: item.path.endswith(".pyi")):
            self.modules.setdefault(item.module, item.path)
        self.module_of = {item.path: item.module for item in named}
        for item in named:  # folders without __init__.py are named from the root
            dotted = os.path.splitext(item.path)[0].replace("/", ".").removesuffix(".__init__")
            self.modules.setdefault(dotted, item.path)
        self._defined = {p: {n.qualname for n in s.names} for p, s in self.files.items()}
        self._bound: dict[str, dict[str, str]] = {}
        self._stars: dict[str, list[str]] = {}
        for path, summary in self.files.items():
            if summary.imports:
                self._bound[path] = bound_names(summary.imports)
                self._stars[path] = [
                    s["module"]
                    for s in summary.imports
                    if s["names"][0]["name"] == "*" and s["module"] in self.modules
                ]
        self._resolved: dict[str, Place | None] = {}
        self.uses: dict[Place, list[Use]] = {}
        self.importers: dict[str, dict[str, Use]] = {path: {} for path in self.files}
        self.dependencies: dict[str, set[str]] = {path: set() for path in self.files}
        self._link()
        self.layers = _layers(self._runtime_imports())

    def resolve(self, dotted: str, steps: int = 0) -> Place | None:
        """Return the file and definition that a dotted name means, or None."""
        if steps > MOST_STEPS:
            return None
        if dotted not in self._resolved:
            self._resolved[dotted] = None  # ends a circle of imports
            self._resolved[dotted] = self._resolve(dotted, steps)
        return self._resolved[dotted]

    def _resolve(self, dotted: str, steps: int) -> Place | None:
        parts = dotted.split(".")
        for cut in range(len(parts), 0, -1):
            path = self.modules.get(".".join(parts[:cut]))
            if path is not None:
                return self._inside(path, parts[cut:], steps)
        return None

    def _inside(self, path: str, rest: list[str], steps: int) -> Place | None:
        """Return what the names after a module's own name mean."""
        if not rest:
            return Place(path, "")
        defined = self._defined[path]
        if rest[0] in defined:
            method = ".".join(rest[:2])
            return Place(path, method if len(rest) > 1 and method in defined else rest[0])
        target = self._bound.get(path, {}).get(rest[0])
        if target is not None:
            found = self.resolve(".".join([target, *rest[1:]]), steps + 1)
            if found is not None and found != Place(path, ""):
                return found
        for module in self._stars.get(path, ()):
            found = self.resolve(".".join([module, *rest]), steps + 1)
            if found is not None and found.qualname:
                return found
        return Place(path, "")

    def _link(self) -> None:
        for path, summary in self.files.items():
            for reference in summary.references:
                place = self.resolve(reference["target"])
                if place is None or place.path == path:
                    continue
                use = Use(path, reference["line"], reference["text"])
                self.uses.setdefault(place, []).append(use)
                self.importers[place.path].setdefault(path, use)
                self.dependencies[path].add(place.path)

    def users_of(self, path: str, qualname: str, kind: str) -> list[Use]:
        """Return the lines of other files that use a definition, one line a file.

        A method is looked for by its name in the files that use its module: the class of a value is
        not visible in a syntax tree.
        """
        found = {use.path: use for use in reversed(self.uses.get(Place(path, qualname), []))}
        name = qualname.rpartition(".")[2]
        if kind == "method" and not (name.startswith("__") and name.endswith("__")):
            for other, use in self.importers[path].items():
                if name in self.files[other].attributes and other not in found:
                    found[other] = Use(other, 0, use.text)
        return sorted(found.values())

    def _runtime_imports(self) -> dict[str, set[str]]:
        """Return the imports at module level, without those for type checkers."""
        graph: dict[str, set[str]] = {p: set() for p, s in self.files.items() if s.kind == "python"}
        for path, edges in graph.items():
            for statement in self.files[path].imports:
                if statement["typing_only"] or statement["in_function"]:
                    continue
                module = statement["module"]
                dotted = [module, *(f"{module}.{entry['name']}" for entry in statement["names"])]
                edges.update(self.modules[name] for name in dotted if name in self.modules)
            edges.discard(path)
            edges &= graph.keys()
        return graph


def _layers(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the length of the longest chain of imports below each file, from 1.

    Files that import each other in a circle (strongly connected components, found with Tarjan's
    algorithm) share a layer.
    """
    layers: dict[str, int] = {}
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    for start in graph:
        if start in order:
            continue
        order[start] = low[start] = len(order)
        open_nodes.append(start)
        is_open.add(start)
        work = [(start, iter(sorted(graph[start])))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_nodes.append(target)
                    is_open.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in is_open:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    cut = open_nodes.index(node)
                    members = open_nodes[cut:]
                    del open_nodes[cut:]
                    is_open.difference_update(members)
                    below = {t for m in members for t in graph[m]} - set(members)
                    level = 1 + max((layers[t] for t in below), default=0)
                    layers.update(dict.fromkeys(members, level))
    return layers
