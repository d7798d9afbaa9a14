"""Writes the types of the tensor methods that no table makes: ``tensor/attached_methods.pyi``.

They are read from the methods that the modules of the package attach to ``Tensor``. The generator
(``scripts/generate.py``) adds the methods of operators in ``tensor/method_types.pyi``.

    python scripts/method_stubs.py [--check]
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pullback import Tensor

TARGET = Path(__file__).resolve().parents[1] / "src/pullback/tensor/attached_methods.pyi"
HEAD = '''"""Methods of tensors that no table makes; written by ``scripts/method_stubs.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

class AttachedMethods:
'''
KNOWN = {"Any", "Callable", "DTypeLike", "Iterator", "NDArray", "Sequence", "Tensor"} | {
    *("None", "bool", "bytes", "complex", "dict", "float", "int", "list", "str", "tuple")
}
OVERRIDES = ("__eq__", "__ne__")  # of methods of object with other types


def members() -> Iterator[tuple[str, Any]]:
    """The attached methods and properties, by name; those of operators have types from tables."""
    for name, member in sorted(vars(Tensor).items()):
        function = member.fget if isinstance(member, property) else member
        origin = getattr(function, "__module__", None)
        if not callable(function) or origin in (None, "pullback.tensor.tensor"):
            continue
        is_operator = origin.startswith("pullback._generated") and function.__name__ == name
        if not is_operator or isinstance(member, property):
            yield name, member


def annotation(given: Any, default: str) -> str:
    """An annotation as the stub can have it: names that the stub does not import become Any."""
    if given is inspect.Parameter.empty:
        return default
    text = str(given)
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return text if names <= KNOWN else "Any"


def parameter(given: inspect.Parameter) -> str:
    """A parameter after self. One without a type is an operand of an operator."""
    prefix = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}.get(given.kind, "")
    default, kind = "", "ArrayLike"
    if given.default is not given.empty:
        is_plain = isinstance(given.default, str | float | int | None)
        default = f" = {given.default!r}" if is_plain else " = ..."
        kind = "ArrayLike | None" if given.default is None else kind
    return f"{prefix}{given.name}: {annotation(given.annotation, kind)}{default}"


def signature(function: Any) -> str:
    """Parameters and result of a method."""
    found = inspect.signature(function)
    first, *rest = found.parameters.values()
    texts, has_star = ["self"], False
    for place, given in enumerate([first, *rest]):
        follows = rest[place] if place < len(rest) else None
        is_keyword = given.kind is given.KEYWORD_ONLY
        if is_keyword and not has_star:
            texts.append("*")
        has_star = has_star or is_keyword or given.kind is given.VAR_POSITIONAL
        if place:
            texts.append(parameter(given))
        if given.kind is given.POSITIONAL_ONLY and (
            follows is None or follows.kind is not given.POSITIONAL_ONLY
        ):
            texts.append("/")
    return f"({', '.join(texts)}) -> {annotation(found.return_annotation, 'Tensor')}"


def stub(name: str, member: Any) -> str:
    """The lines of one method or property."""
    if not isinstance(member, property):
        ignored = "  # type: ignore[override]" if name in OVERRIDES else ""
        return f"    def {name}{signature(member)}: ...{ignored}\n"
    if inspect.isclass(member.fget):
        return f"    {name}: Any\n"
    returned = annotation(inspect.signature(member.fget).return_annotation, "Tensor")
    return f"    {name}: {returned}\n"


def main() -> int:
    """Writes the file, or checks it."""
    text = HEAD + "".join(stub(name, member) for name, member in members())
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        print(f"{TARGET} is not what the methods say; run scripts/method_stubs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
