"""The update of an optimizer in a traced program: the same formulas on tensors.

State is made before it is traced, so that a graph reads and writes the memory of the state. Numbers
that are options of a group, such as the learning rate, are inputs of the graph, read from the group
in each run; options that are zero, flags and None are constants, and the graph is right while they
stay the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.autograd import no_grad
from pullback.fx.tracer import Tracer, forbid_in_trace, untraced
from pullback.tensor import Tensor

if TYPE_CHECKING:
    from pullback.optim.optimizer import ElementwiseOptimizer, Group

__all__ = ["as_scalar", "trace_update"]


def trace_update(optimizer: ElementwiseOptimizer, tracer: Tracer) -> None:
    """Updates every parameter that has a gradient, as part of a traced program."""
    held = vars(optimizer)
    for name in ("param_groups", "state"):
        tracer.note(held, name)
    groups = optimizer.param_groups
    params = [list(group["params"]) for group in groups]

    def is_same() -> bool:
        same = all(
            len(group["params"]) == len(known)
            and all(a is b for a, b in zip(group["params"], known, strict=True))
            for group, known in zip(groups, params, strict=False)
        )
        hooks = optimizer._step_pre_hooks or optimizer._step_post_hooks
        return same and len(groups) == len(params) and not hooks

    tracer.conditions.append(is_same)
    with no_grad():
        for group in groups:
            options = _options(group, tracer)
            for param in group["params"]:
                grad = param.grad
                if grad is not None:
                    _update_one(optimizer, param, grad, group, options)


def _options(group: Group, tracer: Tracer) -> Group:
    """The options of a group, with traced numbers."""
    found: Group = {}
    for key, value in group.items():
        if type(value) is float and value:
            found[key] = tracer.option(group, key)
        elif type(value) is tuple and all(type(item) is float and item for item in value):
            found[key] = tuple(tracer.option(group, key, n) for n, _ in enumerate(value))
        else:
            found[key] = value
            if key != "params":
                tracer.note(group, key)
    return found


def _update_one(
    optimizer: ElementwiseOptimizer, param: Tensor, grad: Tensor, group: Group, options: Group
) -> None:
    if param.dtype.kind == "c":  # it is updated as pairs of numbers, views that are no operators
        forbid_in_trace("the update of a complex parameter")
    with untraced():
        kept = optimizer.state_of(param, group)
    state: dict[str, Any] = {k: v for k, v in kept.items() if isinstance(v, Tensor)}
    state["step"].add_(1)
    optimizer.update(param, -grad if options["maximize"] else grad, state, options)  # type: ignore[arg-type]


def as_scalar(value: Any) -> Any:
    """A number of an array without axes; a tensor of a traced program as it is."""
    return value if isinstance(value, Tensor) else float(value)
