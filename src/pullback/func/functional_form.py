"""``functionalize``: a function without in-place writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.fx.functional import functional_form
from pullback.fx.traced_array import TracedArray
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, wrap
from pullback.utils import pytree

__all__ = ["functionalize"]

_REMOVES = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that computes what `func` computes, without in-place writes inside.

    Writes to arguments still happen, once, at the end. Each call traces `func` for its arguments,
    which `func` must not branch on, and runs the graph; it serves to look at programs, together
    with ``make_fx``, and to give them to code that has no in-place writes.

    Args:
        func: takes and returns trees of tensors.
        remove: ``"mutations"``, or ``"mutations_and_views"`` to copy every view as well.

    >>> import pullback as pb
    >>> from pullback.fx.experimental.proxy_tensor import make_fx
    >>> def f(x):
    ...     y = pb.zeros_like(x)
    ...     y += x
    ...     return y
    >>> print(make_fx(functionalize(f))(pb.ones(3)).code)
    def forward(self, x_1):
        zeros_like = pullback.ops.pullback.zeros_like.default(x_1, None)
        add = pullback.ops.pullback.add.default(zeros_like, x_1);  zeros_like = x_1 = None
        astype = pullback.ops.pullback.astype.default(add, dtype('float64'));  add = None
        broadcast_to = pullback.ops.pullback.broadcast_to.default(astype, [3]);  astype = None
        return broadcast_to
    <BLANKLINE>
    """
    if remove not in _REMOVES:
        raise ValueError(f"functionalize: remove must be one of {_REMOVES}, not {remove!r}")

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.flatten((args, kwargs))
        if any(map(_is_batched, leaves)):
            # Batching rules write to the memory of vmap's own level.
            return func(*args, **kwargs)
        copies = pytree.unflatten(spec, [_values(leaf) for leaf in leaves])
        module = make_fx(lambda args, kwargs: func(*args, **kwargs))(*copies)
        functional = functional_form(module, keeps_views=remove == "mutations")
        return functional(*leaves)

    return run


def _is_batched(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and isinstance(leaf._array, BatchedArray)


def _values(leaf: Any) -> Any:
    """A copy of an argument for the trace, which writes to it."""
    if not isinstance(leaf, Tensor):
        return leaf
    held = leaf._array
    array = held.value if isinstance(held, TracedArray) else np.asarray(held)
    return wrap(array.copy())
