"""Fast path of custom operators: call, recording and backward compiled once for each operator.

Condition (``is_simple``): the schema has one new tensor as its result and only positional tensor
arguments, and the kernel is a plain function. Then one function with the schema's own arguments
makes the whole call, without packing arguments or checking them twice, and another one runs the
node's backward. Results that are not plainly new tensors go to the general path of
``kernel_call.py``, ``record.py`` and ``gradients.py``.
"""

from __future__ import annotations

import keyword
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback._cpython import ONE_HOLDER, count_references
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.engine.exposed import current_exposed
from pullback.autograd.graph.node import FREED, Node, sequence_counter
from pullback.autograd.graph.output_metadata import UNDESCRIBED, OutputMetadata
from pullback.autograd.graph.views import edge_of
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import get_state, set_state
from pullback.library.gradients import flat_gradients
from pullback.library.rules import Rules
from pullback.library.user_state import USER_STATES
from pullback.schema import FunctionSchema
from pullback.tensor.meta import View
from pullback.tensor.tensor import CPU_FLAGS, Tensor

__all__ = ["compile_backward", "compile_plain", "compile_recording", "is_simple"]

_Function = Callable[..., Any]


_PLAIN = """\
def run({arguments}):
    state = get()
    try:
        put(known[state])
        result = kernel({arguments})
    finally:
        put(state)
    if (
        type(result) is Tensor
        and type(array := result._array) is ndarray
        and count(array) == HELD
        and {is_owner}
        and not result._flags & REQUIRES_GRAD
        and not state.modes{distinct}
    ):
        return result
    return check(({packed}), {{}}, result)
"""

_RECORDING = """\
def run({arguments}):
    node = new(cls)
    node._output_metadata = UNDESCRIBED
    node._constant = ()
    node._edges = ({edges})
    node._seq = following()()
    state = get()
    try:
        put(known[state])
        result = kernel({arguments})
        is_plain = (
            type(result) is Tensor
            and type(array := result._array) is ndarray
            and count(array) == HELD
            and {is_owner}
            and result._flags == CPU_FLAGS
            and not state.modes{distinct}
        )
        if not is_plain:
            result = check(({packed}), {{}}, result)
{setup}    finally:
        put(state)
    if (
        not is_plain
        or node._constant
        or result._flags != CPU_FLAGS
        or not result._edge is result._meta is None
    ):
        return finish(node, ({packed}), result)
    dtype = array.dtype
    node._output_metadata = OutputMetadata(array.shape, dtype, node._output_metadata.extras)
    if dtype is float64 or dtype.kind in "fc":
        result._edge = node
        result._flags = RECORDED
    saved = node._to_save
    if saved is not None:
        node._to_save = None
        kept = node._kept = []
        for tensor in saved:
            if tensor is result and result._counter is None and result._edge is not None:
                # Shared with other nodes that save it: a backward may write to a saved tensor.
                result._counter = counter = [0]
                kept.append((array, counter))
            elif (
                type(tensor) is Tensor
                and tensor is not result
                and type(tensor._meta) is not View
            ):
                counter = tensor._counter
                kept.append((tensor, 0 if counter is None else counter[0]))
            else:
                node._to_save = saved
                node._keep_saved()
                node._to_save = None
                break
    return result
"""

_BACKWARD = """\
def run(self, xp, grad, keep):
    backward = rules.backward
    task = current()
    if (
        backward is None
        or task is None
        or get().modes
        or ((task.exposed is not None or task.given_seeds) and current_exposed().holds(grad))
    ):
        return run_generally(self, xp, grad, keep)
    tensor = new(Tensor)
    tensor._array = grad if type(grad) is ndarray else asarray(grad)
    tensor._flags = CPU_FLAGS
    tensor._edge = tensor._counter = tensor._meta = None
{call}
        if tensor._counter is None and (
            count(tensor) == ALONE{are_new}
            or count(tensor) == ALONE{returned}{are_ours}
        ):
            results = ({arrays})
        elif {fit}:
            results = unwrap_exposed(tensor, ({tensors}))
        else:
            results = unwrap_exposed(tensor, flat_gradients(rules, self, ({packed})))
    else:
        results = unwrap_exposed(tensor, flat_gradients(rules, self, returned))
    if not keep and self._kept:
        self._kept = FREED
    return results
"""

# For a single argument, user code may return the gradient itself instead of a tuple.
_CALL_FOR_ONE = """\
    {names} = returned = backward(self, tensor)
    is_one = type(returned) is not tuple
    if not is_one and len(returned) == 1:
        ({names},) = returned
        is_one = True
    if is_one:
        returned = None"""
_CALL_FOR_SEVERAL = """\
    returned = backward(self, tensor)
    if type(returned) is tuple and len(returned) == {count}:
        {names} = returned
        returned = None"""

# The array has memory of its own, or is the only view of an array that no other object holds, as
# the array of `pb.asarray(new_array)` is.
_IS_OWNER = """(
    (base := {array}.base) is None
    or type(base) is ndarray and base.base is None and count(base) == HELD
)"""

# A gradient that no other object holds, in memory of its own.
_IS_NEW = """
            and (
                type({name}) is Tensor
                and count({name}) == ALONE
                and {name}._counter is None
                and count(r_{name} := {name}._array) == HELD
                and {is_owner}
                or (r_{name} := {name}) is None{or_else}
            )"""
_OR_EXPOSED = """
                or {name} is tensor and (r_{name} := tensor._array) is not None"""


def is_simple(schema: FunctionSchema) -> bool:
    """Returns whether a schema has one new tensor as its result and only positional tensors."""
    arguments = schema.arguments
    return (
        [str(ret.type) for ret in schema.returns] == ["Tensor"]
        and not (schema.is_mutable or schema.is_view)
        and len(arguments.flat_positional) == len(arguments.flat_all)
        and bool(schema.dispatch_arguments)
        and not any(
            a.type.is_tensor_like() and (str(a.type) != "Tensor" or a.takes_none)
            for a in arguments.flat_positional
        )
    )


def compile_plain(
    schema: FunctionSchema, name: str, kernel: _Function, check: _Function
) -> _Function:
    """Compiles the kernel call below autograd; `check` gets results that may be no new tensor."""
    return _compile(_PLAIN, schema, f"<kernel of {name}>", kernel=kernel, check=check)


def compile_recording(
    rules: Rules, cls: type, finish: _Function, kernel: _Function, check: _Function
) -> _Function:
    """Compiles a call that records a node of `cls`; `finish` is the general path for its end."""
    return _compile(
        _RECORDING,
        rules.schema,
        f"<recording of {rules.name}>",
        kernel=kernel,
        check=check,
        finish=finish,
        cls=cls,
        setup=rules.setup_context,
    )


def compile_backward(rules: Rules) -> _Function:
    """Compiles ``run`` of the operator's nodes: arrays outside, tensors for user code."""
    return _compile(_BACKWARD, rules.schema, f"<backward of {rules.name}>", rules=rules)


def _unwrap_exposed(passed: Tensor, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Returns the gradients as arrays; registers all tensors that user code may hold."""
    exposed = current_exposed()
    exposed.note(passed)
    for grad in grads:
        if grad is not None and grad is not passed:
            exposed.note(grad)
    return tuple([None if grad is None else grad._array for grad in grads])


def _is_owner(array: str) -> str:
    return _IS_OWNER.format(array=array).replace("\n", " ")


def _conditions(names: list[str], tensors: list[str], or_else: str) -> str:
    """Returns the condition that every gradient is new, or `or_else`; None for non-tensors."""
    return "".join(
        _IS_NEW.format(name=n, or_else=or_else.format(name=n), is_owner=_is_owner(f"r_{n}"))
        if n in tensors
        else f"\n            and {n} is None"
        for n in names
    )


def _compile(template: str, schema: FunctionSchema, filename: str, **given: Any) -> _Function:
    arguments = schema.arguments.flat_positional
    names = [a.name + "_" if keyword.iskeyword(a.name) else f"a_{a.name}" for a in arguments]
    tensors = [n for n, a in zip(names, arguments, strict=True) if a.type.is_tensor_like()]
    packed = "".join(f"{name}, " for name in names)
    setup = f"        setup(ctx=node, inputs=({packed}), output=result)\n"
    call = _CALL_FOR_ONE if len(names) == 1 else _CALL_FOR_SEVERAL
    source = template.format(
        arguments=", ".join(names),
        packed=packed,
        is_owner=_is_owner("array"),
        edges="".join(f"{name}._edge or edge_of({name}), " for name in tensors),
        distinct="".join(f" and result is not {n}" for n in tensors),
        setup=setup if given.get("setup") is not None else "",
        call=call.format(names=", ".join(names), count=len(names)),
        returned="".join(f" + ({n} is tensor)" for n in tensors),
        are_new=_conditions(names, tensors, ""),
        are_ours=_conditions(names, tensors, _OR_EXPOSED),
        arrays="".join(f"r_{n}, " for n in tensors),
        tensors="".join(f"{n}, " for n in tensors),
        fit=" and ".join(
            f"({n} is None or type({n}) is Tensor)" if n in tensors else f"{n} is None"
            for n in names
        ),
    )
    namespace: dict[str, Any] = {
        "ALONE": ONE_HOLDER,
        "HELD": ONE_HOLDER + 1,  # by one tensor, too: then no other tensor can share its memory
        "CPU_FLAGS": CPU_FLAGS,
        "FREED": FREED,
        "RECORDED": CPU_FLAGS | REQUIRES_GRAD,
        "REQUIRES_GRAD": REQUIRES_GRAD,
        "Tensor": Tensor,
        "OutputMetadata": OutputMetadata,
        "UNDESCRIBED": UNDESCRIBED,
        "View": View,
        "asarray": np.asarray,
        "count": count_references,
        "current": current_graph_task,
        "current_exposed": current_exposed,
        "edge_of": edge_of,
        "float64": np.dtype(np.float64),
        "flat_gradients": flat_gradients,
        "following": sequence_counter,
        "run_generally": Node.run,
        "get": get_state,
        "known": USER_STATES,
        "ndarray": np.ndarray,
        "new": object.__new__,
        "put": set_state,
        "unwrap_exposed": _unwrap_exposed,
        **given,
    }
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return namespace["run"]  # type: ignore[no-any-return]
