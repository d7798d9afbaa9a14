"""Methods of ``Tensor`` from autograd: flags, gradients, history, hooks.

Attached to the class when ``pullback.autograd`` is imported, because ``pullback.tensor`` must not
import the graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback.autograd.api import backward
from pullback.autograd.engine.fast_path import run_scalar_backward
from pullback.autograd.graph.accumulate_grad import AccumulateGrad, ended
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.autograd.graph.node import Node, node_of, unpack_edge
from pullback.autograd.graph.output_metadata import OutputMetadata
from pullback.autograd.graph.retain_grad import retain_grad
from pullback.autograd.graph.views import edge_of, requires_grad, settle, view_of
from pullback.autograd.levels import forbid_in_transform
from pullback.autograd.tensor_data import DATA_METHODS
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import INFERENCE, get_state
from pullback.errors import AutogradError, AutogradTypeError, InferenceError
from pullback.tensor.meta import OWN
from pullback.tensor.tensor import (
    TRACES,
    TRACKED,
    Tensor,
    meta_of,
    note_flag,
    note_grad,
    note_hook,
    note_property,
)

__all__ = [
    "attach_methods",
    "is_inference",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "requires_grad_",
]


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, bool):
        raise AutogradError(f"requires_grad must be a bool, not {type(value).__name__}")
    if not _is_leaf(self):
        advice = "" if value else " To use a value outside the graph, call detach()."
        raise AutogradError(f"you can only change requires_grad flags of leaf variables.{advice}")
    _change_requires_grad(self, value)


def _del_requires_grad(_: Tensor) -> None:
    raise AutogradError("requires_grad must be a bool, and cannot be deleted; set it to False")


def _change_requires_grad(self: Tensor, value: bool) -> None:
    if TRACES:
        note_flag(self, value)
    if not value:
        self._flags &= ~REQUIRES_GRAD
        if view_of(self) is not None:
            self._flags |= PLAIN_VIEW  # as before: its base may come to require grad
        return
    if self.dtype.kind not in "fc":
        raise AutogradError(
            f"only Tensors of floating point and complex dtype can require gradients, and this one "
            f"is {self.dtype}"
        )
    if not self._flags & TRACKED and not get_state().modes & INFERENCE:
        raise InferenceError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: "
            "it can have no gradient; use a clone() of it"
        )
    self._flags = self._flags & ~PLAIN_VIEW | REQUIRES_GRAD


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Sets ``requires_grad`` and returns the tensor."""
    forbid_in_transform(
        "Tensor.requires_grad_()", "set it outside, or use func.grad, vjp or jvp inside"
    )
    if _is_leaf(self):
        _change_requires_grad(self, bool(requires_grad))
    elif not requires_grad:
        _set_requires_grad(self, False)
    return self


def _is_leaf(self: Tensor) -> bool:
    if ended:
        settle(self)
    return self._edge is None and (view_of(self) is None or _grad_fn(self) is None)


def _grad_fn(self: Tensor) -> Node | None:
    """The node that made this tensor, or None for a leaf."""
    if ended:
        settle(self)
    if self._edge is not None:
        return node_of(self._edge)
    if view_of(self) is None:
        return None
    node = node_of(edge_of(self))
    return None if isinstance(node, AccumulateGrad) else node


def _get_requires_grad(self: Tensor) -> bool:
    found = requires_grad(self)
    if TRACES:
        note_property(self, "requires_grad", found)
    return found


def _get_is_leaf(self: Tensor) -> bool:
    found = _is_leaf(self)
    if TRACES:
        note_property(self, "is_leaf", found)
    return found


def _get_grad_fn(self: Tensor) -> Node | None:
    found = _grad_fn(self)
    if TRACES:
        note_property(self, "grad_fn", found)
    return found


def _output_nr(self: Tensor) -> int:
    return 0 if _grad_fn(self) is None else unpack_edge(edge_of(self))[1]


def _get_grad(self: Tensor) -> Tensor | None:
    if TRACES:
        note_grad(self, reads=True)
    meta = self._meta
    if meta is not None and meta.grad is not None:
        return meta.grad
    if not (meta is not None and meta.retains_grad) and not _is_leaf(self):
        warnings.warn(
            "the .grad of a tensor that is not a leaf is being read, which backward() fills only "
            "if retain_grad() was called on the tensor",
            stacklevel=2,
        )
    return None


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if TRACES:
        note_grad(self, reads=False)
    if value is None:
        if self._meta is not None:
            self._meta.grad = None
        return
    if not isinstance(value, Tensor):
        raise AutogradTypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(value).__name__}"
        )
    if value is self:
        raise AutogradError("can't assign Variable as its own grad; assign a clone()")
    if value.shape != self.shape:
        raise AutogradError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
            f"'{list(self.shape)}'; they must be the same"
        )
    wanted = _get_grad_dtype(self)
    if wanted is not None and value.dtype != wanted:
        raise AutogradError(
            f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with "
            f"grad_dtype '{wanted}'; cast it, or set grad_dtype"
        )
    meta_of(self).grad = value


def _get_grad_dtype(self: Tensor) -> np.dtype[Any] | None:
    """The dtype of accumulated gradients: the tensor's own unless set; None takes any."""
    wanted = OWN if self._meta is None else self._meta.grad_dtype
    return self.dtype if wanted is OWN else wanted


def _set_grad_dtype(self: Tensor, value: DTypeLike) -> None:
    if not _is_leaf(self):
        raise AutogradError("grad_dtype belongs to leaf tensors, and this one has a history")
    wanted = None if value is None else np.dtype(value)
    meta = meta_of(self)
    if meta.grad is not None and wanted is not None and meta.grad.dtype != wanted:
        raise AutogradError(
            f"grad_dtype cannot become {wanted}: there is already a gradient of dtype "
            f"{meta.grad.dtype}; set grad to None first"
        )
    meta.grad_dtype = wanted
    accumulator = None if meta.accumulator is None else meta.accumulator()
    if accumulator is not None:
        metadata = accumulator._output_metadata
        accumulator._output_metadata = OutputMetadata(metadata.shape, wanted, metadata.extras)


def _retains_grad(self: Tensor) -> bool:
    return self._meta is not None and self._meta.retains_grad


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Calls `hook` with this tensor's gradient in every backward pass; it may return another."""
    if not requires_grad(self):
        raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
    if TRACES:
        note_hook(self)
    if _is_leaf(self):
        meta = meta_of(self)
        if meta.hooks is None:
            meta.hooks = {}
        return RemovableHandle(meta.hooks, hook)
    node, number = unpack_edge(edge_of(self))
    assert node is not None
    return RemovableHandle(node.make_hooks().tensor.setdefault(number, {}), hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Calls `hook` with this leaf after its gradient has been accumulated."""
    if not requires_grad(self):
        raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
    if not _is_leaf(self):
        raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if TRACES:
        note_hook(self)
    meta = meta_of(self)
    if meta.accumulator_hooks is None:
        meta.accumulator_hooks = {}
    return RemovableHandle(meta.accumulator_hooks, hook)


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds this tensor's gradients to the ``grad`` of the leaves that it came from."""
    if (
        gradient is not None
        or create_graph
        or inputs is not None
        or run_scalar_backward(self, None, bool(retain_graph)) is None
    ):
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _is_view(self: Tensor) -> bool:
    """Whether the tensor is a tracked view of another one."""
    return view_of(self) is not None


def _base(self: Tensor) -> Tensor | None:
    view = view_of(self)
    return None if view is None else view.base


def is_inference(self: Tensor) -> bool:
    """Whether the tensor was made in inference mode, and has neither version nor history."""
    return not self._flags & TRACKED


def attach_methods() -> None:
    """Gives ``Tensor`` everything above, and what ``tensor_data`` has."""
    _backward.__name__ = "backward"
    members: dict[str, Any] = {
        "requires_grad": property(_get_requires_grad, _set_requires_grad, _del_requires_grad),
        "is_leaf": property(_get_is_leaf),
        "grad_fn": property(_get_grad_fn),
        "output_nr": property(_output_nr),
        "grad": property(_get_grad, _set_grad, lambda self: _set_grad(self, None)),
        "grad_dtype": property(_get_grad_dtype, _set_grad_dtype),
        "retains_grad": property(_retains_grad),
        "_base": property(_base),
        "backward": _backward,
        **DATA_METHODS,
    }
    for function in (
        requires_grad_,
        retain_grad,
        register_hook,
        register_post_accumulate_grad_hook,
        _is_view,
        is_inference,
    ):
        members[function.__name__] = function
    for name, member in members.items():
        setattr(Tensor, name, member)
