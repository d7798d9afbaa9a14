"""Docstrings with NumPy's sections: Parameters, Returns, Attributes, Notes and Examples.

In the source, arguments are described in an ``Args:`` block, types stand in the signature alone,
and examples need no heading. Here each docstring gets the sections of numpydoc before numpydoc
renders it: the parameters with the types and defaults of the signature, the type of the result, and
the examples. The types of generated functions are read from the stubs beside them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"(Args|Attributes|Returns):$")
ENTRY = re.compile(r" {4}([*`\w.]+(?:(?:, | and )[*`\w.]+)*): ?(.*)$")
SEQUENCES = ("list", "tuple", "set", "Sequence", "Iterable", "Iterator", "Collection")
PLAIN_NAMES = {
    "Any": "",
    "ArrayLike": "array_like",
    "Callable": "callable",
    "DTypeLike": "dtype",
    "NDArray": "ndarray",
}
# Arguments that mean the same in every operator; the docstrings of the tables leave them out.
COMMON = {
    "keepdims": "Whether the reduced axes stay, with length 1.",
    "out": "A tensor or an array that receives the result.",
}


@dataclass
class Sections:
    """The parts of a docstring."""

    text: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    arguments: dict[str, list[str]] = field(default_factory=dict)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    returns: list[str] = field(default_factory=list)


def split_docstring(lines: list[str]) -> Sections:
    """The parts of a docstring: text, blocks, and everything from the first example on."""
    found = Sections()
    target, place = found.text, 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if block := BLOCK.match(line):
            entries = []
            while place < len(lines) and (lines[place].startswith("    ") or not lines[place]):
                entries.append(lines[place])
                place += 1
            if block.group(1) == "Returns":
                found.returns = [entry.strip() for entry in entries if entry]
            else:
                is_arguments = block.group(1) == "Args"
                _read_entries(found.arguments if is_arguments else found.attributes, entries)
            target = found.notes
            continue
        if line.startswith(">>> "):
            target = found.examples
        target.append(line)
    return found


def _read_entries(described: dict[str, list[str]], lines: list[str]) -> None:
    words: list[str] = []
    for line in lines:
        if entry := ENTRY.match(line):
            words = [entry.group(2)[:1].upper() + entry.group(2)[1:]]
            for name in re.split(r", | and ", entry.group(1)):
                described[name.strip("`*")] = words
        elif line:
            words.append(line.strip())


# --- types ----------------------------------------------------------------------------------------


def type_words(annotation: str, names: dict[str, Any]) -> str:
    """A type as NumPy's documentation writes it; empty if it says nothing.

    `names` holds the names of the module, by which aliases are replaced by what they stand for.
    """
    try:
        return _words(ast.parse(annotation.strip(), mode="eval").body, names)
    except SyntaxError:
        return ""


def _words(node: ast.expr, names: dict[str, Any]) -> str:
    if isinstance(node, ast.Constant):
        is_text = isinstance(node.value, str)
        return type_words(node.value, names) if is_text else str(node.value)
    if isinstance(node, ast.BinOp):
        left, right = _words(node.left, names), _words(node.right, names)
        return f"{left} or {right}" if left and right and left != right else left
    if isinstance(node, ast.Attribute):
        return PLAIN_NAMES.get(node.attr, node.attr)
    if isinstance(node, ast.Name):
        return _name_words(node.id, names)
    if isinstance(node, ast.Subscript):
        return _generic_words(node, names)
    return ""


def _name_words(name: str, names: dict[str, Any]) -> str:
    if name in PLAIN_NAMES:
        return PLAIN_NAMES[name]
    value = names.get(name)
    if value is None or inspect.isclass(value):
        return "" if name.startswith("_") else name
    alias = re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(getattr(value, "__value__", value)))
    return type_words(alias, {})


def _generic_words(node: ast.Subscript, names: dict[str, Any]) -> str:
    base = ast.unparse(node.value).rpartition(".")[2]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if base == "Literal":
        return f"{{{', '.join(ast.unparse(part) for part in parts)}}}"
    if base in SEQUENCES:
        inner = {_words(p, names) for p in parts if ast.unparse(p) != "..."}
        return (
            f"{base.lower()} of {inner.pop()}"
            if len(inner) == 1 and inner != {""}
            else base.lower()
        )
    if base == "Optional":
        return f"{_words(parts[0], names)} or None"
    return PLAIN_NAMES.get(base, base)


# --- signatures -----------------------------------------------------------------------------------


@dataclass
class Parameter:
    """One parameter as its section shows it."""

    name: str
    kind: str
    default: str

    def heading(self) -> str:
        """The line of the section."""
        words = [word for word in (self.kind, self.default) if word]
        return f"{self.name} : {', '.join(words)}" if words else self.name


@functools.cache
def stubs_of(module: str) -> dict[str, ast.FunctionDef]:
    """The functions of the stub beside a generated module."""
    path = Path(str(sys.modules[module].__file__)).with_suffix(".pyi")
    if not path.exists():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def annotations_of(value: Any) -> dict[str, str]:
    """The types of parameters and result as text."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if module in sys.modules and "_generated" in module and name in stubs_of(module):
        stub = stubs_of(module)[name]
        given = [*stub.args.posonlyargs, *stub.args.args, *stub.args.kwonlyargs]
        found = {a.arg: ast.unparse(a.annotation) for a in given if a.annotation}
        return found | ({"return": ast.unparse(stub.returns)} if stub.returns else {})
    maker = value.__init__ if inspect.isclass(value) else value
    raw = getattr(maker, "__annotations__", {})
    return {key: kind if isinstance(kind, str) else _plain(kind) for key, kind in raw.items()}


def _plain(kind: Any) -> str:
    return kind.__name__ if inspect.isclass(kind) else str(kind)


def parameters_of(value: Any, what: str) -> Iterator[Parameter]:
    """The parameters of a function, a method or a class."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    kinds = annotations_of(value)
    names = getattr(inspect.unwrap(getattr(value, "__init__", value)), "__globals__", {})
    names = getattr(inspect.unwrap(value), "__globals__", names) if callable(value) else names
    for place, given in enumerate(signature.parameters.values()):
        if given.name.startswith("_") or (place == 0 and what == "method" and given.name == "self"):
            continue
        stars = {given.VAR_POSITIONAL: r"\*", given.VAR_KEYWORD: r"\*\*"}.get(given.kind, "")
        default = ""
        if given.default is not given.empty:
            text = repr(given.default)  # of autodoc's own object: the text of the source
            is_short = text != "None" and "<" not in text and len(text) < 40
            default = f"default {text}" if is_short else "optional"
        kind = "" if stars else type_words(kinds.get(given.name, ""), names)
        kind = kind.removesuffix(" or None") if default == "optional" else kind
        yield Parameter(stars + given.name, kind, default)


def result_of(value: Any, what: str) -> str:
    """The type of the result in words."""
    if what not in ("function", "method"):
        return ""
    names = getattr(inspect.unwrap(value), "__globals__", {})
    words = type_words(annotations_of(value).get("return", ""), names)
    return "" if words == "None" else words


# --- sections -------------------------------------------------------------------------------------


def heading(title: str) -> list[str]:
    """The heading of a section."""
    return ["", title, "-" * len(title)]


def split_cause(text: list[str]) -> list[str]:
    """The text of an error, with a paragraph for its cause and one for the fix."""
    made = re.sub(r"\b(Cause|Fix):\s+(\S)", _titled, "\n".join(text))
    return made.split("\n")


def _titled(found: re.Match[str]) -> str:
    return f"\n\n**{found.group(1)}.** {found.group(2).upper()}"


def numpy_lines(lines: list[str], value: Any, what: str) -> list[str]:
    """A docstring with NumPy's sections."""
    parts = split_docstring(lines)
    made = split_cause(parts.text) if what == "exception" else list(parts.text)
    shown = [] if what in ("exception", "property") else list(parameters_of(value, what))
    described = {p.name.strip("\\*"): p for p in shown}
    shown += [Parameter(name, "", "") for name in parts.arguments if name not in described]
    texts = {**{name: [text] for name, text in COMMON.items()}, **parts.arguments}
    if any(p.kind or p.name.strip("\\*") in texts for p in shown):
        made += heading("Parameters")
        for parameter in shown:
            words = texts.get(parameter.name.strip("\\*"), [])
            made += [parameter.heading(), *(f"    {line}" for line in words)]
    kind = result_of(value, what)
    if kind or parts.returns:
        made += [*heading("Returns"), kind or "object", *(f"    {line}" for line in parts.returns)]
    if parts.attributes:
        made += heading("Attributes")
        for name, words in parts.attributes.items():
            made += [name, *(f"    {line}" for line in words)]
    if any(parts.notes):
        made += [*heading("Notes"), *parts.notes]
    if parts.examples:
        made += [*heading("Examples"), *parts.examples]
    return made


def convert(_: Any, what: str, __: str, value: Any, ___: Any, lines: list[str]) -> None:
    """Replaces a docstring; called by autodoc before numpydoc."""
    if what in ("function", "method", "class", "exception", "property"):
        lines[:] = numpy_lines(lines, value, what)


def setup(app: Any) -> dict[str, bool]:
    """Connects the conversion before numpydoc's, which has priority 500."""
    app.connect("autodoc-process-docstring", convert, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
