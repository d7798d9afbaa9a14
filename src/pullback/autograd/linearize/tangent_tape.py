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
from pullback.autograd.graph.views import EDGED, edge_of
from pullback.autograd.levels import TransformLevel, current_level, leave_tape
from pullback.autograd.namespaces import arrays
from pullback.dispatch.modes import TAPE, TRANSFORM
from pullback.interrupts import uninterrupted_entry
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.levels import next_serial
from pullback.tensor.meta import View
from pullback.tensor.tensor import TENSOR_TYPES, Tensor

__all__ = ["TangentTape", "make_leaving_kernel", "make_tape_kernel"]

_Function = Callable[..., Any]
_ndarray = np.ndarray


class TangentTape(TransformLevel):
    """A transform of reverse mode that records JVP rules.

    Attributes:
        batch_shape: of the tangents, whose batch axes come first: () or the number of tangents.
        batch_ndim: how many these are.
        tape: JVP rule, arguments and results by node, in the order of recording.
        tangents: those that have been computed, and those of the inputs, by edge.
        is_left: whether something has happened that tangents depend on and recorded history
            does not.
    """

    __slots__ = ("_computed", "batch_ndim", "batch_shape", "is_left", "tangents", "tape")
    modes = TRANSFORM | TAPE

    def __init__(self, batch_shape: tuple[int, ...] = ()) -> None:
        self.serial = next_serial()  # without super(): small Hessian products are called often
        self.alive = self.records = True
        self.forward = False
        self.saved = []
        self.batch_shape = batch_shape
        self.batch_ndim = len(batch_shape)
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
        tangents, compute = self.tangents, self._compute
        if edge not in tangents:
            wanted = [edge]
            while wanted:  # a stack, because recursion would be too deep for long chains
                source = compute(wanted[-1])
                if source is None:
                    wanted.pop()
                else:
                    wanted.append(source)
        return tangents[edge]

    def _compute(self, edge: Any) -> Edge:
        """Computes the tangent of a result, or returns an edge whose tangent it needs first."""
        tangents, batch_shape = self.tangents, self.batch_shape
        node: Node = edge.node if type(edge) is Output else edge
        rule, values, results = self.tape[node]
        given: list[Any] = []
        for place in rule.places:
            value = values[place]
            if type(value) in TENSOR_TYPES:
                source = value._edge or (edge_of(value) if value._flags & EDGED else None)
                if source in tangents:
                    given.append(tangents[source])
                    continue
                if source is not None:
                    return source
            elif type(value) is list:
                for item in value:
                    source = edge_of(item) if type(item) in TENSOR_TYPES else None
                    if source is not None and source not in tangents:
                        return source
            is_left_out = rule.skips_none and type(value) is not list
            given.append(None if is_left_out else self._constant_tangent(value))
        extras = node._output_metadata.extras
        if extras is not None:
            counter = extras.version_counters.get(0)
            if counter is not None and counter[0] > 0:  # written to outside of the tape's level
                raise KeyError(edge)
        primals = [v._array if type(v) in TENSOR_TYPES else unwrap(v) for v in values]
        if type(results) is _ndarray and not batch_shape:
            found = rule.function(arrays, *primals, *given, results)  # type: ignore[misc]
        else:
            outputs = results if type(results) is tuple else (results,)
            found = rule.apply_to_arrays(primals, given, outputs, batch_shape)
        if type(results) is _ndarray:
            tangents[node] = fit_tangent(found, batch_shape, results, given)
            return None
        for number, result in enumerate(results):
            if result.dtype.kind in "fc":
                tangent = fit_tangent(found[number], batch_shape, result, given)
                tangents[edge_to(node, number)] = tangent
        if edge not in tangents:  # else it would be computed again and again
            raise KeyError(edge)
        return None

    def _constant_tangent(self, value: Any) -> Any:
        """Zeros for a tensor without history; for a list, the tangent of each item, or zeros."""
        if type(value) is list:
            known = self.tangents
            return [
                known[edge_of(t)]
                if type(t) in TENSOR_TYPES and edge_of(t) in known
                else self._constant_tangent(t)
                for t in value
            ]
        if type(value) not in TENSOR_TYPES:
            return None
        return np.zeros(self.batch_shape + value.shape, value.dtype)


def make_tape_kernel(record: _Function, rule: JvpRule | None) -> _Function:
    """The kernel of an operator that records, by `record`, and puts its JVP rule on the tape.

    ``register.py`` links calls with tensors that require grad to it. Nothing here can fail where
    the operator itself does not. Without a rule nothing is put on the tape.
    """
    if rule is None or rule.function is None or rule.refused:
        return record

    def put(results: Any, values: tuple[Any, ...]) -> Any:
        if type(results) in TENSOR_TYPES and results._meta is None:
            node, held = results._edge, results._array
        else:
            node, held = _node_of(results), unwrap(results)
        if node is not None:  # integers have no tangent
            current_level().tape[node] = rule, values, held
        return results

    def call(*args: Any, **kwargs: Any) -> Any:
        return put(record(*args, **kwargs), (*args, *kwargs.values()))

    def call_one(self: Tensor) -> Any:
        result = record(self)
        if result._meta is not None or result._edge is None:
            return put(result, (self,))
        current_level().tape[result._edge] = rule, (self,), result._array
        return result

    def call_two(self: Tensor, other: Tensor) -> Any:
        result = record(self, other)
        if result._meta is not None or result._edge is None:
            return put(result, (self, other))
        current_level().tape[result._edge] = rule, (self, other), result._array
        return result

    # Calls with known arguments take half the time of others.
    count = len(rule.arguments())
    is_plain = rule.has_only_tensors() and count == len(rule.places)
    if is_plain and count <= 2:
        return call_one if count == 1 else call_two
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
