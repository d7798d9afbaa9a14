"""Tangent tape: records each operation's JVP rule next to its node, so that Hessian products need
one forward run.

``func.hvp`` runs a function in a level of its own, outside of which nothing differentiates what
happens inside. The function runs as in any transform of reverse mode. Beside every node the tape
records the operation's JVP rule, its arguments and its results. A backward pass reads the tangents
of what nodes have saved (``backward.py``); they are computed then, one tangent or many at once, as
arrays without history. Those of a loss, of sums and averages are mostly never computed.

A node without a record, that of a custom function or of an in-place write, has no tangent, and a
pass that reads it is given up: a record is either complete or not used.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import numpy as np

from pullback.autograd.forward.jvp_rule import JvpRule, fit_tangent, unwrap
from pullback.autograd.graph.node import Edge, Node, Output, edge_to, node_of
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import TransformLevel, current_level, leave_tape
from pullback.autograd.namespaces import arrays
from pullback.dispatch.modes import TAPE, TRANSFORM
from pullback.interrupts import uninterrupted_entry
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.levels import next_serial
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor

__all__ = ["TangentTape", "make_leaving_kernel", "make_tape_kernel"]

_Function = Callable[..., Any]


class TangentTape(TransformLevel):
    """A transform of reverse mode that records JVP rules.

    Attributes:
        batch_shape: of the tangents, whose batch axes come first: () or the number of tangents.
        tape: JVP rule, arguments and results by node, in the order of recording.
        tangents: those that have been computed, and those of the inputs, by edge.
        is_left: whether something has happened that tangents depend on and recorded history
            does not.
    """

    __slots__ = ("_computed", "batch_shape", "is_left", "tangents", "tape")
    modes = TRANSFORM | TAPE

    def __init__(self, batch_shape: tuple[int, ...] = ()) -> None:
        self.serial = next_serial()  # without super(): small Hessian products are called often
        self.alive = self.records = True
        self.forward = False
        self.saved = []
        self.batch_shape = batch_shape
        self.tape: dict[Node, tuple[JvpRule, tuple[Any, ...], Any]] = {}
        self.tangents: dict[Edge, Any] = {}
        self.is_left = False
        self._computed: Node | None = None  # the last node that had a tangent before a write

    @uninterrupted_entry
    def end(self) -> None:
        """Releases the tangents, and what they would be computed from."""
        self.alive = False
        self.tape.clear()
        self.tangents.clear()

    def compute_tangents(self) -> None:
        """Computes all tangents, before something that they are computed from changes.

        A record that gives none is removed: later it might give a wrong one.
        """
        tape, last = self.tape, self._computed
        try:
            pending = list(takewhile(lambda node: node is not last, reversed(tape)))
        except RuntimeError:  # another thread records something at this moment
            pending = [*tape][::-1]
        before = get_settings()
        try:
            set_settings(QUIET)
            for node in reversed(pending):
                try:
                    self.tangent(node)
                except Exception:  # no error of the function
                    tape.pop(node, None)
        finally:
            set_settings(before)
        self._computed = next((node for node in pending if node in tape), last)

    def leave_tape(self) -> None:
        """Says that the records are incomplete."""
        self.is_left = True

    def tangent(self, edge: Edge) -> Any:
        """The tangent of a result; a KeyError where there is no record of it."""
        tangents = self.tangents
        if edge not in tangents:
            wanted = [edge]
            while wanted:  # a stack, because recursion would be too deep for long chains
                last = wanted[-1]
                source = None if last in tangents else self._compute(last)
                if source is None:
                    wanted.pop()
                else:
                    wanted.append(source)
        return tangents[edge]

    def _compute(self, edge: Any) -> Edge:
        """Computes the tangent of a result, or returns an edge whose tangent it needs first."""
        tangents = self.tangents
        node: Node = edge.node if type(edge) is Output else edge
        if node._arity == 1 and node._edge0 not in tangents:
            return node._edge0
        rule, values, results = self.tape[node]
        given: list[Any] = []
        for place in rule.places:
            value = values[place]
            items = value if type(value) is list else (value,)
            parts = []
            for item in items:
                tangent = None
                if type(item) is Tensor:
                    source = item._edge or edge_of(item)
                    if source is not None:
                        if source not in tangents:
                            return source
                        tangent = tangents[source]
                    elif not rule.skips_none:
                        tangent = np.zeros(self.batch_shape + item.shape, item.dtype)
                parts.append(tangent)
            given.append(parts if items is value else tangent)
        extras = node._output_metadata.extras
        if extras is not None:
            counter = extras.version_counters.get(0)
            if counter is not None and counter[0] > 0:  # written to outside of the tape's level
                raise KeyError(edge)
        primals = [v._array if type(v) is Tensor else unwrap(v) for v in values]
        is_tuple = type(results) is tuple
        outputs = results if is_tuple else (results,)
        if self.batch_shape:
            found = rule.apply_to_arrays(primals, given, outputs, self.batch_shape)
        else:
            found = rule.apply(arrays, primals, given, outputs)
        if type(results) is list:
            outputs = results
        elif not is_tuple:
            found = (found,)
        for number, result in enumerate(outputs):
            if result.dtype.kind in "fc":
                tangent = 0.0 if found[number] is None else found[number]
                tangent = fit_tangent(tangent, self.batch_shape, result, given)
                tangents[edge_to(node, number) if number else node] = tangent
        if edge not in tangents:  # else it would be computed again and again
            raise KeyError(edge)
        return None


def make_tape_kernel(record: _Function, rule: JvpRule | None) -> _Function:
    """The kernel of an operator that records, by `record`, and puts its JVP rule on the tape.

    ``register.py`` links calls with tensors that require grad to it. Nothing here can fail where
    the operator itself does not. Without a rule nothing is put on the tape.
    """
    if rule is None or rule.function is None or rule.refused:
        return record

    def call(*args: Any, **kwargs: Any) -> Any:
        results = record(*args, **kwargs)
        if type(results) is Tensor and results._meta is None:
            node, held = results._edge, results._array
        else:
            node, held = _node_of(results), unwrap(results)
        if node is not None:  # integers have no tangent
            values = (*args, *kwargs.values()) if kwargs else args
            current_level().tape[node] = rule, values, held
        return results

    return call


def _node_of(results: Any) -> Node | None:
    """The node that has recorded some results."""
    if isinstance(results, tuple | list):
        return next(filter(None, map(_node_of, results)), None)
    return node_of(results._meta.edge if type(results._meta) is View else results._edge)


def make_leaving_kernel(kernel: _Function) -> _Function:
    """A kernel in a block without recording.

    Tangents propagate through it, and gradients of gradients do not; so the tape is left.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        leave_tape()
        return kernel(*args, **kwargs)

    return call
