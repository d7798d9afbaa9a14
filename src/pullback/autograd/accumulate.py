"""Where gradients end: ``AccumulateGrad``, one for each leaf, and the edges that lead to it."""

from __future__ import annotations

from threading import Lock
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from pullback.autograd.form import FLOAT64, FORMS, form_of, unlike
from pullback.autograd.node import LAST, Edge, HookLists, Node
from pullback.autograd.payload_nodes import mark
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import AutogradError
from pullback.tensor.meta import OWN, Meta
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, meta_of

__all__ = ["AccumulateGrad", "forget_form", "leaf_edge"]

_ndarray = np.ndarray
_lock = Lock()  # one leaf may get its node from several threads, and its gradient


class AccumulateGrad(Node):
    """Adds what arrives to the gradient of one leaf.

    It holds the leaf; the leaf holds it weakly, so that a graph dies with its last user.
    """

    __slots__ = ("variable", "__weakref__")
    _edges: tuple[Edge, ...] = ()
    _saves: ClassVar[tuple[str, ...]] = ("variable",)
    _is_single: ClassVar[bool] = False  # ``grad_dtype`` may ask for another dtype
    variable: Tensor

    def __init__(self, variable: Tensor):
        self.variable = variable
        self._seq = LAST
        array = variable._array
        wanted = OWN if variable._meta is None else variable._meta.grad_dtype
        dtype = array.dtype
        if type(array) is _ndarray and dtype is FLOAT64 and wanted is OWN:
            try:  # without a call, as most leaves are alike
                self._form = FORMS[array.shape]
            except KeyError:
                self._form = form_of(array.shape, dtype)
            return
        self._form = form_of(array.shape, dtype)
        if wanted is not OWN:  # a form that the leaf itself does not have
            self._form = (array.shape, wanted, None, False)
        if isinstance(array, Payload):
            mark(self)

    @property
    def is_watched(self) -> bool:
        """Whether the node or its leaf has hooks."""
        if type(self._form[2]) is HookLists:
            return True
        meta = self.variable._meta
        return meta is not None and bool(meta.hooks or meta.accumulator_hooks)

    def release(self) -> None:
        """A leaf is no saved value: nothing to let go of."""

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:
        """Adds the gradient to ``variable.grad``."""
        (grad,) = grads
        return self.accumulate(xp, grad, False)

    def accumulate(self, xp: Any, grad: Any, is_owned: bool) -> tuple[Any, ...]:
        """Adds a gradient; one that nobody else holds may become ``variable.grad`` itself."""
        variable = self.variable
        if grad is None or not variable._flags & REQUIRES_GRAD:
            return ()
        if variable._edge is not None:
            raise AutogradError(
                "AccumulateGrad: a leaf tensor has been moved into the graph interior: it was "
                "modified in place by a recorded operation after it had been used"
            )
        meta = variable._meta or meta_of(variable)
        with _lock:
            xp.accumulate(meta, variable, grad, is_owned)
        return ()


def leaf_edge(tensor: Tensor) -> Edge:
    """The edge of a tensor without history: to its accumulator, or nowhere."""
    if not tensor._flags & REQUIRES_GRAD:
        return None
    meta = tensor._meta
    if meta is None:
        meta = tensor._meta = Meta()
    with _lock:
        node = None if meta.accumulator is None else meta.accumulator()
        if node is None:
            node = AccumulateGrad(tensor)
            meta.accumulator = ref(node)
    return node


def forget_form(leaf: Tensor) -> None:
    """Before a leaf gets another array: its accumulator no longer says of what form that is."""
    meta = leaf._meta
    node = None if meta is None or meta.accumulator is None else meta.accumulator()
    if node is not None:
        node._form = unlike(node._form)
