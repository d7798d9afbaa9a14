"""``functionalize``: a function without in-place writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.dispatch.python_dispatch import active_modes
from pullback.errors import TraceError
from pullback.fx.experimental.proxy_tensor import trace
from pullback.fx.functional import functional_form
from pullback.fx.graph_module import GraphModule
from pullback.fx.tracer import Tracer, current_tracer
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["functionalize"]

_REMOVES = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that computes what `func` computes, without in-place writes inside.

    Writes to arguments and captured tensors still happen, once, at the end. ``make_fx`` gets the
    operators of the functional form, and so do dispatch modes, but where results have derivatives
    or are batched, where `func` branches on a value, and where arguments share memory that it
    writes to. Without either nothing is different, and `func` is called as it is.

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
        tracer = current_tracer()
        if tracer is not None:
            tracer.functional_forms.add(remove)
            return func(*args, **kwargs)
        leaves, spec = pytree.flatten((args, kwargs))
        if not active_modes() or not all(map(_is_plain, leaves)):
            return func(*args, **kwargs)
        tracer = Tracer()
        module: GraphModule | None
        try:
            module = trace(tracer, lambda args, kwargs: func(*args, **kwargs), leaves, spec)
            module = functional_form(module, keeps_views=remove == "mutations")
        except TraceError:
            module = None
        finally:
            tracer.undo_writes()
        if module is None or tracer.leaves:
            return func(*args, **kwargs)
        return module(args, kwargs)

    return run


def _is_plain(leaf: Any) -> bool:
    """Whether an argument is no batched tensor, and has no derivatives."""
    if not isinstance(leaf, Tensor):
        return True
    return isinstance(leaf._array, np.ndarray) and not leaf._flags & (REQUIRES_GRAD | DUAL)
