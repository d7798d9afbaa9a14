"""``autograd.util``: small helpers for tuples and graphs."""

from __future__ import annotations

import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pullback.compat.autograd.test_util import check_grads

__all__ = ["func", "quick_grad_check", "subval", "subvals", "toposort"]


def subvals(x: Iterable[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """A tuple with some of its values replaced, as pairs of place and value.

    >>> subvals((1, 2, 3), [(0, 10), (2, 30)])
    (10, 2, 30)
    """
    values = list(x)
    for place, value in ivs:
        values[place] = value
    return tuple(values)


def subval(x: Iterable[Any], i: int, v: Any) -> tuple[Any, ...]:
    """A tuple with one of its values replaced.

    >>> subval((1, 2, 3), 1, 20)
    (1, 20, 3)
    """
    return subvals(x, [(i, v)])


def func(f: Any) -> Any:
    """The function itself: what a method was in Python 2 differed from its function."""
    return f


def toposort(
    end_node: Any, parents: Callable[[Any], Iterable[Any]] = operator.attrgetter("parents")
) -> Iterator[Any]:
    """The nodes behind a node, each before its parents (Kahn's topological sort).

    >>> edges = {"c": ["a", "b"], "b": ["a"], "a": []}
    >>> list(toposort("c", edges.__getitem__))
    ['c', 'b', 'a']
    """
    children: Counter[Any] = Counter()
    seen, stack = {end_node}, [end_node]
    while stack:
        for parent in parents(stack.pop()):
            children[parent] += 1
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    ready = [end_node]
    while ready:
        node = ready.pop()
        yield node
        for parent in parents(node):
            children[parent] -= 1
            if not children[parent]:
                ready.append(parent)


def quick_grad_check(
    fun: Callable[..., Any],
    arg0: Any,
    extra_args: Iterable[Any] = (),
    kwargs: dict[str, Any] | None = None,
    **_: Any,
) -> None:
    """Deprecated in HIPS autograd: `check_grads` of a function by its first argument."""
    warnings.warn("quick_grad_check is deprecated; use test_util.check_grads", stacklevel=2)
    check_grads(lambda x: fun(x, *extra_args, **(kwargs or {})), modes=["rev"], order=1)(arg0)
