"""``Tracer``: records every operator call of a program as a node of a graph.

A tracer is a dispatch mode (``dispatch/python_dispatch.py``): it gets each call of its thread, also
on plain tensors and of creation functions. It computes the result with the operator's own kernel,
and adds a node. Writes are recorded as the in-place operators that they are, and views as views:
the graph is run in the program's order, on memory that is shared in the same way, so that it needs
no functional form.

An array from outside (an argument, a captured tensor or array) is read from its own memory whenever
the graph runs; a new array that the program makes of data is a copy of it each time.
"""

from __future__ import annotations

import operator as python_operators
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.graph.views import requires_grad
from pullback.dispatch.keys import (
    DUAL,
    KEY_BITS,
    PLAIN_VIEW,
    REQUIRES_GRAD,
    DispatchKey,
)
from pullback.dispatch.modes import TRACE, get_state, set_state
from pullback.dispatch.table import ENTRIES
from pullback.errors import TraceError
from pullback.fx.batched import LEVEL_OPS, has_batched, record_batched
from pullback.fx.dependencies import GradSlot, Guard, Note, Option, is_of_array
from pullback.fx.graph import Graph
from pullback.fx.histories import Histories
from pullback.fx.loop_call import LoopCall
from pullback.fx.node import Node, TensorMetadata, memory_of
from pullback.fx.operator_arguments import (
    as_array_pair,
    integer_arguments,
    integer_index,
    tensor_pairs,
    written_arrays,
)
from pullback.fx.picked import Picks
from pullback.fx.picked import root_of as _root
from pullback.fx.redraws import Redraws
from pullback.fx.refusals import current_tracer, read_error, refusal, running_tracer
from pullback.fx.replaced import Replaced
from pullback.fx.running import PLAIN_STATE, Running, untraced
from pullback.fx.sizes import guard_error, guard_sizes
from pullback.fx.snapshots import Snapshots
from pullback.fx.traced_array import TracedArray, escaped_error
from pullback.fx.traced_number import OptionNumber, TracedNumber
from pullback.fx.user_code import user_line
from pullback.kernels.random import GlobalDraws
from pullback.tensor import tensor as tensor_module
from pullback.tensor.levels import next_serial
from pullback.tensor.tensor import (
    Tensor,
    as_operand,
    fresh,
    wrap,
)

__all__ = [
    "PLAIN_STATE",
    "Tracer",
    "current_tracer",
    "forbid_in_trace",
    "has_hooks",
    "localize_tensor",
    "untraced",
]

_CPU = KEY_BITS[DispatchKey.CPU]
_EDGED = REQUIRES_GRAD | PLAIN_VIEW  # a tensor without these has no history
_OTHER_FLAGS = _EDGED | DUAL


class Tracer:
    """Graph of one run of a program.

    Attributes:
        graph: the nodes recorded so far.
        captured: arrays from outside by the names of ``get_attr`` nodes.
        guards: values that the program has read.
        writes: nodes that write to memory from outside.
        written: the ids of that memory, as nodes have it in ``meta["root"]``.
        random: nodes that draw random numbers.
        redraws: what they return, for recomputations.
        replaced: captured tensors whose ``data`` the program sets.
        literals: arrays that the program has made of Python's numbers alone, by id.
        draws: draws from NumPy's global generator that no operator makes.
        origins: captured tensors by the names of ``get_attr`` nodes.
        twins: further captured tensors of the same memory.
        leaves: captured tensors that require grad, by id.
        arguments: tensors that stand for arguments, by id.
        grads: the gradients of captured tensors that the program reads or sets, by the leaf's id.
        options: Python numbers from outside that are inputs, in the order of their nodes.
        notes: objects from outside that the graph depends on, by their dict's id and their key.
        conditions: functions that return whether the graph may run.
        allows_reads: whether the program may read values; each read is a guard.
        keeps_guards: whether runs compare guards; checks of values are some then.
        takes_numbers: whether ``item()`` is a number of the graph, without a guard.
        is_general: whether ``scan`` and its kind are one node each, whose step is traced once, and
            integers in ``x[i]`` are inputs; else loops run step by step, and integers are guards.
        has_loops: whether there is such a node. Values behind it are those of one step only.
        has_indices: whether a general graph has such an index.
        picks: what ``x[i]`` with a traced integer has picked.
        snapshots: elements of captured arrays when the graph first read them.
        stand_ins: tensors that stand for plain arrays from outside, by id.
        refused: the first refusal of an operation, which the program may have caught.
        decompositions: functions by operator that run, and are recorded, in the operator's place.
        functional_forms: the ``remove`` options of ``functionalize`` that the program calls.
    """

    def __init__(self, *, allows_reads: bool = False, is_general: bool = False):
        self.graph = Graph()
        self.captured: dict[str, NDArray[Any]] = {}
        self.guards: list[Guard] = []
        self.writes: list[Node] = []
        self.written: set[int] = set()
        self.random: list[Node] = []
        self.redraws = Redraws(self)
        self.literals: dict[int, NDArray[Any]] = {}
        self.draws = GlobalDraws()
        self.origins: dict[str, Tensor] = {}
        self.twins: list[tuple[str, Tensor]] = []
        self.leaves: dict[int, Tensor] = {}
        self.arguments: dict[int, Tensor] = {}
        self._begin = 0  # the number of the next level when the trace began
        self.grads: dict[int, GradSlot] = {}
        self.options: list[Option] = []
        self.notes: dict[tuple[int, str], Note] = {}
        self.conditions: list[Callable[[], bool]] = []
        self.allows_reads = allows_reads
        self.keeps_guards = self.takes_numbers = False
        self.is_general = is_general
        self.has_loops = self.has_indices = False
        self.decompositions: dict[Any, Callable[..., Any]] = {}
        self.functional_forms: set[str] = set()
        self.picks = Picks()
        self.snapshots = Snapshots()
        self.stand_ins: dict[int, Tensor] = {}
        self.refused: TraceError | None = None
        self._lifted: dict[Any, TracedArray] = {}
        self._outside: dict[int, Any] = {}  # memory from outside by id: kept, so that it is unique
        self.exposed: dict[int, Any] = {}  # memory that Python has an array of
        self.made_here: dict[int, Tensor] = {}  # tensors that the program has made of such memory
        self._sources: dict[int, Tensor] = {}  # by the id of such a tensor: the one from outside
        self.histories = Histories()  # of captured tensors and arguments
        self.replaced = Replaced(self)
        self._before: dict[Any, tuple[NDArray[Any], NDArray[Any]]] = {}  # of writes to it, in order

    # --- values -----------------------------------------------------------------------------------

    def input(self, name: str, array: NDArray[Any]) -> TracedArray:
        """Adds an input with the array that it has in this run."""
        node = self.graph.placeholder(name)
        self._note_outside(array, node)
        return self.made(array, node)

    def input_number(self, name: str, value: Any) -> TracedNumber:
        """Adds an input that is a Python number."""
        node = self.graph.placeholder(name)
        node.meta["number"] = type(value)
        return TracedNumber(value, node, self)

    def _note_outside(self, array: NDArray[Any], node: Node) -> None:
        root = _root(array)
        self._outside[id(root)] = root
        node.meta["root"] = id(root)

    def is_outside(self, array: NDArray[Any]) -> bool:
        """Whether an array lies in memory of an argument or of a captured value."""
        return id(_root(array)) in self._outside

    def made(self, array: NDArray[Any], node: Node) -> TracedArray:
        """A value of the program: its array in this run, and the node that computes it."""
        node.meta["tensor_meta"] = TensorMetadata.of(array)
        return TracedArray(array, node, self)

    def option(self, owner: dict[str, Any], key: str, item: int | None = None) -> OptionNumber:
        """A number in a dict from outside as an input, which is not zero in any run."""
        option = Option(owner, key, item)
        self.options.append(option)
        node = self.graph.placeholder(key)
        node.meta["number"] = float
        return OptionNumber(float(option.now()), node, self)

    def note(self, owner: dict[str, Any], key: str) -> None:
        """Notes that the graph depends on the object that a dict from outside has for a key."""
        self.notes.setdefault((id(owner), key), Note(owner, key, owner[key]))

    def note_grad(self, leaf: Tensor, *, reads: bool) -> None:
        """Notes that the program reads or sets ``leaf.grad``, before it does."""
        if current_tracer() is not self or id(leaf) in self.grads:
            return
        held = leaf._array
        if isinstance(held, TracedArray) and leaf not in self.replaced:
            if id(leaf) in self.arguments:
                raise refusal(
                    f".grad of an argument is read or written{user_line()}; return the gradient "
                    f"instead, as pb.value_and_grad does"
                )
            return
        before = None if leaf._meta is None else leaf._meta.grad
        self.grads[id(leaf)] = GradSlot(leaf, before, reads)

    def lift(self, array: NDArray[Any], origin: Tensor | None = None) -> TracedArray:
        """An array from outside as a captured value; the same memory gives the same node."""
        key = _lift_key(array)
        found = self._lifted.get(key)
        origin = None if origin is None else self.source_of(origin)
        # A write inside of vmap makes its own node that of the value.
        name = "" if found is None else memory_of(found.node).target
        if found is not None and self.settle_writes([name]):
            found = None
        if found is not None:
            self._note_twin(name, origin)
        else:
            found = self._lifted[key] = self._capture(array)
            self._note_outside(array, found.node)
            if origin is not None:
                self.origins[found.node.target] = origin
            if id(origin) not in self.stand_ins and is_of_array(origin):
                self.snapshots.note(found.node.target, array)
        return found

    def capture(self, tensor: Tensor) -> TracedArray:
        """The values of a tensor from outside; one that requires grad is a leaf of the graph."""
        if tensor._flags & _OTHER_FLAGS:
            self._note_leaf(tensor)
        return self.lift(np.asarray(tensor._array), tensor)

    def settle_writes(self, names: Iterable[str] | None = None) -> list[str]:
        """Makes constants of captured arrays that NumPy has written to, and returns their names."""
        names = names or list(self.captured)
        changed = self.snapshots.find_changed(names, self.captured, self.written)
        for name in changed:
            self.captured[name] = self.snapshots.copies[name]
            self.origins.pop(name, None)
        return changed

    def _capture(self, array: NDArray[Any]) -> TracedArray:
        name = f"_tensor_constant{len(self.captured)}"
        self.captured[name] = array
        return self.made(array, self.graph.get_attr(name))

    def _note_twin(self, name: str, tensor: Tensor | None) -> None:
        """Notes a second tensor from outside that has the memory of a captured value."""
        if tensor is None or is_of_array(tensor):
            return
        known = (self.origins.get(name), *(other for _, other in self.twins))
        if all(tensor is not other for other in known):
            self.twins.append((name, tensor))

    def has_lifted(self, array: NDArray[Any]) -> bool:
        """Whether an array is a captured value already."""
        return _lift_key(array) in self._lifted

    def lift_new(self, array: NDArray[Any]) -> TracedArray:
        """A new array that the program has made of data: a copy, each time the graph runs."""
        return self.call("clone", self._capture(array))

    def lift_scalar(self, array: NDArray[Any]) -> TracedArray:
        """A NumPy scalar as a constant of the graph, for it cannot change; equal ones are one."""
        key = (array.dtype, array.tobytes())
        found = self._lifted.get(key)
        if found is None:
            found = self._lifted[key] = self._capture(array)
            found.node.meta["is_scalar"] = True
        return found

    def read(self, array: TracedArray, what: str) -> NDArray[Any]:
        """The value of an array, which the graph then depends on."""
        if current_tracer() is not self:
            raise escaped_error(what)
        if not self.allows_reads:
            raise read_error(what, user_line())
        self.picks.check_read(array.value)
        self.guard(array, what)
        return array.value.copy()

    def is_true(self, array: TracedArray) -> bool | None:
        """The truth value that a check of values reads: a guard of its own; None where unknown.

        It is no branch, so that it needs no leave to read. Behind a loop it is false: a graph for
        which that is wrong does not run.
        """
        if not self.keeps_guards or current_tracer() is not self:
            return None
        value = array.value.copy() if not self.has_loops else np.zeros((), bool)
        self.guards.append(Guard(array.node, value, "a check of values", user_line()))
        return bool(value)

    def guard(self, array: TracedArray, what: str) -> None:
        """Makes a value a guard, also where branches are refused; not behind a loop."""
        if self.has_loops:
            raise read_error(what, user_line())
        self.guards.append(Guard(array.node, array.value.copy(), what, user_line()))

    def read_number(self, number: TracedNumber, what: str) -> None:
        """Notes that the program depends on the value of a number."""
        if current_tracer() is not self:
            raise escaped_error(what)
        if not self.allows_reads:
            raise read_error(what, user_line(), is_number=True)
        self.guards.append(Guard(number.node, number.value, what, user_line()))

    def note_read(self, tensor: Tensor, what: str, *, shares: bool) -> None:
        """Notes that Python reads a captured tensor: a guard, if the tracer may have one.

        An array that shares its memory, which Python may read at any time, is no guard: writes to
        this memory are refused, before and after.
        """
        held = tensor._array
        if current_tracer() is not self or not get_state().modes & TRACE:
            return
        if isinstance(held, TracedArray) and shares:
            self._expose(held.value)
        if not isinstance(held, np.ndarray):
            return
        root = _root(held)
        if not shares and self.allows_reads and not self.has_loops:
            self.read(self.call("clone", self.lift(held, tensor)), what)
            return
        if self._is_written(root):
            raise read_error(what, user_line())
        self._expose(held)

    def _expose(self, array: NDArray[Any]) -> None:
        self.snapshots.require_compared(array)
        self.exposed[id(_root(array))] = _root(array)

    def _is_written(self, root: Any) -> bool:
        return id(root) in self.written

    def note_made(self, tensor: Tensor, source: Tensor) -> None:
        """Notes a tensor that the program has made of the memory of `source`, from outside."""
        if current_tracer() is self:
            self.made_here[id(tensor)] = tensor
            self._sources[id(tensor)] = self.source_of(source)

    def source_of(self, tensor: Tensor) -> Tensor:
        """The tensor that the program has made another one of, by ``detach`` or ``data``."""
        return self._sources.get(id(tensor), tensor)

    def note_hook(self, tensor: Tensor) -> None:
        """Refuses a hook, before it is registered: one that stays, or that later uses would run."""
        held = tensor._array
        if current_tracer() is self and isinstance(held, np.ndarray | TracedArray):
            raise refusal(f"a hook of a tensor is registered{user_line()}")

    def note_property(self, tensor: Tensor, name: str, value: Any) -> None:
        """Notes a property of the history of a tensor from outside: it has to be the same."""
        if current_tracer() is self and get_state().modes & TRACE:
            self.histories.note_property(self, tensor, name, value)

    def note_flag(self, tensor: Tensor, value: bool) -> None:
        """Notes ``requires_grad`` of a tensor from outside: at the end it has to be the same."""
        is_running = current_tracer() is self and get_state().modes & TRACE
        if not is_running or id(tensor) in self.made_here:
            return
        is_captured = isinstance(tensor._array, np.ndarray) or tensor in self.replaced
        if not is_captured and id(tensor) not in self.arguments:
            return
        if tensor._edge is not None and requires_grad(tensor) != value:
            raise refusal(f"requires_grad of an argument or captured tensor changes{user_line()}")
        before = self.histories.note(tensor)
        if is_captured:
            self.conditions.append(lambda: requires_grad(tensor) == before)

    def add_argument(self, tensor: Tensor, needs_grad: bool) -> None:
        """Notes a tensor that stands for an argument."""
        self.arguments[id(tensor)] = tensor
        tensor.requires_grad = needs_grad
        self.histories.note(tensor)

    # --- calls ------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any) -> TracedArray:
        """Records a call of an operator on traced arrays and plain values."""
        operator = ENTRIES[f"pullback::{name}"].operator
        given = [wrap(v) if isinstance(v, TracedArray) else v for v in args]
        return self.record(operator, tuple(given), {})._array  # type: ignore[no-any-return]

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records a call, of a wrapper tensor only what its class makes of it."""
        if types:
            return NotImplemented
        return self.intercept(func, args, kwargs)

    def intercept(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records a call; those inside vmap as ``batched.py`` has them."""
        if operator in self.decompositions:
            return self.decompositions[operator](*args, **kwargs)
        if operator.name() in LEVEL_OPS:
            return fresh(LEVEL_OPS[operator.name()](self, *args))
        if has_batched((*args, *kwargs.values())):
            return record_batched(self, operator, args, kwargs)
        return self.record(operator, args, kwargs)

    def record(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes a call of an operator and adds its node."""
        guard_sizes(self, operator, args)
        if "nondeterministic_seeded" in operator.tags:
            return self.redraws.call(operator, args, kwargs)
        return self.record_function(operator, args, kwargs, operator.below(_CPU))

    def record_function(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        kernel: Callable[..., Any] | None = None,
    ) -> Any:
        """Computes a call of an operator or function of tensors, by `kernel`, and adds its node."""
        operator = getattr(function, "operator", function)  # a BatchedCall has one
        args, kwargs = self._fix_integers(operator.schema, args, kwargs)
        pairs = [self._given(value) for value in args]
        named = {key: self._given(value) for key, value in kwargs.items()}
        kernel = kernel or function
        changed = written_arrays(operator, args, kwargs) if operator.schema.is_mutable else []
        written = [array for array in changed if self.is_outside(array)]
        if any(id(_root(array)) in self.exposed for array in changed):
            raise read_error("numpy() of memory that is written to", user_line())
        for array in written:
            key = (_address(array), array.shape, array.strides)
            if key not in self._before and array.flags.writeable:
                self._before[key] = array, array.copy()
        before = get_state()
        try:
            set_state(PLAIN_STATE)
            result = kernel(
                *[real for _, real in pairs], **{key: real for key, (_, real) in named.items()}
            )
        except Exception as error:
            guard_error(self, error, (*args, *kwargs.values()))
            raise
        finally:
            set_state(before)
        node = self.newest = self.graph.call_function(
            function,
            tuple(symbol for symbol, _ in pairs),
            {key: symbol for key, (symbol, _) in named.items()},
        )
        tensors = [*tensor_pairs((*args, *kwargs.values()), (*pairs, *named.values()))]
        self._note_picks(operator, pairs, result, tensors, changed)
        self.writes += [node] * len(written)
        self.written.update(id(_root(array)) for array in written)
        if isinstance(result, Tensor):
            return self._result(node, result, tensors)
        if not isinstance(result, tuple | list):
            return result
        parts = []
        for place, part in enumerate(result):
            item = self.graph.call_function(python_operators.getitem, (node, place))
            parts.append(self._result(item, part, tensors))
        return type(result)(parts) if not hasattr(result, "_fields") else type(result)(*parts)

    def record_loop(
        self, call: LoopCall, operands: list[Node], values: list[NDArray[Any]]
    ) -> list[TracedArray]:
        """Adds a loop, which does not run: its results get the values of one step."""
        node = self.graph.call_function(call, tuple(operands))
        carried = len(call.body.carried)
        found = []
        for place, value in enumerate(values):
            item = self.graph.call_function(python_operators.getitem, (node, place))
            lead = () if place < carried else (call.length or 0,)
            array = np.empty((*lead, *value.shape), value.dtype)
            array[...] = value
            found.append(self.made(array, item))
        return found

    def _fix_integers(self, schema: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments with plain values where they decide about shapes: these are guarded."""
        names, fixed = integer_arguments(schema)
        if not fixed:
            return args, kwargs
        args = tuple(
            self._fixed(value) if place < len(names) and names[place] in fixed else value
            for place, value in enumerate(args)
        )
        named = {k: self._fixed(value) if k in fixed else value for k, value in kwargs.items()}
        return args, named

    def _fixed(self, value: Any) -> Any:
        if isinstance(value, TracedNumber):
            return python_operators.index(value) if type(value.value) is int else float(value)
        if isinstance(value, Tensor):
            return self.read(self._source(value), "use as an index").tolist()
        if isinstance(value, slice):
            return slice(*map(self._fixed, (value.start, value.stop, value.step)))
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self._fixed(item) for item in value)
        return value

    def _source(self, tensor: Tensor) -> Any:
        """The traced array that a tensor holds, or that of the array from outside that it holds."""
        held = tensor._array
        return self.lift(held) if isinstance(held, np.ndarray) else held

    def _result(self, node: Node, result: Tensor, tensors: list[tuple[Tensor, Tensor]]) -> Tensor:
        array = result._array
        for original, real in tensors:
            if real._array is array:  # what was written to, or an input as it is
                source = self._source(original)
                node.meta["view_of"] = source.node
                node.meta["tensor_meta"] = TensorMetadata.of(source)
                if source is original._array:
                    source.node = node
                return original
        made = self.made(array, node)
        root = _root(array)
        for original, real in tensors:
            if isinstance(real._array, np.ndarray) and _root(real._array) is root:
                node.meta["view_of"] = self._source(original).node
                node.meta["byte_offset"] = _address(array) - _address(real._array)
                break
        return fresh(made)

    def localize(self, tensor: Tensor) -> Tensor:
        """A tensor as a value of this trace; notes one that requires grad."""
        is_other = tensor._edge is None and tensor._flags & _OTHER_FLAGS
        if is_other and isinstance(tensor._array, np.ndarray):
            self._note_leaf(tensor)
        return tensor

    def undo_writes(self) -> None:
        """Gives memory from outside the values that it had before the program ran."""
        for array, values in reversed(self._before.values()):
            array[...] = values
        self._before.clear()

    def _note_picks(
        self, operator: Any, pairs: Any, result: Any, tensors: Any, changed: list[NDArray[Any]]
    ) -> None:
        """Notes what a call picks by traced integers, and checks what it reads of such values."""
        name = operator.name()
        arrays = [real._array for _, real in tensors]
        if changed and name == "pullback::index_put_" and not (len(pairs) > 3 and pairs[3][1]):
            index = integer_index(pairs[1])
            if index and self.picks.puts_back(arrays[0], index, arrays[-1]):
                return
        made = result if isinstance(result, tuple | list) else [result]
        roots = [_root(part._array) for part in made if isinstance(part, Tensor)]
        for array in arrays:
            if changed or not any(_root(array) is root for root in roots):
                self.picks.check_read(array)
        for array in changed:
            self.picks.note_write(array)
        if name == "pullback::index" and (index := integer_index(pairs[1])):
            self.picks.note_pick(result._array, arrays[0], index)

    def _given(self, value: Any) -> tuple[Any, Any]:
        """An argument as the graph has it, and as the kernel gets it."""
        if isinstance(value, Tensor):
            held = value._array
            if type(held) is TracedArray:
                if held.tracer is not self:
                    raise escaped_error("an operator")
                real = wrap(held.value) if held.number is None else as_operand(held.number)
                return held.node, real
            if isinstance(held, np.ndarray):
                self.histories.note(value)
                return self.capture(value).node, wrap(held)
            if isinstance(held, bool | int | float | complex):
                return held, value
            raise refusal(
                f"a tensor that holds a {type(held).__name__} cannot be part of a traced program"
            )
        if isinstance(value, TracedNumber):
            return value.node, value.value
        if isinstance(value, list | tuple):
            # Numbers in lists are arrays for NumPy: an index that is one gives a copy, no view.
            pairs = [as_array_pair(*self._given(item)) for item in value]
            kind = list if isinstance(value, list) else tuple
            return kind(s for s, _ in pairs), kind(r for _, r in pairs)
        return value, value

    def _note_leaf(self, tensor: Tensor) -> None:
        """Notes a captured tensor that requires grad; one with hooks, which have to run, raises.

        So does one with a tangent of a transform around the trace: results would have one; and
        one with a history, which gradients of the results must not be followed into.
        """
        if tensor._flags & (DUAL | PLAIN_VIEW) and any(
            level.serial < self._begin for level in tangents_of(tensor)
        ):
            raise refusal(f"a captured tensor has a tangent{user_line()}; pass it as an argument")
        if tensor._flags & _EDGED and requires_grad(tensor) and id(tensor) not in self.leaves:
            if has_hooks(tensor):
                raise refusal(
                    f"a captured tensor that requires grad has hooks{user_line()}, which have to "
                    f"run in each backward pass"
                )
            if not tensor.is_leaf:
                raise refusal(
                    f"a captured tensor that requires grad is computed from others{user_line()}; "
                    f"pass it as an argument"
                )
            self.leaves[id(tensor)] = tensor

    def release(self) -> None:
        """Lets go of tensors that only the trace needs, and of the autograd graph behind them."""
        self._lifted.clear()
        for held in (self.made_here, self._sources, self.arguments, self._before):
            held.clear()

    # --- running ----------------------------------------------------------------------------------

    def running(self, modes: int = 0) -> Running:
        """A block whose operator calls this tracer records; the garbage collector is off in it.

        `modes` are further modes in it. Raises at its end if an operation in it was refused, and
        the program has caught the error.
        """
        self._begin = next_serial()
        return Running(self, modes)


def localize_tensor(tensor: Tensor) -> Tensor:
    """A tensor as a value of the trace that runs: one from outside of a loop is captured by it."""
    tracer = running_tracer.get()
    return tensor if tracer is None else tracer.localize(tensor)


def has_hooks(tensor: Tensor) -> bool:
    """Whether a tensor has hooks for its gradient."""
    meta = tensor._meta
    return meta is not None and bool(meta.hooks or meta.accumulator_hooks)


def forbid_in_trace(what: str) -> None:
    """Raises where a program is traced: for what a graph cannot repeat."""
    if current_tracer() is not None:
        raise refusal(f"{what} cannot be part of a graph{user_line()}")


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _lift_key(array: NDArray[Any]) -> Any:
    """The memory of an array, and how it lies there."""
    if not array.size:
        return id(array)
    return _address(array), array.shape, array.strides, array.dtype


def _record_new(array: NDArray[Any]) -> Any:
    tracer = running_tracer.get()
    return array if tracer is None else tracer.lift_new(array)


def _record_scalar(array: NDArray[Any]) -> Any:
    tracer = running_tracer.get()
    return array if tracer is None else tracer.lift_scalar(array)


tensor_module.set_trace_hooks(_record_new, _record_scalar)
