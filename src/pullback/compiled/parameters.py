"""Arguments of compiled functions: names, and what can be a constant of a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pullback.utils import pytree

__all__ = ["is_hashable", "parameter_names"]


def is_hashable(value: Any) -> bool:
    """Whether a value can be a constant of a graph, which is part of a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def parameter_names(func: Callable[..., Any], spec: pytree.Spec) -> list[str]:
    """A name for each leaf of ``(args, kwargs)``, from the names of the parameters."""
    try:
        names = [p.name for p in inspect.signature(func).parameters.values()]
    except (TypeError, ValueError):
        names = []
    positional, by_name = spec.children
    found: list[str] = []
    for place, child in enumerate(positional.children):
        found += [names[place] if place < len(names) else f"arg{place}"] * child.size
    for step, child in zip(by_name.steps(), by_name.children, strict=True):
        found += [step.strip("[]'\"")] * child.size
    return found
