"""Public methods of nodes: call, hooks, saved values.

Attached to ``Node`` when ``pullback.autograd`` is imported, because ``node.py`` imports neither
tensors nor hooks. Saved values are read as ``node._saved_<name>``; ``node._raw_saved_<name>`` is a
handle that takes hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback._cpython import find_referrers
from pullback._lazy import lazy_module
from pullback.autograd.function import FunctionCtx
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.autograd.graph.node import FREED, Edge, Node, freed_error, output_of, set_traits
from pullback.autograd.graph.saved import (
    SavedOutput,
    load_output_tensor,
    load_tensor,
    saved_input,
    saved_output,
)
from pullback.autograd.graph.saved_hooks import Hooks, Packed, packed
from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError, AutogradTypeError
from pullback.tensor.constants import is_constant
from pullback.tensor.tensor import TENSOR_TYPES, Tensor, version_of, wrap

if TYPE_CHECKING:
    from pullback.inspector import html_repr
else:
    html_repr = lazy_module("pullback.inspector.html_repr")

__all__ = ["InputMetadata", "SavedTensor", "attach_methods", "register_hook", "register_prehook"]

_SAVED, _RAW = "_saved_", "_raw_saved_"
_KEPT = "_kept"  # the attribute of FunctionCtx with the tensors of save_for_backward


class SavedTensor:
    """A handle on one saved tensor of a node; takes a pair of hooks.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0], requires_grad=True)
    >>> pb.exp(x).grad_fn._saved_result
    tensor([2.71828183], grad_fn=<ExpBackward0>)
    """

    __slots__ = ("_name", "_node", "_place")

    _node: Node
    _name: str
    _place: int | None  # in a list of saved tensors

    def __init__(self) -> None:
        raise AutogradError(
            "Trying to create a SavedTensor object from Python is forbidden; read one from a node, "
            "as y.grad_fn._raw_saved_self"
        )

    def register_hooks(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        """Packs the value now, and unpacks it whenever it is needed.

        >>> import pullback as pb
        >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
        >>> y = pb.sin(x)
        >>> y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t / 2)
        """
        if not callable(pack_hook) or not callable(unpack_hook):
            raise AutogradTypeError("register_hooks takes two functions: pack_hook and unpack_hook")
        is_function = self._name == _KEPT
        node, name = self._node, self._name
        held = getattr(node, name) if is_function else _held(node, name)[0]
        value = held if self._place is None or held is FREED else held[self._place]
        if is_function and value is not FREED:
            value, expected = value
        if value is FREED:
            raise AutogradError(
                "Calling register_hooks on a saved tensor after it has been freed: a backward "
                "without retain_graph=True has released it"
            )
        if isinstance(value, Packed):
            raise AutogradError(
                "Calling register_hooks on a saved tensor whose hooks have already been set; only "
                "one pair of hooks is possible"
            )
        if value is None:
            raise AutogradError(
                "Calling register_hooks on a saved tensor with value None is forbidden: nothing "
                "was saved here"
            )
        new = _with_hooks(self._node, value, (pack_hook, unpack_hook))
        if is_function:
            new = (new, expected)
        if self._place is not None:
            new = (*held[: self._place], new, *held[self._place + 1 :])
        setattr(self._node, self._name, new)


def _handle(node: Node, name: str, place: int | None = None) -> SavedTensor:
    """A handle on what a node has saved under a name, or on one place of a list."""
    made = object.__new__(SavedTensor)
    made._node, made._name, made._place = node, name, place
    return made


def _raw_saved_tensors(self: FunctionCtx) -> tuple[SavedTensor, ...]:
    """A handle on each tensor that ``save_for_backward`` has kept."""
    if self._kept is FREED:
        raise freed_error(self)
    return tuple(_handle(self, _KEPT, place) for place in range(len(self._kept)))


def _with_hooks(node: Node, value: Any, hooks: Hooks) -> Any:
    if isinstance(value, SavedOutput):
        value.version = value.counter[0]  # hooks take over: the value is as it is now
        return packed(load_output_tensor(node, value), hooks, value)
    return packed(value, hooks)


class InputMetadata(NamedTuple):
    """Metadata of one forward output, the input of the node's backward."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: str = "cpu"
    is_tensor_subclass: bool = False


def _input_metadata(self: Node) -> tuple[InputMetadata, ...]:
    """Shape and dtype of every forward output."""
    return tuple(InputMetadata(*output_of(self, number)) for number in range(self._outputs))


class _Saved:
    """Descriptor of a saved value, an attribute of the class of nodes.

    A ``__getattr__`` would serve all of them, but a class that has one is read slowly for every
    attribute, and a backward pass does little else than read its nodes.
    """

    __slots__ = ("_is_raw", "_name")

    def __init__(self, name: str, is_raw: bool):
        self._name = name
        self._is_raw = is_raw

    def __get__(self, node: Node | None, owner: type[Node]) -> Any:
        if node is None:
            return self
        name = self._name
        if name not in node._saves_tensors:
            return getattr(node, name)
        value, expected = _held(node, name)
        is_list = type(value) is tuple or type(expected) is tuple
        if self._is_raw:
            if is_list:
                assert type(expected) is tuple
                return tuple(_handle(node, name, place) for place in range(len(expected)))
            return _handle(node, name)
        if expected is None:
            return load_output_tensor(node, value)
        loaded = load_tensor(node, value, expected)
        return tuple(map(_expose, loaded)) if is_list else _expose(loaded)


def _held(node: Node, name: str) -> tuple[Any, Any]:
    """A saved value and the version that it had; None for a result of the node itself."""
    held = getattr(node, name, None)
    is_bare = type(held) is np.ndarray
    if name in node._inputs:
        # Looked for first: the tensor that is made for the array would be found as well.
        tensor = _living(held, node._edges[node._inputs.index(name)]) if is_bare else None
        value, expected = saved_input(node, name)
        return value if tensor is None else tensor, expected  # if it is alive, that is meant
    tensor = _living(held, node) if is_bare else None
    if tensor is not None:
        version_of(tensor)  # other nodes find writes to the exposed tensor by this counter
    return saved_output(node, name), getattr(node, name + "_v", None)


def _living(array: NDArray[Any] | None, edge: Edge) -> Tensor | None:
    """The tensor of a saved array, if there still is one; the collector alone can find it."""
    for tensor in find_referrers(array):
        if type(tensor) in TENSOR_TYPES and getattr(tensor, "_edge", None) == edge:
            found: Tensor = tensor
            return found
    return None


def _complete(cls: type[Node]) -> None:
    """Gives a new class of nodes its traits, and the attributes for what it saves."""
    set_traits(cls)
    for name in cls.__dict__.get("_saves", ()):
        setattr(cls, _SAVED + name, _Saved(name, False))
        setattr(cls, _RAW + name, _Saved(name, True))


def _expose(tensor: Tensor | None) -> Tensor | None:
    """A saved tensor for user code; a cached constant is copied."""
    return wrap(np.array(tensor._array)) if tensor is not None and is_constant(tensor) else tensor


def _call(self: Node, *grads: Tensor | None) -> Any:
    """Runs the node's backward on gradients of its outputs; a tuple, if there are several."""
    if len(grads) != self._outputs:
        raise AutogradTypeError(
            f"{self.name()}: expected {self._outputs} arguments, got {len(grads)} instead; a node "
            f"takes one gradient for each of its outputs"
        )
    results = self.backward(tensors, *grads)
    return results[0] if len(results) == 1 else results


def _repr_html_(self: Node) -> str:
    """The form of a node in notebooks."""
    return html_repr.node_html(self)


def register_hook(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls ``fn(grad_inputs, grad_outputs)`` after the node has run; it may return new ones."""
    return RemovableHandle(self.make_hooks().post, fn)


def register_prehook(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls ``fn(grad_outputs)`` before the node runs; it may return new ones."""
    return RemovableHandle(self.make_hooks().pre, fn)


def attach_methods() -> None:
    """Gives ``Node`` everything above, and its subclasses what they save."""
    members = {
        "_input_metadata": property(_input_metadata),
        "__init_subclass__": classmethod(_complete),
        "__call__": _call,
        "_repr_html_": _repr_html_,
        "register_hook": register_hook,
        "register_prehook": register_prehook,
    }
    for name, member in members.items():
        setattr(Node, name, member)
    FunctionCtx._raw_saved_tensors = property(_raw_saved_tensors)  # type: ignore[attr-defined]
    known = [Node]
    for cls in known:  # grows
        _complete(cls)
        known += cls.__subclasses__()
