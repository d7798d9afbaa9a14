"""The update of an optimizer in a traced program: the same formulas on tensors.

State is made before it is traced, so that a graph reads and writes the memory of the state. Numbers
that are options of a group, such as the learning rate, are inputs of the graph, read from the group
in each run; options that are zero, flags and None are constants, and the graph is right while they
stay the same. So it is while the groups, the parameters and the tensors of the state are the same
objects. A traced function must not reach options and state itself: see `Untraced`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pullback.autograd import no_grad
from pullback.fx.refusals import refusal
from pullback.fx.tracer import Tracer, current_tracer, forbid_in_trace, untraced
from pullback.fx.user_code import user_line
from pullback.tensor import Tensor
from pullback.tensor.tensor import TRACES

if TYPE_CHECKING:
    from pullback.optim.optimizer import ElementwiseOptimizer, Group, Optimizer, State

__all__ = ["Untraced", "as_scalar", "note_groups", "trace_update"]

_Held = TypeVar("_Held")


class Untraced(Generic[_Held]):
    """An attribute of an optimizer that a traced program must not read or set.

    A graph would have the value of the first call, and would not repeat a change. The attribute is
    in the ``__dict__`` of the object, where `trace_update` and ``zero_grad`` read it.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Untraced[_Held]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _Held: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        if TRACES:
            self._forbid()
        try:
            return instance.__dict__[self._name]
        except KeyError:
            message = f"{owner.__name__!r} object has no attribute {self._name!r}"
            raise AttributeError(message) from None

    def __set__(self, instance: object, value: _Held) -> None:
        if TRACES:
            self._forbid()
        instance.__dict__[self._name] = value

    def _forbid(self) -> None:
        if current_tracer() is not None:
            raise refusal(
                f"it reads or sets {self._name!r} of an optimizer{user_line()}; do it outside of "
                f"the function"
            )


def note_groups(optimizer: Optimizer, tracer: Tracer) -> list[Group]:
    """Notes that a traced program depends on the groups and their parameters, and returns them."""
    held = vars(optimizer)
    tracer.note(held, "param_groups")
    groups: list[Group] = held["param_groups"]
    known = [(group, list(group["params"])) for group in groups]
    tracer.conditions.append(lambda: _has_groups(held["param_groups"], known))
    return groups


def trace_update(optimizer: ElementwiseOptimizer, tracer: Tracer) -> None:
    """Updates every parameter that has a gradient, as part of a traced program."""
    held = vars(optimizer)
    tracer.note(held, "state")
    groups = note_groups(optimizer, tracer)
    known_states: list[tuple[Tensor, State, State]] = []

    def is_same() -> bool:
        if optimizer._step_pre_hooks or optimizer._step_post_hooks:
            return False
        return _has_states(held["state"], known_states)

    tracer.conditions.append(is_same)
    with no_grad():
        for group in groups:
            options = _options(group, tracer)
            for param in group["params"]:
                grad = param.grad
                if grad is not None:
                    state = _update_one(optimizer, param, grad, group, options)
                    known_states.append((param, state, dict(state)))


def _has_groups(groups: list[Group], known: list[tuple[Group, list[Tensor]]]) -> bool:
    """Whether the groups and their parameters are the same objects."""
    return len(groups) == len(known) and all(
        group is before
        and len(group["params"]) == len(params)
        and all(a is b for a, b in zip(group["params"], params, strict=True))
        for group, (before, params) in zip(groups, known, strict=True)
    )


def _has_states(states: dict[Tensor, State], known: list[tuple[Tensor, State, State]]) -> bool:
    """Whether the states of parameters are the same dicts with the same objects."""
    for param, state, items in known:
        if states.get(param) is not state or len(state) != len(items):
            return False
        for key, value in items.items():
            if state.get(key) is not value:
                return False
    return True


def _options(group: Group, tracer: Tracer) -> Group:
    """The options of a group, with traced numbers."""
    found: Group = {}
    for key, value in group.items():
        if isinstance(value, float) and value:
            found[key] = tracer.option(group, key)
        elif isinstance(value, Tensor):
            found[key] = value.detach().reshape(())
            tracer.note(group, key)
        elif type(value) is tuple and all(type(item) is float and item for item in value):
            found[key] = tuple(tracer.option(group, key, n) for n, _ in enumerate(value))
        else:
            found[key] = value
            if key != "params":
                tracer.note(group, key)
    return found


def _update_one(
    optimizer: ElementwiseOptimizer, param: Tensor, grad: Tensor, group: Group, options: Group
) -> State:
    """Updates a parameter; returns its state."""
    if param.dtype.kind == "c":  # it is updated as pairs of numbers, views that are no operators
        forbid_in_trace("the update of a complex parameter")
    with untraced():
        kept = optimizer.state_of(param, group)
    state: dict[str, Any] = {k: v for k, v in kept.items() if isinstance(v, Tensor)}
    state["step"].add_(1)
    optimizer.update(param, -grad if options["maximize"] else grad, state, options)  # type: ignore[arg-type]
    return kept


def as_scalar(value: Any) -> Any:
    """A number of an array without axes; a tensor of a traced program as it is."""
    return value if isinstance(value, Tensor) else float(value)
