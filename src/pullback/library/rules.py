"""Registered rules of an operator besides its kernels: derivatives and batching.

The rules are looked up when they are needed, not when a graph is recorded, so registering again
takes effect at once. Operators of ``custom_op`` and operators of a ``Library`` share this record;
``record.py`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.dispatch import OpOverload
from pullback.dispatch.registry import RegistrationHandle, find
from pullback.errors import AutogradError, OperatorNotFoundError
from pullback.schema import FunctionSchema

__all__ = ["Rule", "Rules", "keep_rules", "operator_for", "rules_of"]

Rule = Callable[..., Any]


class Rules:
    """The rules of one operator.

    Attributes:
        backward: positional gradients, ``backward(ctx, *grads)``.
        setup_context: what it needs is kept here, ``setup_context(ctx, inputs, output)``.
        jvp: the forward rule, ``jvp(ctx, *tangents)``.
        jvp_context: the setup of the forward rule, where it is not that of `backward`.
        save: ``save(inputs, output)``, the first half of gradients by name.
        named_backward: ``backward(ctx, saved, *grads)``, the second half.
        differentiable: for each return, whether it depends on the inputs differentiably.
        places: where each rule was registered, by its name here.
    """

    def __init__(self, operator: OpOverload):
        self.operator = operator
        self.name = operator.name()
        self.schema: FunctionSchema = operator.schema
        self.positional = [a.name for a in self.schema.arguments.flat_positional]
        self.backward: Rule | None = None
        self.setup_context: Rule | None = None
        self.jvp: Rule | None = None
        self.jvp_context: Rule | None = None
        self.save: Rule | None = None
        self.named_backward: Rule | None = None
        self.vmap: Rule | None = None
        self.differentiable: tuple[bool, ...] | None = None
        self.places: dict[str, str] = {}
        self.node_class: Any = None  # of what records calls
        self.inputs_type: Any = None  # the named tuple of the arguments, made when first needed

    @property
    def has_formula(self) -> bool:
        """Whether reverse mode can go through the operator."""
        return self.backward is not None or (
            self.save is not None and self.named_backward is not None
        )

    def missing_half(self) -> AutogradError | None:
        """The error of an operator with one half of its gradients by name, if it is one."""
        if (self.save is None) == (self.named_backward is None):
            return None
        found, lost = ("backward", "save_for_backward")
        if self.named_backward is None:
            found, lost = lost, found
        attribute = "named_backward" if found == "backward" else "save"
        return AutogradError(
            f"We found a '{found}' registration for {self.name} at {self.places[attribute]}, but "
            f"were unable to find a '{lost}' registration. Both are needed: register the other "
            f"half with impl_{lost}."
        )

    def changed(self) -> None:
        """Discards linked calls, which may have been linked before a rule was registered."""
        self.operator.entry.invalidate()


_rules: dict[OpOverload, Rules] = {}


def rules_of(operator: OpOverload) -> Rules | None:
    """The rules of an operator that has some."""
    return _rules.get(operator)


def keep_rules(rules: Rules) -> RegistrationHandle:
    """Makes the rules those of their operator, until the handle is destroyed."""
    _rules[rules.operator] = rules

    def forget() -> None:
        _rules.pop(rules.operator, None)

    return RegistrationHandle(forget)


def operator_for(qualname: Any) -> OpOverload:
    """The operator that a name or an operator stands for."""
    if isinstance(qualname, OpOverload):
        return qualname
    entry = find(qualname)
    if entry is None or not entry.is_defined:
        raise OperatorNotFoundError(
            f"operator {qualname} does not exist; define it before its rules are registered"
        )
    operator: OpOverload = entry.operator
    return operator
