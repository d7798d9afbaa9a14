"""The autograd kernel of custom operators: records a node whose formula is user code.

One node class for both styles of gradients. Arguments and results may be lists: user code gets them
grouped as in the schema, the engine gets them flat, with one edge for every tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pullback.autograd.debug.anomaly import is_anomaly_enabled, remember_call
from pullback.autograd.engine.exposed import expose, unwrap
from pullback.autograd.function import Function as UserFunction
from pullback.autograd.function import FunctionCtx
from pullback.autograd.graph.node import FREED, Edge, freed_error, output_of, sequence_counter
from pullback.autograd.graph.output_metadata import UNDESCRIBED
from pullback.autograd.graph.payload_nodes import mark
from pullback.autograd.graph.saved import output_from
from pullback.autograd.graph.views import edge_of
from pullback.autograd.record.register import refreshing, unrecorded
from pullback.dispatch import OpOverload, after_autograd
from pullback.dispatch.keys import DUAL, KEY_BITS, PLAIN_VIEW, REQUIRES_GRAD, DispatchKey
from pullback.dispatch.modes import SAVED_HOOKS, get_state, set_state
from pullback.errors import AutogradError, AutogradNotRegisteredError
from pullback.library.batching import outside_or
from pullback.library.compiled_call import compile_backward, compile_recording, is_simple
from pullback.library.forward import forward_kernel
from pullback.library.gradients import flat_gradients
from pullback.library.kernel_call import tensors_in
from pullback.library.named import call_named, saved_tree
from pullback.library.results import attach_all
from pullback.library.rules import Rules
from pullback.library.user_state import USER_STATES, UserState
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import CPU_FLAGS, Tensor, zeros_beside

__all__ = ["CustomOpNode", "autograd_linker", "node_class"]

_Function = Callable[..., Any]
_new = object.__new__
_RECORDED = CPU_FLAGS | REQUIRES_GRAD
_MAPPED = KEY_BITS[DispatchKey.Python]


class CustomOpNode(FunctionCtx):
    """One recorded call; also the `ctx` of its rules. Rare state is a class attribute until set."""

    _rules: ClassVar[Rules]
    _forward_cls = UserFunction
    _outputs: int = 1  # type: ignore[misc]  # counted for every call
    _to_save: tuple[Any, ...] | None = None
    _for_forward: tuple[Any, ...] = ()
    _kept: Any = ()
    _was_read: bool = False
    _dirty: tuple[Tensor, ...] = ()
    _constant: tuple[Tensor, ...] = ()
    _materializes: bool = True
    # For each positional argument: whether it was a tensor; for a list, of each element.
    _given: tuple[Any, ...]
    # For each return: whether it was a tensor; for a list, how many it has.
    _made: tuple[Any, ...] = (True,)
    _saved: Any = None  # what the first half of gradients by name has returned

    @property
    def _origin(self) -> str:  # type: ignore[override]
        """The place where the formula was registered, for the engine's errors."""
        places = self._rules.places
        return f" (registered at {places.get('backward') or places.get('named_backward')})"

    @property
    def needs_input_grad(self) -> tuple[Any, ...]:  # type: ignore[override]
        """For each positional argument, whether it needs a gradient; a list for lists."""
        edges = iter(self._edges)

        def needed(given: Any) -> Any:
            if isinstance(given, tuple):
                return [needed(item) for item in given]
            return given and next(edges) is not None

        return tuple(needed(given) for given in self._given)

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:
        """Runs the formula in force on the gradients, grouped as the schema's returns."""
        flat = [expose(xp, grad) for grad in grads]
        if self._materializes or self._saved is not None:
            known = next((grad for grad in flat if grad is not None), None)
            for number, grad in enumerate(flat):
                shape, dtype = output_of(self, number)
                if grad is None and shape is not None:
                    flat[number] = zeros_beside(known, shape, dtype)
        grouped = _grouped(self._made, flat)
        rules = self._rules
        if self._saved is not None:
            found = call_named(rules, self, self._saved, grouped)
        elif rules.backward is not None:
            found = flat_gradients(rules, self, rules.backward(self, *grouped))
        else:
            raise AutogradError(
                f"Trying to backward through {rules.name} but no autograd formula was registered "
                f"any more"
            )
        return tuple(None if grad is None else unwrap(xp, grad) for grad in found)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors of ``save_for_backward``, after the version check."""
        kept = self._kept
        if kept is FREED:
            raise freed_error(self)
        loaded = []
        for value, expected in kept:
            # Fast path: the node's own result as ``compiled_call.py`` saves it, and an input.
            if type(expected) is list:
                if expected[0] == 0:
                    tensor = _new(Tensor)
                    tensor._array = value
                    tensor._flags = _RECORDED
                    tensor._edge = self
                    tensor._counter = expected
                    tensor._meta = None
                    loaded.append(tensor)
                    continue
                value = output_from(value, expected)
            elif type(value) is Tensor:
                counter, meta = value._counter, value._meta
                if (0 if counter is None else counter[0]) == expected and (
                    meta is None or not meta.detached
                ):
                    loaded.append(value)
                    continue
            loaded.append(self._load(value, expected))
        return tuple(loaded)


def _grouped(made: tuple[Any, ...], flat: list[Any]) -> list[Any]:
    values = iter(flat)
    return [
        [next(values) for _ in range(kind)]
        if kind is not True and kind is not None
        else (next(values) if kind else None)
        for kind in made
    ]


def autograd_linker(rules: Rules) -> Callable[[OpOverload, int], _Function]:
    """Links the operator's Autograd key for the flags of a call."""
    make_node = _node_maker(rules)

    def link(operator: OpOverload, flags: int) -> _Function:
        if flags & PLAIN_VIEW:
            return refreshing(operator)
        if flags & _MAPPED and rules.vmap is not None and not operator.schema.is_mutable:
            return outside_or(operator, rules.vmap, linked(operator, flags))
        return linked(operator, flags)

    def linked(operator: OpOverload, flags: int) -> _Function:
        if flags & DUAL:
            return forward_kernel(rules, linked(operator, flags & ~DUAL), make_node)
        below = operator.below(flags & after_autograd)
        missing = rules.missing_half()
        if missing is not None:
            return _raising(lambda: missing)
        if not flags & REQUIRES_GRAD:
            return unrecorded(_saving_anyway(rules, below) if rules.save is not None else below)
        if "out" in operator.tags:
            return _raising(lambda: _out_error(rules))
        if not rules.has_formula:
            return _raising(lambda: _no_formula(rules))
        return _recording(rules, below, make_node)

    return link


def _raising(error: Callable[[], Exception]) -> _Function:
    def run(*_: Any, **__: Any) -> Any:
        raise error()

    return run


def _no_formula(rules: Rules) -> AutogradNotRegisteredError:
    way_out = "Register one with register_autograd"
    if rules.schema.is_mutable:  # which may not have one
        way_out = "Write an operator that returns a new tensor, and copy_() that"
    return AutogradNotRegisteredError(
        f"Autograd has not been implemented for operator {rules.name}: no autograd formula was "
        f"registered, and an argument requires grad. {way_out}, or call the operator under "
        f"no_grad() or with detach()ed arguments."
    )


def _out_error(rules: Rules) -> AutogradError:
    return AutogradError(
        f"{rules.name}: functions with out=... arguments don't support automatic differentiation, "
        f"but one of the arguments requires grad. Call it under no_grad(), or use an operator "
        f"without out arguments."
    )


def _saving_anyway(rules: Rules, below: _Function) -> _Function:
    """`save` sees every call, also those that are not recorded."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = below(*args, **kwargs)
        with UserState():
            saved_tree(rules, args, kwargs, result)
        return result

    return run


def node_class(rules: Rules) -> Any:
    """The class of an operator's nodes, made when it is first needed."""
    if rules.node_class is not None:
        return rules.node_class
    base = rules.name.partition("::")[2].replace(".", "_")
    arguments = rules.schema.arguments.flat_positional
    members = {
        "_rules": rules,
        "_given": tuple(str(argument.type) == "Tensor" for argument in arguments),
        "__module__": __name__,
    }
    rules.node_class = type(f"{base}Backward", (CustomOpNode,), members)
    return rules.node_class


def _node_maker(rules: Rules) -> Callable[[tuple[Any, ...]], CustomOpNode]:
    """Makes the node of a call, from its positional arguments."""
    cls = node_class(rules)
    lists = [
        a.type.is_tensor_like() and a.type.is_list_like() is not None
        for a in rules.schema.arguments.flat_positional
    ]

    def make(args: tuple[Any, ...]) -> CustomOpNode:
        node: CustomOpNode = object.__new__(cls)
        node._output_metadata = UNDESCRIBED
        edges: list[Edge] = []
        node._given = tuple(
            [_collect_edges(value, edges, list_) for value, list_ in zip(args, lists, strict=True)]
        )
        node._edges = tuple(edges)
        return node

    return make


def _collect_edges(value: Any, edges: list[Edge], is_list: bool) -> Any:
    """Appends the edges of tensors in a value; returns whether it is one, for each list element."""
    if is_list and isinstance(value, list | tuple):
        return tuple([_collect_edges(item, edges, False) for item in value])
    if isinstance(value, Tensor):
        edges.append(edge_of(value))
        return True
    return False


def _recording(rules: Rules, below: _Function, make_node: _Function) -> _Function:
    """Records calls. Linked again whenever a rule or a mode changes, so both are read once."""
    setup = _setup(rules)
    hooked = bool(get_state().modes & SAVED_HOOKS)
    anomaly = is_anomaly_enabled()
    # One change of state serves kernel and setup, where the kernel is a checked function.
    kernel, check = getattr(below, "unchecked", (below, None))

    def finish(node: CustomOpNode, args: tuple[Any, ...], result: Any) -> Any:
        result = attach_all(rules, node, result)
        if any(isinstance(t._array, Payload) for t in tensors_in([args, result])):
            mark(node)
        if node._to_save is not None:
            node._keep_saved()
            node._to_save = None
        if node._saved is not None:
            node._saved.keep(node)
        if anomaly:
            remember_call(node)
        return result

    is_common = setup is None and not (hooked or anomaly) and is_simple(rules.schema)
    if check is not None and is_common:
        cls = node_class(rules)
        if "run" not in cls.__dict__:
            cls.run = compile_backward(rules)
        return compile_recording(rules, cls, finish, kernel, check)
    user = rules.setup_context if setup is None else None

    def run(*args: Any, **kwargs: Any) -> Any:
        node = make_node(args)
        node._seq = sequence_counter()()
        state = get_state()
        try:
            set_state(USER_STATES[state])
            result = kernel(*args, **kwargs)
            if check is not None:
                result = check(args, kwargs, result)
            if user is not None:
                user(ctx=node, inputs=args, output=result)
            elif setup is not None:
                setup(node, args, kwargs, result)
        finally:
            set_state(state)
        return finish(node, args, result)

    return run


def _setup(rules: Rules) -> _Function | None:
    """Makes the function to call between kernel and recording; None if none is needed."""
    user = rules.setup_context
    if rules.backward is None:

        def save(node: Any, args: Any, kwargs: Any, result: Any) -> None:
            node._saved = saved_tree(rules, args, kwargs, result)

        return save
    if user is None or not rules.schema.arguments.flat_kwarg_only:
        return None
    return lambda node, args, kwargs, result: user(
        ctx=node, inputs=args, keyword_only_inputs=kwargs, output=result
    )
