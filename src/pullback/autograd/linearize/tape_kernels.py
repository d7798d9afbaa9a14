"""The kernels of operators in a closed level: they record, and note how tangents are computed.

``register.py`` links calls with tensors that require grad to them; ``closed_level.py`` tells what
the notes are for. Nothing here can fail where the operator itself does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.autograd.forward.jvp_rule import JvpRule
from pullback.autograd.graph.node import Node, node_of
from pullback.autograd.levels import current_level, leave_notes
from pullback.autograd.linearize.tangent_tape import Rule, raw
from pullback.tensor.meta import View

__all__ = ["leaving_kernel", "noting_kernel"]

_Function = Callable[..., Any]


def noting_kernel(record: _Function, formula: JvpRule | None, is_view: bool) -> _Function:
    """The kernel of an operator for tensors that require grad; `record` computes and records.

    Where there is no forward formula nothing is noted.
    """
    if formula is None or formula.function is None or formula.refused:
        return record
    if formula.has_only_tensors() and not is_view:
        if formula.places == (0,):
            return _note_first(record, Rule(formula, 1), len(formula.arguments()))
        if formula.places == (0, 1) and formula.skips_none and len(formula.arguments()) == 2:
            return _note_two(record, Rule(formula, 2))
    return _note_any(record, Rule(formula, None))


def leaving_kernel(kernel: _Function) -> _Function:
    """A kernel that does not record, because the function said so.

    Tangents would go through it all the same, and gradients of gradients do not; so the level says
    that its notes are not everything.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        leave_notes()
        return kernel(*args, **kwargs)

    return call


def _note_first(record: _Function, rule: Rule, arity: int) -> _Function:
    """The kernel of an operator whose first argument is its only tensor."""

    def call(self: Any) -> Any:
        output = record(self)
        node = output._edge
        if node is not None:  # integers have no tangent
            current_level().notes[node] = rule, (self._array,), output._array
        return output

    def call_with_options(self: Any, *options: Any, **named: Any) -> Any:
        output = record(self, *options, **named)
        node = output._edge
        if node is not None:
            values = (self._array, *options, *named.values())
            current_level().notes[node] = rule, values, output._array
        return output

    return call if arity == 1 else call_with_options


def _note_two(record: _Function, rule: Rule) -> _Function:
    """The kernel of an operator of two tensors, whose formula leaves out what has no tangent."""

    def call(self: Any, other: Any) -> Any:
        output = record(self, other)
        node = output._edge
        if node is not None:
            current_level().notes[node] = rule, (self._array, other._array), output._array
        return output

    return call


def _note_any(record: _Function, rule: Rule) -> _Function:
    """The kernel of any other operator, also of views."""

    def call(*args: Any, **kwargs: Any) -> Any:
        results = record(*args, **kwargs)
        node = _node_of(results)
        if node is not None:
            current_level().notes[node] = rule, [*args, *kwargs.values()], raw(results)
        return results

    return call


def _node_of(results: Any) -> Node | None:
    """The node that has recorded some results."""
    if isinstance(results, tuple | list):
        nodes = filter(None, map(_node_of, results))
        return next(nodes, None)
    return node_of(results._meta.edge if type(results._meta) is View else results._edge)
