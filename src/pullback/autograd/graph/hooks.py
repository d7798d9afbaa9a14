"""Hooks: user functions that see, and may replace, gradients on their way.

The order at a node is fixed: the tensor hooks of its outputs in order of registration, then the
writer of a retained gradient, then the node's pre-hooks, the node, its post-hooks. For a leaf the
node is the accumulation, and post-accumulate hooks come right after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Self

from pullback.autograd.engine.exposed import expose, unwrap
from pullback.autograd.engine.input_buffer import unbroadcast
from pullback.autograd.graph.node import Node, unpack_edge
from pullback.autograd.namespaces import Namespace
from pullback.errors import AutogradError, AutogradTypeError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.tensor import Tensor

__all__ = ["RemovableHandle", "run_post_hooks", "run_pre_hooks", "run_tensor_hooks"]

_ids = itertools.count()


class RemovableHandle:
    """Takes a hook back: by ``remove()``, or at the end of a ``with`` block.

    >>> hooks = {}
    >>> with RemovableHandle(hooks, print):
    ...     len(hooks)
    1
    >>> hooks
    {}
    """

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any] | None):
        self.id = next(_ids)
        self._hooks: dict[int, Any] | None = hooks
        hooks[self.id] = hook

    @uninterrupted_entry
    def remove(self) -> None:
        """Removes the hook. A second call does nothing."""
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        self.remove()


def run_tensor_hooks(xp: Namespace, node: Node, grads: list[Any]) -> list[Any]:
    """Tensor hooks of every output, and the writers of retained gradients after them."""
    extras = node._output_metadata.extras
    lists = None if extras is None else extras.hooks
    by_output = {} if lists is None else lists.tensor
    variable: Tensor | None = getattr(node, "variable", None)
    if variable is not None and variable._meta is not None and variable._meta.hooks:
        by_output = {0: {**by_output.get(0, {}), **variable._meta.hooks}}
    grads = list(grads)
    for number, hooks in by_output.items():
        for hook in list(hooks.values()):  # a copy: hooks may remove each other
            before = expose(xp, grads[number])
            replaced = hook(before)
            if replaced is not None:
                grads[number] = unwrap(xp, _replacement(hook, before, replaced))
    if lists is not None:
        for number, write in lists.retained.items():
            write(xp, grads[number])
    return grads


def run_pre_hooks(xp: Namespace, node: Node, grads: list[Any]) -> list[Any]:
    """The node's pre-hooks, each seeing what the one before it returned."""
    lists = node._hooks
    for hook in [] if lists is None else list(lists.pre.values()):
        before = tuple(expose(xp, grad) for grad in grads)
        grads = _replace_all(xp, hook, before, hook(before), grads)
    return grads


def run_post_hooks(
    xp: Namespace,
    node: Node,
    results: tuple[Any, ...],
    grads: list[Any],
    needed: set[Node] | None,
) -> tuple[Any, ...]:
    """The leaf's post-accumulate hooks, and the node's post-hooks.

    `needed` are the nodes that the pass runs, None for all.
    """
    variable: Tensor | None = getattr(node, "variable", None)
    if variable is not None and variable._meta is not None and variable._meta.accumulator_hooks:
        for hook in list(variable._meta.accumulator_hooks.values()):
            _check_returns_none(hook(variable), variable)
    lists = node._hooks
    if lists is None or not lists.post:
        return results
    outcome = _grad_inputs(xp, node, results, needed)
    for hook in list(lists.post.values()):
        inputs = tuple(expose(xp, grad) for grad in outcome)
        outputs = tuple(expose(xp, grad) for grad in grads)
        outcome = _replace_all(xp, hook, inputs, hook(inputs, outputs), outcome)
    return tuple(outcome)


def _grad_inputs(
    xp: Namespace, node: Node, results: tuple[Any, ...], needed: set[Node] | None
) -> list[Any]:
    """The arguments of post-hooks: gradients unbroadcast to the inputs' shapes.

    None where no gradient is needed; what a user's Function returned is passed on even there.
    """
    made = []
    for edge, grad in itertools.zip_longest(node._edges, results):
        target, number = unpack_edge(edge)
        if grad is None or target is None:
            made.append(None if node._is_plain else grad)
        elif needed is not None and target not in needed and node._is_plain:
            made.append(None)
        else:
            made.append(unbroadcast(xp, node, target, number, grad))
    return made


def _check_returns_none(returned: Any, variable: Tensor) -> None:
    if returned is None or returned is variable:
        return
    if isinstance(returned, Tensor):
        raise AutogradError("Tensor post accumulate grad hooks should return None, not a tensor")
    raise AutogradTypeError(
        f"Tensor post accumulate grad hooks should return None, not {type(returned).__name__}"
    )


def _name(hook: Callable[..., Any]) -> str:
    """A hook as messages show it."""
    return repr(getattr(hook, "__name__", type(hook).__name__))


def _replace_all(
    xp: Namespace,
    hook: Callable[..., Any],
    before: tuple[Tensor | None, ...],
    returned: Any,
    kept: list[Any],
) -> list[Any]:
    if returned is None:
        return kept
    if isinstance(returned, Tensor) and len(before) == 1:
        returned = (returned,)
    if not isinstance(returned, tuple):
        raise AutogradTypeError(
            f"expected tuple, but hook returned '{type(returned).__name__}': {_name(hook)} may "
            f"return None, or one gradient for each that it got"
        )
    if len(returned) != len(before):
        raise AutogradError(
            f"hook {_name(hook)} has returned an incorrect number of values (got {len(returned)}, "
            f"but expected {len(before)})"
        )
    return [
        None if new is None else unwrap(xp, _replacement(hook, old, new))
        for old, new in zip(before, returned, strict=True)
    ]


def _replacement(hook: Callable[..., Any], before: Tensor | None, new: Any) -> Tensor:
    if not isinstance(new, Tensor):
        raise AutogradTypeError(
            f"expected Variable, but hook returned '{type(new).__name__}': {_name(hook)} may "
            f"return None, or a tensor in place of the gradient"
        )
    if before is not None:
        if new.shape != before.shape:
            raise AutogradError(
                f"hook {_name(hook)} has changed the size of value, from {list(before.shape)} to "
                f"{list(new.shape)}"
            )
        if new.dtype != before.dtype:
            raise AutogradError(
                f"hook {_name(hook)} has changed the type of value (was {before.dtype} got "
                f"{new.dtype})"
            )
    return new
