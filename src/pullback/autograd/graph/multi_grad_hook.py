"""``register_multi_grad_hook``: one call for the gradients of several tensors.

How many of them will arrive in a pass is known as soon as the pass has counted what it will run, so
the first gradient that arrives settles how many to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Literal

from pullback.autograd.graph.current_pass import current_graph_task_id, queue_callback, will_run
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.autograd.graph.node import Node, node_of
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.tensor_methods import register_hook
from pullback.errors import AutogradUsageError, AutogradValueError
from pullback.tensor.tensor import Tensor

__all__ = ["register_multi_grad_hook"]


class _All:
    """Collects the gradients of one pass, and calls when the last one has come."""

    def __init__(self, nodes: Sequence[Node], fn: Callable[[list[Tensor | None]], Any]):
        self._nodes = nodes
        self._fn = fn
        self._lock = Lock()
        self._passes: dict[int, tuple[list[int], list[Tensor | None]]] = {}

    def hook(self, place: int) -> Callable[[Tensor | None], None]:
        def receive(grad: Tensor | None) -> None:
            task = current_graph_task_id()
            with self._lock:
                if task not in self._passes:
                    expected = sum(map(will_run, self._nodes))
                    self._passes[task] = ([expected], [None] * len(self._nodes))
                missing, grads = self._passes[task]
                grads[place] = grad
                missing[0] -= 1
                complete = missing[0] == 0
                if complete:
                    del self._passes[task]
            if complete:
                self._fn(grads)

        return receive


class _Any:
    """Calls with the first gradient of each pass."""

    def __init__(self, fn: Callable[[Tensor | None], Any]):
        self._fn = fn
        self._lock = Lock()
        self._seen: set[int] = set()

    def receive(self, grad: Tensor | None) -> None:
        task = current_graph_task_id()
        with self._lock:
            if task in self._seen:
                return
            self._seen.add(task)
        queue_callback(lambda: self._seen.discard(task))
        self._fn(grad)


class _Handles(RemovableHandle):
    """Takes back the hooks of all tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        super().__init__({}, None)
        self._handles = handles

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[..., Any],
    *,
    mode: Literal["all", "any"] = "all",
) -> RemovableHandle:
    """Calls a function when the gradients of several tensors have been computed.

    Args:
        tensors: the tensors to wait for.
        fn: in mode "all" it gets a list with one gradient for each tensor, None for those that get
            none in this pass; in mode "any" it gets the first gradient that arrives.
        mode: "all" or "any".

    >>> import pullback as pb
    >>> a, b = (pb.tensor([1.0], requires_grad=True) for _ in range(2))
    >>> handle = register_multi_grad_hook([a, b], print)
    >>> (a * 2).sum().backward()
    [tensor([2.]), None]
    """
    if mode == "all":
        nodes = []
        for place, tensor in enumerate(tensors):
            node = node_of(edge_of(tensor))
            if node is None:
                raise AutogradUsageError(
                    f"register_multi_grad_hook: tensor {place} does not require grad, so that it "
                    f"will never have a gradient; leave it out"
                )
            nodes.append(node)
        waiting = _All(nodes, fn)
        return _Handles(
            [register_hook(tensor, waiting.hook(place)) for place, tensor in enumerate(tensors)]
        )
    if mode == "any":
        first = _Any(fn)
        return _Handles([register_hook(t, first.receive) for t in tensors if requires_grad(t)])
    raise AutogradValueError(
        f"register_multi_grad_hook: Expects mode to be one of ('all', 'any') but got {mode}"
    )
