"""How many parameters of ``autograd/`` are typed ``Any``, which says nothing about them.

Aliases of ``Any``, ``object`` and containers without a type of their items count as ``Any``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# The share of such parameters, in percent. It may fall, and is then to be lowered here.
MOST_ANY = 20
CONTAINERS = {"dict", "list", "tuple", "set", "Sequence", "Mapping", "Iterable", "Callable"}


def annotated_parameters(tree: ast.Module) -> Iterator[ast.expr]:
    """The annotations of all parameters, without ``self`` and ``cls``, which have none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            for parameter in every:
                if parameter is not None and parameter.annotation is not None:
                    yield parameter.annotation


def aliases_of_any(trees: list[ast.Module]) -> set[str]:
    """Names that are assigned ``Any``."""
    return {
        target.id
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and not is_text(node) and is_any(node.value, set())
    }


def is_text(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a string is assigned that is no type."""
    is_alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
    return isinstance(node.value, ast.Constant) and not is_alias


def is_any(annotation: ast.expr, aliases: set[str]) -> bool:
    """Whether an annotation says nothing: ``Any``, an alias, ``object``, a bare container."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return is_any(ast.parse(annotation.value, mode="eval").body, aliases)
    if isinstance(annotation, ast.BinOp):  # Any | None is Any
        return is_any(annotation.left, aliases) or is_any(annotation.right, aliases)
    return isinstance(annotation, ast.Name) and annotation.id in {
        "Any",
        "object",
        *CONTAINERS,
        *aliases,
    }


def test_few_parameters_of_autograd_are_any(root: Path) -> None:
    folder = root / "src" / "pullback" / "autograd"
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    aliases = aliases_of_any(list(trees.values()))
    counts: dict[str, list[int]] = {}
    for path, tree in trees.items():
        unit = path.relative_to(folder).parts[0]
        for annotation in annotated_parameters(tree):
            count = counts.setdefault(unit, [0, 0])
            count[0] += is_any(annotation, aliases)
            count[1] += 1
    any_typed, every = (sum(column) for column in zip(*counts.values(), strict=True))
    share = 100 * any_typed / every
    assert share <= MOST_ANY, f"{share:.1f} % are Any: {counts}"


def test_annotations_that_say_nothing_are_found() -> None:
    tree = ast.parse(
        "Value = Any\n"
        "def f(a: Any, b: Value, c: object, d: dict, e: 'Any | None', f: Callable): ..."
    )
    aliases = aliases_of_any([tree])
    assert [is_any(each, aliases) for each in annotated_parameters(tree)] == [True] * 6
    tree = ast.parse("def f(a: int, b: list[Any], c: Node | None, *d: Tensor, **e: str): ...")
    assert not any(is_any(each, aliases) for each in annotated_parameters(tree))
