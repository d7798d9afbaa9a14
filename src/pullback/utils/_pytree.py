"""Trees by PyTorch's names, ``torch.utils._pytree``, for programs that use these.

The containers are those of ``pullback.utils.pytree``. As in PyTorch, None is a leaf here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.utils import pytree
from pullback.utils.pytree import Spec as TreeSpec

__all__ = [
    "TreeSpec",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_unflatten",
]

_Kinds = type | tuple[type, ...] | Callable[[Any], bool]


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure.

    >>> tree_flatten({"a": 1, "b": [2, None]})[0]
    [1, 2, None]
    """
    return pytree.flatten(tree, none_is_leaf=True)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a tree.

    >>> tree_leaves((1, [2, None]))
    [1, 2, None]
    """
    return tree_flatten(tree)[0]


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree of a structure with these leaves.

    >>> leaves, spec = tree_flatten((1, [2]))
    >>> tree_unflatten([10, 20], spec)
    (10, [20])
    """
    return pytree.unflatten(treespec, leaves)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """A tree with what `func` returns for each leaf, and the leaves in its place in `rests`.

    >>> tree_map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    leaves, spec = tree_flatten(tree)
    others = [pytree.flatten_like(spec, rest, f"tree {n + 2}") for n, rest in enumerate(rests)]
    return tree_unflatten(map(func, leaves, *others), spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """Calls `func` with each leaf, and returns the tree as it was given.

    >>> found = []
    >>> tree_map_(found.append, (1, [2])), found
    ((1, [2]), [1, 2])
    """
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(kinds: _Kinds, func: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with what `func` returns for the leaves of some kinds, which may be a predicate.

    >>> tree_map_only(int, lambda n: n * 2, (1, "a", [2.0, 3]))
    (2, 'a', [2.0, 6])
    """
    is_chosen: Any = kinds
    if isinstance(kinds, type | tuple):
        is_chosen = lambda leaf: isinstance(leaf, kinds)  # noqa: E731
    return tree_map(lambda leaf: func(leaf) if is_chosen(leaf) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether a predicate holds for all leaves.

    >>> tree_all(bool, (1, [2]))
    True
    """
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether a predicate holds for a leaf at least.

    >>> tree_any(bool, (0, [2]))
    True
    """
    return any(map(pred, tree_leaves(tree)))
