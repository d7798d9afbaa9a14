"""Trees of values: the nested containers that transforms take and return.

A tree is a leaf, or a container of trees: a tuple, named tuple, list, dict (also ordered and
default dicts) or dataclass instance; ``None`` is a container of nothing. Everything else is a leaf,
tensors included, which are not imported here. A field of a dataclass whose metadata says
``{"static": True}`` belongs to the structure and is no leaf.

Used by everything that takes or returns arguments of any shape: transforms, batching,
checkpointing.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from pullback.errors import AutogradValueError

__all__ = ["LEAF", "Spec", "flatten", "flatten_like", "is_leaf", "leaves", "map", "unflatten"]


class Spec:
    """The structure of a tree: what is left when its leaves are taken out.

    `kind` is the container's type and `context` what else it takes to make it again: the keys of a
    dict, the names of fields. Two specs are equal if their trees have equal structure.

    >>> import pullback as pb
    >>> from pullback.utils import pytree
    >>> pytree.flatten({"a": 1, "b": (2, 3)})[1].size
    3
    """

    __slots__ = ("children", "context", "kind", "size")

    def __init__(self, kind: type | None, context: Any, children: tuple[Spec, ...]) -> None:
        self.kind = kind
        self.context = context
        self.children = children
        self.size: int = sum(c.size for c in children) if kind is not None else 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return (self.kind, self.context, self.children) == (
            other.kind,
            other.context,
            other.children,
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.size, len(self.children)))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        inside = (f"{s}: {c!r}" for s, c in zip(self.steps(), self.children, strict=True))
        return f"{self.kind.__name__}({', '.join(inside)})"

    def steps(self) -> list[str]:
        """The path of each child from its container, as Python source."""
        if _is_dict(self.kind):
            return [f"[{key!r}]" for key in self.context[0]]
        if self.kind is not None and dataclasses.is_dataclass(self.kind):
            return [f".{name}" for name in self.context[0]]
        if _is_named_tuple(self.kind):
            return [f".{name}" for name in self.kind._fields]  # type: ignore[union-attr]
        return [f"[{place}]" for place in range(len(self.children))]

    def paths(self) -> list[str]:
        """The path of each leaf from the root, as Python source.

        >>> flatten({"w": [1.0, 2.0], "b": 3.0})[1].paths()
        ["['w'][0]", "['w'][1]", "['b']"]
        """
        return [""] if self.kind is None else list(self._paths(""))

    def _paths(self, prefix: str) -> Iterator[str]:
        if self.kind is None:
            yield prefix
        for step, child in zip(self.steps(), self.children, strict=True):
            yield from child._paths(prefix + step)


LEAF: Final = Spec(None, None, ())


def flatten(tree: Any, *, none_is_leaf: bool = False) -> tuple[list[Any], Spec]:
    """The leaves of a tree, from left to right, and its structure.

    >>> flatten({"w": [1.0, 2.0], "b": None})
    ([1.0, 2.0], dict(['w']: list([0]: *, [1]: *), ['b']: None))
    """
    if _is_leaf_kind(type(tree)):  # most arguments and results
        return [tree], LEAF
    found: list[Any] = []
    return found, _flatten(tree, found, none_is_leaf)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, from left to right.

    >>> import pullback as pb
    >>> from pullback.utils import pytree
    >>> pytree.leaves({"a": 1, "b": (2, 3)})
    [1, 2, 3]
    """
    return flatten(tree)[0]


def unflatten(spec: Spec, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves.

    >>> values, spec = flatten((1, {"a": 2}))
    >>> unflatten(spec, [value * 10 for value in values])
    (10, {'a': 20})
    """
    values = list(leaves)
    if len(values) != spec.size:
        raise AutogradValueError(
            f"unflatten: {spec!r} has {spec.size} leaves, but {len(values)} were given"
        )
    return values[0] if spec is LEAF else _unflatten(spec, iter(values))


def flatten_like(spec: Spec, tree: Any, what: str = "the tree") -> list[Any]:
    """The leaves of a tree that has to have this structure; `what` names it in the error.

    Keys of a dict may come in any order. Where the structure has a leaf, the tree may have
    anything, so that this also takes out subtrees.

    >>> import pullback as pb
    >>> from pullback.utils import pytree
    >>> spec = pytree.flatten({"a": 1, "b": 2})[1]
    >>> pytree.flatten_like(spec, {"b": 20, "a": 10})
    [10, 20]
    """
    found: list[Any] = []
    _flatten_like(spec, tree, found, what, "")
    return found


def map(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Calls a function with each leaf, and the leaves in the same place of the other trees.

    >>> map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    first, spec = flatten(tree)
    rest = [flatten_like(spec, other, f"tree {n + 2}") for n, other in enumerate(others)]
    return unflatten(spec, (fn(*values) for values in zip(first, *rest, strict=True)))


def is_leaf(value: Any) -> bool:
    """Whether a value is no container.

    >>> import pullback as pb
    >>> from pullback.utils import pytree
    >>> pytree.is_leaf(1.0), pytree.is_leaf([1.0])
    (True, False)
    """
    return _is_leaf_kind(type(value))


def _flatten(tree: Any, found: list[Any], none_is_leaf: bool) -> Spec:
    if (tree is None and none_is_leaf) or _is_leaf_kind(type(tree)):
        found.append(tree)
        return LEAF
    context, children = _unpack_container(tree)
    return Spec(
        type(tree), context, tuple(_flatten(child, found, none_is_leaf) for child in children)
    )


def _are_leaves(kind: type) -> bool:
    """Whether values of a type are leaves."""
    is_known = kind in (tuple, list, type(None)) or _is_dict(kind) or _is_named_tuple(kind)
    return not is_known and not dataclasses.is_dataclass(kind)


_is_leaf_kind: Callable[[type], bool] = lru_cache(maxsize=256)(_are_leaves)


def _unpack_container(tree: Any) -> tuple[Any, Iterable[Any]]:
    """Returns the context that rebuilds a container, and its children."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return None, tree
    if tree is None:
        return None, ()
    if _is_dict(kind):
        return (list(tree), getattr(tree, "default_factory", None)), tree.values()
    if _is_named_tuple(kind):
        return None, tree
    fields = dataclasses.fields(kind)
    names = [f.name for f in fields if not f.metadata.get("static")]
    static = {f.name: getattr(tree, f.name) for f in fields if f.metadata.get("static")}
    return (names, static), [getattr(tree, name) for name in names]


def _unflatten(spec: Spec, values: Iterator[Any]) -> Any:
    kind = spec.kind
    if kind is None:
        return next(values)
    if kind is type(None):
        return None
    children = [_unflatten(child, values) for child in spec.children]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if _is_dict(kind):
        keys, factory = spec.context
        pairs = zip(keys, children, strict=True)
        return defaultdict(factory, pairs) if kind is defaultdict else kind(pairs)
    if _is_named_tuple(kind):
        return kind(*children)
    made: Any = object.__new__(kind)
    names, static = spec.context
    # Without __init__: it may check or convert values, and fields of a frozen class cannot be set
    # otherwise.
    for name, child in (*zip(names, children, strict=True), *static.items()):
        object.__setattr__(made, name, child)
    return made


def _flatten_like(spec: Spec, tree: Any, found: list[Any], what: str, path: str) -> None:
    if spec.kind is None:
        found.append(tree)
        return
    if type(tree) is not spec.kind:
        raise _mismatch(spec, tree, what, path)
    context, children = _unpack_container(tree)
    parts = list(children)
    if _is_dict(spec.kind):
        fits = set(context[0]) == set(spec.context[0])
        by_key = dict(zip(context[0], parts, strict=True))
        parts = [by_key[key] for key in spec.context[0]] if fits else parts
    else:
        fits = context == spec.context and len(parts) == len(spec.children)
    if not fits:
        raise _mismatch(spec, tree, what, path)
    for step, child, part in zip(spec.steps(), spec.children, parts, strict=True):
        _flatten_like(child, part, found, what, path + step)


def _mismatch(spec: Spec, tree: Any, what: str, path: str) -> AutogradValueError:
    given = flatten(tree)[1]
    got = f"a {type(tree).__name__}" if given.kind is None else repr(given)
    place = f" at {path}" if path else ""
    return AutogradValueError(
        f"{what} does not have the expected structure{place}: expected {spec!r}, got {got}"
    )


def _is_dict(kind: type | None) -> bool:
    return kind is dict or kind is OrderedDict or kind is defaultdict


def _is_named_tuple(kind: type | None) -> bool:
    return kind is not None and issubclass(kind, tuple) and hasattr(kind, "_fields")
