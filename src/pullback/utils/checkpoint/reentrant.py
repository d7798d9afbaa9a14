"""PyTorch's older checkpoint: a node that runs the function again inside the backward pass.

The forward records nothing; the backward calls the function on detached arguments and starts a
backward pass of its own, which is why it cannot serve ``autograd.grad``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from pullback.autograd.api import backward
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.function import Function
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.modes import enable_grad
from pullback.errors import AutogradError
from pullback.kernels.random import watch_generators
from pullback.tensor.tensor import Tensor
from pullback.utils.checkpoint.randomness import RandomState

__all__ = ["run_reentrant"]


def run_reentrant(function: Callable[..., Any], args: tuple[Any, ...], preserves_rng: bool) -> Any:
    """Calls a function that is run again in the backward pass."""
    if not any(isinstance(x, Tensor) and requires_grad(x) for x in args):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None; pass "
            "use_reentrant=False if tensors that the function reads by itself need some.",
            stacklevel=4,
        )
    return _Reentrant.apply(function, preserves_rng, *args)


class _Reentrant(Function):
    """The node of a checkpointed call."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserves_rng: bool, *args: Any) -> Any:
        ctx.function = function
        ctx.random = RandomState() if preserves_rng else None
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [n for n, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in args if isinstance(x, Tensor)))
        generators = {} if ctx.random is None else ctx.random.generators
        with watch_generators(generators):
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        task = current_graph_task()
        if task is None or isinstance(task.captures, dict):  # only some gradients are requested
            raise AutogradError(
                "checkpoint: When use_reentrant=True, checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). Pass use_reentrant=False, or call "
                ".backward() without `inputs`."
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            detached = tensor.detach()
            detached.requires_grad = tensor.requires_grad
            args[place] = detached
        random = nullcontext() if ctx.random is None else ctx.random.restored()
        with random, enable_grad():
            results = ctx.function(*args)
        results = results if isinstance(results, tuple | list) else (results,)
        pairs = [
            (y, g)
            for y, g in zip(results, grads, strict=True)
            if isinstance(y, Tensor) and requires_grad(y) and g is not None
        ]
        if not pairs:
            raise AutogradError(
                "checkpoint: none of output has requires_grad=True, this checkpoint() is not "
                "necessary"
            )
        backward([y for y, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in args))
