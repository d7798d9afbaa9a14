"""Registry of the batching rules of operators.

Rules on arrays come from ``pullback.batching.array_rules``: by name, or by the class that an
operator's table entry names. A custom operator may have a rule on tensors, replacing both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.dispatch import registry
from pullback.dispatch.table import LOCK

if TYPE_CHECKING:
    from pullback.batching import array_rules
else:
    array_rules = lazy_module("pullback.batching.array_rules")

__all__ = ["array_rule", "class_of", "declare", "is_random", "set_rule", "tensor_rule"]

_classes: dict[str, tuple[str, Callable[..., Any]]] = {}
_made: dict[str, array_rules.Rule] = {}
_tensor_rules: dict[str, Callable[..., Any]] = {}
_random: set[str] = set()
_STOCK = "pullback::"


def declare(name: str, kind: str, function: Callable[..., Any] | None) -> None:
    """Registers the class of an operator, ``"elementwise"``, ``"reduction"`` or ``"random"``.

    `function` is its kernel on arrays.
    """
    if kind == "random":
        _random.add(name)
    elif function is not None:
        _classes[name] = (kind, function)


def class_of(name: str) -> str | None:
    """The class of an operator that its table names, such as ``"elementwise"``."""
    _load(name)
    return _classes[name][0] if name in _classes else None


def is_random(name: str) -> bool:
    """Whether an operator draws random numbers."""
    _load(name)
    return name in _random


def _load(name: str) -> None:
    """Loads an operator's kernels; the module that registers them calls ``declare``."""
    entry = registry.find(name)
    if entry is not None:
        entry.load()


def array_rule(name: str) -> array_rules.Rule | None:
    """The rule of an operator on arrays, if there is one."""
    found = _made.get(name)
    if found is None:
        _load(name)
        if name.startswith(_STOCK):
            found = array_rules.RULES.get(name.removeprefix(_STOCK))
        if found is None and name in _classes:
            kind, function = _classes[name]
            found = array_rules.rule_of_class(kind, name.rpartition("::")[2], function)
        if found is not None:
            _made[name] = found
    return found


def set_rule(name: str, rule: Callable[..., Any] | None) -> None:
    """Gives an operator a rule on tensors: ``rule(info, in_dims, *args) -> (output, out_dims)``.

    None takes it back.
    """
    with LOCK:
        if rule is None:
            _tensor_rules.pop(name, None)
        else:
            _tensor_rules[name] = rule
        entry = registry.find(name)
        if entry is not None:
            entry.invalidate()  # calls are linked to a rule


def tensor_rule(name: str) -> Callable[..., Any] | None:
    """The rule that `set_rule` gave to an operator."""
    return _tensor_rules.get(name)
