"""Analysis of one Python file by its syntax tree; the file is never imported.

Gives the definitions, the import statements with absolute module names, the uses of imported names
as absolute dotted names (``pb.func.grad`` after ``import pullback as pb`` is
``pullback.func.grad``), and the words of comments and docstrings.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator

from tools.repodocs.patterns import find_patterns, find_performance
from tools.repodocs.prose import add_terms
from tools.repodocs.records import Definition, FileRecord, ImportedName, ImportRecord

MOST_TEXT = 160  # characters of a source line or of a constant's value
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*\Z")
COMMENT = re.compile(r"#(.*)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse_python(text: str) -> ast.Module:
    """Parse source; SyntaxError for everything that cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except ValueError as error:
        raise SyntaxError(str(error)) from None
    except (RecursionError, MemoryError):  # which of them depends on the version of Python
        raise SyntaxError("it is nested too deeply") from None


def analyse_python(record: FileRecord, text: str, module: str, is_package: bool) -> None:
    """Fill the record of a Python file."""
    try:
        tree = parse_python(text)
        _fill(record, tree, text, module, is_package)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        record["problem"] = f"The file is not valid Python ({where}{error.msg})."
    except RecursionError:
        record["problem"] = "The file is nested too deeply to be analysed."


def _fill(record: FileRecord, tree: ast.Module, text: str, module: str, is_package: bool) -> None:
    record["doc"] = ast.get_docstring(tree) or ""
    record["definitions"] = list(_definitions(tree.body, "", False))
    seen: set[str] = set()
    for definition in record["definitions"]:
        if definition["anchor"] in seen:
            definition["anchor"] += f"-{definition['line']}"
        seen.add(definition["anchor"])
    record["imports"] = list(_imports(tree, module, is_package))
    collector = _References(record["imports"], text.split("\n"))
    collector.visit_body(tree.body)
    record["references"] = [
        {"target": target, "line": line, "text": source}
        for target, (line, source) in collector.found.items()
    ]
    record["attributes"] = sorted(collector.attributes)
    record["identifiers"] = collector.identifiers
    record["patterns"] = find_patterns(tree)
    record["performance"] = find_performance(tree)
    add_terms(record["terms"], _documentation(tree, text))


# --- definitions ----------------------------------------------------------------------------------


def _definitions(body: Iterable[ast.stmt], prefix: str, in_class: bool) -> Iterator[Definition]:
    """Definitions of a block and of the blocks in it, in the order of the source."""
    for node in body:
        if isinstance(node, FUNCTIONS):
            name = f"{prefix}{node.name}"
            yield _define("method" if in_class else "function", name, node, signature(node))
            yield from _definitions(node.body, f"{name}.", False)
        elif isinstance(node, ast.ClassDef):
            name = f"{prefix}{node.name}"
            bases = [ast.unparse(base) for base in (*node.bases, *node.keywords)]
            yield _define("class", name, node, "", bases)
            yield from _definitions(node.body, f"{name}.", True)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            if in_class or "." not in prefix:
                yield from _constants(node, prefix)
        else:
            for inner in _inner_blocks(node):
                yield from _definitions(inner, prefix, in_class)


def _inner_blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Blocks of a compound statement: if, try, with, loops, match."""
    for field in ("body", "orelse", "finalbody"):
        yield getattr(node, field, [])
    for holder in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield holder.body


def _constants(node: ast.Assign | ast.AnnAssign, prefix: str) -> Iterator[Definition]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if node.value is None:
        return
    for target in targets:
        if isinstance(target, ast.Name) and CONSTANT.match(target.id):
            value = " ".join(ast.unparse(node.value).split())
            yield _define("constant", f"{prefix}{target.id}", node, value[:MOST_TEXT])


def _define(
    kind: str,
    qualname: str,
    node: ast.ClassDef | Function | ast.Assign | ast.AnnAssign,
    signature_text: str,
    bases: Iterable[str] = (),
) -> Definition:
    block = None if isinstance(node, ast.Assign | ast.AnnAssign) else node
    return Definition(
        kind=kind,
        name=qualname.rpartition(".")[2],
        qualname=qualname,
        anchor=f"{kind}-{qualname}",
        line=node.lineno,
        end=node.end_lineno or node.lineno,
        signature=signature_text,
        doc=(ast.get_docstring(block) or "") if block else "",
        bases=list(bases),
        decorators=[ast.unparse(d) for d in block.decorator_list] if block else [],
    )


def signature(node: Function) -> str:
    """Return the arguments and the result of a function as source."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){result}"


# --- imports and references -----------------------------------------------------------------------


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[ImportRecord]:
    stack: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    found: list[ImportRecord] = []
    while stack:
        node, in_function, typing_only = stack.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                names = [ImportedName(name="", alias=alias.asname or "", line=alias.lineno)]
                found.append(_import(alias.name, names, node.lineno, typing_only, in_function))
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package)
            names = [
                ImportedName(name=a.name, alias=a.asname or "", line=a.lineno) for a in node.names
            ]
            found.append(_import(base, names, node.lineno, typing_only, in_function))
        inside = in_function or isinstance(node, (*FUNCTIONS, ast.Lambda))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend((child, inside, True) for child in node.body)
            stack.extend((child, inside, typing_only) for child in node.orelse)
        elif not isinstance(node, ast.expr):
            stack.extend((child, inside, typing_only) for child in ast.iter_child_nodes(node))
    return iter(sorted(found, key=lambda statement: statement["line"]))


def _import(
    module: str, names: list[ImportedName], line: int, typing_only: bool, in_function: bool
) -> ImportRecord:
    return ImportRecord(
        module=module, names=names, line=line, typing_only=typing_only, in_function=in_function
    )


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: max(len(parts) - node.level + is_package, 0)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def bound_names(imports: Iterable[ImportRecord]) -> dict[str, str]:
    """Return the local names that import statements bind, with their absolute dotted names."""
    bound = {}
    for statement in imports:
        for entry in statement["names"]:
            if entry["name"] == "*":
                continue
            if entry["name"]:
                dotted = f"{statement['module']}.{entry['name']}".lstrip(".")
                bound[entry["alias"] or entry["name"]] = dotted
            elif entry["alias"]:
                bound[entry["alias"]] = statement["module"]
            else:
                top = statement["module"].partition(".")[0]
                bound[top] = top
    return bound


class _References(ast.NodeVisitor):
    """Collects uses of imported names, with the names that functions bind themselves left out."""

    def __init__(self, imports: list[ImportRecord], lines: list[str]) -> None:
        self.bound = bound_names(imports)
        self.lines = lines
        self.found: dict[str, tuple[int, str]] = {}
        self.attributes: set[str] = set()
        self.identifiers: dict[str, int] = {}
        self.hidden: list[set[str]] = []
        for statement in imports:
            for entry in statement["names"]:
                dotted = f"{statement['module']}.{entry['name']}" if entry["name"] else ""
                self._add(dotted.rstrip("*.") or statement["module"], entry["line"])

    def visit_body(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            self.visit(node)

    def _add(self, target: str, line: int) -> None:
        if target not in self.found:
            text = self.lines[line - 1].strip() if line <= len(self.lines) else ""
            self.found[target] = line, text[:MOST_TEXT]

    def _mention(self, name: str, line: int) -> None:
        self.identifiers.setdefault(name, line)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: Function) -> None:
        self._mention(node.name, node.lineno)
        for part in (*node.decorator_list, *_annotations(node)):
            self.visit(part)
        self.hidden.append(_own_names(node))
        self.visit_body(node.body)
        self.hidden.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._mention(node.name, node.lineno)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        for part in node.name.split("."):
            self._mention(part, node.lineno)
        if node.asname:
            self._mention(node.asname, node.lineno)

    def visit_arg(self, node: ast.arg) -> None:
        self._mention(node.arg, node.lineno)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._mention(node.id, node.lineno)
        self._use(node.id, [], node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        self.attributes.update(parts)
        for part in parts:
            self._mention(part, node.lineno)
        if isinstance(inner, ast.Name):
            self._mention(inner.id, inner.lineno)
            self._use(inner.id, parts[::-1], node.lineno)
        else:
            self.visit(inner)

    def _use(self, root: str, rest: list[str], line: int) -> None:
        if root in self.bound and not any(root in names for names in self.hidden):
            self._add(".".join([self.bound[root], *rest]), line)


def _annotations(node: Function) -> Iterator[ast.expr]:
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation:
            yield argument.annotation
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default)
    if node.returns:
        yield node.returns


def _own_names(node: Function) -> set[str]:
    """Names that a function binds itself: parameters and targets of assignments.

    Imports inside the function bind a name too, but to the same thing that is looked for.
    """
    arguments = node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [a for a in (arguments.vararg, arguments.kwarg) if a]
    names = {parameter.arg for parameter in parameters}
    declared: set[str] = set()
    stack: list[ast.AST] = list(node.body)
    while stack:
        inner = stack.pop()
        if isinstance(inner, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(inner, ast.Global | ast.Nonlocal):
            declared.update(inner.names)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names.add(inner.id)
        stack.extend(ast.iter_child_nodes(inner))
    return names - declared


# --- words ----------------------------------------------------------------------------------------


def _documentation(tree: ast.Module, text: str) -> Iterator[tuple[int, str]]:
    """Lines of strings and comments with their numbers, strings first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            end = node.end_lineno or node.lineno  # escaped line ends are no lines of the source
            for offset, line in enumerate(node.value.split("\n")):
                yield min(node.lineno + offset, end), line
    for number, line in enumerate(text.split("\n"), 1):
        if "#" in line and (comment := COMMENT.search(line)):
            yield number, comment.group(1)
